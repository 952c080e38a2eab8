"""The label by which HAMi's monitor finds the pods of its node, where the API server did not take it from the Binding.

A Binding's labels are laid over the pod's only with the feature ``PodTopologyLabelsAdmission``
(alpha and off in Kubernetes 1.33 and 1.34). Where that is so, no further write is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.allocator.pod_writer import PodWriter
from hami_plugins.engine.annotate import NODE_KEY, PHASE_KEY
from hami_plugins.kube.port import Writing
from hami_plugins.model.pods import FINISHED
from hami_plugins.vendors import nvidia
from hami_plugins.wire import lenient, pods
from hami_plugins.wire.fields import Json

_MONITORED: Final = nvidia.SPEC.keys.allocated
"""HAMi's monitor runs next to its device plugin for NVIDIA; no other component of HAMi reads the label."""


class PodLabels(PodWriter):
    """Labels bound pods whose annotation ``marker`` says that they are ours."""

    def __init__(self, api: Writing, marker: str) -> None:
        super().__init__(api, "labels")
        self._marker = marker

    def missing(self, raw: Json) -> Mapping[str, object] | None:
        """The label, for a pod that lacks it.

        Only pods for HAMi's own plugins have a phase. HAMi's scheduler labels the pods that it binds itself.
        """
        annotations = lenient.inside(raw, "metadata", "annotations")
        node = annotations.get(NODE_KEY)
        if not {self._marker, PHASE_KEY, _MONITORED}.issubset(annotations) or node != pods.node_of(raw):
            return None
        if lenient.inside(raw, "status").get("phase") in FINISHED:
            return None
        return None if lenient.inside(raw, "metadata", "labels").get(NODE_KEY) == node else {"labels": {NODE_KEY: node}}
