"""Objects in versions: one counter for all writes, and a window of what happened, from which watches begin.

A version of an object is never changed; a write makes another. Each is serialised once, for all readers.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

import orjson

from hami_plugins.sandbox.apiserver.answers import too_old
from hami_plugins.sandbox.apiserver.kinds import ResourceKind
from hami_plugins.sandbox.apiserver.selectors import EVERYTHING, INDEXED, ObjectSelector, field_text
from hami_plugins.wire.fields import Json


class Key(NamedTuple):
    """Where an object lives in its collection; cluster-scoped objects have no namespace."""

    namespace: str
    name: str


class Stored:
    """A version of an object. ``raw``, without kind and apiVersion, is not to be changed; ``data`` is its JSON."""

    __slots__ = ("data", "key", "raw", "version")

    def __init__(self, key: Key, version: int, raw: Json) -> None:
        self.key = key
        self.version = version
        self.raw = raw
        self.data = orjson.dumps(raw)

    def at(self, version: int) -> Stored:
        """The same content under another version, as the last word on an object says it."""
        metadata = {**self.raw["metadata"], "resourceVersion": str(version)}
        return Stored(self.key, version, {**self.raw, "metadata": metadata})


class Event:
    """A write: the object before and after. When ``gone``, ``after`` is its last state, in the version of its end."""

    __slots__ = ("_left", "after", "before", "gone", "version")

    def __init__(self, version: int, before: Stored | None, after: Stored, *, gone: bool) -> None:
        self.version = version
        self.before = before
        self.after = after
        self.gone = gone
        self._left: Stored | None = None

    def seen_by(self, selector: ObjectSelector) -> tuple[str, Stored] | None:
        """The event for a watcher with this selector, or nothing. Leaving a selection looks like a deletion."""
        before = self.before if self.before is not None and selector.matches(self.before.raw) else None
        if not self.gone and selector.matches(self.after.raw):
            return ("ADDED" if before is None else "MODIFIED"), self.after
        if before is None:
            return None
        if self.gone:
            return "DELETED", self.after
        if self._left is None:
            self._left = before.at(self.version)
        return "DELETED", self._left


class StoredCollection:
    """The objects of one resource, in the order of their keys, with indexes and a window of events."""

    def __init__(self, window: int) -> None:
        self.objects: dict[Key, Stored] = {}
        self.order: list[Key] = []
        self.events: deque[Event] = deque()
        self.floor = 0
        self._window = window
        self._index: dict[str, dict[str, set[Key]]] = {field: {} for field in INDEXED}

    def enter(self, stored: Stored) -> None:
        """An object that is there from the start, without an event."""
        insort(self.order, stored.key)
        self.objects[stored.key] = stored
        self._enter(stored)

    def record(self, event: Event) -> None:
        """Apply a write."""
        key = event.after.key
        if event.before is not None:
            self._unindex(event.before)
        if event.gone:
            del self.objects[key]
            del self.order[bisect_left(self.order, key)]
        else:
            if event.before is None:
                insort(self.order, key)
            self.objects[key] = event.after
            self._enter(event.after)
        self.events.append(event)
        if len(self.events) > self._window:
            self.floor = self.events.popleft().version

    def keys(self, namespace: str, selector: ObjectSelector) -> Sequence[Key]:
        """Keys that may be selected, in order."""
        for field in INDEXED:
            value = selector.pinned(field)
            if value is not None:
                found = self._index[field].get(value, set())
                return sorted(key for key in found if not namespace or key.namespace == namespace)
        if not namespace:
            return self.order
        start = bisect_left(self.order, Key(namespace, ""))
        return self.order[start : bisect_right(self.order, Key(namespace, _LAST))]

    def since(self, version: int) -> list[Event]:
        """What happened after a version; raises ``ApiError`` 410 when some of it is forgotten."""
        if version < self.floor:
            raise too_old(version, self.floor)
        return list(takewhile(lambda event: event.version > version, reversed(self.events)))[::-1]

    def forget(self) -> None:
        """Drop all history: only watches from now on are possible."""
        if self.events:
            self.floor = self.events[-1].version
            self.events.clear()

    def _enter(self, stored: Stored) -> None:
        for field, values in self._index.items():
            values.setdefault(field_text(stored.raw, tuple(field.split("."))), set()).add(stored.key)

    def _unindex(self, stored: Stored) -> None:
        for field, values in self._index.items():
            value = field_text(stored.raw, tuple(field.split(".")))
            values[value].discard(stored.key)
            if not values[value]:
                del values[value]


_LAST: Final = "\U0010ffff"


class ApiStore:
    """Every collection, one counter of versions. All methods may be called from any thread.

    ``window`` is how many events each collection remembers. Listeners hear of each write in order, under ``lock``.
    """

    def __init__(self, *, window: int = 1000) -> None:
        self.lock = threading.RLock()
        self.version = 1
        self._forgotten = 0
        self._window = window
        self._collections: dict[tuple[str, str], StoredCollection] = {}
        self._listeners: list[Callable[[tuple[str, str], Event], None]] = []

    def listen(self, listener: Callable[[tuple[str, str], Event], None]) -> None:
        """Hear of each write from now on: the collection and the event. The listener must not wait."""
        self._listeners.append(listener)

    def collection(self, storage: tuple[str, str]) -> StoredCollection:
        """The collection of a resource; it is there as soon as it is asked for."""
        with self.lock:
            found = self._collections.get(storage)
            if found is None:
                found = self._collections[storage] = StoredCollection(self._window)
                found.floor = self._forgotten
            return found

    def get(self, kind: ResourceKind, key: Key) -> Stored | None:
        """The current version of an object."""
        with self.lock:
            return self.collection(kind.storage).objects.get(key)

    def put(self, kind: ResourceKind, key: Key, raw: Json) -> Stored:
        """Write an object, new or changed, under the next version."""
        with self.lock:
            self.version += 1
            metadata = {**raw["metadata"], "resourceVersion": str(self.version)}
            stored = Stored(key, self.version, {**raw, "metadata": metadata})
            before = self.collection(kind.storage).objects.get(key)
            self._record(kind.storage, Event(self.version, before, stored, gone=False))
            return stored

    def remove(self, kind: ResourceKind, key: Key, last: Json) -> Stored:
        """Take an object out; ``last`` is what its watchers see."""
        with self.lock:
            self.version += 1
            before = self.collection(kind.storage).objects[key]
            after = Stored(key, 0, last).at(self.version)
            self._record(kind.storage, Event(self.version, before, after, gone=True))
            return after

    def select(
        self,
        kind: ResourceKind,
        namespace: str = "",
        selector: ObjectSelector = EVERYTHING,
        *,
        after: Key | None = None,
    ) -> list[Stored]:
        """The selected objects of one namespace, or of all, in order; those that come ``after`` a key."""
        with self.lock:
            collection = self.collection(kind.storage)
            keys = collection.keys(namespace, selector)
            start = 0 if after is None else bisect_right(keys, after)
            found = [collection.objects[key] for key in keys[start:]]
        return [stored for stored in found if selector.matches(stored.raw)] if selector else found

    def is_unchanged_since(self, kind: ResourceKind, version: int) -> bool:
        """Whether all objects of a kind are as they were, as far as that is remembered."""
        with self.lock:
            collection = self.collection(kind.storage)
            return collection.floor <= version and not (collection.events and collection.events[-1].version > version)

    def at_version(self, kind: ResourceKind, version: int) -> dict[Key, Stored]:
        """All objects of a kind as they were; raises ``ApiError`` 410 when that is forgotten."""
        with self.lock:
            return {stored.key: stored for stored in _before(self.collection(kind.storage), version)}

    def compact(self) -> None:
        """Forget the history of everything: watches and pages from older versions answer 410."""
        with self.lock:
            self._forgotten = self.version
            for collection in self._collections.values():
                collection.forget()
                collection.floor = self.version

    def restore(self, version: int) -> None:
        """Go back to how everything was, as a store does that is restored from a backup: versions are given out anew.

        Raises ``ApiError`` 410 where a collection has forgotten that, and changes nothing then.
        """
        with self.lock:
            before = {storage: _before(collection, version) for storage, collection in self._collections.items()}
            self._collections = {}
            self._forgotten = self.version = version
            for storage, objects in before.items():
                collection = self.collection(storage)
                for stored in objects:
                    collection.enter(stored)

    def drop(self, storage: tuple[str, str]) -> None:
        """Forget a whole collection."""
        with self.lock:
            self._collections.pop(storage, None)

    def _record(self, storage: tuple[str, str], event: Event) -> None:
        self.collection(storage).record(event)
        for listener in self._listeners:
            listener(storage, event)


def _before(collection: StoredCollection, version: int) -> list[Stored]:
    """The objects of a collection as they were; raises ``ApiError`` 410 when that is forgotten."""
    objects = dict(collection.objects)
    for event in reversed(collection.since(version)):
        if event.before is None:
            objects.pop(event.after.key, None)
        else:
            objects[event.after.key] = event.before
    return list(objects.values())
