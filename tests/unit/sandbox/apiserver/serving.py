"""The embedded API server without its socket: requests in, answers out, a clock that stands still."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from hami_plugins.sandbox.apiserver.answers import ApiError
from hami_plugins.sandbox.apiserver.api import Api, HttpResponse, refusal
from hami_plugins.sandbox.apiserver.kinds import BUILTIN, KOORDINATOR, NAMESPACES, VOLCANO, ResourceKinds
from hami_plugins.sandbox.apiserver.routes import HttpRequest, target_of
from hami_plugins.sandbox.apiserver.store import ApiStore
from hami_plugins.sandbox.apiserver.watches import Hub, Watch
from hami_plugins.sandbox.apiserver.writer import Writer

Object = dict[str, Any]

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MERGE = "application/merge-patch+json"


class Reply(NamedTuple):
    """Code and JSON, or text where it is none."""

    code: int
    body: Any


class Server:
    """The server's parts, wired as ``ApiServer`` does, with identities that count up."""

    def __init__(self, *, window: int = 1000) -> None:
        self.now = START
        numbers = itertools.count(1)
        self.store = ApiStore(window=window)
        kinds = ResourceKinds((*BUILTIN, *VOLCANO, *KOORDINATOR))
        writer = Writer(
            self.store,
            kinds,
            clock=lambda: self.now,
            new_uid=lambda: f"{next(numbers):08x}-0000-4000-8000-000000000000",
        )
        self.hub = Hub(self.store)
        self.api = Api(writer, self.hub)
        writer.create(NAMESPACES, "", {"metadata": {"name": "default"}})

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def ask(self, method: str, path: str, body: Any = None, *, media: str = "application/json") -> Reply:
        """One request; ``path`` may carry a query."""
        answer = self._handled(method, path, body, media)
        assert isinstance(answer, HttpResponse)
        try:
            return Reply(answer.code, json.loads(answer.body))
        except ValueError:
            return Reply(answer.code, answer.body.decode())

    def watch(self, path: str) -> Watch:
        """An open watch."""
        mark = "&" if "?" in path else "?"
        watch = self._handled("GET", f"{path}{mark}watch=true", None, "")
        assert isinstance(watch, Watch)
        return watch

    def _handled(self, method: str, path: str, body: Any, media: str) -> HttpResponse | Watch:
        parts = urlsplit(path)
        request = HttpRequest(
            method=method,
            path=parts.path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={"content-type": media} if media else {},
            body=body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode(),
        )
        try:
            return self.api.handle(request, target_of(request, self.api.kinds))
        except ApiError as error:
            return refusal(error)


def events(watch: Watch) -> Iterator[Object]:
    """What waits in a watch, taken out."""
    for line in watch.take()[0].splitlines():
        yield json.loads(line)
