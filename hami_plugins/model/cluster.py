"""The whole cluster at one moment, as a persistent value: every change makes a new snapshot that shares the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final, NamedTuple

from hami_plugins.model.claims import NO_RESOURCES, DynamicResources
from hami_plugins.model.node_pools import AutoscaledPool
from hami_plugins.model.nodes import NodeEntry, Problem
from hami_plugins.model.pods import Pod, Requirement
from hami_plugins.model.units import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuota:
    """The hard limits of one namespace (Kubernetes ResourceQuota), in nano units per resource key as written there.

    ``used`` is what the API server says is taken of them. ``scoped`` are the names of quotas that hold only some pods:
    of their limits these are the ones that hold all the same.
    """

    namespace: str
    hard: Mapping[str, int]
    used: Mapping[str, int] = field(default_factory=dict)
    scoped: tuple[str, ...] = ()

    def of_devices(self) -> NamespaceQuota:
        """Its limits of devices alone: they are HAMi's, the API server has limits of CPU, memory and the like."""
        hard, used = ({key: of[key] for key in of if _is_of_device(key)} for of in (self.hard, self.used))
        return replace(self, hard=hard, used=used)

    def together_with(self, other: NamespaceQuota) -> NamespaceQuota:
        """Both quotas of a namespace at once: a pod has to respect each, so the smaller limit of every key holds."""
        hard = dict(self.hard)
        for key, amount in other.hard.items():
            hard[key] = min(amount, hard.get(key, amount))
        used = {key: max(self.used.get(key, 0), other.used.get(key, 0)) for key in (*self.used, *other.used)}
        return NamespaceQuota(namespace=self.namespace, hard=hard, used=used, scoped=self.scoped + other.scoped)


def _is_of_device(key: str) -> bool:
    return key.startswith("limits.") and "/" in key


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A Volcano queue; amounts in nano units. ``capability`` is a hard cap, ``guarantee`` is kept from other queues.

    ``reclaimable`` says whether pods of other queues may take back what it holds beyond its share. Queues of higher
    ``priority`` come first; ``made_at`` is when it was created (Unix seconds), ``None`` for not known.
    """

    name: str
    weight: int = 1
    capability: Mapping[str, int] = field(default_factory=dict)
    guarantee: Mapping[str, int] = field(default_factory=dict)
    deserved: Mapping[str, int] = field(default_factory=dict)
    parent: str = ""
    open: bool = True
    reclaimable: bool = True
    priority: int = 0
    made_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """A PodDisruptionBudget: of the pods of a namespace whose labels meet the requirements, ``allowed`` may go now."""

    namespace: str
    name: str
    requirements: tuple[Requirement, ...] = ()
    allowed: int = 0


class PriorityClass(NamedTuple):
    """The value of a priority class, and whether pods of it may preempt others."""

    name: str
    value: int
    preempts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A Volcano gang: ``min_member`` pods start together or none does. ``min_by_task`` is the same per task.

    ``min_resources`` (nano units) has to be free before its pods are considered; without it they always are.
    ``made_at`` is when it was created (Unix seconds), ``None`` if unknown. ``annotations`` include those of its Volcano
    Job.
    """

    namespace: str
    name: str
    min_member: int = 1
    min_by_task: Mapping[str, int] = field(default_factory=dict)
    queue: str = "default"
    min_resources: Mapping[str, int] | None = None
    phase: str = "Pending"
    priority_class: str = ""
    made_at: int | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a dump of a cluster holds: the number of objects of each kind, and the namespaces of its pods."""

    kinds: Mapping[str, int]
    pod_namespaces: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterSnapshot:
    """Nodes in name order with what is promised of them, and everything else that a plan honours.

    ``pending`` are the pods that hold nothing yet. ``succeeded`` counts the pods of every PodGroup (``namespace/name``)
    that have ended well, by task. ``priorities`` are the values of priority classes by name, ``never_preempting`` the
    names of those for whose pods no other is evicted.
    ``problems`` are the objects that could not be read. ``taken_at`` is the latest time that any object names (Unix
    seconds), which is when the snapshot was taken as far as it can tell; ``None`` where none names any.
    ``listing`` says what a dump holds, because it may lack kinds; ``None`` where the source is complete. ``evicted``
    are the messages of the last events about evictions, by the full names of the pods. ``dynamic`` is what is known of
    claims and the devices for them, ``pools`` are the node pools that an autoscaler may make larger.
    """

    nodes: tuple[NodeEntry, ...] = ()
    pending: tuple[Pod, ...] = ()
    quotas: Mapping[str, NamespaceQuota] = field(default_factory=dict)
    queues: Mapping[str, Queue] = field(default_factory=dict)
    pod_groups: Mapping[str, PodGroup] = field(default_factory=dict)
    succeeded: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    never_preempting: frozenset[str] = frozenset()
    budgets: tuple[DisruptionBudget, ...] = ()
    problems: tuple[Problem, ...] = ()
    taken_at: int | None = None
    listing: Listing | None = None
    evicted: Mapping[str, str] = field(default_factory=dict)
    dynamic: DynamicResources = NO_RESOURCES
    pools: tuple[AutoscaledPool, ...] = ()
    position: Mapping[NodeName, int] = field(default_factory=dict)
    """Where in ``nodes`` each is, worked out; ``replace`` hands it on, so that the same names need no second look."""

    def __post_init__(self) -> None:
        if list(self.position) == [entry.name for entry in self.nodes]:
            return
        ordered = tuple(sorted(self.nodes, key=lambda entry: entry.name))
        object.__setattr__(self, "nodes", ordered)
        object.__setattr__(self, "position", {entry.name: at for at, entry in enumerate(ordered)})

    def node(self, name: NodeName) -> NodeEntry | None:
        """The node of that name, or ``None``."""
        at = self.position.get(name)
        return None if at is None else self.nodes[at]

    def with_node(self, entry: NodeEntry) -> ClusterSnapshot:
        """The snapshot in which a known node of the same name is replaced; costs one tuple copy."""
        at = self.position[entry.name]
        successor = _shallow_copy(self)
        object.__setattr__(successor, "nodes", (*self.nodes[:at], entry, *self.nodes[at + 1 :]))
        return successor

    def with_dynamic(self, dynamic: DynamicResources) -> ClusterSnapshot:
        """The snapshot with other claims or devices for them."""
        successor = _shallow_copy(self)
        object.__setattr__(successor, "nodes", self.nodes)
        object.__setattr__(successor, "dynamic", dynamic)
        return successor

    def with_more_nodes(self, entries: Iterable[NodeEntry]) -> ClusterSnapshot:
        """The snapshot with further nodes (names must be new)."""
        return replace(self, nodes=(*self.nodes, *entries))

    def only(self, keep: Callable[[NodeEntry], bool]) -> ClusterSnapshot:
        """The snapshot restricted to some of its nodes."""
        return replace(self, nodes=tuple(entry for entry in self.nodes if keep(entry)))


_SHARED: Final = tuple(each.name for each in fields(ClusterSnapshot) if each.name != "nodes")
"""The parts that a snapshot with one node replaced shares with the one before."""


def _shallow_copy(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    successor = object.__new__(ClusterSnapshot)
    for name in _SHARED:
        object.__setattr__(successor, name, getattr(snapshot, name))
    return successor
