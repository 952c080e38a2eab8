"""AWS Neuron for the core's registry, in the place of HAMi's: devices are allocated in sets that are wired together.

Everything is one account: HAMi's list of the pod with a mask of cores for each device, or where that is missing the
numbers that AWS's scheduler extension wrote. A container asks for whole devices (also under their old name), for one
core or for several. Several cores are neighbours on one device; more than a device has are whole devices side by side,
of which the pod receives as many cores as it requested. Which set, device and cores: see ``allocation``.

Differences from HAMi (HAMi 2.10.0 ``pkg/device/awsneuron/device.go``): how many cores a device has is each node's own
matter, unhealthy devices are never allocated, lists of ids count under the name of HAMi's documents as well as under
that of its code, all of a pod's containers ask in one unit (AWS's plugin reads one list of numbers), and the number of
cores is any from 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hami_plugins.engine.demand import invalid, selector_of
from hami_plugins.errors import AdmissionDeniedError, InvalidRequestError
from hami_plugins.model.device_links import Relabelled, Together
from hami_plugins.model.devices import AllocatedShare, CoreMask, Device, DeviceShare
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.policy import NodePolicy
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.model.units import INT32_MAX, CoreShare, MiB
from hami_plugins.model.vendor import (
    AllocationView,
    Candidate,
    ClaimedDevices,
    ContainerAdmission,
    ContainerRequest,
    Scoring,
    Shortfall,
    Unselectable,
    VendorSpec,
)
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import awsneuron
from hami_plugins.vendors.awsneuron import IDS_KEY, KIND_KEY, NODE_KEY, STATE_KEY, TIME_KEY, WHOLE, held_cores
from hami_plugins.wire import pod_devices
from hami_plugins.wire.pod_devices import AssignedDevice
from neuron_topology.core.allocation_rules import ALLOCATION_RULES
from neuron_topology.core.capacity_block_end import DURATION_KEY, END_KEY
from neuron_topology.core.foreign_allocations import EVERY_CORE, asked_by, foreign_allocations, runs
from neuron_topology.core.hardware.fabric import devices_of, mask_of
from neuron_topology.core.layouts import layout
from neuron_topology.core.names import CORES, DEVICES, LEGACY_DEVICES, ULTRASERVER_PLACES
from neuron_topology.core.node_filters import objection
from neuron_topology.core.nodes import (
    FAMILY_LABEL,
    HEALTH_KEY,
    LINKS_KEY,
    USAGE_KEYS,
    VENDOR,
    Wiring,
    inventory,
    of_family,
    wiring_of,
)
from neuron_topology.core.sets.cores import longest_run, run_of
from neuron_topology.core.sets.families import Family

PARTS: Final = 10.0
"""The most that each part of a node's score is worth: how much an allocation leaves, and how full the node is."""

REPAIRED_COSTS: Final = 1.0
"""What each allocated device with repaired errors takes off the score."""

ALIKE_GAINS: Final = 2.0
"""What a set adds to the score that other members of the gang have on their nodes."""

BROKEN_COSTS: Final = 1.0
"""What each broken device of the node takes off the score: such a node is about to be mended or replaced."""


def request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """Whole devices under either name, or cores; raises ``InvalidRequestError`` for both and for what means nothing."""
    asked = asked_by(spec, container)
    if len(asked) > 1:
        (name, found), (other, _) = asked[:2]
        why = f"{other} is also requested"
        raise invalid(container, name, found, why, _keep(spec, name, other))
    if not asked:
        return None
    name, found = asked[0]
    amount = found.whole
    if amount is None or not 0 < amount <= INT32_MAX:
        raise invalid(container, name, found, "not a number of devices or cores", "use a whole number from 1")
    in_cores = name == spec.resources.cores
    if not runs(container) and 0 < (most := _together(spec, pod)) < amount:
        why = f"the others of the pod ask for {most} together, and an init container runs on their devices"
        raise invalid(container, name, found, why, "request at most as many")
    for each in pod.containers:
        if each is not container and any(
            (other == spec.resources.cores) is not in_cores for other, _ in asked_by(spec, each)
        ):
            why = f"container {each.name} uses the other unit, and a pod gets numbers of one kind"
            raise invalid(container, name, found, why, "request devices in all containers of the pod, or cores in all")
    return DeviceRequest(
        vendor=spec.name,
        count=1 if in_cores else amount,
        memory=Absolute(MiB(0)),
        cores=CoreShare(amount if in_cores else 0),
        selector=selector_of(spec.keys, pod.annotations),
        options=() if in_cores else ((WHOLE, "true"),),
    )


