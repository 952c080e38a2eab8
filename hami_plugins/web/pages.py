"""Pages that clients read on and on: made once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from hami_plugins.errors import HamiPluginsError

State = TypeVar("State")

_MEDIA: Final = "application/json"


class JsonPage(Generic[State]):
    """``document`` as JSON, made again where ``state`` gives another object than the last time.

    One reader at a time makes it, in a thread of its own: a page of megabytes takes a tenth of a second. A
    ``HamiPluginsError`` of ``state`` is answered with its status and text.
    """

    def __init__(self, state: Callable[[], State], document: Callable[[State], object]) -> None:
        self._state = state
        self._document = document
        self._one_at_a_time = asyncio.Lock()
        self._made: tuple[State, bytes] | None = None

    async def answer(self, _request: Request) -> Response:
        """See ``Route``."""
        try:
            async with self._one_at_a_time:
                state = self._state()
                if self._made is None or self._made[0] is not state:
                    self._made = (state, await run_in_threadpool(self._text, state))
                return Response(self._made[1], media_type=_MEDIA)
        except HamiPluginsError as error:
            return PlainTextResponse(str(error), status_code=error.http_status)

    def _text(self, state: State) -> bytes:
        return orjson.dumps(self._document(state))
