"""What an allocator has to know about Volcano's vGPUs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocations.product import Product, nothing_carried
from hami_plugins.engine.intake import PodInfo, Rules
from hami_plugins.engine.registry import Registry
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors.volcano import NODE_KEY
from volcano_vgpu.core.allocator.names import MARKER_KEY, SCHEDULER

METRICS: Final = "volcano_vgpu_allocator"
"""What the names of the server's metrics begin with."""

AUDIT: Final = "VolcanoAllocationAudit"


def product_of(
    spec: VendorSpec,
    rules: Rules,
    *,
    mode: AllocatorMode = AllocatorMode.EXTENDER,
    schedulers: Collection[str] = (SCHEDULER,),
) -> Product:
    """Allocates in a mode, for pods of these schedulers."""
    return Product(
        audit=AUDIT,
        registry=Registry([spec]),
        rules=rules,
        marker=(MARKER_KEY, mode.value),
        schedulers=schedulers,
        carried=_carried if mode is AllocatorMode.WEBHOOK else nothing_carried,
    )


def _carried(node: NodeName, intake: PodInfo, annotations: Mapping[str, str]) -> Mapping[str, str] | None:
    """The allocation that Volcano wrote for this node: on the pod up to 1.15, in the Binding later."""
    return next((each for each in (intake.pod.annotations, annotations) if each.get(NODE_KEY) == node), None)
