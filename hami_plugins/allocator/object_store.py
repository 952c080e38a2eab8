"""Objects of one kind as a watch shows them, by their names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import structlog

from hami_plugins.errors import WireError
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.versions import MappingVersion
from hami_plugins.wire.fields import Json

Value = TypeVar("Value")

_log = structlog.get_logger(__name__)


class ObjectStore(Generic[Value]):
    """Safe to use from any thread. An object that cannot be read keeps what it said before, and is logged as ``event``.

    ``read`` gives the name and the value of an object and raises ``WireError``; an object for which it gives ``None``
    does not count. A value that is equal to the one before stays the same object.
    """

    def __init__(self, read: Callable[[Json], tuple[str, Value] | None], *, event: str = "object_unreadable") -> None:
        self._read = read
        self._event = event
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, Value]] = {}
        self._by_name: dict[str, Value] = {}
        self._shown = MappingVersion[Value]({}, None, ())
        self._unshown: set[str] = set()

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
            before = self._known.get(change.uid)
            if before == found:
                return
            self._unshown.update(name for name, _ in filter(None, (before, found)))
            if found is not None:
                self._known[change.uid] = found
                self._by_name[found[0]] = found[1]
            elif before is not None:
                del self._known[change.uid]
                if self._by_name.get(before[0]) is before[1]:  # else another object has the name by now
                    del self._by_name[before[0]]

    def get(self, name: str) -> Value | None:
        """The object of a name."""
        with self._lock:
            return self._by_name.get(name)

    def by_name(self) -> Mapping[str, Value]:
        """All that are known; the same value until one of them changes."""
        with self._lock:
            if self._unshown:
                self._shown = MappingVersion(self._by_name, self._shown, self._unshown)
                self._unshown.clear()
            return self._shown
