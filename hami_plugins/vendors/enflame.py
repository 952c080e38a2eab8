"""Enflame GCUs: whole cards (``GCU``), and hardware slices of one card ("DRS", ``Enflame``).

Source: HAMi 2.10.0 ``pkg/device/enflame/gcu.go`` and ``device.go``. A slice is asked for by its number of slices, or by
memory and cores, for which the smallest sufficient profile is taken. Memory up to twice the largest profile is read as
GB, more as MiB; that guess is the vendor's.

Deviations from HAMi 2.10, on purpose: an unusable amount is refused (HAMi takes the container for one without GCUs); a
container takes one slot of a card however large its slice is, because memory and cores bound the slices (HAMi counts
slices for the pod at hand, and containers for the pods that are there).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.engine.checks import unshared
from hami_plugins.engine.demand import invalid, selector_of
from hami_plugins.engine.inventories import capacity_of, cards
from hami_plugins.errors import AdmissionDeniedError
from hami_plugins.model.devices import AllocatedShare, Device, Profile
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.model.units import INT32_MAX, CoreShare, DeviceId, MiB, VendorName
from hami_plugins.model.vendor import (
    AdmissionChange,
    AllocationRecords,
    AllocationView,
    Candidate,
    ContainerAdmission,
    ContainerRequest,
    FittingRules,
    RequestRules,
    Shortfall,
    VendorSpec,
)
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import facts
from hami_plugins.wire import drs

WHOLE_CARD: Final = 100
"""Memory and cores of a whole GCU: percentages, because the node says only how many cards it has."""

MINOR: Final = "minor"
TAKEN_KEY: Final = "enflame.com/gcu-assigned"
TIME_KEY: Final = "enflame.com/gcu-assigned-time"
INDEX_KEY: Final = "enflame.com/gcu-assigned-index"
ID_KEY: Final = "enflame.com/gcu-assigned-id"
MINOR_KEY: Final = "enflame.com/gcu-assigned-minor"
SIZE_KEY: Final = "enflame.com/gcu-request-size"


def whole_cards(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """As many cards as the node's capacity says."""
    count = capacity_of(node, spec.resources.count) or 0
    memory, cores = MiB(WHOLE_CARD), CoreShare(WHOLE_CARD)
    return cards(spec, node, count, infix=spec.name, slots=1, memory=memory, cores=cores)


