"""The document that ``nodes -o json`` prints, as types."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from hami_plugins.output.schema import ProblemDocument, WarningDocument


class DeviceHolderDocument(TypedDict):
    """What one container holds of one device."""

    namespace: str
    pod: str
    container: str
    kind: Literal["init", "sidecar", "app"]
    memoryMiB: int
    cores: int
    partition: str
    """The hardware partition (``1g.10gb@0``) or the core numbers; empty for a plain share."""
    terminating: bool


class DeviceRoomDocument(TypedDict):
    """What has become of the part of a device that no pod holds."""

    state: Literal["free", "stranded", "unavailable", "full", "overbooked"]
    """Stranded room is free, and no request can get it; unavailable room is on an unhealthy or cordoned device or node.
    Of an overbooked device more is promised than it has."""
    amount: int
    unit: Literal["MiB", "cores", "slots"]
    why: str
    """Why it is stranded or unavailable."""


class DeviceDocument(TypedDict):
    """One device, what is promised of it, and which containers hold it."""

    id: str
    index: int
    vendor: str
    dialect: str
    model: str
    mode: str
    """The mode that the node registers, such as ``hami-core`` or ``mig``."""
    profiles: list[str]
    """The partitions that it can be cut into."""
    numa: int
    healthy: bool
    cordoned: bool
    memoryMiB: int
    usedMemoryMiB: int
    cores: int
    """In the vendor's unit: per cent of a card on most."""
    usedCores: int
    slots: int
    """How many containers may share it."""
    usedSlots: int
    room: DeviceRoomDocument
    holders: list[DeviceHolderDocument]


class DeviceSumDocument(TypedDict):
    """The devices of one model together, in the unit of the model."""

    vendor: str
    model: str
    devices: int
    unit: Literal["MiB", "cores", "slots"]
    total: int
    held: int
    free: int
    stranded: int
    unavailable: int


class NodeDocument(TypedDict):
    """One node that has devices."""

    name: str
    ready: bool
    cordoned: bool
    taints: list[str]
    """Those that keep pods away, as ``key=value:effect``."""
    sums: list[DeviceSumDocument]
    devices: list[DeviceDocument]


class NodesSummaryDocument(TypedDict):
    """How many there are."""

    nodes: int
    devices: int
    withoutDevices: int
    """Further nodes, which have no such devices."""


class WaitingReasonDocument(TypedDict):
    """One reason for which nodes refuse."""

    nodes: int
    words: str
    examples: list[str]


class WaitingGroupDocument(TypedDict):
    """Pods that ask for the same and wait for devices."""

    pods: int
    names: list[str]
    """The first of them, ``namespace/name``."""
    scheduler: str
    since: str
    """When the first of them was created; empty where that is not known."""
    why: str
    fittingNodes: int
    """How many nodes have room for one of them now."""
    reasons: list[WaitingReasonDocument]
    suggestions: list[str]


class WaitingDocument(TypedDict):
    """What waits for devices, those that have waited longest first."""

    pods: int
    more: int
    """Pods in no group, because others have waited longer."""
    groups: list[WaitingGroupDocument]


class NodesDocument(TypedDict):
    """The answer of ``hami-plugins nodes``."""

    apiVersion: str
    kind: Literal["NodeDevices"]
    summary: NodesSummaryDocument
    sums: list[DeviceSumDocument]
    nodes: list[NodeDocument]
    waiting: WaitingDocument
    problems: list[ProblemDocument]
    """What could not be read."""
    warnings: list[WarningDocument]
    """What the listing lacks that the answer depends on."""
    listed: dict[str, int]
    """The number of objects of each kind in a dump; empty for a complete source."""
