"""The part of kube-scheduler's configuration that has it ask the Neuron allocator."""

from __future__ import annotations

from typing import Any, Final

from neuron_topology.core.vendor import SPEC

TIMEOUT: Final = "5s"


def document(url: str, *, binds: bool = True) -> dict[str, Any]:
    """A KubeSchedulerConfiguration; ``url`` is where the scheduler reaches the extender.

    Where the extender ``binds``, no pod is bound without devices, also while the server is away.
    """
    extender = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        **({"bindVerb": "bind"} if binds else {}),
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": False,
        "httpTimeout": TIMEOUT,
        "managedResources": [{"name": name, "ignoredByScheduler": False} for name in SPEC.resources.all()],
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender],
    }
