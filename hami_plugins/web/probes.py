"""``/healthz``, ``/readyz`` and ``/metrics``, the same for every process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hami_plugins.observe.metrics import Metrics

Check = Callable[[], str]
"""What is wrong, in words for an operator; empty when all is well. Quick, and without IO."""

_UNAVAILABLE: Final = 503


def probe_routes(*, alive: Mapping[str, Check], ready: Mapping[str, Check], metrics: Metrics) -> list[Route]:
    """Routes for a process.

    ``alive`` names what only a restart can put right, ``ready`` what has to be filled and registered before the process
    may be relied on. Each answers 200 or 503, one line a check. A check that raises has failed, and says so.
    """

    return [
        Route("/healthz", _answering(alive)),
        Route("/readyz", _answering(ready)),
        Route("/metrics", _Exposed(metrics).answer),
    ]


class _Exposed:
    """The metrics, made for one reader at a time, and for all together who asked before that began.

    So half of the time is left to everything else, however many ask.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._one_at_a_time = asyncio.Lock()
        self._made: dict[bool, tuple[float, bytes, str]] = {}

    async def answer(self, request: Request) -> Response:
        """See ``Route``."""
        accept = request.headers.get("accept", "")
        form, asked = "openmetrics" in accept, time.monotonic()
        async with self._one_at_a_time:
            made = self._made.get(form)
            if made is None or made[0] < asked:
                made = (time.monotonic(), *await run_in_threadpool(self._metrics.text, accept))
                self._made[form] = made
        _, text, content_type = made
        return Response(text, headers={"content-type": content_type})


def first_trouble(checks: Mapping[str, Check]) -> str:
    """What the first check that fails says; empty where none does."""
    return next((wrong for name, check in checks.items() if (wrong := _found(name, check))), "")


def _answering(checks: Mapping[str, Check]) -> Callable[[Request], Awaitable[Response]]:
    # In the server's own thread: all others may be waiting for an API server that is slow, and who does not hear from a
    # process then ends it.
    async def answer(_request: Request) -> Response:
        found = {name: _found(name, check) for name, check in checks.items()}
        lines = [f"{name}: {wrong or 'ok'}\n" for name, wrong in found.items()] or ["ok\n"]
        status = _UNAVAILABLE if any(found.values()) else 200
        return PlainTextResponse("".join(lines), status_code=status, headers={"cache-control": "no-store"})

    return answer


def _found(name: str, check: Check) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - the edge: a broken check is an answer, too
        structlog.get_logger(__name__).exception("check_failed", check=name)
        return f"the check itself failed: {error!r}"
