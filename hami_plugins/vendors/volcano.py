"""NVIDIA GPUs under Volcano: hami-core slices, and MIG slices of configured geometries.

Source: Volcano 1.14.1 ``pkg/scheduler/api/devices/nvidia/vgpu/utils.go`` and ``device_info.go``, ``trials.md`` V5 to
V9. Amounts of memory are in the node's register units (MiB divided by the agent's ``gpuMemoryFactor``), as Volcano
compares them. Deviations from Volcano 1.14.1, on purpose:

* unhealthy cards, id lists and init containers are looked at (Volcano ignores them);
* an amount that means nothing is refused (Volcano binds the pod without a card), also where only requests name it;
* every slot of a MIG card is given once: slots that other containers of the pod just got are taken, every slot of the
  group in force can be had, and a running pod holds all slots that it names;
* a node that has not registered its cards has none (Volcano then binds without looking);
* ``volcano.sh/vgpu-podgroup-policy: spread`` is honoured, as Volcano does from 1.15 on;
* sidecars and init containers have cards of their own, in ``hami-plugins.io/vgpu-more-ids``: Volcano's list has no
  place for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from hami_plugins.engine import mig
from hami_plugins.engine.checks import memory_on
from hami_plugins.engine.demand import WHOLE, cores_of, count_of, invalid, memory_of
from hami_plugins.engine.inventories import registered
from hami_plugins.model.devices import (
    AllocatedShare,
    Device,
    DeviceShare,
    DeviceUsage,
    GroupMember,
    Instance,
    Profile,
    SlicePlacement,
    Unplaced,
)
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import NO_DEVICES, DeviceInventory, NodeObject
from hami_plugins.model.pods import Container, ContainerAllocation, Pod
from hami_plugins.model.requests import (
    ANY_DEVICE,
    Absolute,
    ContainerKind,
    DeviceRequest,
    DeviceSelector,
    MemoryDemand,
    Percent,
)
from hami_plugins.model.units import CoreShare, DeviceId, MiB, VendorName
from hami_plugins.model.vendor import (
    AdmissionChange,
    AllocationRecords,
    AllocationRules,
    AllocationView,
    Candidate,
    ContainerRequest,
    FittingRules,
    RequestRules,
    Scoring,
    ScoringRules,
    Shortfall,
    VendorOptions,
    VendorSpec,
)
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import NODE, Reason
from hami_plugins.vendors import facts
from hami_plugins.wire import node_devices, volcano
from hami_plugins.wire.gang_keys import GROUP_KEY, VOLCANO_GROUP_KEY
from hami_plugins.wire.volcano_config import Geometry, VolcanoConfig

MIG_MODE: Final = "mig"
PERCENTAGE: Final = "percentage"
"""Flag: Volcano reads the percentage resource only when its configuration names it."""

TOUCHED_KEY: Final = "volcano.sh/vgpu-touched"
"""Of ours, on nodes: when and why the node was last written only to make the scheduler look at it again."""

NODE_KEY: Final = "volcano.sh/vgpu-node"
TIME_KEY: Final = "volcano.sh/vgpu-time"
PHASE_KEY: Final = "volcano.sh/bind-phase"
BIND_TIME_KEY: Final = "volcano.sh/bind-time"
SPREAD_KEY: Final = "volcano.sh/vgpu-podgroup-policy"
GROUP_KEYS: Final = (GROUP_KEY, VOLCANO_GROUP_KEY)

GROUP: Final = "group"
"""The request's vendor word for the group that its pod keeps apart."""

FULL_SCORE: Final = 100.0
_NS: Final = 10**9


def inventory(spec: VendorSpec, node: NodeObject, *, geometries: tuple[Geometry, ...] = ()) -> DeviceInventory:
    """Cards from the register, all in the mode of the last one, as Volcano takes it for the node's.

    A MIG node whose last card has no known geometry counts as a hami-core node. A handshake of ``Deleted`` says that
    the node's agent has been given up.
    """
    text = node.annotations.get(spec.keys.register)
    if text is None or "Deleted" in node.annotations.get(spec.keys.handshake, ""):
        return NO_DEVICES
    found = registered(spec, volcano.decode_register(spec.keys.register, text))
    if not found.devices:
        return found
    cuts = [_profiles(device.model, geometries) for device in found.devices]
    cut = found.devices[-1].mode == MIG_MODE and bool(cuts[-1])
    devices = (
        replace(device, mode=MIG_MODE, profiles=profiles) if cut else replace(device, mode=node_devices.DEFAULT_MODE)
        for device, profiles in zip(found.devices, cuts, strict=True)
    )
    return replace(found, devices=tuple(devices))


