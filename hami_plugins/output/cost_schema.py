"""The documents about costs, and about nodes that an autoscaler could add."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class PriceDocument(TypedDict):
    """The price of an instance type. Amounts are decimal texts."""

    name: str
    capacityType: Literal["on-demand", "spot", "capacity-block"]
    devices: int
    """0 where it is not known."""
    perHour: str
    perDeviceHour: str | None
    againstFirstPercent: str | None
    """How much dearer it is than the first one; null where nothing is compared."""


class PriceListDocument(TypedDict):
    """The answer of ``hami-plugins prices``."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["PriceList"]
    asOf: str
    region: str
    currency: str
    source: str
    instanceTypes: list[PriceDocument]


class CostDocument(TypedDict):
    """What a plan costs per hour. Amounts are decimal texts."""

    currency: str
    asOf: str
    region: str
    placedPodsPerHour: str
    """Of each node, the share of its devices that the placed pods hold."""
    addedNodesPerHour: str
    unpriced: list[str]
    """Instance types, and how they are bought, without a price; they are not in the sums."""


class GrowthBlockDocument(TypedDict):
    """What keeps an autoscaler from adding the nodes, and what to do about it."""

    kind: Literal[
        "gang",
        "enqueue",
        "resource",
        "limit",
        "reservation",
        "taint",
        "capacity-type",
        "label",
        "pool",
        "other",
        "size",
        "instance-type",
    ]
    message: str
    remedy: str


class GrowthDocument(TypedDict):
    """What one node pool can do for a pod's workload, which has been planned with the further nodes."""

    pool: str
    autoscaler: Literal["Karpenter", "Cluster Autoscaler"]
    instanceType: str
    """Empty where it is not known."""
    nodes: int
    """How many more are needed; 0 where no number of them helps."""
    present: int
    limit: int | None
    """How many nodes the pool may have in all; null for any number."""
    costPerHour: str | None
    """What the further nodes cost; null without a price."""
    currency: str | None
    blocks: list[GrowthBlockDocument]
    words: str
