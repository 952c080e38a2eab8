"""One node as the decisions see it: a hashable state without names, and the names kept separately."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hami_plugins.model.devices import IDLE, Device, DeviceUsage
from hami_plugins.model.units import DeviceId, NodeName, VendorName

if TYPE_CHECKING:
    from hami_plugins.model.pods import PodRecord
    from hami_plugins.model.quantity import Quantity

DEVICE_WEIGHT: Final = 10
"""Weight of the device part of a node's score (HAMi ``util.Weight``)."""


class NodeShape:
    """The devices of a node and how they are linked: what does not change when pods come and go.

    ``links[i][j]`` is the pair score of devices i and j (higher is nearer; empty when nothing is known), ``traits`` are
    node-wide vendor facts as sorted pairs. Hash and lookups are computed once, because shapes are cache keys.
    """

    __slots__ = ("_hash", "devices", "links", "positions", "total_cores", "total_memory", "total_slots", "traits")

    def __init__(
        self,
        devices: tuple[Device, ...],
        links: tuple[tuple[int, ...], ...] = (),
        traits: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.devices = devices
        self.links = links
        self.traits = traits
        self.total_slots = sum(device.slots for device in devices)
        self.total_memory = sum(device.memory for device in devices)
        self.total_cores = sum(device.cores for device in devices)
        positions: dict[VendorName, list[int]] = {}
        for position, device in enumerate(devices):
            positions.setdefault(device.vendor, []).append(position)
        self.positions: Mapping[VendorName, tuple[int, ...]] = {name: tuple(at) for name, at in positions.items()}
        self._hash = hash((devices, links, traits))

    def trait(self, name: str) -> str | None:
        """The value of one node-wide vendor fact, or ``None``."""
        for key, value in self.traits:
            if key == name:
                return value
        return None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, NodeShape)
            and self._hash == other._hash
            and self.devices == other.devices
            and self.links == other.links
            and self.traits == other.traits
        )

    def __repr__(self) -> str:
        return f"NodeShape({len(self.devices)} devices: {', '.join(sorted(self.positions))})"


class NodeState:
    """A node's shape and what is promised of each device: all that a decision about one node depends on."""

    __slots__ = ("_hash", "base_score", "shape", "usage")

    def __init__(self, shape: NodeShape, usage: tuple[DeviceUsage, ...]) -> None:
        self.shape = shape
        self.usage = usage
        self._hash = hash((shape, usage))
        self.base_score = _base_score(shape, usage)

    @classmethod
    def idle(cls, shape: NodeShape) -> NodeState:
        """The state of an unused node."""
        return cls(shape, (IDLE,) * len(shape.devices))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, NodeState)
            and self._hash == other._hash
            and self.usage == other.usage
            and self.shape == other.shape
        )

    def __repr__(self) -> str:
        return f"NodeState({self.shape!r}, {self.usage!r})"


def _base_score(shape: NodeShape, usage: tuple[DeviceUsage, ...]) -> float:
    """How full the node is, 0 to 30: HAMi's default node score (``policy/node_policy.go``), before any new pod."""
    if not (shape.total_slots and shape.total_cores and shape.total_memory):
        return 0.0
    slots = memory = cores = 0
    for used in usage:
        slots += used.slots
        memory += used.memory
        cores += used.cores
    return DEVICE_WEIGHT * (slots / shape.total_slots + cores / shape.total_cores + memory / shape.total_memory)


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What the scheduler itself looks at on a node, devices aside.

    ``tolerated`` are the keys of taints that a pod tolerates by requesting the resource of that name: the API server
    adds the toleration where the admission plugin ``ExtendedResourceToleration`` is on. ``kubelet`` is its version.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    tolerated: frozenset[str] = frozenset()
    kubelet: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the cluster that could not be read: where it is, what it says, why it was skipped.

    ``remedied`` is whether ``what`` ends with what to do about it.
    """

    place: str
    what: str
    remedied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeEntry:
    """A node with its names: ``ids[i]`` is the id of device i of ``state.shape``.

    ``pods`` are the pods that hold something on the node, ``requested`` the sums of their plain requests in nano units.
    ``notes`` are what vendors' objections read (``DeviceInventory.notes``).
    Entries are compared by identity: a changed node is a new entry.
    """

    name: NodeName
    state: NodeState
    ids: tuple[DeviceId, ...]
    facts: NodeFacts
    pods: tuple[PodRecord, ...] = ()
    requested: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()

    def position(self, device: DeviceId) -> int | None:
        """Where a device stands on the node, or ``None`` when the node has no such device."""
        try:
            return self.ids.index(device)
        except ValueError:
            return None

    def device(self, name: DeviceId) -> Device | None:
        """A device of the node by its id."""
        at = self.position(name)
        return None if at is None else self.state.shape.devices[at]
