"""The label by which HAMi's monitor finds the pods of its node, where the API server did not take it from the Binding.

A Binding's labels are laid over the pod's only with the feature ``PodTopologyLabelsAdmission``
(alpha and off in Kubernetes 1.33 and 1.34). Where that is so, no further write is needed.
"""

from __future__ import annotations

from hami_plugins.allocator.pod_writer import PodWriter
from hami_plugins.engine.annotate import NODE_KEY, PHASE_KEY
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.pods import FINISHED
from hami_plugins.wire import lenient, pods
from hami_plugins.wire.fields import Json


class PodLabels:
    """Labels bound pods whose annotation ``marker`` says that they are ours, from ``start`` to ``stop``."""

    def __init__(self, writer: PodWriter, marker: str) -> None:
        self._writer = writer
        self._marker = marker

    def start(self) -> None:
        """Begins to write."""
        self._writer.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Ends. May be called twice, and before ``start``."""
        self._writer.stop(timeout)

    def pod_changed(self, change: ObjectChange) -> None:
        """The watch shows a pod. Returns at once."""
        node = "" if change.object is None or change.kind == "deleted" else self._missing(change.object)
        if change.object is None or not node:
            self._writer.drop(change.uid)
            return
        metadata = lenient.inside(change.object, "metadata")
        self._writer.put(change.uid, str(metadata["namespace"]), str(metadata["name"]), {"labels": {NODE_KEY: node}})

    def _missing(self, raw: Json) -> str:
        """The value of the label that a pod lacks; empty for one that lacks none.

        Only pods for HAMi's own plugins have a phase. HAMi's scheduler labels the pods that it binds itself.
        """
        annotations = lenient.inside(raw, "metadata", "annotations")
        node = annotations.get(NODE_KEY)
        if self._marker not in annotations or PHASE_KEY not in annotations or node != pods.node_of(raw):
            return ""
        if lenient.inside(raw, "status").get("phase") in FINISHED:
            return ""
        return "" if lenient.inside(raw, "metadata", "labels").get(NODE_KEY) == node else str(node)
