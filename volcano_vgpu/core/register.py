"""What a node says about its cards: its annotations, and under Volcano the sums in its status.

HAMi's register is in ``hami_register``. A node speaks one dialect: what it said in the other one is taken back as soon
as it offers no slots there.

Source for Volcano: volcano-vgpu-device-plugin 1.12.0 ``pkg/util/util.go`` and Volcano 1.14.1
``pkg/scheduler/api/devices/nvidia/vgpu/utils.go``, ``trials.md`` V1 to V9. Deviations from the existing plugin, on
purpose:

* an unhealthy card is left out, for Volcano reads its health and hands it out all the same;
* cards stand in the order of their minor numbers, so that the text changes only where the cards do;
* a card that Volcano would take for another one, or misread, is passed over with the reason;
* ``deviceMemoryScaling`` is applied;
* the sums of memory and cores are patched into the node's capacity, whatever their size: the kubelet cannot read a list
  of more than 4 MiB, and the existing plugin's list has an entry for every MiB;
* the handshake is dated far ahead, so that no answer is needed (``trials.md`` V8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import DeviceId, MiB
from hami_plugins.vendors.volcano import MIG_MODE, SPEC, TOUCHED_KEY
from hami_plugins.wire import node_devices, quantity, volcano
from hami_plugins.wire.fields import Json
from hami_plugins.wire.node_devices import RegisteredDevice
from hami_plugins.wire.scalars import SEPARATORS
from volcano_vgpu.core import hami_register
from volcano_vgpu.core.model import NodeInventory, PhysicalDevice, SharingMode
from volcano_vgpu.core.settings import AgentSettings, SharingSettings
from volcano_vgpu.core.slots import key_of

REGISTER_KEY: Final = SPEC.keys.register
HANDSHAKE_KEY: Final = SPEC.keys.handshake
LEFTOVERS_KEY: Final = "hami-plugins.io/volcano-vgpu-leftovers"
"""Our own: what of ended pods the agent cannot remove from the node's disk, and why. Absent where nothing stays."""

HANDSHAKE: Final = "Requesting_2099.01.01 00:00:00"
"""A question that no scheduler asks again and that never grows old (``trials.md`` V8)."""

WHOLE: Final = 100
"""The cores of a card."""

_HANDSHAKES: Final = {
    Dialect.VOLCANO: (HANDSHAKE_KEY, HANDSHAKE),
    Dialect.HAMI: (hami_register.HANDSHAKE_KEY, hami_register.REPORTED),
}

