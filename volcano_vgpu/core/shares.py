"""One card's part of an allocation, held against the card: is it there, healthy, large enough, cut as it should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, NamedTuple

from hami_plugins.engine.holdings import Inconsistency, InconsistencyKind, flaws_of
from hami_plugins.engine.inventory import NodeBuilder, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.usage import held_by
from hami_plugins.errors import WireError
from hami_plugins.model.devices import Device
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import DeviceId, NodeName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors.volcano import MIG_MODE, SPEC
from hami_plugins.wire import volcano
from hami_plugins.wire.pod_devices import AssignedDevice
from hami_plugins.wire.volcano import MigSlot
from volcano_vgpu.core.dialects import keys_of
from volcano_vgpu.core.model import NodeInventory, PhysicalDevice
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode

VOLCANO: Final = frozenset({"volcano"})


class ContainerShare(NamedTuple):
    """What a container gets of one card: as it is written in the allocation, and the UUID that it sees (a card or a MIG
    instance)."""

    assigned: AssignedDevice
    visible: DeviceId
    card: DeviceId


@dataclass(frozen=True, slots=True)
class AllocatedContainer:
    """The cards of one container, in the order of the allocation; an init container has them from its ``lender``."""

    shares: tuple[ContainerShare, ...]
    lender: str = ""

    @property
    def devices(self) -> tuple[AssignedDevice, ...]:
        """The allocation as Volcano wrote it."""
        return tuple(share.assigned for share in self.shares)

    @property
    def cards(self) -> tuple[DeviceId, ...]:
        """The physical cards."""
        return tuple(share.card for share in self.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOffer:
    """The cards that this node has registered with its scheduler, and the state of all its cards.

    ``entry`` has the registered cards without any pod; ``passed_over`` the reason for cards that are not offered.
    ``schedulers`` are the names under which Volcano schedules.
    """

    node: NodeName
    spec: VendorSpec
    entry: NodeEntry
    inventory: NodeInventory
    passed_over: Mapping[str, str] = field(default_factory=dict)
    schedulers: frozenset[str] = VOLCANO

    @classmethod
    def of(  # noqa: PLR0913 - one parameter for each thing that a node says
        cls,
        node: NodeName,
        register: str,
        inventory: NodeInventory,
        *,
        spec: VendorSpec = SPEC,
        passed_over: Mapping[str, str] | None = None,
        schedulers: frozenset[str] = VOLCANO,
    ) -> NodeOffer:
        """The offer behind a register annotation."""
        told = NodeObject(node, {spec.keys.register: register}, {}, {}, {})
        entry = NodeBuilder(Registry([spec])).entry(told, NodeFacts())
        return cls(
            node=node,
            spec=spec,
            entry=entry,
            inventory=inventory,
            passed_over=passed_over or {},
            schedulers=schedulers,
        )

    @property
    def scheduler(self) -> str:
        """What messages call the scheduler."""
        return keys_of(self.spec).scheduler

    def device(self, card: DeviceId) -> Device | None:
        """A registered card by its UUID."""
        return self.entry.device(card)


def share_of(assigned: AssignedDevice, offer: NodeOffer, *, served: bool) -> ContainerShare | ContainerRefusal:
    """One card of an allocation as this node gives it. Who was ``served`` keeps amounts that are too large today."""
    try:
        slot = volcano.decode_slot(offer.spec.keys.allocated, assigned.device)
    except WireError as error:
        return ContainerRefusal(RefusalCode.MALFORMED, f"{error}; delete the pod", heals=False)
    name = assigned.device if slot is None else slot.device
    card, device = offer.inventory.card(name), offer.device(name)
    if card is None or device is None:
        return _absent(name, card, offer)
    if not card.healthy:
        return _unhealthy(card, offer)
    wrong = None if served else _too_large(assigned, name, device, offer.scheduler)
    return wrong or _placed(assigned, slot, card, offer)


def overbooked(record: PodRecord, others: Sequence[PodRecord], offer: NodeOffer) -> Mapping[DeviceId, ContainerRefusal]:
    """The cards that this pod cannot share with ``others``, which had them before."""
    # Pods on other cards have no say here, and counting them would take most of the time.
    named = _cards_of(record)
    entry = with_pods(offer.entry, (*(other for other in others if not named.isdisjoint(_cards_of(other))), record))
    refused: dict[DeviceId, ContainerRefusal] = {}
    for flaw in flaws_of(record, entry):
        refusal = _flawed(flaw, offer)
        if refusal is not None:
            refused.setdefault(flaw.device, refusal)
    for card in named:
        refusal = _not_shared(card, record, entry, offer)
        if refusal is not None:
            refused.setdefault(card, refusal)
    return refused


def _not_shared(card: DeviceId, record: PodRecord, entry: NodeEntry, offer: NodeOffer) -> ContainerRefusal | None:
    """A card whose cores are all allocated to one pod has no other pod, by the scheduler's rules (Volcano 1.14.1
    ``pkg/scheduler/api/devices/nvidia/vgpu/utils.go``).

    Sums do not show it: 0 is a valid request for cores, and means no limit.
    """
    at = entry.position(card)
    held = held_by(record.allocations, init_finished=record.init_finished)[card]
    if at is None:
        return None
    whole, used = entry.state.shape.devices[at].cores, entry.state.usage[at]
    others = sorted(pod.full_name for pod in entry.pods if pod is not record and card in _cards_of(pod))
    if not others or not whole:
        return None
    if held.cores == whole:
        why = f"the whole card, and {', '.join(others)} is on it"
    elif not held.cores and used.cores == whole:
        why = f"a share of it, and all cores of it are allocated to {', '.join(others)}"
    else:
        return None
    text = (
        f"{offer.scheduler} allocated {why}; an earlier pod keeps its cards. This pod starts when the other has ended"
    )
    return ContainerRefusal(RefusalCode.CARD_FULL, f"{card}: {text}; delete the pod to have it placed again")


def _cards_of(record: PodRecord) -> frozenset[DeviceId]:
    return frozenset(share.device for allocation in record.allocations for share in allocation.shares)


def _absent(name: DeviceId, card: PhysicalDevice | None, offer: NodeOffer) -> ContainerRefusal:
    if card is not None and not card.healthy:
        return _unhealthy(card, offer)
    reason = offer.passed_over.get(name)
    if reason is not None:
        return ContainerRefusal(
            RefusalCode.UNKNOWN_CARD, f"{offer.scheduler} allocated {name}, which this node does not share: {reason}"
        )
    if card is not None:
        return ContainerRefusal(
            RefusalCode.UNKNOWN_CARD, f"{offer.scheduler} allocated {name}, which this node has not registered (yet)"
        )
    known = [each.uuid for each in offer.inventory.cards]
    likely = get_close_matches(name, known)
    return ContainerRefusal(
        RefusalCode.UNKNOWN_CARD,
        f"{offer.scheduler} allocated {name}, and node {offer.node} has no such card"
        f"{f' (the nearest is {likely[0]})' if likely else ''}; if it is not coming back, delete the pod",
    )


def _unhealthy(card: PhysicalDevice, offer: NodeOffer) -> ContainerRefusal:
    return ContainerRefusal(
        RefusalCode.UNHEALTHY_CARD,
        f"{offer.scheduler} allocated {card.uuid}, which cannot be used now: {'; '.join(card.problems)}. It "
        "starts when the card is healthy again; delete the pod to have it placed elsewhere",
    )


def _too_large(assigned: AssignedDevice, name: DeviceId, device: Device, who: str) -> ContainerRefusal | None:
    if assigned.memory > device.memory:
        return ContainerRefusal(
            RefusalCode.CARD_MEMORY,
            f"{who} allocated {assigned.memory} of memory on {name}, which has {device.memory} (in units of the "
            "node's register); delete the pod, so that it is placed anew",
            heals=False,
        )
    if assigned.cores > device.cores:
        text = f"{who} allocated {assigned.cores} cores on {name}, a card has {device.cores}; delete the pod"
        return ContainerRefusal(RefusalCode.CARD_CORES, text, heals=False)
    return None


def _placed(
    assigned: AssignedDevice, slot: MigSlot | None, card: PhysicalDevice, offer: NodeOffer
) -> ContainerShare | ContainerRefusal:
    """The share with what the container is to see: the card, or the MIG instance that the slot means."""
    device = offer.device(card.uuid)
    cut = device is not None and device.mode == MIG_MODE
    who = offer.scheduler
    if slot is None and not cut:
        if not assigned.memory:
            text = f"{who} allocated no memory on {card.uuid}, which would mean all of it; delete the pod"
            return ContainerRefusal(RefusalCode.MALFORMED, text, heals=False)
        return ContainerShare(assigned, card.uuid, card.uuid)
    if slot is None:
        text = f"{who} allocated all of {card.uuid}, which is cut into MIG instances; delete the pod"
        return ContainerRefusal(RefusalCode.MODE, text, heals=False)
    if not cut:
        text = f"{who} allocated the MIG slot {assigned.device}, and the card is not shared by MIG; delete the pod"
        return ContainerRefusal(RefusalCode.MODE, text, heals=False)
    if offer.spec.dialect is Dialect.HAMI:
        return _instance_at(assigned, slot, card, offer)
    return _instance(assigned, slot, card, offer)


def _instance(
    assigned: AssignedDevice, slot: MigSlot, card: PhysicalDevice, offer: NodeOffer
) -> ContainerShare | ContainerRefusal:
    """A position counts all slices of the group as its geometry lists them; instances of a profile go by their start.

    The agent does not partition cards: a card with other partitions is refused until an administrator has changed them.
    """
    device, who = offer.device(card.uuid), offer.scheduler
    profiles = () if device is None else device.profiles
    of_group = [profile for profile in profiles if profile.group == slot.group]
    names = [profile.name for profile in of_group for _ in profile.placements]
    found = sorted(card.instances, key=lambda instance: instance.start)
    if slot.position >= len(names):
        known = ", ".join(sorted({profile.group for profile in profiles})) or "none"
        return ContainerRefusal(
            RefusalCode.PARTITION,
            f"{who} allocated {assigned.device}; group {slot.group} has {len(names)} slices (known groups: {known}). "
            "Give scheduler and agent the same knownMigGeometries",
            heals=False,
        )
    if sorted(instance.profile for instance in found) != sorted(names):
        return ContainerRefusal(
            RefusalCode.PARTITION,
            f"{who} allocated {assigned.device}, and the card is cut into "
            f"{', '.join(instance.profile for instance in found) or 'nothing'}, not into {', '.join(names)}; cut it so "
            "(nvidia-smi mig, nvidia-mig-parted), or delete the pod",
        )
    wanted = names[slot.position]
    fitting = [instance for instance in found if instance.profile == wanted]
    return ContainerShare(assigned, fitting[names[: slot.position].count(wanted)].uuid, card.uuid)


def _instance_at(
    assigned: AssignedDevice, slot: MigSlot, card: PhysicalDevice, offer: NodeOffer
) -> ContainerShare | ContainerRefusal:
    """The instance with the profile and the place that HAMi's scheduler has chosen among those that are registered."""
    for instance in card.instances:
        if (instance.profile, instance.start) == (slot.group, slot.position):
            return ContainerShare(assigned, instance.uuid, card.uuid)
    found = ", ".join(f"{each.profile} at {each.start}" for each in card.instances) or "none"
    made = "the agent makes it there; if it cannot, an event of the pod says why"
    remedy = made if card.partitions else "create it there again (nvidia-smi mig), or delete the pod"
    return ContainerRefusal(
        RefusalCode.PARTITION,
        f"{offer.scheduler} allocated a MIG instance {slot.group} at {slot.position} of {card.uuid}, and the card has "
        f"{found}; {remedy}",
    )


