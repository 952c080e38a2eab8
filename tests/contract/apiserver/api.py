"""A raw client of any API server, and workspaces for cases to write in."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

import urllib3

from tests.waiting import PATIENCE

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

Object = dict[str, Any]


class Reply(NamedTuple):
    """An answer: its code, its JSON (or text, where it is none) and its headers."""

    code: int
    body: Any
    headers: dict[str, str]


class Api:
    """An API server at ``url``; a workspace is a namespace of its own, gone with ``close``."""

    def __init__(self, url: str, *, token: str = "", ca: Path | None = None) -> None:
        self.url = url
        self._headers = {"User-Agent": "contract"} | ({"Authorization": f"Bearer {token}"} if token else {})
        trust = {"ca_certs": str(ca)} if ca else {}
        self._pool = urllib3.PoolManager(timeout=PATIENCE, retries=False, **trust)  # type: ignore[arg-type]
        self._left: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Delete what the workspaces and ``remember`` have left, and hang up."""
        for path in reversed(self._left):
            self.ask("DELETE", path)
        self._pool.clear()

    def remember(self, path: str) -> str:
        """Delete this at the end."""
        self._left.append(path)
        return path

    def ask(self, method: str, path: str, body: Any = None, *, media: str = "application/json", **query: Any) -> Reply:
        """One request. ``body`` is sent as JSON, bytes as they are."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        url = f"{self.url}{path}" + (f"?{urlencode(query)}" if query else "")
        answer = self._pool.request(method, url, body=data, headers={**self._headers, "Content-Type": media})
        try:
            content: Any = json.loads(answer.data)
        except ValueError:
            content = answer.data.decode(errors="replace")
        return Reply(answer.status, content, dict(answer.headers))

    def get(self, path: str, **query: Any) -> Object:
        """What is there, which has to be there."""
        return self._good("GET", path, **query)

    def create(self, path: str, body: Object) -> Object:
        """A new object, which has to be accepted."""
        return self._good("POST", path, body)

    def patch(self, path: str, body: Any, media: str = MERGE) -> Object:
        """A patch, which has to be accepted."""
        return self._good("PATCH", path, body, media=media)

    @contextmanager
    def watch(self, path: str, **query: Any) -> Iterator[Iterator[Object]]:
        """The events of a watch, one by one; a wait longer than the client's time-out fails."""
        url = f"{self.url}{path}?{urlencode({'watch': 'true', **query})}"
        answer = self._pool.request("GET", url, headers=self._headers, preload_content=False)
        try:
            assert answer.status == 200, answer.read()
            yield (json.loads(line) for line in _lines(answer))
        finally:
            answer.close()
            answer.release_conn()

    def workspace(self) -> str:
        """The path of a new namespace. Pods can be made there at once: it has its service account."""
        name = f"contract-{secrets.token_hex(5)}"
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        path = self.remember(f"/api/v1/namespaces/{name}")
        made = self.ask("POST", f"{path}/serviceaccounts", {"metadata": {"name": "default"}})
        assert made.code in (201, 409), made
        return path

    def until(self, path: str, reached: Callable[[Reply], bool], seconds: float = 180.0) -> Reply:
        """The first answer that is as it should be; fails when that takes too long."""
        deadline = time.monotonic() + seconds
        while not reached(reply := self.ask("GET", path)):
            assert time.monotonic() < deadline, f"{path} is still {reply}"
            time.sleep(0.05)
        return reply

    def _good(self, method: str, path: str, body: Any = None, **more: Any) -> Object:
        reply = self.ask(method, path, body, **more)
        assert 200 <= reply.code < 300, reply
        assert isinstance(reply.body, dict)
        return reply.body


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for part in answer.stream():
        *lines, rest = (rest + part).split(b"\n")
        yield from filter(None, lines)
