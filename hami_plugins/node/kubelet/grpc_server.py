"""A gRPC server on a unix socket that leaves no thread behind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc


class UnixServer:
    """Serves what ``add`` puts into it, from the moment it is made.

    ``workers`` bounds the calls at the same time; their threads begin with ``name``. gRPC leaves the threads of its
    executor to the garbage collector, which may never come; here they end with the server.
    """

    def __init__(self, path: Path, add: Callable[[grpc.Server], None], *, workers: int, name: str) -> None:
        self._workers = ThreadPoolExecutor(workers, name)
        self._server = grpc.server(self._workers)
        add(self._server)
        self._server.add_insecure_port(f"unix://{path}")
        self._server.start()

    def stop(self, grace: float | None = None) -> None:
        """Take no further call, and wait until those under way have ended, or were ended after ``grace`` seconds."""
        self._server.stop(grace).wait()
        self._workers.shutdown(wait=False)