_OVERDRAWN: Final = {
    InconsistencyKind.SLOTS: "slots",
    InconsistencyKind.MEMORY: "memory",
    InconsistencyKind.CORES: "cores",
}


def _flawed(flaw: Inconsistency, offer: NodeOffer) -> ContainerRefusal | None:
    """What is wrong with a card's bookings; absence and health are looked at elsewhere."""
    others = ", ".join(flaw.others)
    if flaw.kind in _OVERDRAWN:
        beside = f", because it is also allocated to {others}" if others else ", for this pod alone"
        return ContainerRefusal(
            RefusalCode.CARD_FULL,
            f"{offer.scheduler} allocated {flaw.promised} {_OVERDRAWN[flaw.kind]} of {flaw.device}, which has "
            f"{flaw.capacity}{beside}; earlier pods keep theirs. "
            + (
                "This pod starts when there is room; delete the pod to have it placed anew"
                if others
                else "Delete the pod"
            ),
            heals=bool(others),
        )
    if flaw.kind is InconsistencyKind.OVERLAP:
        text = f"{offer.scheduler} allocated the same MIG slot of {flaw.device} to {others} first; delete the pod"
        return ContainerRefusal(RefusalCode.CARD_FULL, text)
    if flaw.kind is InconsistencyKind.UNPLACED:
        text = f"{offer.scheduler} allocated a MIG slot of {flaw.device} to two containers: {flaw.why}; delete the pod"
        return ContainerRefusal(RefusalCode.CARD_FULL, text, heals=False)
    return None
