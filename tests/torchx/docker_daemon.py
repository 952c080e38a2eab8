"""A stand-in for docker's daemon: it takes a build and a push, and remembers what they were."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

IMAGE_ID = "sha256:" + "5" * 64


@dataclass
class DockerDaemon:
    """``files`` are those of the last build, ``calls`` the requests that change something, in their order."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)


@contextmanager
def docker_daemon() -> Iterator[DockerDaemon]:
    """Serves on a port of this machine; ``address`` is for ``DOCKER_HOST``."""
    server = _Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.docker
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.docker = DockerDaemon(f"tcp://127.0.0.1:{self.server_port}")


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.endswith("/version"):
            self._answer({"ApiVersion": "1.44", "Version": "25.0"})
        else:
            self._answer([] if path.endswith("/images/json") else {"Id": IMAGE_ID, "RepoTags": []})

    def do_POST(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        body = self._body()
        self.server.docker.calls.append((path.partition("/v1.44")[2], query))
        if path.endswith("/build"):
            self.server.docker.files = dict(_files(body))
            self._answer({"aux": {"ID": IMAGE_ID}})
        elif path.endswith("/tag"):
            self._answer({}, status=201)
        elif path.endswith("/push"):
            self._answer({"status": "pushed"})
        else:
            self._answer({"message": "no registry here"}, status=404)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _answer(self, content: Any, *, status: int = 200) -> None:
        body = json.dumps(content).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: a test says what it saw."""


def _files(archive: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for each in tar:
            if (found := tar.extractfile(each)) is not None:
                yield each.name, found.read()
