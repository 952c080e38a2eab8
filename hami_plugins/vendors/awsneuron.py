"""AWS Neuron devices and cores under HAMi.

A container asks either for whole devices or for cores. Several devices have to be neighbours: any run of devices on
Inferentia (a ring), aligned blocks of 4, 8 or 16 on Trainium.

Source: HAMi 2.10.0 ``pkg/device/awsneuron/device.go``. Deviations from HAMi 2.10, on purpose: all cores of a device can
be handed out (HAMi counts no more than two of them and books nothing for the third), a whole device is booked whole,
runs and blocks are those of the devices' indexes (HAMi takes places in a list that it has sorted by load, and so hands
out devices that are in use), and requests for several devices obey the pod's id lists as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Final

from hami_plugins.engine.demand import invalid, selector_of
from hami_plugins.engine.inventories import capacity_of, cards
from hami_plugins.errors import AdmissionDeniedError
from hami_plugins.model.devices import CoreMask, Device, DeviceShare, Mark
from hami_plugins.model.inventory import NO_DEVICES, DeviceInventory, NodeObject
from hami_plugins.model.pods import Container, ContainerAllocation, Pod
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.model.units import INT32_MAX, CoreShare, MiB, VendorName
from hami_plugins.model.vendor import (
    AllocationRecords,
    AllocationView,
    Candidate,
    ContainerAdmission,
    ContainerRequest,
    FittingRules,
    RequestRules,
    Shortfall,
    Unselectable,
    VendorSpec,
)
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import facts

IDS_KEY: Final = "AWS_NEURON_IDS"
KIND_KEY: Final = "NEURON_RESOURCE_TYPE"
TIME_KEY: Final = "NEURON_ALLOC_TIME"
STATE_KEY: Final = "NEURON_ALLOCATED"
NODE_KEY: Final = "aws.amazon.com/predicate-node"
CAPACITY_BLOCK_MARGIN: Final = 1800.0
"""Seconds before the end of a Capacity Block at which its machines go."""

INSTANCE_LABEL: Final = "node.kubernetes.io/instance-type"

WHOLE: Final = "whole"
"""The option of a request that takes all cores of its devices."""

CORES_PER_REQUESTED_DEVICE: Final = 2
"""More cores than these mean further devices, whatever a device has: one core count applies to all of them."""

BLOCKS: Final = frozenset({4, 8, 16})
"""How many Trainium devices may go together."""

_RING: Final = "ring"
_MOST_CORES: Final = 31
"""The mask of an assignment has no room for more cores per device."""

_ALL_CORES: Final = 2**_MOST_CORES - 1


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """As many devices as the node's capacity says, with as many cores each as it says of those."""
    count = capacity_of(node, spec.resources.count)
    if count is None:
        return NO_DEVICES
    cores = min((capacity_of(node, spec.resources.cores) or 0) // count, _MOST_CORES)
    found = cards(spec, node, count, infix=spec.name, slots=cores, memory=MiB(0), cores=CoreShare(cores))
    if "inf" not in node.labels.get(INSTANCE_LABEL, "").lower():
        return found
    return replace(found, devices=tuple(replace(device, mode=_RING) for device in found.devices))


def request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """Whole devices, else cores: one or two of one device, or whole devices two cores apart."""
    names = spec.resources
    for name in (names.count, names.cores):
        found = container.amount(name)
        if found is None:
            continue
        why = _objection(spec, name, found)
        if why:
            raise invalid(container, name, found, why, "use a whole number from 1; cores in twos beyond the first")
        amount = found.ceiling
        per_device = 1 if name == names.count else min(amount, CORES_PER_REQUESTED_DEVICE)
        count = amount // per_device
        whole = name == names.count or count > 1
        return DeviceRequest(
            vendor=spec.name,
            count=count,
            memory=Absolute(MiB(0)),
            cores=CoreShare(0 if name == names.count else per_device),
            selector=selector_of(spec.keys, pod.annotations),
            options=((WHOLE, "true"),) if whole else (),
        )
    return None


def admit(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
    """HAMi's webhook for one container: a request that means nothing is refused."""
    names = spec.resources
    for name in (names.count, names.cores):
        found = container.amount(name)
        if found is not None:
            why = _objection(spec, name, found)
            if why:
                raise AdmissionDeniedError(f"{name} {why}", 500)
            return ContainerAdmission(True)
    return ContainerAdmission(False)


def _objection(spec: VendorSpec, name: str, found: Quantity) -> str:
    """What is wrong with an amount, in HAMi's words; empty when nothing is."""
    of_cores = name == spec.resources.cores
    most = INT32_MAX * (CORES_PER_REQUESTED_DEVICE if of_cores else 1)
    amount = found.whole
    if amount is None:
        return "must be an integer"
    if amount <= 0:
        return "must be greater than 0"
    if amount > most:
        return f"must not exceed {most}"
    if of_cores and amount > CORES_PER_REQUESTED_DEVICE and amount % CORES_PER_REQUESTED_DEVICE:
        return f"must be 1 or a multiple of {CORES_PER_REQUESTED_DEVICE}, got {amount}"
    return ""


def cores_on(device: Device, asked: DeviceRequest) -> CoreShare:
    """All of a device's cores, or the few that were asked for."""
    return device.cores if asked.option(WHOLE) else asked.cores


def idle_among_several(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """Several devices are whole, unused devices."""
    return Reason.EXCLUSIVE if ask.request.count > 1 and candidate.used.slots > 0 else None


def cores_are_free(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """Enough cores are held by no pod, whatever the running pods' masks have in common; all cores need an idle "
    "device."""
    asked = cores_on(candidate.device, ask.request)
    if asked == candidate.device.cores and candidate.used.slots > 0:
        return Reason.EXCLUSIVE
    return Reason.CORES if len(_free_cores(candidate)) < asked else None


def share_of(candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
    """The lowest free cores, as many as wanted."""
    cores = cores_on(candidate.device, ask.request)
    bits = sum(1 << core for core in _free_cores(candidate)[:cores])
    return DeviceShare(candidate.position, MiB(0), cores, CoreMask(bits))


def _free_cores(candidate: Candidate) -> Sequence[int]:
    held = held_cores(candidate.used.marks)
    return [core for core in range(candidate.device.cores) if not held >> core & 1]


def held_cores(marks: Iterable[Mark]) -> int:
    """The mask of all cores that shares hold."""
    return reduce(or_, (mark.bits for mark in marks if isinstance(mark, CoreMask)), 0)


def neighbours(candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate] | Unselectable:
    """One device: the first. Several: the first run (Inferentia) or aligned block (Trainium) of free devices."""
    count = ask.request.count
    if count == 1:
        return candidates[:1]
    free = {candidate.device.index: candidate for candidate in candidates}
    ring = candidates[0].device.mode == _RING
    if ring or count in BLOCKS:
        for start in sorted(free):
            run = range(start, start + count)
            if (ring or start % count == 0) and all(index in free for index in run):
                return [free[index] for index in run]
    return Unselectable(Reason.TOPOLOGY, len(candidates))


def words(shortfall: Shortfall, ask: ContainerRequest) -> str | None:
    """HAMi's words: one for several devices, the usual ones for one."""
    return f"1/{len(shortfall.devices)} {Reason.NUMA}" if ask.request.count > 1 else None


def annotate(view: AllocationView) -> Mapping[str, str]:
    """The device or core numbers for AWS's device plugin and scheduler extension, over all containers."""
    names = view.spec.resources
    ids: list[int] = []
    of_cores = False
    for container, shares in zip(view.pod.containers, view.containers, strict=True):
        asked = container.limits.get(names.count)
        for share in shares:
            index = view.indexes[share.device]
            if asked is not None:
                ids.append(index)
                continue
            cores = _told_cores(share.mark)
            of_cores = of_cores or bool(cores)
            ids += [view.devices[share.device].cores * index + core for core in cores]
    return {
        IDS_KEY: ",".join(map(str, ids)),
        TIME_KEY: str(view.now_ns),
        STATE_KEY: "false",
        NODE_KEY: str(view.node),
        **({KIND_KEY: names.cores} if of_cores else {}),
    }


def _told_cores(mark: Mark | None) -> Sequence[int]:
    """The cores that a core request may use: as many as it asked of a device, even where it holds the whole device."""
    bits = mark.bits if isinstance(mark, CoreMask) else 0
    return [core for core in range(bits.bit_length()) if bits >> core & 1][:CORES_PER_REQUESTED_DEVICE]


def recall(
    annotations: Mapping[str, str], allocations: tuple[ContainerAllocation, ...]
) -> tuple[ContainerAllocation, ...]:
    """The cores of an assignment are a mask: turn it into their number and keep it as a mark.

    A pod with recorded device numbers has whole devices, even if HAMi recorded two cores of each.
    """
    all_cores = _ALL_CORES if IDS_KEY in annotations and KIND_KEY not in annotations else 0
    return tuple(
        replace(
            allocation,
            shares=tuple(
                replace(share, cores=CoreShare(share.cores.bit_count()), mark=CoreMask(share.cores | all_cores))
                for share in allocation.shares
            ),
        )
        for allocation in allocations
    )


SCHEDULERS: Final = ("my-scheduler", "volcano")
"""The second kube-scheduler that AWS ships with its scheduler extension (``k8s-neuron-scheduler-eks.yml`` of the Neuron
SDK), and Volcano, which counts devices and leaves the choice to the node."""

SPEC: Final = VendorSpec(
    name=VendorName("AWSNeuron"),
    title="AWS Neuron",
    vendor="AWS",
    noun="device",
    resources=ResourceNames(count="aws.amazon.com/neuron", cores="aws.amazon.com/neuroncore"),
    keys=AnnotationKeys(
        allocated="hami.io/aws-neuron-devices-allocated",
        use_ids=("aws.amazon.com/use-neuron-uuid",),
        avoid_ids=("aws.amazon.com/nouse-neuron-uuid",),
        lock="",
        extra=(IDS_KEY, KIND_KEY, TIME_KEY, STATE_KEY, NODE_KEY),
    ),
    inventory=inventory,
    requests=RequestRules(read=request),
    admit=admit,
    fitting=FittingRules(
        early_checks=(idle_among_several,),
        late_checks=(cores_are_free,),
        select=neighbours,
        share_of=share_of,
        cores_of=cores_on,
        message=words,
        clamps_cores=False,
    ),
    records=AllocationRecords(annotate=annotate, recall=recall),
    schedulers=SCHEDULERS,
    memory_step="none: whole device",
    core_step="1 core",
    several="neighbouring whole devices",
    facts=facts.NEURON,
)
