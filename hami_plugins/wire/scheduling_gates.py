"""The scheduling gates of pods, and who removes those of Kueue.

No scheduler looks at a pod that has one (``spec.schedulingGates``). Source of Kueue's: 0.17.0,
``pkg/controller/jobs/pod/constants/constants.go``, ``apis/kueue/v1beta2/topology_types.go`` and ``constants.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.model.pods import Pod

KUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""Names the LocalQueue of a pod, or of an object that makes pods."""

OF_KUEUE: Final[Mapping[str, str]] = {
    "kueue.x-k8s.io/admission": "Kueue removes it when {queue} admits the pod; `kubectl get workloads -n {namespace}` "
    "tells what it waits for",
    "kueue.x-k8s.io/topology": "Kueue removes it when it has chosen a topology domain for the pod",
    "kueue.x-k8s.io/elastic-job": "Kueue removes it when it admits the job at its new size",
}
"""By gate, when Kueue removes it."""


def told(pod: Pod) -> str:
    """What a pod with scheduling gates has, and who removes them where that is known; to follow ``has``."""
    many = len(pod.gates) > 1
    names = ", ".join(pod.gates)
    why = f"the scheduling gate{'s' if many else ''} {names}; no scheduler looks at it before"
    queue = f"LocalQueue {pod.labels[KUEUE_LABEL]}" if pod.labels.get(KUEUE_LABEL) else "its LocalQueue"
    removals = [
        f"{gate}: {OF_KUEUE[gate].format(queue=queue, namespace=pod.namespace)}"
        for gate in pod.gates
        if gate in OF_KUEUE
    ]
    return "; ".join([f"{why} {'they are' if many else 'it is'} removed", *removals])
