"""Single pods out of the API server, for what the watch has not shown yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.wire.fields import Json

ReadPod = Callable[[str, str], Mapping[str, Any] | None]
"""The pod of a namespace and a name as it is now, ``None`` where there is none. Raises ``KubeError``."""

AT_ONCE: Final = 4
A_SECOND: Final = 50
"""How many reads calls over plain HTTP may cause: anybody may make them, and a scheduler needs few."""

_NOT_FOUND: Final = 404


def reading(get: Callable[[str], Json], *, on_read: Callable[[], object] = lambda: None) -> ReadPod:
    """Reads pods with ``get``, which raises ``KubeError`` where there is nothing; each read calls ``on_read``."""

    def read(namespace: str, name: str) -> Json | None:
        on_read()
        try:
            return get(paths.pod(namespace, name))
        except KubeError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    return read


class RateLimitedRead:
    """A ``ReadPod`` that asks ``at_once`` questions at a time, and ``a_second`` of them in each second of ``clock``.

    A read beyond these limits fails immediately with a ``KubeError``.
    """

    def __init__(
        self, read: ReadPod, *, clock: Callable[[], float], at_once: int = AT_ONCE, a_second: int = A_SECOND
    ) -> None:
        self._read = read
        self._clock = clock
        self._a_second = a_second
        self._free = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._second, self._asked = 0, 0

    def __call__(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The pod, or ``None``."""
        if not self._allowed() or not self._free.acquire(blocking=False):
            raise KubeError("too many pods had to be looked up just now", retryable=True)
        try:
            return self._read(namespace, name)
        finally:
            self._free.release()

    def _allowed(self) -> bool:
        second = int(self._clock())
        with self._lock:
            if second != self._second:
                self._second, self._asked = second, 0
            self._asked += 1
            return self._asked <= self._a_second
