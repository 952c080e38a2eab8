"""NVIDIA GPUs under HAMi: hami-core and MPS slices, and dynamic MIG instances.

Source: HAMi 2.10.0 ``pkg/device/nvidia/device.go``. Deviations from HAMi 2.10, on purpose: an unusable amount is
refused (HAMi takes the container for one without GPUs), negative cores are refused, and the quota check counts init
containers once (HAMi undercounts the first application containers, issue 3052).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, groupby
from typing import Final

from hami_plugins.engine import mig
from hami_plugins.engine.demand import cores_of, count_of, memory_of, percentage, selector_of
from hami_plugins.engine.inventories import json_register
from hami_plugins.errors import AdmissionDeniedError
from hami_plugins.model.devices import AllocatedShare, DeviceShare, Instance, Profile, SlicePlacement
from hami_plugins.model.inventory import NO_DEVICES, OWN_AGENT, DeviceInventory, NodeObject
from hami_plugins.model.pods import Container, ContainerAllocation, Pod
from hami_plugins.model.requests import DeviceRequest
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
    VendorOptions,
    VendorSpec,
)
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import facts
from hami_plugins.wire import mig_allocations, node_devices
from hami_plugins.wire.mig_allocations import MigAllocation

CORDON_KEY: Final = "hami.io/device-cordon"
MIG_KEY: Final = "hami.io/vgpu-mig-allocations"
MIG_MODE: Final = "mig"
MOST_COMBINATIONS: Final = 20_000
"""Beyond this many sets of cards the nearest set is grown card by card instead of searched."""


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """Cards from the JSON register, with the node's cordon list and pair scores."""
    found = json_register(spec, node)
    if found is NO_DEVICES:
        return found
    if node_devices.agent_of(spec.keys.register, node.annotations[spec.keys.register]):
        found = replace(found, notes=((OWN_AGENT, spec.name),))
    cordoned = frozenset(node_devices.decode_cordon(node.annotations.get(CORDON_KEY, "")))
    if cordoned:
        devices = (
            replace(device, cordoned=True) if name in cordoned else device
            for device, name in zip(found.devices, found.ids, strict=True)
        )
        found = replace(found, devices=tuple(devices))
    scores = node.annotations.get(spec.keys.pair_scores)
    if scores is None:
        return found
    pairs = node_devices.decode_pair_scores(spec.keys.pair_scores, scores)
    links = tuple(tuple(pairs.get(one, {}).get(other, 0) for other in found.ids) for one in found.ids)
    return replace(found, links=links)


def request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """Cards, and per card memory in MiB (or a percentage) and cores in percent."""
    count = count_of(spec, container)
    if count is None:
        return None
    options = spec.options
    memory = memory_of(spec, container)
    percent = container.amount(spec.resources.memory_percentage)
    cores = cores_of(container, spec.resources.cores)
    return DeviceRequest(
        vendor=spec.name,
        count=count,
        memory=percentage(memory, max(percent.whole or 0, 0) if percent is not None else None, options.default_memory),
        cores=options.default_cores if cores is None else cores,
        selector=selector_of(spec.keys, pod.annotations),
    )


