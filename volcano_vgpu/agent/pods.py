"""The pods of this node: kept by a watch, and read anew where the watch may lag behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hami_plugins.allocations import writers
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.kube.store import Store
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from volcano_vgpu.core.dialects import ALLOCATION_KEYS

_NOT_FOUND: Final = 404
_METADATA: Final = (
    "namespace",
    "name",
    "uid",
    "resourceVersion",
    "annotations",
    "labels",
    "creationTimestamp",
    "deletionTimestamp",
)
_SPEC: Final = ("nodeName", "schedulerName", "containers", "initContainers", "volumes", "resources", "overhead")
_STATUS: Final = ("phase", "initContainerStatuses", "containerStatuses")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def trimmed(pod: Json) -> Json:
    """What the agent reads of a pod."""
    metadata = _some(pod.get("metadata"), _METADATA)
    annotations = metadata.get("annotations")
    if isinstance(annotations, Mapping) and _LAST_APPLIED in annotations:
        metadata["annotations"] = {key: text for key, text in annotations.items() if key != _LAST_APPLIED}
    kept = writers.relevant(pod, ALLOCATION_KEYS)
    if kept["managedFields"]:
        metadata["managedFields"] = kept["managedFields"]
    status = _some(pod.get("status"), _STATUS)
    if kept["conditions"]:
        status["conditions"] = kept["conditions"]
    return {"kind": "Pod", "metadata": metadata, "spec": _some(pod.get("spec"), _SPEC), "status": status}


class NodePods:
    """``serving.Pods`` over a watch of the pods that are bound to one node. ``hasty`` is asked while a call waits."""

    def __init__(self, api: KubeApi, node: str, *, hasty: KubeApi | None = None) -> None:
        self._api = hasty or api
        self._fields = f"spec.nodeName={node}"
        self._first: dict[str, Mapping[str, str]] = {}
        self.store = Store(
            api, Selection(paths.PODS, "Pod", fields=self._fields, cached=True), name="pods", trim=trimmed
        )
        self.store.subscribe(self._saw)

    def get(self, uid: str) -> Json | None:
        """The pod with that UID, as the watch has it."""
        return self.store.get(uid)

    def by_name(self, namespace: str, name: str) -> Json | None:
        """The pod of that name, as the watch has it."""
        return self.store.by_name(namespace, name)

    def all(self) -> tuple[Json, ...]:
        """Every pod, as the watch has them."""
        return self.store.all()

    def first(self, uid: str) -> Mapping[str, str] | None:
        """The annotations of a pod when the watch first showed it on the node; ``None`` before that."""
        return self._first.get(uid)

    def _saw(self, change: ObjectChange) -> None:
        if change.object is not None and change.kind in ("added", "modified"):
            self._first.setdefault(change.uid, lenient.inside(change.object, "metadata", "annotations"))
        elif change.kind == "deleted":
            self._first.pop(change.uid, None)

    def subscribe(self, callback: Callable[[ObjectChange], None]) -> None:
        """See ``Store``."""
        self.store.subscribe(callback)

    def read(self, namespace: str, name: str) -> Json | None:
        """The pod as it is now, ``None`` where there is none. Raises ``KubeError``."""
        try:
            return trimmed(self._api.get(paths.pod(namespace, name)))
        except KubeError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def read_of_node(self) -> tuple[Json, ...]:
        """The pods of this node as they are now. Raises ``KubeError``."""
        selection = Selection(paths.PODS, "Pod", fields=self._fields)
        return tuple(trimmed(pod) for page in self._api.list_pages(selection) for pod in page.items)


def _some(found: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: found[name] for name in names if name in found} if isinstance(found, Mapping) else {}
