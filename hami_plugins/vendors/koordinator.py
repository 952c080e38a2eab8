"""Cards under Koordinator, as its Device objects publish them: shared by HAMi-core, or whole.

A pod has one request, whichever of its containers say so; here the first application that asks has all of it. Source:
Koordinator 1.7.0 ``pkg/scheduler/plugins/deviceshare/utils.go``, ``apis/extension/device_share.go`` and
``apis/scheduling/v1alpha1/device_types.go``; ``trials.md`` O2. Deviations from Koordinator 1.7.0, on purpose:

* memory is compared as such, where Koordinator compares truncated percentages, so that a card in partial use never
  counts as whole, and parts never add up to more than the card (a plan notes where that matters);
* who takes all cores of a card takes the card;
* nodes without a Device object have no cards (Koordinator binds the pod there without any).

NPUs by the numbers of a template, network cards and FPGAs, partitions and joint allocation are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from hami_plugins.engine import koordinator as rules
from hami_plugins.engine.demand import invalid
from hami_plugins.engine.eligibility import met
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.devices import AllocatedShare, Device
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import NO_DEVICES, DeviceInventory, NodeObject
from hami_plugins.model.pods import Container, ContainerAllocation, Pod, Requirement, Unlocated
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.requests import (
    ANY_DEVICE,
    ContainerKind,
    DeviceRequest,
    DeviceSelector,
)
from hami_plugins.model.units import INT32_MAX, MEBIBYTE, CoreShare, DeviceId, MiB, VendorName
from hami_plugins.model.vendor import (
    AllocationRecords,
    AllocationView,
    Candidate,
    ContainerRequest,
    FittingRules,
    ForeignAllocation,
    RequestRules,
    Shortfall,
    VendorSpec,
)
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import facts
from hami_plugins.wire import koordinator as wire
from hami_plugins.wire import koordinator_devices, koordinator_hints, quantity
from hami_plugins.wire.koordinator import CORE, GPU, MEMORY, NPU_CORE, RATIO, SHARED, AllocatedDevice
from hami_plugins.wire.koordinator_devices import PublishedDevice
from hami_plugins.wire.pods import booked_for

NAME: Final = VendorName("Koordinator")
WORD: Final = "NVIDIA"
ISOLATION: Final = wire.ISOLATION

CARD_LABEL: Final = "gpu-uuid"
"""Label of a card in a Device object by which pods can choose it; koordlet's objects have none."""

NO_CARDS: Final = "Insufficient GPU Devices"
"""The scheduler's message for a node whose cards have too little left."""

SLOTS: Final = 100
"""How many pods may share a card: each has a hundredth at least."""

_BYTES: Final = "bytes"
_LABEL: Final = "label:"
_HINT: Final = "hint"
_REMEDY: Final = (
    f"name {SHARED} and one of {MEMORY} and {RATIO}; cores and ratio are sums over the cards and divide by their number"
)

_WITHOUT_WEBHOOK: Final = (
    "start koord-manager with --feature-gates=DisableDeviceResourceSpec=true; without that part of its webhook the "
    "pod is "
    "legal as it is"
)


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """The cards of the node's Device object. Unreadable entries are left out and reported."""
    if node.published is None:
        return NO_DEVICES
    found = koordinator_devices.decode(node.published)
    isolation = node.labels.get(ISOLATION)
    return DeviceInventory(
        devices=tuple(_device(spec, each, found.model or found.vendor or "gpu") for each in found.cards),
        ids=tuple(DeviceId(each.id or _unnamed(node.name, each.minor)) for each in found.cards),
        traits=() if isolation is None else ((ISOLATION, isolation),),
        remarks=tuple(str(each) for each in found.wrong),
    )