def slice_cards(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """The cards that the node's annotation names, each with the profiles that it can be cut into."""
    key = spec.keys.register
    text = node.annotations.get(key)
    if text is None:
        return DeviceInventory()
    found = drs.decode_node(key, text)
    profiles, memory = drs.profiles_of(key, found)
    return DeviceInventory(
        tuple(
            Device(
                vendor=spec.name,
                model=spec.name,
                slots=card.slices,
                memory=memory,
                cores=CoreShare(100),
                index=card.number,
                profiles=profiles,
                traits=((MINOR, card.minor),),
            )
            for card in found.cards
        ),
        tuple(DeviceId(f"{node.name}-enflame-drs-{card.number}") for card in found.cards),
    )


def admit(spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
    """A limit or a request alone is written as both."""
    names = spec.resources
    count = container.amount(names.count)
    if count is not None:
        if count.ceiling <= 0:
            raise AdmissionDeniedError(f"{names.count} must be greater than 0", 500)
        return ContainerAdmission(claimed=True, changes=_mirrored(container, names.count))
    memory, cores = container.amount(names.memory), container.amount(names.cores)
    if memory is not None and memory.ceiling <= 0:
        raise AdmissionDeniedError(f"{names.memory} must be greater than 0", 500)
    if cores is not None and not 0 < cores.ceiling <= 100:
        raise AdmissionDeniedError(f"{names.cores} must be in range (0,100]", 500)
    changes = (*_mirrored(container, names.memory), *_mirrored(container, names.cores))
    return ContainerAdmission(claimed=memory is not None or cores is not None, changes=changes)


def request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """One slice of one card: so many slices of it, or memory (MiB or GB, the card decides) and cores at least.

    The number of slices is a complete request: the other amounts are ignored.
    """
    names = spec.resources
    count = container.amount(names.count)
    if count is not None and count.whole is None:
        raise invalid(container, names.count, count, "not a number of slices", "use a whole number from 1")
    found = DeviceRequest(
        vendor=spec.name, count=1, memory=Absolute(MiB(0)), selector=selector_of(spec.keys, pod.annotations)
    )
    slices = _amount(container, names.count)
    if slices:
        return replace(found, slices=slices)
    memory, cores = _amount(container, names.memory), _amount(container, names.cores)
    if not (memory or cores):
        return None
    return replace(found, memory=Absolute(MiB(memory)), cores=CoreShare(cores))


def memory_of(device: Device, request: DeviceRequest) -> MiB:
    """The memory of the profile that serves the request on a card."""
    profile = _chosen(device, request)
    return MiB(0) if profile is None else profile.memory


def cores_of(device: Device, request: DeviceRequest) -> CoreShare:
    """The cores of the profile that serves the request on a card."""
    profile = _chosen(device, request)
    return CoreShare(0) if profile is None else profile.cores


def has_profile(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """The card can be cut into a slice that serves the request."""
    return Reason.MODE if _chosen(candidate.device, ask.request) is None else None


def spell(shortfall: Shortfall, ask: ContainerRequest) -> str | None:
    """HAMi looks for a profile before it looks at the cards, and says once per node that there is none."""
    if any(_chosen(each.device, ask.request) for each in shortfall.devices):
        return None
    return f"1/{len(shortfall.devices)} {Reason.MODE}"


def annotate(view: AllocationView) -> Mapping[str, str]:
    """The first container's slice for older node agents, and each container's slice by its name."""
    written = {TAKEN_KEY: "false", TIME_KEY: str(view.now_ns)}
    assigned: dict[str, drs.DrsSlice] = {}
    for container, shares in zip(view.pod.containers, view.containers, strict=True):
        if not shares:
            continue
        device = view.devices[shares[0].device]
        profile = _allocated(device, shares[0])
        if not assigned:
            index = str(device.index)
            written |= {INDEX_KEY: index, ID_KEY: index, SIZE_KEY: str(profile.slices)}
            written[MINOR_KEY] = device.trait(MINOR) or index
        assigned[container.name] = drs.DrsSlice(
            slices=profile.slices, profile=profile.name, profile_id=profile.profile_id
        )
    written[drs.ASSIGNED_KEY] = drs.encode_assigned(assigned)
    return written


def _mirrored(container: Container, resource: str) -> tuple[AdmissionChange, ...]:
    amount = container.amount(resource)
    if amount is None:
        return ()
    changes = []
    if resource not in container.limits:
        changes.append(AdmissionChange("limit", resource, str(amount)))
    if resource not in container.requests:
        changes.append(AdmissionChange("request", resource, str(amount)))
    return tuple(changes)


def _amount(container: Container, resource: str) -> int:
    """An amount rounded up as the webhook reads it, 0 when there is none."""
    found = container.amount(resource)
    if found is None:
        return 0
    if not 0 <= found.ceiling <= INT32_MAX:
        raise invalid(container, resource, found, "not an amount that a card can have", "use a whole number from 1")
    return found.ceiling


def _chosen(device: Device, request: DeviceRequest) -> Profile | None:
    """The smallest profile that serves the request."""
    if request.slices:
        return next((profile for profile in device.profiles if profile.slices == request.slices), None)
    need = request.memory.on(device)
    if need:
        largest = device.profiles[-1].memory // drs.GB if device.profiles else 0
        gigabytes = -(-need // drs.GB) if need > 2 * largest else need
        need = MiB(gigabytes * drs.GB)
    return next(
        (profile for profile in device.profiles if profile.memory >= need and profile.cores >= request.cores), None
    )


def _allocated(device: Device, share: AllocatedShare) -> Profile:
    """The profile of a share that was allocated on this card."""
    return next(
        profile for profile in device.profiles if (profile.memory, profile.cores) == (share.memory, share.cores)
    )


GCU: Final = VendorSpec(
    name=VendorName("GCU"),
    title="Enflame GCU",
    vendor="Enflame",
    resources=ResourceNames(count="enflame.com/gcu"),
    keys=AnnotationKeys(
        allocated="hami.io/enflame-gcu-devices-allocated",
        to_allocate="hami.io/enflame-gcu-devices-to-allocate",
        lock="",
    ),
    inventory=whole_cards,
    requests=RequestRules(cores_default=CoreShare(WHOLE_CARD)),
    fitting=FittingRules(early_checks=(unshared,)),
    memory_step="none: whole card",
    core_step="none: whole card",
    several="whole cards",
    facts=facts.GCU,
)

DRS: Final = VendorSpec(
    name=VendorName("Enflame"),
    title="Enflame GCU slices (DRS)",
    vendor="Enflame",
    resources=ResourceNames(count="enflame.com/drs-gcu", memory="enflame.com/gcu-memory", cores="enflame.com/gcu-core"),
    keys=AnnotationKeys(
        allocated="hami.io/enflame-vgpu-devices-allocated",
        register=drs.CAPACITY_KEY,
        use_ids=("enflame.com/use-gpuuuid",),
        avoid_ids=("enflame.com/nouse-gpuuuid",),
        lock="",
        extra=(TAKEN_KEY, TIME_KEY, INDEX_KEY, ID_KEY, MINOR_KEY, SIZE_KEY, drs.ASSIGNED_KEY),
    ),
    inventory=slice_cards,
    requests=RequestRules(read=request),
    admit=admit,
    fitting=FittingRules(early_checks=(has_profile,), cores_of=cores_of, memory_of=memory_of, message=spell),
    records=AllocationRecords(annotate=annotate, writes_to_allocate=False),
    memory_step="the node's profiles",
    core_step="the node's profiles",
    several="one slice of one card",
    facts=facts.DRS,
)

SPECS: Final = (GCU, DRS)
