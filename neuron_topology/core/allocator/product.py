"""What an allocator has to know about Neuron devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hami_plugins.allocations.planner import AllocationPlanner
from hami_plugins.allocations.product import Product
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.registry import Registry
from neuron_topology.core.allocator.names import MARKED, MARKER_KEY
from neuron_topology.core.jobs.admission import admit
from neuron_topology.core.vendor import SPEC

METRICS: Final = "neuron_allocator"
"""What the names of the server's metrics begin with."""

AUDIT: Final = "NeuronAllocationAudit"


def product_of(
    rules: Rules, planner: Callable[[], AllocationPlanner] = AllocationPlanner, *, binds: bool = True
) -> Product:
    """Allocations for pods of every scheduler; ``planner`` makes what knows of jobs and of machines that go.

    ``binds`` is whether kube-scheduler may leave Bindings to the server.
    """
    return Product(
        audit=AUDIT,
        registry=Registry([SPEC]),
        rules=rules,
        marker=(MARKER_KEY, MARKED),
        jobs=admit,
        kube_scheduler=True,
        binds=binds,
        groups=True,
        planner=planner,
    )