_UNCUT: Final = (
    "no MIG instance exists on it; create some (nvidia-smi mig -i {index} -cgi PROFILES -C), or set another mode for "
    "this node"
)
_WORD: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
_UNSAFE: Final = SEPARATORS | {"[", "]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherDialect:
    """What a node says in the dialect that it no longer speaks: ``slots`` is its resource, ``sums`` are in its status.

    ``forgotten``: the kubelet has forgotten the resource, so its number is not written again.
    """

    dialect: Dialect
    slots: str
    sums: tuple[str, ...]
    forgotten: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistration:
    """The intended annotations of a node.

    ``cards`` are those that can be shared, healthy or not, in the order of the register; ``registered`` are the healthy
    ones, in register units. ``annotations`` and ``capacity`` are complete; the node must not have annotations that are
    ``removed``. ``passed_over`` gives the reason for every other card. ``dropped`` is what goes once the node offers no
    slots of the other dialect.
    """

    annotations: Mapping[str, str]
    capacity: Mapping[str, int]
    cards: tuple[PhysicalDevice, ...]
    registered: tuple[RegisteredDevice, ...]
    passed_over: Mapping[str, str]
    removed: frozenset[str] = frozenset()
    dialect: Dialect = Dialect.VOLCANO
    dropped: OtherDialect | None = None

    @property
    def healthy(self) -> frozenset[DeviceId]:
        """The cards whose slots may be offered."""
        return frozenset(card.id for card in self.registered)


@dataclass(frozen=True, slots=True)
class Changes:
    """Merge patches that make a node say what it is to say: of the node and of its status. Empty where it does."""

    node: Mapping[str, Any]
    status: Mapping[str, Any]

    def __bool__(self) -> bool:
        """Whether anything has to be written."""
        return bool(self.node or self.status)


def desired(
    inventory: NodeInventory,
    settings: AgentSettings,
    *,
    handshake: bool = True,
    leftovers: str | None = None,
    forgotten: bool = False,
) -> NodeRegistration:
    """The intended annotations of the node. ``handshake``: whether the scheduler needs one, or is not known not to.

    ``leftovers`` is what cannot be removed from the node; ``None`` leaves what the node says of it. ``forgotten`` is as
    in ``OtherDialect``.
    """
    cards: list[PhysicalDevice] = []
    passed_over = dict(inventory.passed_over)
    for card, reason in _judged(inventory.cards, settings):
        if reason:
            passed_over[card.uuid] = reason
        else:
            cards.append(card)
    registered = tuple(_registered(card, settings) for card in cards if card.healthy)
    annotations = _register(cards, registered, settings)
    if handshake:
        key, text = _HANDSHAKES[settings.dialect]
        annotations[key] = text
    if leftovers:
        annotations[LEFTOVERS_KEY] = leftovers
    if settings.daemon_set:
        annotations[node_devices.AGENTS_KEY] = settings.daemon_set
    return NodeRegistration(
        annotations=annotations,
        removed=frozenset({LEFTOVERS_KEY} if leftovers == "" else ()) | hami_register.obsolete(annotations),
        capacity={} if settings.speaks_hami else _capacity(registered, settings),
        cards=tuple(cards),
        registered=registered,
        passed_over=passed_over,
        dialect=settings.dialect,
        dropped=_other(settings, forgotten=forgotten),
    )


def _register(
    cards: Iterable[PhysicalDevice], healthy: tuple[RegisteredDevice, ...], settings: AgentSettings
) -> dict[str, str]:
    if settings.speaks_hami:
        return hami_register.registration(((card, units(card, settings)) for card in cards), settings)
    return {REGISTER_KEY: volcano.encode_register(healthy)}


def _other(settings: AgentSettings, *, forgotten: bool = False) -> OtherDialect:
    other = settings.speaking(Dialect.VOLCANO if settings.speaks_hami else Dialect.HAMI)
    sums = () if other.speaks_hami else _summed(other)
    return OtherDialect(dialect=other.dialect, slots=other.names.count, sums=sums, forgotten=forgotten)


def units(card: PhysicalDevice, sharing: SharingSettings) -> MiB:
    """The memory that is registered: scaled, then in units of the factor, rounded down; slices of MIG as they are."""
    scaling = Fraction(1) if sharing.mode is SharingMode.MIG else Fraction(str(sharing.device_memory_scaling))
    return MiB(int(card.memory * scaling) // (1 if sharing.dialect is Dialect.HAMI else sharing.gpu_memory_factor))


def type_of(model: str) -> str:
    """A model as Volcano wants it: ``NVIDIA-`` before the driver's name, and nothing that separates fields."""
    safe = "".join(mark if mark.isprintable() and mark not in _UNSAFE else "-" for mark in model).strip()
    return f"NVIDIA-{safe or 'GPU'}"


def changes(node: Json, words: NodeRegistration) -> Changes:
    """The least that has to be written to a node.

    Amounts are compared by value (``320k`` is 320000). A handshake that Volcano does not need is not written; one that
    is there is set to the value that no scheduler minds, for the version may have been told wrongly. HAMi's handshake
    belongs to its scheduler, and is written only where the agent is to answer.
    """
    held = annotations_of(node)
    wanted = dict(words.annotations)
    if words.dialect is Dialect.VOLCANO and HANDSHAKE_KEY in held:
        wanted[HANDSHAKE_KEY] = HANDSHAKE
    annotations: dict[str, str | None] = {key: text for key, text in wanted.items() if held.get(key) != text}
    annotations |= dict.fromkeys(words.removed & held.keys())
    capacity = _amounts(node, "capacity")
    sums: dict[str, str | None] = {
        name: str(amount) for name, amount in words.capacity.items() if not _is(capacity.get(name), amount)
    }
    if (other := words.dropped) is not None and not allocatable(node, other.slots):
        annotations |= dict.fromkeys(_said_in(other.dialect, held))
        names = (*other.sums, *((other.slots,) if other.forgotten else ()))
        sums |= {name: None for name in names if name in capacity}
    return Changes(_metadata(annotations), {"status": {"capacity": sums}} if sums else {})


def withdrawal(node: Json, settings: AgentSettings) -> Changes:
    """What takes everything back that ``changes`` and touches write, and the number of slots that the kubelet left.

    The kubelet derives what is allocatable from the capacity; without a capacity no other component would clean up.
    What the node still says in the other dialect goes as well; HAMi's own plugin has nothing to fear.
    """
    held = annotations_of(node)
    volcanos, hamis = settings.speaking(Dialect.VOLCANO), settings.speaking(Dialect.HAMI)
    keys = (*_said_in(Dialect.VOLCANO, held), *_said_in(Dialect.HAMI, held))
    annotations = dict.fromkeys((*keys, *(key for key in (node_devices.AGENTS_KEY, LEFTOVERS_KEY) if key in held)))
    names = [*_summed(volcanos), volcanos.names.count]
    if settings.speaks_hami or _said_in(Dialect.HAMI, held):
        names.append(hamis.names.count)
    left = {
        what: {name: None for name in names if name in _amounts(node, what)} for what in ("capacity", "allocatable")
    }
    status = {what: amounts for what, amounts in left.items() if amounts}
    return Changes(_metadata(annotations), {"status": status} if status else {})


def is_valid(node: Json, *, handshake: bool = True, dialect: Dialect = Dialect.VOLCANO) -> bool:
    """Whether a scheduler that sees the node so survives a slot on offer, now and later (``trials.md`` V2).

    The register reads and has a card, and Volcano's handshake, where one is needed, is the one that never grows old.
    Another may do for a minute; it is about to be replaced.
    """
    if dialect is Dialect.VOLCANO:
        found = annotations_of(node).get(HANDSHAKE_KEY)
        if (found is not None or handshake) and found != HANDSHAKE:
            return False
    return bool(registered_on(node, dialect))


def registered_on(node: Json, dialect: Dialect = Dialect.VOLCANO) -> frozenset[DeviceId]:
    """The healthy cards that the node registers now; none where the register cannot be read."""
    held = annotations_of(node)
    try:
        if dialect is Dialect.HAMI:
            found = hami_register.decode(held.get(hami_register.KEY, ""))
        else:
            found = volcano.decode_register(REGISTER_KEY, held.get(REGISTER_KEY, ""))
    except WireError:
        return frozenset()
    return frozenset(card.id for card in found if card.healthy)


def register_of(node: Json, dialect: Dialect) -> str:
    """The text of the node's register in a dialect, empty where there is none."""
    return annotations_of(node).get(register_key(dialect), "")


def register_key(dialect: Dialect) -> str:
    """The annotation that a node is registered by."""
    return hami_register.KEY if dialect is Dialect.HAMI else REGISTER_KEY


def _said_in(dialect: Dialect, held: Mapping[str, str]) -> tuple[str, ...]:
    """The annotations of a node that an agent of ours wrote in a dialect."""
    if dialect is Dialect.VOLCANO:
        return tuple(key for key in (REGISTER_KEY, HANDSHAKE_KEY, TOUCHED_KEY) if key in held)
    if not hami_register.is_ours(held.get(hami_register.KEY, "")):
        return ()
    answered = held.get(hami_register.HANDSHAKE_KEY) == hami_register.REPORTED
    keys = (hami_register.KEY, hami_register.SCORES_KEY, *((hami_register.HANDSHAKE_KEY,) if answered else ()))
    return tuple(key for key in keys if key in held)


def allocatable(node: Json, resource: str) -> int:
    """How much of a resource the node offers, 0 where it says nothing that can be read."""
    text = _amounts(node, "allocatable").get(resource)
    if not isinstance(text, str | int):
        return 0
    try:
        return quantity.parse(text, key=resource).nano // NANO
    except WireError:
        return 0


def annotations_of(node: Json) -> Mapping[str, str]:
    """The annotations of a node."""
    found: Mapping[str, str] | None = (node.get("metadata") or {}).get("annotations")
    return found or {}


def _judged(cards: tuple[PhysicalDevice, ...], settings: AgentSettings) -> Iterator[tuple[PhysicalDevice, str]]:
    """Each card in the order of the register, with why it is passed over."""
    order = sorted(cards, key=lambda card: (card.minor, card.uuid))
    shared = [card for card in order if not _excluded(card, settings)]
    taken: dict[str, DeviceId] = {}
    for card in order:
        reason = _excluded(card, settings) or _unfit(card, settings)
        if not settings.speaks_hami:
            reason = reason or _confused(card, shared)
        yield card, reason or _doubled(card, taken)
        if not reason:
            taken.setdefault(key_of(card.uuid), card.uuid)


def _excluded(card: PhysicalDevice, settings: SharingSettings) -> str:
    if card.uuid in settings.exclude.uuids:
        return "excluded by its UUID (setting exclude.uuids)"
    if card.index in settings.exclude.indexes:
        return f"excluded by its index {card.index} (setting exclude.indexes)"
    return ""


def _unfit(card: PhysicalDevice, settings: AgentSettings) -> str:
    """Why a card cannot be shared as set, whatever else is on the node."""
    if not _WORD.issuperset(card.uuid) or not card.uuid:
        return f"an allocation cannot store the id {card.uuid!r}; it must be of letters, digits and any of -_."
    if units(card, settings) < 1:
        return (
            f"no memory to share ({card.memory} MiB, factor {settings.gpu_memory_factor}); "
            "check the driver, or set gpuMemoryFactor lower"
        )
    if settings.mode is not SharingMode.MIG:
        return "it is cut by MIG; switch MIG off on it, or set mode mig for this node" if card.mig else ""
    return _uncut(card, settings)


def _uncut(card: PhysicalDevice, settings: AgentSettings) -> str:
    """Why a card has no instances to share."""
    if not card.mig:
        return f"MIG is off on it; switch it on (nvidia-smi -i {card.index} -mig 1), or set another mode for this node"
    if settings.speaks_hami:
        return "" if card.instances or card.partitions else _UNCUT.format(index=card.index)
    if not any(geometry.fits(type_of(card.model)) for geometry in settings.geometries):
        return f"no geometry in knownMigGeometries is for {card.model}, so Volcano would allocate the whole card"
    return ""


def _confused(card: PhysicalDevice, shared: list[PhysicalDevice]) -> str:
    """Volcano compares ids by what they contain: it books ``GPU-ab`` on ``GPU-a`` where both are on a node."""
    inside = next((other.uuid for other in shared if other.uuid != card.uuid and other.uuid in card.uuid), None)
    return "" if not inside else f"its UUID contains that of {inside}, and Volcano would confuse the two"


def _doubled(card: PhysicalDevice, taken: Mapping[str, DeviceId]) -> str:
    other = taken.get(key_of(card.uuid))
    if other is None:
        return ""
    if other == card.uuid:
        return "found twice; the driver reports two cards of one UUID"
    return f"its slots would have the same names as those of {other}; exclude one of the two"


def _registered(card: PhysicalDevice, settings: AgentSettings) -> RegisteredDevice:
    return RegisteredDevice(
        id=card.uuid,
        slots=settings.device_split_count,
        memory=units(card, settings),
        cores=volcano.WHOLE_CARD,
        model=type_of(card.model),
        numa=card.numa or 0,
        healthy=True,
        index=card.index,
        mode=MIG_MODE if settings.mode is SharingMode.MIG else node_devices.DEFAULT_MODE,
    )


def _capacity(registered: tuple[RegisteredDevice, ...], settings: AgentSettings) -> dict[str, int]:
    """The sums over the registered cards. A percentage is offered where it has a name, or nothing that asks for it ever
    starts (``trials.md`` V19)."""
    cores = int(WHOLE * Fraction(str(settings.device_core_scaling)))
    names = _summed(settings)
    sums = (sum(card.memory for card in registered), cores * len(registered), WHOLE * len(registered))
    return dict(zip(names, sums, strict=False))


def _summed(settings: AgentSettings) -> tuple[str, ...]:
    """The resources that are sums in the node's status: memory, cores and, where it has a name, the percentage."""
    resources = settings.names
    named = (resources.memory, resources.cores, resources.memory_percentage)
    return tuple(name for name in named if name)


def _amounts(node: Json, what: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] | None = (node.get("status") or {}).get(what)
    return found or {}


def _is(text: object, amount: int) -> bool:
    if not isinstance(text, str | int):
        return False
    try:
        return quantity.parse(text, key="capacity").nano == amount * NANO
    except WireError:
        return False


def _metadata(annotations: Mapping[str, str | None]) -> Mapping[str, Any]:
    return {"metadata": {"annotations": dict(annotations)}} if annotations else {}
