"""The label by which HAMi's monitor finds the pods of its node, where the API server did not take it from the Binding.

A Binding's labels are laid over the pod's only with the feature ``PodTopologyLabelsAdmission``
(alpha and off in Kubernetes 1.33 and 1.34). Where that is so, no further write is needed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, NamedTuple

import structlog

from hami_plugins.engine.annotate import NODE_KEY, PHASE_KEY
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import Writing
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.pods import FINISHED
from hami_plugins.wire import lenient, pods
from hami_plugins.wire.fields import Json

SPARED: Final = 0.02
"""Seconds between two writes."""

TRIES: Final = 3

_log = structlog.get_logger(__name__)


class _Unlabelled(NamedTuple):
    namespace: str
    name: str
    node: str


class PodLabels:
    """Labels bound pods whose annotation ``marker`` says that they are ours, from a thread of its own.

    It lasts from ``start`` to ``stop``.
    """

    def __init__(self, api: Writing, marker: str) -> None:
        self._api = api
        self._marker = marker
        self._due: OrderedDict[str, _Unlabelled] = OrderedDict()
        self._tries: dict[str, int] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="allocator-labels", daemon=True)

    def start(self) -> None:
        """Begins to write."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Ends. May be called twice, and before ``start``."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def pod_changed(self, change: ObjectChange) -> None:
        """The watch shows a pod. Returns at once."""
        node = "" if change.object is None or change.kind == "deleted" else self._missing(change.object)
        with self._changed:
            if not node:
                self._due.pop(change.uid, None)
                self._tries.pop(change.uid, None)
            elif change.object is not None and self._tries.get(change.uid, 0) < TRIES:
                metadata = lenient.inside(change.object, "metadata")
                self._due[change.uid] = _Unlabelled(str(metadata["namespace"]), str(metadata["name"]), node)
                self._changed.notify()

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

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due and not self._stopping:
                    self._changed.wait()
                if self._stopping:
                    return
                uid, pod = self._due.popitem(last=False)
                self._tries[uid] = self._tries.get(uid, 0) + 1
            self._write(uid, pod)
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, SPARED)

    def _write(self, uid: str, pod: _Unlabelled) -> None:
        body = {"metadata": {"uid": uid, "labels": {NODE_KEY: pod.node}}}
        try:
            self._api.merge_patch(paths.pod(pod.namespace, pod.name), body)
        except KubeError as error:
            _log.warning("pod_not_labelled", pod=f"{pod.namespace}/{pod.name}", error=str(error))
