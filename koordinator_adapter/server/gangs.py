"""What there is in the cluster for pods to name: PodGroups of Koordinator's scheduler, and its quotas."""

from __future__ import annotations

import threading

from hami_plugins.kube.reflector import ObjectChange


class WatchedNames:
    """The names of objects of one kind, from a watch.

    They are ``namespace/name``; with ``bare`` the name alone, as Koordinator looks for quotas.
    """

    def __init__(self, *, bare: bool = False) -> None:
        self._bare = bare
        self._lock = threading.Lock()
        self._by_uid: dict[str, str] = {}
        self._all: frozenset[str] | None = frozenset()

    @property
    def all(self) -> frozenset[str]:
        """The names of all that are there now."""
        with self._lock:
            if self._all is None:
                self._all = frozenset(self._by_uid.values())
            return self._all

    def changed(self, change: ObjectChange) -> None:
        """An object has come, changed or gone."""
        if change.kind in {"synced", "modified"}:
            return
        with self._lock:
            self._all = None
            if change.kind == "deleted" or change.object is None:
                self._by_uid.pop(change.uid, None)
                return
            metadata = change.object.get("metadata") or {}
            name = str(metadata.get("name"))
            self._by_uid[change.uid] = name if self._bare else f"{metadata.get('namespace')}/{name}"
