"""Objects of one kind as a watch shows them, by their UIDs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from hami_plugins.errors import WireError
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.wire.fields import Json

Value = TypeVar("Value")

_log = structlog.get_logger(__name__)


class ObjectStore(Generic[Value]):
    """Safe to use from any thread. An object that cannot be read keeps what it said before, and is logged as ``event``.

    ``read`` raises ``WireError``; an object for which it gives ``None`` does not count.
    """

    def __init__(self, read: Callable[[Json], Value | None], *, event: str = "object_unreadable") -> None:
        self._read = read
        self._event = event
        self._lock = threading.Lock()
        self._known: dict[str, Value] = {}

    def changed(self, change: ObjectChange) -> None:
        """An object came, changed or went."""
        found = None
        if change.kind != "deleted":
            if change.object is None:
                return
            try:
                found = self._read(change.object)
            except WireError as error:
                _log.warning(self._event, reason=str(error))
                return
        with self._lock:
            if found is None:
                self._known.pop(change.uid, None)
            else:
                self._known[change.uid] = found

    def values(self) -> tuple[Value, ...]:
        """All that are known, in the order in which they came."""
        with self._lock:
            return tuple(self._known.values())