def _keep(spec: VendorSpec, name: str, other: str) -> str:
    """What to do about two amounts in one container."""
    if spec.resources.cores in {name, other}:
        return "keep one of the two: whole devices, or cores of a device"
    return f"leave {other} out: it is the old name of the same devices"


def _together(spec: VendorSpec, pod: Pod) -> int:
    """What the containers that stay ask for; 0 where only init containers ask."""
    return sum(max(0, found.ceiling) for each in pod.containers if runs(each) for _, found in asked_by(spec, each))


def admit(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
    """A request that means nothing is refused when the pod is made."""
    try:
        return ContainerAdmission(request(spec, container, pod) is not None)
    except InvalidRequestError as error:
        raise AdmissionDeniedError(str(error), 400) from error


def whole(asked: DeviceRequest) -> bool:
    """Whether whole devices are asked for; what a running pod holds may come back as a request without our option."""
    return asked.count > 1 or not asked.cores or asked.option(WHOLE) is not None


def on_node(asked: DeviceRequest, shape: NodeShape) -> DeviceRequest:
    """More cores than a device of this node has are whole devices."""
    if whole(asked) or VENDOR not in shape.positions:
        return asked
    cores = wiring_of(shape).cores
    if not cores or asked.cores <= cores:
        return asked
    return replace(asked, count=-(-asked.cores // cores), options=((WHOLE, "true"),))


def cores_on(device: Device, asked: DeviceRequest) -> CoreShare:
    """All of a device's cores, or the few that were asked for."""
    if whole(asked):
        return device.cores
    return asked.cores


def whole_is_idle(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A request for a whole device takes one that is completely free."""
    return Reason.EXCLUSIVE if whole(ask.request) and candidate.used.slots else None


def cores_are_neighbours(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """As many free cores as wanted stand side by side."""
    if whole(ask.request) or longest_run(_free_cores(candidate)) >= ask.request.cores:
        return None
    return Reason.CORES


def share_of(candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
    """All cores, or the run of free cores that leaves the longest ones whole.

    A pod that requested devices holds every core there may be, as ``recall`` reads it from a pod with device numbers.
    """
    free = _free_cores(candidate)
    bits = free if whole(ask.request) else run_of(free, ask.request.cores)
    mark = CoreMask(bits if ask.request.cores else EVERY_CORE)
    return DeviceShare(candidate.position, MiB(0), CoreShare(bits.bit_count()), mark)


def _free_cores(candidate: Candidate) -> int:
    return ((1 << candidate.device.cores) - 1) & ~held_cores(candidate.used.marks)


def linked(candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate] | Unselectable:
    """The set of devices from the tables, in the order in which the container is to count them."""
    wiring = wiring_of(ask.shape)
    if not whole(ask.request):
        begun = [each for each in candidates if each.used.slots]
        if begun:
            return (min(begun, key=lambda each: (_repaired(each, wiring), _left(each), each.device.index)),)
    by_index = {each.device.index: each for each in candidates}
    free = sum(1 << index for index in by_index)
    in_cores = _several_for_cores(ask.request)
    choose = wiring.tables.choose_run if in_cores else wiring.tables.choose
    members = _alike(free, ask.request, wiring) or choose(free, ask.request.count, shunned=wiring.repaired)
    if not members:
        return Unselectable(Reason.TOPOLOGY, len(candidates))
    if wiring.missing and wiring.free(ask.shape, ask.usage).bit_count() - ask.request.count < wiring.missing:
        return Unselectable(Reason.WITHHELD, len(candidates))
    return [by_index[index] for index in (devices_of(members) if in_cores else wiring.tables.order(members))]


def _alike(free: int, asked: DeviceRequest, wiring: Wiring) -> int:
    """The first of the sets that other members of the gang have elsewhere which is free here, or 0."""
    for devices in asked.alike:
        members = mask_of(devices)
        if wiring.tables.choose(free, asked.count, preferred=members) == members:
            return members
    return 0


def _several_for_cores(asked: DeviceRequest) -> bool:
    """Whether several devices are to be told as one range of cores, which the runtime wants without gaps."""
    return bool(asked.cores) and asked.count > 1 and asked.option(WHOLE) is not None


def together(asked: DeviceRequest, shape: NodeShape) -> Together | None:
    """The sets of the tables; cores of one device need no set, and devices behind switches any."""
    if not whole(asked) or VENDOR not in shape.positions:
        return None
    wiring = wiring_of(shape)
    tables = wiring.tables
    if wiring.topology.any_set and not _several_for_cores(asked):
        return None
    sets = tables.runs(asked.count) if _several_for_cores(asked) else tables.sets.get(asked.count, ())
    nearest = () if asked.count in tables.counts else tables.nearest(asked.count)
    return Together([tuple(wiring.positions[device] for device in devices_of(each)) for each in sets], nearest)


def relabelled(shape: NodeShape) -> Sequence[Relabelled]:
    """The same node in a pool of the other family."""
    family = wiring_of(shape).topology.family
    return [Relabelled(FAMILY_LABEL, other, of_family(shape, other)) for other in Family if other is not family]


def _repaired(candidate: Candidate, wiring: Wiring) -> bool:
    return bool(wiring.repaired >> candidate.device.index & 1)


def _left(candidate: Candidate) -> int:
    return _free_cores(candidate).bit_count()


def score_node(scoring: Scoring) -> float:
    """How many future sets are left (0 to 10) and how full the node was (0 to 10), less what bad devices cost.

    Under binpack the highest score wins, so that whole nodes stay whole; under spread the lowest. Broken devices do not
    count as load.
    """
    shape = scoring.state.shape
    wiring = wiring_of(shape)
    free = wiring.free(shape, scoring.state.usage)
    taken = 0
    for shares in scoring.containers:
        for share in shares:
            taken |= 1 << shape.devices[share.position].index
    tables = wiring.tables
    lost = (tables.value(free) - tables.value(free & ~taken)) / wiring.worth if wiring.worth else 0.0
    usable = wiring.usable(shape)
    full = 1 - free.bit_count() / usable
    costs = REPAIRED_COSTS * (taken & wiring.repaired).bit_count()
    costs += BROKEN_COSTS * (len(wiring.positions) - usable)
    alike = any(taken == mask_of(devices) for each in scoring.requests for devices in each.alike)
    costs -= ALIKE_GAINS * alike
    return PARTS * (1 - lost) + PARTS * full + (costs if scoring.policy.node is NodePolicy.SPREAD else -costs)


def words(shortfall: Shortfall, ask: ContainerRequest) -> str | None:
    """Why no set can be had: there are none of that count, or none is free; ``None`` for the usual counted reasons."""
    if VENDOR not in ask.shape.positions:
        return Reason.TOO_FEW_CARDS
    wiring = wiring_of(ask.shape)
    if Reason.WITHHELD in shortfall.tally:
        idle = wiring.free(ask.shape, ask.usage).bit_count()
        return (
            f"{wiring.missing} of {len(wiring.positions)} devices are not allocatable, and the node does not "
            f"name them: as many of the {idle} free ones are reserved"
        )
    count, cores = ask.request.count, ask.request.cores if ask.request.option(WHOLE) else 0
    asked = f"{cores} cores are {count} devices here: " if cores and count > 1 else ""
    if count not in wiring.tables.counts:
        each = wiring.cores if cores else 1
        could = " or ".join(str(near * each) for near in wiring.tables.nearest(count))
        cut = f"; links {_dead(wiring)} do not work" if wiring.topology.dead else ""
        return (
            f"{asked}Instance type {wiring.name or 'unknown'} does not support requests for device: {count}; "
            f"the nearest supported: {could}{' cores' if cores else ''}{cut}"
        )
    if len(shortfall.passed) < count or count == 1:
        return None
    left = mask_of(each.device.index for each in shortfall.passed)
    free = ", ".join(map(str, devices_of(left)))
    among = f"of {count} among the {len(shortfall.passed)} devices that are free: {free}"
    if wiring.topology.family is Family.LINKED:
        return f"{asked}no linked set {'with neighbouring numbers ' if asked else ''}{among}"
    return f"{asked}none of AWS's sets {among}{_elsewise(wiring, left, ask.request)}"


def _elsewise(wiring: Wiring, free: int, asked: DeviceRequest) -> str:
    """The sets of the other family."""
    wider = replace(wiring.topology, family=Family.LINKED).tables
    if not (wider.choose_run if _several_for_cores(asked) else wider.choose)(free, asked.count):
        return ""
    return f"; a node pool with the label {FAMILY_LABEL}={Family.LINKED} would have one"


def _dead(wiring: Wiring) -> str:
    return ", ".join(f"{one}-{other}" for one, other in wiring.topology.dead)


def annotate(view: AllocationView) -> Mapping[str, str]:
    """The device or core numbers for AWS's device plugin, container by container in the order of each set's ring.

    Init containers run on the later containers' devices, as Kubernetes counts them, and receive no further numbers. If
    the node is part of an UltraServer, the pod receives its number.
    """
    ids: list[int] = []
    of_cores = False
    listed = pod_devices.encode([_assigned(share, view) for share in shares] for shares in view.containers)
    of_all = list(zip(view.pod.containers, view.containers, strict=True))
    stay = [(container, shares) for container, shares in of_all if runs(container) and shares]
    for container, shares in stay or of_all:
        told = container.amount(view.spec.resources.cores)
        if told is None or not told.nano:
            ids += [view.indexes[share.device] for share in shares]
            continue
        of_cores = of_cores or bool(shares)
        cores = [
            view.indexes[share.device] * view.devices[share.device].cores + core
            for share in shares
            for core in devices_of(_mask(share, view))
        ]
        ids += cores[: told.whole]
    return {
        view.spec.keys.allocated: listed,
        IDS_KEY: ",".join(map(str, dict.fromkeys(ids))),
        TIME_KEY: str(view.now_ns),
        STATE_KEY: "false",
        NODE_KEY: str(view.node),
        **({KIND_KEY: view.spec.resources.cores} if of_cores else {}),
        **{ULTRASERVER_PLACES[note]: told for note, told in view.notes if note in ULTRASERVER_PLACES},
    }


def _mask(share: AllocatedShare, view: AllocationView) -> int:
    """The cores of a share that its device has."""
    return held_cores((share.mark,) if share.mark else ()) & ((1 << view.devices[share.device].cores) - 1)


def _assigned(share: AllocatedShare, view: AllocationView) -> AssignedDevice:
    """A share as HAMi's list has it: a mask in place of the number of cores."""
    return AssignedDevice(share.device, share.word, share.memory, CoreShare(_mask(share, view)))


SPEC: Final = replace(
    awsneuron.SPEC,
    name=VENDOR,
    resources=ResourceNames(count=DEVICES, cores=CORES, older=(LEGACY_DEVICES,)),
    keys=replace(
        awsneuron.SPEC.keys,
        register="",
        use_ids=(*awsneuron.SPEC.keys.use_ids, "aws.amazon.com/use-gpuuuid"),
        avoid_ids=(*awsneuron.SPEC.keys.avoid_ids, "aws.amazon.com/nouse-gpuuuid"),
        inputs=(LINKS_KEY, HEALTH_KEY, FAMILY_LABEL, *USAGE_KEYS, END_KEY, DURATION_KEY),
        of_jobs=(DURATION_KEY,),
    ),
    inventory=inventory,
    requests=replace(awsneuron.SPEC.requests, read=request, on_node=on_node),
    fitting=replace(
        awsneuron.SPEC.fitting,
        filter_reason=objection,
        early_checks=(whole_is_idle,),
        late_checks=(cores_are_neighbours,),
        select=linked,
        share_of=share_of,
        cores_of=cores_on,
        message=words,
        message_when_too_few=True,
        alike=True,
    ),
    admit=admit,
    scoring=replace(awsneuron.SPEC.scoring, score_node=score_node),
    records=replace(
        awsneuron.SPEC.records,
        annotate=annotate,
        foreign_allocations=foreign_allocations,
        claimed=ClaimedDevices("neuron.aws.com", "deviceId"),
    ),
    allocation=ALLOCATION_RULES,
    topology=replace(awsneuron.SPEC.topology, together=together, relabelled=relabelled, layout=layout),
    counted_by_scheduler=(DEVICES, CORES, LEGACY_DEVICES),
    replaces=True,
    several="linked devices, whole",
)
"""Takes the place of ``hami_plugins.vendors.awsneuron`` where it is plugged in."""