def request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """What the whole pod asks for, of the one container that has it. Raises ``InvalidRequestError``."""
    at = holder(pod)
    if not _asks(container) or pod.containers[at].name != container.name:
        return None
    amounts = asked_by(pod)
    if not amounts:
        return None
    whole = _whole_cards(pod)
    found = rules.submitted({**amounts, **whole})
    name = next(iter(amounts))
    if isinstance(found, rules.IllegalRequest):
        why, remedy = f"Koordinator: {found.words}", _REMEDY
        if NPU_CORE in amounts and not isinstance(rules.request_of(amounts), rules.IllegalRequest):
            why = f"Koordinator's webhook adds {SHARED}, with which its scheduler refuses the pod: {found.words}"
            remedy = _WITHOUT_WEBHOOK
        elif whole:
            remedy = f"leave {' and '.join(whole)} out, or all names of Koordinator's"
        elif found.kind is rules.Illegal.UNIT:
            remedy = _in_whole_cards(amounts[GPU])
        raise invalid(container, name, container.amount(name), why, remedy)
    if NPU_CORE in amounts:
        return None  # the node's sums are compared; templates and the NPUs themselves are not looked at
    memory = rules.memory_of(found)
    if isinstance(memory, rules.AmountRefusal):
        asked = container.amount(memory.resource)
        raise invalid(container, memory.resource, asked, memory.words, memory.remedy)
    options = [(ISOLATION, pod.labels[ISOLATION])] if found.shared and ISOLATION in pod.labels else []
    text = pod.annotations.get(koordinator_hints.KEY)
    selector = ANY_DEVICE if text is None else _selector(text, container)
    if text is not None and _others(text):
        options.append((_HINT, text))
    return DeviceRequest(
        vendor=spec.name,
        count=found.count,
        memory=memory,
        cores=CoreShare(found.per_card.get(CORE, 0)),
        selector=selector,
        options=tuple(options),
    )


def _in_whole_cards(percent: int) -> str:
    """The suggested spelling for a percentage of more than one card that is not a number of whole cards."""
    cards = percent // rules.FULL
    below, above = cards * rules.FULL, (cards + 1) * rules.FULL
    words = f"write {below} ({cards} card{'s' * (cards > 1)}) or {above} ({cards + 1} cards)"
    if percent % (cards + 1):
        return words
    named = f"{SHARED}: {cards + 1}, {CORE}: {percent} and {RATIO}: {percent}"
    return f"{words}; or {named} for {percent // (cards + 1)} % of {cards + 1} cards"


def holder(pod: Pod) -> int:
    """The container that has what the pod is given: the first application that asks, else the first container that
    does, else the first application."""
    asking = [at for at, each in enumerate(pod.containers) if _asks(each)]
    kinds = [each.kind for each in pod.containers]
    running = [at for at in asking if kinds[at] is ContainerKind.APP]
    return next(iter((*running, *asking)), kinds.index(ContainerKind.APP) if ContainerKind.APP in kinds else 0)


def asked_by(pod: Pod, *, completed: bool = False) -> Mapping[str, int]:
    """What a pod asks of cards, as Koordinator sums it up; zeros are left out. Raises ``InvalidRequestError``.

    ``completed`` sums up what Koordinator's webhook makes of each application container.
    """
    for container in pod.containers:
        for name, amount in container.requests.items():
            if wire.current(name) in rules.CARD_NAMES and (amount.nano < 0 or amount.whole is None):
                raise invalid(container, name, amount, "no amount of it", "write a whole number, 0 or more")
    return {name: amount for name, amount in summed(pod, completed=completed).items() if name not in wire.WHOLE_CARDS}


def summed(pod: Pod, *, completed: bool) -> Mapping[str, int]:
    """The one request that Koordinator makes of all containers, whole cards by names of device plugins included: the
    sum of the applications, or what the largest init container names; zeros are left out. ``completed`` as above."""
    named: dict[str, int] = {}
    for name, nano in booked_for(map(_completed, pod.containers) if completed else pod.containers).items():
        present = wire.current(name)
        if nano and present in rules.CARD_NAMES:
            named[present] = named.get(present, 0) + nano // NANO
    return named


def _whole_cards(pod: Pod) -> Mapping[str, int]:
    """Whole cards by the name of a device plugin; Koordinator's scheduler then refuses its own names in the same
    container.
    """
    if not rules.places(pod.scheduler, pod.labels):
        return {}
    listed = {name: amount for container in pod.containers for name, amount in container.requests.items()}
    return {name: amount.ceiling for name, amount in listed.items() if name in wire.WHOLE_CARDS and amount.nano}


