"""Ends reads that no caller waits for any longer.

A thread that reads a quiet watch sleeps in the kernel, and a ``threading.Event`` cannot wake it there. So one thread
for all reads of a client looks at their events and cuts the connections of those whose event is set. It lives only
while something is read.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any, Final

import urllib3

_TICK: Final = 0.2
"""Seconds between two looks. With 2,000 reads one look takes some 0.3 ms."""

_of_this_thread = threading.local()


class ThreadRead:
    """What one thread reads: until when, and from which socket once there is one."""

    __slots__ = ("socket", "stop")

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self.socket: socket.socket | None = None

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Whatever this thread sends inside of the block is what will be read."""
        _of_this_thread.reading = self
        try:
            yield
        finally:
            _of_this_thread.reading = None


class Interrupter:
    """Cuts connections from outside of the threads that read from them."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may end a forgotten watch in whichever thread it runs.
        self._lock = threading.RLock()
        self._readings: set[ThreadRead] = set()
        self._looking: tuple[threading.Thread, threading.Event] | None = None

    @contextlib.contextmanager
    def until(self, stop: threading.Event) -> Iterator[ThreadRead]:
        """Cuts what is read when ``stop`` is set before the block ends; the reader sees a torn connection."""
        reading = ThreadRead(stop)
        with self._lock:
            self._readings.add(reading)
            self._begin()
        try:
            yield reading
        finally:
            self._end(reading)

    def _begin(self) -> None:
        if self._looking is None:
            over = threading.Event()
            thread = threading.Thread(target=self._look, args=(over,), name="kube-interrupter", daemon=True)
            self._looking = thread, over
            thread.start()

    def _end(self, reading: ThreadRead) -> None:
        ended = None
        with self._lock:
            self._readings.discard(reading)
            if not self._readings:
                ended, self._looking = self._looking, None
        if ended is not None:
            thread, over = ended
            over.set()
            if thread is not threading.current_thread():
                thread.join()

    def _look(self, over: threading.Event) -> None:
        while not over.wait(_TICK):
            # Under the lock, so that no connection is cut that has changed hands. shutdown() does not block.
            with self._lock:
                for reading in tuple(self._readings):
                    if reading.stop.is_set() and reading.socket is not None:
                        _cut(reading.socket)


def _cut(line: socket.socket) -> None:
    # The method of the plain socket: that of a TLS socket takes its state from under the thread that reads.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(line, socket.SHUT_RDWR)


def make_interruptible(manager: urllib3.PoolManager, host: str) -> None:
    """Lets the connections of ``manager`` to ``host`` be cut by an ``Interrupter``."""
    pool = manager.connection_from_url(host)
    plain: Any = pool.ConnectionCls

    class Interruptible(plain):  # type: ignore[misc]
        """Registers the socket from which an answer is awaited, before waiting."""

        def getresponse(self, *args: Any, **kwargs: Any) -> Any:
            reading = getattr(_of_this_thread, "reading", None)
            if reading is not None:
                reading.socket = self.sock
            return super().getresponse(*args, **kwargs)

    # Errors show the name, and those of urllib3 1 where it is from.
    Interruptible.__name__ = Interruptible.__qualname__ = plain.__name__
    Interruptible.__module__ = plain.__module__
    pool.ConnectionCls = Interruptible
