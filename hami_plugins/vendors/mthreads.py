"""Moore Threads GPUs, shared by sixteenths of their cores and by 512 MiB of memory.

Source: HAMi 2.10.0 ``pkg/device/mthreads/device.go``. The annotation ``mthreads.com/gpu-index`` holds the cards of one
container only, so where several containers of a pod ask for cards, all of them must get the same one; that limit is the
vendor's protocol.

Deviations from HAMi 2.10, on purpose: an unusable amount is refused (HAMi takes the container for one without cards),
negative cores are refused, and a capacity that HAMi would let overflow is a problem of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.engine.demand import WHOLE, cores_of, count_of, memory_of, selector_of
from hami_plugins.engine.inventories import cards_by_cores
from hami_plugins.errors import AdmissionDeniedError
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import (
    AdmissionChange,
    AllocationRecords,
    AllocationView,
    Candidate,
    ContainerAdmission,
    ContainerRequest,
    FittingRules,
    RequestRules,
    VendorSpec,
)
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import facts

MEMORY_UNIT: Final = MiB(512)
CARD_CORES: Final = CoreShare(16)
CARD_MEMORY: Final = 96
"""Memory units that the webhook writes for a whole card."""

MEMORY_STEPS: Final = (2, 4, 8, 16, 32, 64, 96)
"""The slices of memory that a single card can be asked for, in units."""

COUNT_KEY: Final = "mthreads.com/request-gpu-num"
INDEX_KEY: Final = "mthreads.com/gpu-index"
NODE_KEY: Final = "mthreads.com/predicate-node"
TIME_KEY: Final = "mthreads.com/predicate-time"


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """Cards from the node's capacity of cores and memory."""
    return cards_by_cores(spec, node, infix="mthreads", card_cores=CARD_CORES, memory_unit=MEMORY_UNIT)


def admit(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
    """Whole cards where several are asked or no memory is named; else the memory must be one of the vendor's steps."""
    names = spec.resources
    count = container.amount(names.count)
    if count is None:
        return ContainerAdmission(claimed=False)
    cards_asked = count.ceiling
    if cards_asked <= 0:
        raise AdmissionDeniedError(f"{names.count} must be greater than 0", 500)
    memory = container.limits.get(names.memory)
    if cards_asked == 1 and memory is not None:
        if memory.whole not in MEMORY_STEPS:
            steps = ", ".join(map(str, MEMORY_STEPS))
            raise AdmissionDeniedError(f"sGPU memory request value is invalid, valid values are [{steps}]", 500)
        return ContainerAdmission(claimed=True)
    changes = [
        AdmissionChange("limit", names.cores, str(cards_asked * CARD_CORES)),
        AdmissionChange("limit", names.memory, str(cards_asked * CARD_MEMORY)),
    ]
    if cards_asked > 1:
        changes.append(AdmissionChange("annotation", COUNT_KEY, str(cards_asked)))
    return ContainerAdmission(claimed=True, changes=tuple(changes))


def request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """Cards, and memory and cores in total, which are shared evenly among them."""
    count = count_of(spec, container)
    if count is None:
        return None
    memory = memory_of(spec, container)
    cores = cores_of(container, spec.resources.cores) or 0
    return DeviceRequest(
        vendor=spec.name,
        count=count,
        memory=Absolute(MiB(memory // count)) if memory else WHOLE,
        cores=CoreShare(cores // count),
        selector=selector_of(spec.keys, pod.annotations),
    )


def same_card(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """Containers of one pod share one card."""
    return Reason.VENDOR_RULE if any(at != candidate.position for at in ask.held) else None


def annotate(view: AllocationView) -> Mapping[str, str]:
    """The cards of the last container that has any."""
    last = next(shares for shares in reversed(view.containers) if shares)
    return {
        INDEX_KEY: ",".join(str(view.indexes[share.device]) for share in last),
        NODE_KEY: str(view.node),
        TIME_KEY: str(view.now_ns),
    }


SPEC: Final = VendorSpec(
    name=VendorName("Mthreads"),
    title="Moore Threads GPU",
    vendor="Moore Threads",
    resources=ResourceNames(
        count="mthreads.com/vgpu",
        memory="mthreads.com/sgpu-memory",
        cores="mthreads.com/sgpu-core",
    ),
    keys=AnnotationKeys(
        allocated="hami.io/mthreads-vgpu-devices-allocated",
        to_allocate="hami.io/mthreads-vgpu-devices-to-allocate",
        use_ids=("mthreads.ai/use-gpuuuid",),
        avoid_ids=("mthreads.ai/nouse-gpuuuid",),
        lock="",
        extra=(INDEX_KEY, NODE_KEY, TIME_KEY),
        of_webhook=(COUNT_KEY,),
    ),
    inventory=inventory,
    requests=RequestRules(memory_unit=MEMORY_UNIT, read=request),
    admit=admit,
    fitting=FittingRules(late_checks=(same_card,)),
    records=AllocationRecords(annotate=annotate, writes_to_allocate=False),
    counted_by_scheduler=("mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"),
    memory_step="512 MiB (1, 2, 4, 8, 16, 32 or 48 GiB)",
    core_step="1/16 card",
    several="whole cards",
    facts=facts.MTHREADS,
)
