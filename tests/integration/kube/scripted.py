"""An HTTP server that says and breaks exactly what a test wants, byte by byte."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit


class Asked(NamedTuple):
    """One request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def watching(self) -> bool:
        return "watch" in self.query

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Line:
    """The connection that a request came on, for the script to answer."""

    def __init__(self, connection: socket.socket, over: threading.Event) -> None:
        self._connection = connection
        self.over = over

    def raw(self, data: bytes) -> None:
        self._connection.sendall(data)

    def answer(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        lines = [f"{key}: {value}" for key, value in (headers or {}).items()]
        head = "\r\n".join([f"HTTP/1.1 {status} x", f"Content-Length: {len(data)}", *lines])
        self.raw(head.encode() + b"\r\n\r\n" + data)

    def begin(self) -> None:
        """The head of a watch."""
        self.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def event(self, kind: str, item: object) -> None:
        self.chunk(json.dumps({"type": kind, "object": item}).encode() + b"\n")

    def end(self) -> None:
        self.raw(b"0\r\n\r\n")

    def hang(self) -> None:
        """Says nothing more until the server closes."""
        self.over.wait(60)

    def cut(self) -> None:
        raise ConnectionAbortedError


Script = Callable[[Asked, Line], None]


class ScriptedServer:
    """Runs ``script`` for each request, in a thread for each connection, and remembers what it was asked."""

    def __init__(self, script: Script, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self._script = script
        self._tls = tls
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"https://localhost:{self.port}" if tls else f"http://127.0.0.1:{self.port}"
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._over.set()
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if self._tls is None:
                self._talk(connection)
            else:
                with self._tls.wrap_socket(connection, server_side=True) as wrapped:
                    self._talk(wrapped)

    def _talk(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as incoming, contextlib.suppress(OSError):
            while (asked := _read(incoming)) is not None:
                self.asked.append(asked)
                self._script(asked, Line(connection, self._over))


def _read(incoming: Any) -> Asked | None:
    first = incoming.readline()
    if not first:
        return None
    method, target, _ = first.decode().split(" ", 2)
    headers = {}
    while line := incoming.readline().decode().strip():
        key, _, value = line.partition(":")
        headers[key.lower()] = value.strip()
    body = incoming.read(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
    return Asked(method, parts.path, query, headers, body)


def an_object(name: str, version: int | str, uid: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version)},
        **fields,
    }


def a_list(version: int, *items: object, more: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)} | ({"continue": more} if more else {}), "items": list(items)}
