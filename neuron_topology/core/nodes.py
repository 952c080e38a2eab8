"""The devices of a node and how they are wired: from the Node object, and back from the shape that decisions see.

Besides AWS's own labels and resources a node may carry its machine's report (``LINKS_KEY``, the output of ``neuron-ls
-j``), its broken parts (``HEALTH_KEY``), and the family of sets of its pool (``FAMILY_LABEL``). Unreadable ones are
ignored and reported; the devices stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from hami_plugins.engine.inventories import capacity_of, cards
from hami_plugins.errors import WireError
from hami_plugins.model.devices import MEMORY_BY_CORES, Device, DeviceUsage
from hami_plugins.model.inventory import NO_DEVICES, DeviceInventory, NodeCondition, NodeObject
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.vendor_names import ResourceNames
from neuron_topology.core import capacity_block_end, efa
from neuron_topology.core.hardware import neuron_ls
from neuron_topology.core.hardware.fabric import mask_of, recognised
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.hardware.machines import (
    Link,
    MachineHealth,
    NeuronMachine,
    decode_health,
    machine_of,
    with_health,
)
from neuron_topology.core.hardware.neuron_ls import MOST_DEVICES, Observation
from neuron_topology.core.names import INSTANCE_LABEL, ULTRASERVER_PLACES
from neuron_topology.core.node_filters import CLOSED, ENDS
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.locality import Locality
from neuron_topology.core.sets.tables import Tables, Topology

VENDOR: Final = VendorName("AWSNeuron")
"""HAMi's word for these devices; this is the vendor that takes the place of HAMi's."""

LINKS_KEY: Final = "hami-plugins.io/neuron-ls"
"""Node annotation: what ``neuron-ls -j`` prints on the machine, or its table."""

HEALTH_KEY: Final = "hami-plugins.io/neuron-health"
"""Node annotation: ``{"devices": [7], "links": [[4, 5]], "repaired": [9]}``, what is broken and what was repaired."""

USAGE_KEYS: Final = ("NEURON_DEV_USAGE_MAP", "NEURON_CORE_USAGE_MAP")
"""Node annotations of AWS's scheduler extension: which devices and cores it holds for used, a word for each."""

FAMILY_LABEL: Final = "hami-plugins.io/neuron-sets"
"""Node label: ``aws`` (the default) or ``linked``, the sets that devices of the pool are allocated in."""

DETECTOR: Final = "NeuronHealth"
"""Node condition of Neuron's node problem detector (AWS Neuron SDK 2.32)."""

AGENT: Final = "AcceleratedHardwareReady"
"""Node condition of the EKS node monitoring agent."""

_ERROR: Final = "NeuronHasError"
"""What the detector's reasons begin with where something is broken, whatever the condition's status."""

MOST_CORES: Final = 31
"""The mask of an assignment has no room for more cores of a device."""

