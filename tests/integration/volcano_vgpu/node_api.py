"""One node as an API server keeps it: versions, conditional merge patches, faults on demand."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from hami_plugins.errors import ContentionError, KubeError
from hami_plugins.kube.port import Collection, ListPage, Selection, WatchEvent
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.wire.fields import Json

NODE = "/api/v1/nodes/n1"


class NodeApi:
    """A ``KubeApi`` with the node n1 in it, and the watch of that node; every write is kept in ``writes``."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, dict[str, Any]]] = []
        self.faults: list[KubeError] = []
        self.before_write: Callable[[], None] | None = None
        self.others: dict[str, Json] = {}
        self._lock = threading.RLock()
        self._version = 1
        self._subscribers: list[Callable[[ObjectChange], None]] = []
        self.node: dict[str, Any] | None = None
        self.come()

    def come(self, uid: str = "u1") -> None:
        """The node is made anew."""
        with self._lock:
            self.node = {"metadata": {"name": "n1", "uid": uid, "annotations": {}}, "status": {}}
            self._stamp("added")

    def go(self) -> None:
        """The node is deleted."""
        with self._lock:
            self.node = None
            self._say(ObjectChange("deleted", None, "u1"))

    def edit(self, *, annotations: Mapping[str, str | None] | None = None, **status: Mapping[str, str]) -> None:
        """Another client writes."""
        with self._lock:
            assert self.node is not None
            _merge(self.node, {"metadata": {"annotations": annotations or {}}, "status": status})
            self._stamp("modified")

    @property
    def annotations(self) -> dict[str, str]:
        """The node's annotations."""
        with self._lock:
            return dict(self.node["metadata"]["annotations"]) if self.node else {}

    @property
    def capacity(self) -> dict[str, str]:
        """The node's capacity."""
        with self._lock:
            return dict(self.node["status"].get("capacity", {})) if self.node else {}

    def by_name(self, namespace: str, name: str) -> Json | None:
        return self.node

    def subscribe(self, callback: Callable[[ObjectChange], None]) -> None:
        with self._lock:
            self._subscribers.append(callback)
            if self.node is not None:
                callback(ObjectChange("added", copy.deepcopy(self.node), "u1"))
            callback(ObjectChange("synced", None, ""))

    def get(self, path: str) -> Json:
        with self._lock:
            found = self.node if path == NODE else self.others.get(path)
            if found is None:
                raise KubeError(f"{path}: not found", status=404)
            return copy.deepcopy(found)

    def server_time(self) -> datetime | None:
        return None

    def merge_patch(self, path: str, body: Json) -> Json:
        if self.before_write is not None:
            hook, self.before_write = self.before_write, None
            hook()
        with self._lock:
            if self.faults:
                raise self.faults.pop(0)
            if self.node is None:
                raise KubeError(f"{path}: not found", status=404)
            wanted = body["metadata"]["resourceVersion"]
            if wanted != self.node["metadata"]["resourceVersion"]:
                raise ContentionError(f"{path}: the object has been modified", status=409)
            changes = copy.deepcopy(dict(body))
            changes["metadata"].pop("resourceVersion")
            self.writes.append((path.removeprefix(NODE), changes))
            part = {"status": changes["status"]} if path.endswith("/status") else {"metadata": changes["metadata"]}
            _merge(self.node, part)
            self._stamp("modified")
            return copy.deepcopy(self.node)

    def create(self, path: str, body: Json) -> Json:
        raise NotImplementedError

    def replace(self, path: str, body: Json) -> Json:
        raise NotImplementedError

    def delete(self, path: str, *, body: Json | None = None) -> Json:
        raise NotImplementedError

    def pages(self, collection: Collection, *, page_size: int = 500) -> Iterator[list[Json]]:
        raise NotImplementedError

    def list_pages(
        self, selection: Selection, *, version: str = "", stop: threading.Event | None = None, page_size: int = 500
    ) -> Iterator[ListPage]:
        raise NotImplementedError

    def watch(self, selection: Selection, *, since: str, stop: threading.Event, timeout: float) -> Iterator[WatchEvent]:
        raise NotImplementedError

    def _stamp(self, kind: Any) -> None:
        assert self.node is not None
        self._version += 1
        self.node["metadata"]["resourceVersion"] = str(self._version)
        self._say(ObjectChange(kind, copy.deepcopy(self.node), self.node["metadata"]["uid"]))

    def _say(self, change: ObjectChange) -> None:
        for tell in self._subscribers:
            tell(change)


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, Mapping):
            _merge(into.setdefault(name, {}), value)
        else:
            into[name] = value