def _profiles(model: str, geometries: tuple[Geometry, ...]) -> tuple[Profile, ...]:
    return next((geometry.profiles for geometry in geometries if geometry.fits(model)), ())


def request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """Cards, and per card memory and cores; memory alone means one card, cores or a percentage alone mean none."""
    names = spec.resources
    if container.amount(names.count) is None and container.amount(names.memory) is None:
        return None
    count = 1 if container.amount(names.count) is None else count_of(spec, container)
    if count is None:
        return None
    cores = cores_of(container, names.cores)
    group = group_of(pod)
    return DeviceRequest(
        vendor=spec.name,
        count=count,
        memory=_memory(spec, container),
        cores=CoreShare(0) if cores is None else cores,
        selector=_selector(spec.keys, pod.annotations),
        options=((GROUP, group),) if group else (),
    )


def _selector(keys: AnnotationKeys, annotations: Mapping[str, str]) -> DeviceSelector:
    """Which cards the pod accepts.

    Volcano takes a list of models literally: blanks count, and an empty word (every stray comma makes one) is in every
    model. With a list of wanted models it ignores the unwanted ones.
    """
    if not annotations:
        return ANY_DEVICE
    use, avoid = annotations.get(keys.use_models), annotations.get(keys.avoid_models)
    wanted = [ids for key in keys.use_ids if (ids := _ids(annotations.get(key, "")))]
    unwanted = [ids for key in keys.avoid_ids if (ids := _ids(annotations.get(key, "")))]
    return DeviceSelector(
        use_ids=frozenset.intersection(*wanted) if wanted else None,
        avoid_ids=frozenset.union(*unwanted) if unwanted else None,
        use_models=None if use is None else tuple(use.lower().split(",")),
        avoid_models=None if avoid is None or use is not None else tuple(avoid.lower().split(",")),
        modes=annotations.get(keys.mode),
    )


def _ids(text: str) -> frozenset[DeviceId]:
    """A list of exact ids, blanks around them and empty ones dropped; without any it is not a constraint."""
    return frozenset(DeviceId(word) for part in text.split(",") if (word := part.strip()))


def _memory(spec: VendorSpec, container: Container) -> MemoryDemand:
    """A percentage wins over an amount; without both it is the whole card."""
    name = spec.resources.memory_percentage
    percent = container.amount(name) if spec.options.flags.get(PERCENTAGE, False) else None
    if percent is not None and percent.nano:
        if percent.whole is None or not 0 < percent.whole <= 100:
            raise invalid(container, name, percent, "not a percentage", "use a whole number from 1 to 100")
        return Percent(percent.whole)
    memory = memory_of(spec, container)
    return Absolute(memory) if memory else WHOLE


def group_of(pod: Pod) -> str:
    """The gang (``namespace/name``) whose pods must not meet on a card, if the pod wants its gang spread."""
    if pod.annotations.get(SPREAD_KEY) != "spread":
        return ""
    name = next((pod.annotations[key] for key in GROUP_KEYS if pod.annotations.get(key)), "")
    return f"{pod.namespace}/{name}" if name else ""


