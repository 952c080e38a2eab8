"""Changes that could let a refused pod fit, as values; ``suggest.apply`` says what they do, ``suggest`` finds them.

Amounts are numbers as one writes them in a manifest (units of the named resource), unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from hami_plugins.engine.decide import DecisionRequest, PodDemand
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry, Taint
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.policy import Policy
from hami_plugins.model.units import NodeName, VendorName


class ChangeKind(StrEnum):
    """What is changed. The order is that in which equally small changes are offered."""

    MEMORY = "memory"
    PERCENTAGE = "memory-percentage"
    CORES = "cores"
    COUNT = "devices"
    EXCLUSIVE = "mutex"
    NEAR = "topology-aware"
    ONE_NUMA = "numa-bind"
    USE_IDS = "use-ids"
    AVOID_IDS = "avoid-ids"
    USE_MODELS = "use-models"
    AVOID_MODELS = "avoid-models"
    MODES = "modes"
    RESOURCE = "resource"
    NODE_SELECTOR = "node-selector"
    NODE_AFFINITY = "node-affinity"
    NODE_NAME = "node-name"
    TOLERATION = "toleration"
    QUOTA_MEMORY = "quota-memory"
    QUOTA_CORES = "quota-cores"
    NODE_LABEL = "node-label"
    VICTIM = "victim"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class LessOf:
    """Containers with the same request ask for less of one resource. ``before`` is ``None`` for a whole device."""

    kind: ChangeKind
    resource: str
    before: int | None
    after: int
    containers: tuple[int, ...]
    vendor: VendorName

    @property
    def container(self) -> int:
        """The first of them."""
        return self.containers[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LessPlain:
    """The pod asks for less of a resource that nodes sum up (cpu, memory ...), in nano units."""

    resource: str
    before: int
    after: int

    @property
    def kind(self) -> ChangeKind:
        """``RESOURCE``."""
        return ChangeKind.RESOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A wish given up: ``key`` is the annotation, the label or the field that said ``value``.

    ``vendor`` is set where the wish is about one vendor's devices. Where a vendor reads several annotations to the same
    end, ``key`` names all of them, joined by commas.
    """

    kind: ChangeKind
    key: str
    value: str = ""
    vendor: VendorName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerated:
    """A toleration for one taint is added to the pod."""

    taint: Taint

    @property
    def kind(self) -> ChangeKind:
        """``TOLERATION``."""
        return ChangeKind.TOLERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedQuota:
    """The namespace may have more of a vendor's resource: ``left`` (may be negative) becomes ``needed``."""

    kind: ChangeKind
    resource: str
    left: int
    needed: int
    vendor: VendorName

    @property
    def by(self) -> int:
        """How much the limit has to grow."""
        return self.needed - self.left


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A node gets another value of a label that says in which sets its devices are allocated."""

    node: NodeName
    key: str
    value: str

    @property
    def kind(self) -> ChangeKind:
        """``NODE_LABEL``."""
        return ChangeKind.NODE_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Another pod goes (or, when it is terminating already, is waited for)."""

    pod: PodRecord
    node: NodeName

    @property
    def kind(self) -> ChangeKind:
        """``VICTIM``."""
        return ChangeKind.VICTIM


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedNode:
    """One more node or several, as ``like`` was when it was new (a node of the cluster, or an offered shape)."""

    like: NodeName
    count: int = 1

    @property
    def kind(self) -> ChangeKind:
        """``NODE``."""
        return ChangeKind.NODE


Change: TypeAlias = LessOf | LessPlain | Dropped | Tolerated | RaisedQuota | Labelled | Removed | AddedNode


Settle: TypeAlias = Callable[[tuple[Change, ...]], DecisionRequest | None]
"""What the question becomes once changes are made; ``None`` when the pod would not even be admitted so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual:
    """A change (or two together) that makes a refused pod fit, with the proof.

    ``node`` is the node that would take the pod, as it would be then; deciding ``demand`` under ``policy`` on it gives
    ``placed``. ``cost`` is how much is given up (see ``suggest``).
    """

    changes: tuple[Change, ...]
    demand: PodDemand
    policy: Policy
    node: NodeEntry
    placed: Placed
    cost: float

    @property
    def kinds(self) -> tuple[ChangeKind, ...]:
        """What kinds of change are needed."""
        return tuple(change.kind for change in self.changes)

    @property
    def victim(self) -> PodRecord | None:
        """The pod that has to go, if one has to."""
        return next((change.pod for change in self.changes if isinstance(change, Removed)), None)

    def applied_to(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The whole cluster with the node as it would be then."""
        if self.node.name in snapshot.position:
            return snapshot.with_node(self.node)
        return snapshot.with_more_nodes((self.node,))