def _completed(container: Container) -> Container:
    """The container as Koordinator's webhook leaves it: it looks at application containers only (Koordinator 1.7.0
    ``pkg/webhook/pod/mutating/device_resource_spec.go``)."""
    if container.kind is not ContainerKind.APP:
        return container
    named = {wire.current(name): amount.ceiling for name, amount in container.requests.items() if amount.nano}
    cards = {name: amount for name, amount in named.items() if name in rules.CARD_NAMES}
    requests = {name: Quantity(amount * NANO, str(amount)) for name, amount in rules.normalised(cards).items()}
    return replace(container, requests=requests)


def isolated(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """Limits that a pod wants to be enforced are enforced on the node; the texts have to be equal."""
    wanted = ask.request.option(ISOLATION)
    return None if wanted is None or ask.shape.trait(ISOLATION) == wanted else Reason.MODE


def hinted(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """The card's labels meet the pod's hint."""
    if ask.request.selector.names_ids and candidate.device.trait(_LABEL + CARD_LABEL) is None:
        return Reason.ID
    text = ask.request.option(_HINT)
    if text is None:
        return None
    labels = {name.removeprefix(_LABEL): value for name, value in candidate.device.traits if name.startswith(_LABEL)}
    return None if all(met(each, "", labels) for each in _others(text)) else Reason.VENDOR_RULE


def no_cores(asked: DeviceRequest) -> bool:
    """Koordinator counts no cores for a pod that names none."""
    return not asked.cores


def spell(shortfall: Shortfall, ask: ContainerRequest) -> str:
    """What Koordinator's scheduler says of a node."""
    if Reason.MODE in shortfall.tally:
        return "GPUIsolationProviderHAMICore not found on the node"
    if Reason.TOO_FEW_CARDS in shortfall.tally:
        return "Insufficient gpu devices"
    return "Insufficient Topology Scoped GPU Devices" if Reason.NUMA in shortfall.tally else NO_CARDS


def read(spec: VendorSpec, pod: Pod, text: str) -> ForeignAllocation:
    """The cards of a pod from Koordinator's record. A card without an id, or without its memory, its node can tell."""
    at = holder(pod)
    known: list[AllocatedShare] = []
    unlocated: list[Unlocated] = []
    for each in wire.decode(text, key=spec.keys.allocated).get(wire.GPU_TYPE, ()):
        share = recorded(spec.name, each)
        if each.id and MEMORY in each.resources:
            known.append(share)
            continue
        ratio = each.resources.get(RATIO)
        percent = ratio.ceiling if ratio is not None and MEMORY not in each.resources else 0
        if not percent and MEMORY not in each.resources:
            raise WireError(spec.keys.allocated, str(each.minor), f"neither {MEMORY} nor {RATIO} of the card")
        unlocated.append(Unlocated(at, share, device_index=each.minor, percent=percent))
    allocations = (
        ContainerAllocation(container.kind, tuple(known) if place == at else ())
        for place, container in enumerate(pod.containers)
    )
    return ForeignAllocation(allocations=tuple(allocations), unlocated=tuple(unlocated))


def recorded(vendor: VendorName, device: AllocatedDevice) -> AllocatedShare:
    """One card of the record; its memory in whole MiB, 0 where the record does not say."""
    memory, cores = device.resources.get(MEMORY), device.resources.get(CORE)
    return AllocatedShare(
        device=DeviceId(device.id),
        vendor=vendor,
        word=WORD,
        memory=MiB(0 if memory is None else memory.ceiling // MEBIBYTE),
        cores=CoreShare(0 if cores is None else cores.ceiling),
    )


def annotate(view: AllocationView) -> Mapping[str, str]:
    """The record as Koordinator's scheduler writes it, the cards by their numbers."""
    shares = [share for container in view.containers for share in container]
    try:
        asked = rules.submitted(asked_by(view.pod))
    except InvalidRequestError:
        asked = rules.IllegalRequest(rules.Illegal.EMPTY, "")
    per_card = None if isinstance(asked, rules.IllegalRequest) else asked.per_card
    found = [_written(view, share, per_card) for share in shares]
    return {wire.ALLOCATED_KEY: wire.encode({wire.GPU_TYPE: tuple(sorted(found, key=lambda each: each.minor))})}


def _written(view: AllocationView, share: AllocatedShare, per_card: rules.Amounts | None) -> AllocatedDevice:
    device, minor = view.devices[share.device], view.indexes[share.device]
    total = int(device.trait(_BYTES) or device.memory * MEBIBYTE)
    size, percent = share.memory * MEBIBYTE, 0
    if per_card is not None and RATIO in per_card:
        percent = per_card[RATIO]
        size = rules.bytes_of(percent, total)
    else:
        size = size if per_card is None else per_card.get(MEMORY, size)
        percent = rules.percent_of(size, total) if total else 0
    amounts = {CORE: int(share.cores), MEMORY: size, RATIO: percent}
    if not share.cores:
        del amounts[CORE]
    unnamed = _unnamed(view.node, minor)
    return AllocatedDevice(
        minor=minor,
        id="" if share.device == unnamed else share.device,
        resources={name: _quantity(amount) for name, amount in amounts.items()},
    )


def _quantity(amount: int) -> Quantity:
    return Quantity(amount * NANO, quantity.canonical(amount * NANO, binary=True))


def _device(spec: VendorSpec, published: PublishedDevice, model: str) -> Device:
    def amount(name: str, default: int) -> int:
        found = published.resources.get(name)
        return default if found is None else found.ceiling

    size = amount(MEMORY, 0)
    traits = {_LABEL + name: "" if value == published.id else value for name, value in published.labels.items()}
    if size % MEBIBYTE:
        traits[_BYTES] = str(size)
    return Device(
        vendor=spec.name,
        model=model,
        slots=SLOTS,
        memory=MiB(min(size // MEBIBYTE, INT32_MAX)),
        cores=CoreShare(min(amount(CORE, rules.FULL), INT32_MAX)),
        index=published.minor,
        numa=max(published.place.numa, 0) if published.place is not None else 0,
        healthy=published.healthy,
        traits=tuple(sorted(traits.items())),
    )


def _unnamed(node: str, minor: int) -> str:
    return f"{node}-gpu-{minor}"


def _asks(container: Container) -> bool:
    return SPEC.asked_of(container.limits) or SPEC.asked_of(container.requests)


def _selector(text: str, container: Container) -> DeviceSelector:
    """The ids that a hint names. Raises ``InvalidRequestError`` for one that means nothing: the pod would wait."""
    try:
        hint = koordinator_hints.decode(text).get(wire.GPU_TYPE)
    except WireError as error:
        raise InvalidRequestError(
            container=container.name, resource=error.key, value=error.text, why=error.why, remedy="correct the hint"
        ) from error
    use: frozenset[DeviceId] | None = None
    avoid: frozenset[DeviceId] | None = None
    for each in hint.selector if hint is not None else ():
        if each.key != CARD_LABEL or each.operator not in {"In", "NotIn"}:
            continue
        ids = frozenset(map(DeviceId, each.values))
        if each.operator == "In":
            use = ids if use is None else use & ids
        else:
            avoid = ids | (avoid or frozenset())
    return DeviceSelector(use_ids=use, avoid_ids=avoid) if use is not None or avoid is not None else ANY_DEVICE


@lru_cache(maxsize=256)
def _others(text: str) -> Sequence[Requirement]:
    """The constraints of a readable hint on labels of cards, besides their ids."""
    hint = koordinator_hints.decode(text).get(wire.GPU_TYPE)
    selector = hint.selector if hint is not None else ()
    return tuple(each for each in selector if each.key != CARD_LABEL or each.operator not in {"In", "NotIn"})


SPEC: Final = VendorSpec(
    name=NAME,
    title="GPU (Koordinator)",
    vendor="NVIDIA",
    word=WORD,
    dialect=Dialect.KOORDINATOR,
    resources=ResourceNames(count=SHARED, memory=MEMORY, memory_percentage=RATIO, cores=CORE, older=(GPU,)),
    keys=AnnotationKeys(
        allocated=wire.ALLOCATED_KEY,
        lock="",
        inputs=(koordinator_hints.KEY,),
    ),
    inventory=inventory,
    requests=RequestRules(read=request, sums_up=True),
    fitting=FittingRules(
        early_checks=(isolated, hinted),
        takes_no_cores=no_cores,
        message=spell,
        message_when_too_few=True,
        clamps_cores=False,
        binds_numa=True,
    ),
    records=AllocationRecords(annotate=annotate, read=read),
    counted_by_scheduler=(SHARED, MEMORY, RATIO, CORE, GPU),
    memory_step="1 byte or 1 %",
    facts=facts.KOORDINATOR,
)
