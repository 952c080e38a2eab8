"""Groups of equal nodes that an autoscaler may make larger, as the cluster and its cloud declare them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from hami_plugins.model.nodes import Taint
from hami_plugins.model.pods import Requirement

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"

CAPACITY_BLOCK_END: Final = "hami-plugins.io/capacity-block-end"
"""Annotation or label of a node: when its Capacity Block ends, as RFC 3339 or (labels have no colons) Unix seconds."""


class CapacityType(StrEnum):
    """How capacity is bought. An On-Demand Capacity Reservation is paid as on-demand."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    CAPACITY_BLOCK = "capacity-block"


class Offering(NamedTuple):
    """What has a price: an instance type, and how it is bought."""

    instance_type: str
    capacity: CapacityType = CapacityType.ON_DEMAND

    def __str__(self) -> str:
        """``trn1.32xlarge``, or ``trn1.32xlarge (spot)``."""
        on_demand = self.capacity is CapacityType.ON_DEMAND
        return self.instance_type if on_demand else f"{self.instance_type} ({self.capacity})"


class Autoscaler(StrEnum):
    """What adds the nodes of a pool."""

    KARPENTER = "Karpenter"
    CLUSTER_AUTOSCALER = "Cluster Autoscaler"


class BlockingReason(NamedTuple):
    """Why a pool gets no node at all, and what to do about it."""

    message: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A capacity reservation of EC2. Times are Unix seconds, ``None`` where the source names none.

    ``block`` says that it is a Capacity Block. ``usable`` is whether instances can be started in it now, ``available``
    how many more, ``None`` where that is not known.
    """

    id: str
    instance_type: str
    zone: str = ""
    block: bool = False
    usable: bool = True
    starts: float | None = None
    ends: float | None = None
    available: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscaledPool:
    """Nodes that an autoscaler adds when pods wait: a NodePool of Karpenter, or a node group of Cluster Autoscaler.

    ``member`` is the label, with its value, that identifies the pool's nodes. ``requirements`` hold for the labels of
    new nodes, which have ``labels`` and ``taints`` (startup taints, which are removed right after the start, are not
    among them). ``present`` is how many nodes it has, ``most`` how many it may have; ``limits`` (nano units per
    resource) hold for the sum of their capacities, of which ``used`` is taken. ``declared`` are the resources (nano
    units) of an empty pool's nodes that tags declare to the autoscaler. ``reservations`` are those that new nodes can
    be started in.
    """

    name: str
    autoscaler: Autoscaler
    member: tuple[str, str]
    requirements: tuple[Requirement, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    present: int = 0
    most: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    declared: Mapping[str, int] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    knows_cloud: bool = True
    obstacle: BlockingReason | None = None

    def allowed(self, key: str) -> tuple[str, ...] | None:
        """The values of a label that new nodes may have, in the order of the pool; ``None`` for any."""
        if key in self.labels:
            return (self.labels[key],)
        listed = [each.values for each in self.requirements if each.key == key and each.operator == "In"]
        if not listed:
            return None
        return tuple(value for value in listed[0] if all(value in values for values in listed))

    @property
    def kind(self) -> str:
        """What its autoscaler calls it."""
        return "NodePool" if self.autoscaler is Autoscaler.KARPENTER else "node group"
