"""What an allocator has to know about Volcano's vGPUs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from hami_plugins.allocations.product import Product
from hami_plugins.engine.intake import PodInfo, Rules
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors.volcano import NODE_KEY
from volcano_vgpu.core.allocator import marks, remedies, unread
from volcano_vgpu.core.allocator.mode import AllocatorMode
from volcano_vgpu.core.allocator.names import ALLOCATION_KEYS, MARKER_KEY, SCHEDULER

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
        word="vGPU",
        capped=True,
        spec=spec,
        rules=rules,
        marker=(MARKER_KEY, mode.value),
        keys=ALLOCATION_KEYS,
        held=tuple(filter(None, (spec.keys.allocated, spec.keys.more))),
        unregistered=lambda problems: _unregistered(spec, problems),
        mark=lambda raw: marks.mark(raw, spec, rules, schedulers, mode),
        containers_of=lambda annotations: unread.containers(annotations, spec),
        blocking_reason=lambda pod: _blocking_reason(spec, pod),
        remedy=lambda reason, entry: remedies.remedy(reason, entry, spec),
        carried=_carried if mode is AllocatorMode.WEBHOOK else lambda _node, _intake, _annotations: None,
    )


def _unregistered(spec: VendorSpec, problems: Sequence[str]) -> str:
    reasons = problems or [f"{spec.keys.register} is missing or empty"]
    return f"no cards registered ({'; '.join(reasons)}); {remedies.UNREGISTERED}"


def _blocking_reason(spec: VendorSpec, pod: Pod) -> str:
    container = marks.lacks_number(spec, pod)
    if not container:
        return ""
    return (
        f"container {container} asks for a share of a card without {spec.resources.count}, so that a kubelet "
        f"allocates it nothing; create the pod again with {spec.resources.count}: 1"
    )


def _carried(node: NodeName, intake: PodInfo, annotations: Mapping[str, str]) -> Mapping[str, str] | None:
    """The allocation that Volcano wrote for this node: on the pod up to 1.15, in the Binding later."""
    return next((each for each in (intake.pod.annotations, annotations) if each.get(NODE_KEY) == node), None)
