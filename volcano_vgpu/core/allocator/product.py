"""What an allocator has to know about Volcano's vGPUs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocations.product import Product, nothing_carried, volcano_carried
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.registry import Registry
from hami_plugins.model.vendor import VendorSpec
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
        carries=volcano_carried if mode is AllocatorMode.WEBHOOK else nothing_carried,
    )