_FAMILY: Final = "neuron-sets"
_DEAD: Final = "neuron-dead-links"
_MISSING: Final = "neuron-not-allocatable"
_TYPE: Final = "neuron-type"
_PCIE: Final = "pcie"
_EFA: Final = "efa"
_REPAIRED: Final = "repaired"


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """As many devices as the node's capacity says, wired as its machine or else its type says."""
    names = spec.resources
    count = next(filter(None, (capacity_of(node, name) for name in (names.count, *names.older))), None)
    if count is None:
        return NO_DEVICES
    if count > MOST_DEVICES:
        raise WireError(f"node {node.name}: {names.count}", str(count), f"more than the {MOST_DEVICES} of any machine")
    health, slips = _health(node)
    machine = _machine(node, count, health)
    family, unknown = _family(node)
    notes, unclear = _notes(node, health)
    told, slip = _told_cores(node, names.cores)
    cores = min(told // count or machine.cores, MOST_CORES)
    counted, count = count, _places(machine, count)
    found = cards(spec, node, count, infix=spec.name, slots=max(cores, 1), memory=MiB(0), cores=CoreShare(cores))
    places = {_PCIE: _grouped(machine.pcie), _EFA: _grouped(machine.efa)}
    devices = tuple(
        replace(
            device,
            numa=machine.numa[at] if machine.numa else 0,
            healthy=at not in machine.sick,
            traits=(
                (MEMORY_BY_CORES, f"{machine.memory}"),
                *((trait, group.get(at, "")) for trait, group in places.items()),
                (_REPAIRED, str(at in machine.worn)),
            ),
        )
        for at, device in enumerate(found.devices)
    )
    name = node.labels.get(INSTANCE_LABEL, "")
    missing = _missing(names, node, counted) - len(machine.sick if counted == count else machine.sick - machine.absent)
    dead = ",".join(f"{one}-{other}" for one, other in machine.dead if other < count)
    return DeviceInventory(
        devices=devices,
        ids=found.ids,
        links=_matrix(machine, count),
        traits=((_DEAD, dead), (_FAMILY, family), (_MISSING, f"{max(missing, 0)}"), (_TYPE, name)),
        notes=notes,
        remarks=(
            *slips,
            *machine.remarks,
            *unclear,
            *(why for note, why in notes if note == CLOSED),
            *unknown,
            *slip,
            *_odd_cores(name, cores),
            *_odd_maps(node, counted, cores),
            *_withheld(missing, counted),
            *efa.shortage(node, INSTANCE_TYPES.get(name)),
        ),
    )


def _grouped(groups: Iterable[Sequence[int]]) -> dict[int, str]:
    """The number of each device's group."""
    return {device: str(at) for at, devices in enumerate(groups) for device in devices}


def _told_cores(node: NodeObject, name: str) -> tuple[int, tuple[str, ...]]:
    """The cores by the node's capacity, 0 if missing; a remark on unreadable values."""
    try:
        return capacity_of(node, name) or 0, ()
    except WireError as error:
        return 0, (f"ignored: {error}",)


def _places(machine: NeuronMachine, count: int) -> int:
    """As many places as indexes go, where those of the node's devices leave out devices that are not on the bus."""
    places = machine.fabric.devices
    return places if places - len(machine.absent) == count else count


def _missing(names: ResourceNames, node: NodeObject, count: int) -> int:
    """How many of the node's devices are not allocatable: AWS's plugin reports them unhealthy, and not which."""
    name = next((each for each in (names.count, *names.older) if capacity_of(node, each)), names.count)
    told = node.allocatable.get(name)
    return count - told.ceiling if told is not None else 0


def _withheld(missing: int, count: int) -> tuple[str, ...]:
    """A remark on devices that are not allocatable, if it is unknown which they are."""
    if missing <= 0:
        return ()
    return (
        f"{missing} of {count} devices are not allocatable, and the node does not name them: as many free ones are "
        f"reserved; name them in {HEALTH_KEY}",
    )


def _notes(node: NodeObject, health: MachineHealth) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Why no pod begins on the node, when it goes, and where in its UltraServer it is; a remark on what cannot be read.

    The detector speaks of the whole node. Where ``HEALTH_KEY`` says what of it is broken, the rest stays in use.
    """
    notes = [(label, node.labels[label]) for label in ULTRASERVER_PLACES if node.labels.get(label)]
    if why := next(filter(None, (_reported(each, health) for each in node.conditions)), ""):
        notes.append((CLOSED, why))
    try:
        end = capacity_block_end.end_of(node.annotations, node.labels)
    except ValueError as error:
        return tuple(notes), (str(error),)
    if end is not None:
        notes.append((ENDS, f"{end}"))
    return tuple(notes), ()


def _reported(condition: NodeCondition, health: MachineHealth) -> str:
    """Why no pod begins on a node with such a condition; empty where it says nothing against that."""
    said = f"the node's condition {condition.kind} is {condition.status} ({condition.reason or 'no reason given'})"
    if condition.kind == AGENT and condition.status == "False":
        return f"{said}; it takes no pods until that ends or the node is replaced"
    if condition.kind == DETECTOR and condition.reason.startswith(_ERROR) and not (health.devices or health.links):
        return f"{said}; replace the node, or name the broken device in {HEALTH_KEY}, to use the others"
    return ""


def _health(node: NodeObject) -> tuple[MachineHealth, tuple[str, ...]]:
    """What is known to be broken on the node, with remarks on what of it could not be read."""
    written = node.annotations.get(HEALTH_KEY)
    if written is None:
        return MachineHealth(), ()
    try:
        return decode_health(HEALTH_KEY, written)
    except WireError as error:
        return MachineHealth(), (f"ignored: {error}",)


def _machine(node: NodeObject, count: int, health: MachineHealth) -> NeuronMachine:
    """The node's machine, with remarks on what could not be read."""
    remarks: tuple[str, ...] = ()
    observed: Observation | None = None
    if (printed := node.annotations.get(LINKS_KEY)) is not None:
        try:
            observed = neuron_ls.decode(LINKS_KEY, printed)
        except WireError as error:
            remarks = (f"ignored: {error}",)
    machine = with_health(machine_of(node.labels.get(INSTANCE_LABEL, ""), count, observed), health)
    return replace(machine, remarks=(*remarks, *machine.remarks))


def _family(node: NodeObject) -> tuple[Family, tuple[str, ...]]:
    word = node.labels.get(FAMILY_LABEL, Family.AWS)
    try:
        return Family(word), ()
    except ValueError:
        known = " or ".join(Family)
        return Family.AWS, (f"label {FAMILY_LABEL}={word} is not {known}; {Family.AWS} it is",)


def _odd_cores(name: str, cores: int) -> tuple[str, ...]:
    """A remark on a number of cores that the instance type has at no setting."""
    known = INSTANCE_TYPES.get(name)
    if known is None or cores in {known.logical_cores(lnc) for lnc in (0, *known.lnc_choices)}:
        return ()
    return (f"the node has {cores} cores a device, {name} has {known.logical_cores()}",)


def usage_map(text: str, places: int, what: str) -> tuple[tuple[bool, ...], str]:
    """A map of AWS's extension with a word for each of so many places, or why it is none."""
    words = [word.strip().lower() for word in text.split(",")]
    if not {"true", "false"}.issuperset(words):
        return (), f"is not a list of true and false: {text[:60]!r}"
    if len(words) != places:
        return (), f"has {len(words)} words, and the node has {places} {what}s"
    return tuple(word == "true" for word in words), ""


def _odd_maps(node: NodeObject, count: int, cores: int) -> tuple[str, ...]:
    """Remarks on maps of AWS's extension that are not what it writes; nothing is decided by them."""
    remarks = []
    for key, places, what in zip(USAGE_KEYS, (count, count * cores), ("device", "core"), strict=True):
        _, why = usage_map(node.annotations[key], places, what) if key in node.annotations else ((), "")
        if why:
            remarks.append(f"{key} {why}; neuron repair removes it, and AWS's scheduler extension recreates it")
    return tuple(remarks)


def _matrix(machine: NeuronMachine, count: int) -> tuple[tuple[int, ...], ...]:
    """1 for each pair of devices with a link that works."""
    live = machine.fabric.links - set(machine.dead)
    return tuple(tuple(int((min(at, to), max(at, to)) in live) for to in range(count)) for at in range(count))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wiring:
    """What decisions ask about the Neuron devices of one shape of node.

    ``name`` is the instance type (empty if unknown), ``repaired`` the mask of devices with repaired errors, ``cores``
    the logical cores of a device, ``worth`` the value of all sets when nothing is allocated. ``missing`` is how many
    devices more than those that are known to be broken are not allocatable: as many have to stay free.
    """

    tables: Tables
    name: str
    repaired: int
    cores: int
    worth: int
    positions: tuple[int, ...]
    missing: int = 0

    @property
    def topology(self) -> Topology:
        """The graph, the family of sets and the places of the devices."""
        return self.tables.topology

    def usable(self, shape: NodeShape) -> int:
        """How many devices may be allocated at all."""
        return sum(1 for at in self.positions if shape.devices[at].healthy and not shape.devices[at].cordoned)

    def free(self, shape: NodeShape, usage: Sequence[DeviceUsage]) -> int:
        """The mask of healthy free devices."""
        free = 0
        for at in self.positions:
            device = shape.devices[at]
            if device.healthy and not device.cordoned and not usage[at].slots:
                free |= 1 << device.index
        return free


@lru_cache(maxsize=4096)
def wiring_of(shape: NodeShape) -> Wiring:
    """The wiring of a shape whose node has Neuron devices."""
    positions = shape.positions[VENDOR]
    devices = [shape.devices[at] for at in positions]
    dead = tuple(_links(shape.trait(_DEAD) or ""))
    rows = [[to for to, other in enumerate(positions) if _linked(shape, at, other)] for at in positions]
    for one, other in dead:
        rows[one].append(other)
    tables = Topology(
        recognised(rows),
        Family(shape.trait(_FAMILY) or Family.AWS),
        Locality(tuple(device.numa for device in devices), _groups(devices, _PCIE), _groups(devices, _EFA)),
        dead,
    ).tables
    return Wiring(
        tables=tables,
        name=shape.trait(_TYPE) or "",
        repaired=mask_of(device.index for device in devices if device.trait(_REPAIRED) == str(True)),
        cores=min(device.cores for device in devices),
        worth=tables.value(tables.full),
        positions=positions,
        missing=int(shape.trait(_MISSING) or 0),
    )


def _groups(devices: Iterable[Device], trait: str) -> tuple[tuple[int, ...], ...]:
    """The indexes of devices by a trait that they share."""
    groups: dict[str, list[int]] = {}
    for device in devices:
        if name := device.trait(trait):
            groups.setdefault(name, []).append(device.index)
    return tuple(map(tuple, groups.values()))


def of_family(shape: NodeShape, family: Family) -> NodeShape:
    """The shape that the node would have in a pool of this family."""
    traits = tuple((name, family.value if name == _FAMILY else value) for name, value in shape.traits)
    return NodeShape(shape.devices, shape.links, traits)


def _linked(shape: NodeShape, one: int, other: int) -> bool:
    return bool(shape.links) and shape.links[one][other] > 0


def _links(written: str) -> Iterable[Link]:
    for pair in filter(None, written.split(",")):
        one, _, other = pair.partition("-")
        yield int(one), int(other)
