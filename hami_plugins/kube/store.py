"""The selected objects of a cluster, kept in memory as far as they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Unpack

from hami_plugins.kube.port import Selection, Watching
from hami_plugins.kube.reflector import ObjectChange, Reflector, ReflectorOptions
from hami_plugins.runnable import Runnable
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json


def whole(item: Json) -> Json:
    """Keeps an object as it is."""
    return item


class Store(Runnable):
    """A reflector with a memory: what ``trim`` leaves of each object, by UID and by name.

    Returned objects are shared and must not be changed. Subscribers are called from the reflector's thread, one after
    the other, when the store is up to date already; a deletion carries the object as it was kept.
    """

    def __init__(
        self,
        api: Watching,
        selection: Selection,
        *,
        name: str,
        trim: Callable[[Json], Json] = whole,
        **options: Unpack[ReflectorOptions],
    ) -> None:
        self.reflector = Reflector(api, selection, on_change=self._take, name=name, **options)
        self.synced: threading.Event = self.reflector.synced
        self._trim = trim
        self._lock = threading.Lock()
        self._objects: dict[str, Json] = {}
        self._keys: dict[str, tuple[str, str]] = {}
        self._uids: dict[tuple[str, str], str] = {}
        # Held while subscribers are called, never while reading. Reentrant: a subscriber may subscribe another one.
        self._telling = threading.RLock()
        self._subscribers: tuple[Callable[[ObjectChange], None], ...] = ()
        self._told_synced = False

    def start(self) -> None:
        """See ``Reflector``."""
        self.reflector.start()

    def stop(self, timeout: float = 10.0) -> bool:
        """See ``Reflector``. What was kept stays readable."""
        return self.reflector.stop(timeout)

    @property
    def healthy(self) -> bool:
        """See ``Reflector``."""
        return self.reflector.healthy

    def get(self, uid: str) -> Json | None:
        """The object with that UID."""
        with self._lock:
            return self._objects.get(uid)

    def by_name(self, namespace: str, name: str) -> Json | None:
        """The object of that name; cluster-wide objects are in namespace ``""``."""
        with self._lock:
            return self._objects.get(self._uids.get((namespace, name), ""))

    def all(self) -> tuple[Json, ...]:
        """Every object, in the order of their arrival."""
        with self._lock:
            return tuple(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def subscribe(self, callback: Callable[[ObjectChange], None]) -> None:
        """Calls ``callback`` with every change. A late subscriber first receives all objects, as if they were added
        now.
        """
        with self._telling:
            with self._lock:
                held = tuple(self._objects.items())
            for uid, item in held:
                callback(ObjectChange("added", item, uid))
            if self._told_synced:
                callback(ObjectChange("synced", None, ""))
            self._subscribers = (*self._subscribers, callback)

    def _take(self, change: ObjectChange) -> None:
        with self._telling:
            match change.kind:
                case "added" | "modified" if change.object is not None:
                    change = change._replace(object=self._keep(change.uid, change.object))
                case "deleted":
                    change = change._replace(object=self._forget(change.uid))
                case _:
                    self._told_synced = True
            self._tell(change)

    def _keep(self, uid: str, item: Json) -> Json:
        kept, key = self._trim(item), _key(item)
        with self._lock:
            self._objects[uid] = kept
            self._keys[uid] = key
            self._uids[key] = uid
        return kept

    def _forget(self, uid: str) -> Json | None:
        with self._lock:
            key = self._keys.pop(uid, None)
            # The name may belong to another object by now.
            if key is not None and self._uids.get(key) == uid:
                del self._uids[key]
            return self._objects.pop(uid, None)

    def _tell(self, change: ObjectChange) -> None:
        errors: list[Exception] = []
        for tell in self._subscribers:
            try:
                tell(change)
            except Exception as error:  # noqa: BLE001 - one subscriber must not take a change from another
                errors.append(error)
        if errors:
            raise ExceptionGroup(f"{len(errors)} subscribers failed", errors)


def _key(item: Json) -> tuple[str, str]:
    told = lenient.inside(item, "metadata")
    return str(told.get("namespace") or ""), str(told.get("name") or "")