def is_nvidia(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """Volcano takes a card for an NVIDIA one by the word in its model, in capitals."""
    return None if "NVIDIA" in candidate.device.model else Reason.MODEL


def places_are_known(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A card fails closed when it holds shares whose slot is not recorded, or slots that it cannot have."""
    marks = candidate.used.marks
    if candidate.device.mode == MIG_MODE:
        known = sum(1 for mark in marks if isinstance(mark, Instance | Unplaced))
        return Reason.HEALTH if candidate.used.slots > known else None
    return Reason.HEALTH if any(isinstance(mark, Instance) for mark in marks) else None


def apart_from_its_group(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A pod that wants its gang spread keeps off cards that its gang holds; its own containers may share one."""
    group = ask.request.option(GROUP)
    if group is None or candidate.position in ask.held:
        return None
    return Reason.GROUP if GroupMember(group) in candidate.used.marks else None


def slot_left(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A MIG card has a free slot that holds the memory."""
    if candidate.device.mode != MIG_MODE:
        return None
    return Reason.PARTITION if _slot(candidate, ask) is None else None


def share_of(candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
    """The slice as requested; on a MIG card with its slot, whose size is not what is written down."""
    group = ask.request.option(GROUP)
    slot = _slot(candidate, ask) if candidate.device.mode == MIG_MODE else None
    mark: Instance | GroupMember | None = GroupMember(group) if group is not None else None
    mark = mark if slot is None else _instance(slot[0].group, slot[1].start)
    return DeviceShare(candidate.position, memory_on(candidate, ask), ask.request.cores, mark)


def _slot(candidate: Candidate, ask: ContainerRequest) -> tuple[Profile, SlicePlacement] | None:
    held = [mark for mark in candidate.used.marks if isinstance(mark, Instance)]
    return mig.choose_in_group(candidate.device.profiles, memory_on(candidate, ask), held)


def _instance(group: str, position: int) -> Instance:
    """The mark of a slot. Annotations do not name its profile, so it is called as they call it."""
    return Instance(f"{group}-{position}", SlicePlacement(position, 1), group)


def recall(
    annotations: Mapping[str, str], allocations: tuple[ContainerAllocation, ...]
) -> tuple[ContainerAllocation, ...]:
    """Take ids of slots apart. Volcano may give containers that run together the same slot: it is held once.

    An init container and a later one may well have the same slot in turn, and then each holds it.
    """
    running: set[str] = set()
    recalled: list[ContainerAllocation] = []
    for allocation in allocations:
        seen = set(running) if allocation.kind is ContainerKind.INIT else running
        recalled.append(replace(allocation, shares=tuple(_recalled(share, seen) for share in allocation.shares)))
    return tuple(recalled)


def _recalled(share: AllocatedShare, seen: set[str]) -> AllocatedShare:
    slot = volcano.decode_slot(SPEC.keys.allocated, share.device)
    if slot is None:
        return share
    if share.device in seen:
        return replace(share, device=slot.device, mark=Unplaced(f"{share.device} is named twice"))
    seen.add(share.device)
    return replace(share, device=slot.device, mark=_instance(slot.group, slot.position))


def spell(shortfall: Shortfall, ask: ContainerRequest) -> str:
    """What Volcano's log says; on the pod it only says ``hami-vgpuDeviceSharing error``."""
    wanted = ask.request.selector.modes
    mode = shortfall.devices[-1].device.mode if shortfall.devices else wanted
    if wanted is not None and mode != wanted:
        return f"pod required sharing mode {wanted} is not the same as the node mode {mode}"
    if Reason.TOO_FEW_CARDS in shortfall.tally:
        return f"no enough gpu cards on node {NODE}"
    return "not enough gpu fitted on this node"


def score_node(scoring: Scoring) -> float:
    """Volcano's deviceshare score: per card taken 0 to 100, so more for pods with more cards (Volcano 1.14.1
    ``pkg/scheduler/api/devices/nvidia/vgpu/utils.go``)."""
    usage = list(scoring.state.usage)
    devices = scoring.state.shape.devices
    score = 0.0
    for shares in scoring.containers:
        for share in shares:
            marks = () if share.mark is None else (share.mark,)
            used = usage[share.position] = usage[share.position].plus(share.memory, share.cores, marks)
            score += card_score(devices[share.position], used, scoring.policy.device_words)
    return score


def card_score(device: Device, used: DeviceUsage, policy: str) -> float:
    """How full the card is then, or whether the pod has it for itself."""
    if policy == "binpack" and device.memory:
        return FULL_SCORE * (booked_memory(device, used) / device.memory)
    return FULL_SCORE if policy == "spread" and used.slots == 1 else 0.0


def booked_memory(device: Device, used: DeviceUsage) -> MiB:
    """The memory that cannot be had any more: on a MIG card whole slices, whatever was asked of them."""
    if device.mode != MIG_MODE:
        return used.memory
    held = {mark.placement for mark in used.marks if isinstance(mark, Instance)}
    group = next((mark.group for mark in used.marks if isinstance(mark, Instance)), "")
    return MiB(
        sum(
            profile.memory
            for profile in device.profiles
            if profile.group == group
            for place in profile.placements
            if place in held
        )
    )


def annotate(view: AllocationView) -> Mapping[str, str]:
    """Where and when the pod was placed; the node's agent takes it from there."""
    seconds = str(view.now_ns // _NS)
    return {NODE_KEY: str(view.node), TIME_KEY: seconds, PHASE_KEY: "allocating", BIND_TIME_KEY: seconds}


STRATEGY_KEYS: Final = frozenset({"volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight"})
"""Annotations that Volcano's plugin resource-strategy-fit reads (Volcano 1.14
``pkg/scheduler/plugins/resource-strategy-fit``)."""

OLDER_SHARING: Final = ("volcano.sh/gpu-memory", "volcano.sh/gpu-number")
"""Volcano's older way to share cards, without a vendor of its own: memory of one card in MiB, or whole cards."""

RESOURCES: Final = ResourceNames(
    count="volcano.sh/vgpu-number",
    memory="volcano.sh/vgpu-memory",
    memory_percentage="volcano.sh/vgpu-memory-percentage",
    cores="volcano.sh/vgpu-cores",
)


def unnumbered(spec: VendorSpec, container: Container) -> bool:
    """Whether a container asks for a share of a card, and does not say of how many."""
    names = spec.resources
    if container.amount(names.count) is not None:
        return False
    percentage = (names.memory_percentage,) if spec.options.flags.get(PERCENTAGE, False) else ()
    shares = (container.amount(name) for name in (names.memory, names.cores, *percentage))
    return any(amount is not None and amount.nano for amount in shares)


def with_number(spec: VendorSpec, container: Container) -> Sequence[AdmissionChange]:
    """Volcano takes memory alone for one card, and cores alone for none; a kubelet hands out nothing for either."""
    return (AdmissionChange("limit", spec.resources.count, "1"),) if unnumbered(spec, container) else ()


def without_number(spec: VendorSpec, pod: Pod) -> str:
    """The first container that asks for a share of a card without its number, which gets it nothing; else empty."""
    memory = spec.resources.memory
    return next((each.name for each in pod.containers if unnumbered(spec, each) and each.amount(memory) is None), "")


def blocking_reason(spec: VendorSpec, pod: Pod) -> str:
    """A kubelet allocates nothing to a container that does not say how many cards it wants."""
    container = without_number(spec, pod)
    if not container:
        return ""
    return (
        f"container {container} asks for a share of a card without {spec.resources.count}, so that a kubelet "
        f"allocates it nothing; create the pod again with {spec.resources.count}: 1"
    )


SPEC: Final = VendorSpec(
    name=VendorName("Volcano-vGPU"),
    title="NVIDIA GPU (Volcano vGPU)",
    vendor="NVIDIA",
    word="NVIDIA",
    dialect=Dialect.VOLCANO,
    resources=RESOURCES,
    keys=AnnotationKeys(
        allocated="volcano.sh/vgpu-ids-new",
        to_allocate="volcano.sh/devices-to-allocate",
        more="hami-plugins.io/vgpu-more-ids",
        register="volcano.sh/node-vgpu-register",
        handshake="volcano.sh/node-vgpu-handshake",
        use_ids=("volcano.sh/vgpu-use-gpuuuid", "nvidia.com/use-gpuuuid"),
        avoid_ids=("volcano.sh/vgpu-nouse-gpuuuid", "nvidia.com/nouse-gpuuuid"),
        use_models="nvidia.com/use-gputype",
        avoid_models="nvidia.com/nouse-gputype",
        mode="volcano.sh/vgpu-mode",
        lock="hamivgpu",
        inputs=(SPREAD_KEY, *GROUP_KEYS),
        extra=(NODE_KEY, TIME_KEY, PHASE_KEY, BIND_TIME_KEY),
    ),
    inventory=inventory,
    requests=RequestRules(read=request),
    fitting=FittingRules(
        early_checks=(is_nvidia, places_are_known, apart_from_its_group),
        late_checks=(slot_left,),
        share_of=share_of,
        message=spell,
        message_when_too_few=True,
        group_of=group_of,
        clamps_cores=False,
        exact_mode=True,
    ),
    scoring=ScoringRules(score_node=score_node, is_whole=True),
    records=AllocationRecords(annotate=annotate, recall=recall),
    allocation=AllocationRules(
        word="vGPU",
        remedy_without="run the node agent there",
        at_most_requested=True,
        complete=with_number,
        blocking_reason=blocking_reason,
    ),
    counted_by_scheduler=RESOURCES.all(),
    memory_step="1 MiB or 1 %",
    facts=facts.VOLCANO,
)


def configured(config: VolcanoConfig) -> VendorSpec:
    """The vendor as Volcano's device configuration has it: its resource names, the percentage, the MIG geometries."""
    resources = ResourceNames(
        count=config.count or RESOURCES.count,
        memory=config.memory or RESOURCES.memory,
        memory_percentage=config.memory_percentage or RESOURCES.memory_percentage,
        cores=config.cores or RESOURCES.cores,
    )
    return replace(
        SPEC,
        resources=resources,
        counted_by_scheduler=resources.all(),
        options=VendorOptions(flags={PERCENTAGE: bool(config.memory_percentage)}),
        inventory=partial(inventory, geometries=config.geometries),
    )