def admit(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
    """HAMi's webhook for one container, in its order (HAMi 2.10.0 ``pkg/device/nvidia/device.go``)."""
    names, options = spec.resources, spec.options
    percent = container.amount(names.memory_percentage)
    if percent is not None and not 0 <= percent.ceiling <= 100:
        raise AdmissionDeniedError(
            f"invalid {names.memory_percentage} value {percent.ceiling} in container {container.name}: "
            "must be an integer between 0 and 100",
            500,
        )
    changes: list[AdmissionChange] = []
    priority = container.limits.get(names.priority)
    if priority is not None:
        changes.append(AdmissionChange("env", "CUDA_TASK_PRIORITY", str(priority.ceiling)))
    if options.core_policy not in ("", "default"):
        changes.append(AdmissionChange("env", "GPU_CORE_UTILIZATION_POLICY", options.core_policy))
    claimed = names.count in container.limits
    if not claimed and options.default_count > 0 and _names_a_part(names, container):
        changes.append(AdmissionChange("limit", names.count, str(options.default_count)))
        claimed = True
    if (claimed or names.count in container.requests) and _wants_all_cores(names, container):
        changes.append(AdmissionChange("limit", names.cores, "100"))
        claimed = True
    if claimed and options.runtime_class and pod.runtime_class is None:
        changes.append(AdmissionChange("runtimeClassName", "runtimeClassName", options.runtime_class))
    if not claimed and options.overwrite_env:
        changes.append(AdmissionChange("env", "NVIDIA_VISIBLE_DEVICES", "none"))
    return ContainerAdmission(claimed, tuple(changes))


def _names_a_part(names: ResourceNames, container: Container) -> bool:
    return any(name in container.limits for name in (names.cores, names.memory, names.memory_percentage))


def _wants_all_cores(names: ResourceNames, container: Container) -> bool:
    """A request for whole cards that says nothing of cores means all cores."""
    if container.amount(names.cores) is not None:
        return False
    percent = container.amount(names.memory_percentage)
    if percent is not None:
        return percent.ceiling == 100
    return container.amount(names.memory) is None


def places_are_known(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A card fails closed when it holds shares whose place on it is not recorded, or partitions it cannot have."""
    if not candidate.used.slots:
        return None
    instances = sum(1 for mark in candidate.used.marks if isinstance(mark, Instance))
    if candidate.device.mode == MIG_MODE:
        return Reason.HEALTH if candidate.used.slots > instances else None
    return Reason.HEALTH if instances else None


def partition_left(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A MIG card has a free place for a profile that holds the memory."""
    if candidate.device.mode != MIG_MODE:
        return None
    return Reason.PARTITION if _partition(candidate, ask) is None else None


def share_of(candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
    """The slice; on a MIG card the whole partition, which is what the pod really gets."""
    found = _partition(candidate, ask) if candidate.device.mode == MIG_MODE else None
    if found is None:
        return DeviceShare(candidate.position, ask.request.memory.on(candidate.device), ask.request.cores)
    profile, place = found
    return DeviceShare(candidate.position, profile.memory, profile.cores, Instance(profile.name, place))


def _partition(candidate: Candidate, ask: ContainerRequest) -> tuple[Profile, SlicePlacement] | None:
    device = candidate.device
    return mig.choose(device.profiles, ask.request.memory.on(device), mig.occupied(candidate.used.marks))


def nearest(candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate]:
    """The cards with the best links among them; for one card, the one whose links the others miss least."""
    count, links = ask.request.count, ask.shape.links
    if len(candidates) == count or not links:
        return candidates[:count]
    if count == 1:
        return [min(candidates, key=lambda one: sum(links[one.position][other.position] for other in candidates))]
    cards = [list(shares) for _, shares in groupby(candidates, key=lambda each: each.position)]
    if _ways(cards, count) > MOST_COMBINATIONS:
        return _grown(candidates, count, links)
    return max(_sets(cards, count), key=lambda chosen: _linked(chosen, links))


def _ways(cards: Sequence[Sequence[Candidate]], count: int) -> int:
    """In how many ways ``count`` shares can be spread over the cards."""
    ways = [1] + [0] * count
    for shares in cards:
        ways = [sum(ways[max(total - len(shares), 0) : total + 1]) for total in range(count + 1)]
    return ways[count]


def _sets(cards: Sequence[Sequence[Candidate]], count: int) -> Iterator[tuple[Candidate, ...]]:
    """One set for each way to spread shares that are alike per card, in the order of combinations of shares."""
    if not cards:
        yield ()
        return
    first, rest = cards[0], cards[1:]
    for taken in range(min(len(first), count), max(count - sum(map(len, rest)), 0) - 1, -1):
        for others in _sets(rest, count - taken):
            yield (*first[:taken], *others)


def _linked(chosen: Sequence[Candidate], links: tuple[tuple[int, ...], ...]) -> int:
    return sum(links[one.position][other.position] for one, other in combinations(chosen, 2))


def _grown(candidates: Sequence[Candidate], count: int, links: tuple[tuple[int, ...], ...]) -> Sequence[Candidate]:
    """A near set found greedily, for machines with too many cards to try all sets."""
    chosen = [candidates[0]]
    rest = list(candidates[1:])
    while len(chosen) < count:
        best = max(rest, key=lambda one: sum(links[each.position][one.position] for each in chosen))
        rest.remove(best)
        chosen.append(best)
    return chosen


def annotate(view: AllocationView) -> Mapping[str, str]:
    """The reserved MIG places, if there are any."""
    reserved = [
        MigAllocation(at, index, share.device, share.mark.profile, share.mark.placement)
        for at, shares in enumerate(view.containers)
        for index, share in enumerate(shares)
        if isinstance(share.mark, Instance)
    ]
    return {MIG_KEY: mig_allocations.encode(reserved)} if reserved else {}


def recall(
    annotations: Mapping[str, str], allocations: tuple[ContainerAllocation, ...]
) -> tuple[ContainerAllocation, ...]:
    """Put the reserved MIG places back: consumed in order per card, as HAMi does.

    A place that is reserved beyond the shares that are listed is held as well, by the container that it names.
    """
    text = annotations.get(MIG_KEY)
    if not text or not allocations:
        return allocations
    waiting: dict[str, list[MigAllocation]] = {}
    for each in mig_allocations.decode(MIG_KEY, text):
        waiting.setdefault(each.gpu, []).append(each)
    held = [[_placed(share, waiting.get(share.device)) for share in allocation.shares] for allocation in allocations]
    for left in (each for of_card in waiting.values() for each in of_card):
        held[min(left.container, len(held) - 1)].append(_bare(left))
    return tuple(
        replace(allocation, shares=tuple(shares)) for allocation, shares in zip(allocations, held, strict=True)
    )


def _placed(share: AllocatedShare, waiting: list[MigAllocation] | None) -> AllocatedShare:
    return replace(share, mark=_instance(waiting.pop(0))) if waiting else share


def _bare(reserved: MigAllocation) -> AllocatedShare:
    """A place and nothing else."""
    return AllocatedShare(
        device=reserved.gpu,
        vendor=SPEC.name,
        word=SPEC.wire_word(),
        memory=MiB(0),
        cores=CoreShare(0),
        mark=_instance(reserved),
    )


def _instance(reserved: MigAllocation) -> Instance:
    return Instance(reserved.profile, reserved.placement)


RESOURCES: Final = ResourceNames(
    count="nvidia.com/gpu",
    memory="nvidia.com/gpumem",
    memory_percentage="nvidia.com/gpumem-percentage",
    cores="nvidia.com/gpucores",
    priority="nvidia.com/priority",
)

SPEC: Final = VendorSpec(
    name=VendorName("NVIDIA"),
    title="NVIDIA GPU",
    vendor="NVIDIA",
    resources=RESOURCES,
    keys=AnnotationKeys(
        allocated="hami.io/vgpu-devices-allocated",
        to_allocate="hami.io/vgpu-devices-to-allocate",
        register="hami.io/node-nvidia-register",
        handshake="hami.io/node-handshake",
        pair_scores="hami.io/node-nvidia-score",
        use_ids=("nvidia.com/use-gpuuuid",),
        avoid_ids=("nvidia.com/nouse-gpuuuid",),
        use_models="nvidia.com/use-gputype",
        avoid_models="nvidia.com/nouse-gputype",
        mode="nvidia.com/vgpu-mode",
        inputs=("nvidia.com/numa-bind", CORDON_KEY),
        extra=(MIG_KEY,),
    ),
    inventory=inventory,
    options=VendorOptions(default_count=1),
    requests=RequestRules(read=request),
    admit=admit,
    fitting=FittingRules(
        health_checks=(places_are_known,),
        late_checks=(partition_left,),
        select=nearest,
        select_when_near=True,
        share_of=share_of,
        binds_numa=True,
        partitions=True,
    ),
    records=AllocationRecords(annotate=annotate, recall=recall),
    memory_step="1 MiB or 1 %",
    facts=facts.NVIDIA,
)
