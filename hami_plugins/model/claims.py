"""Dynamic Resource Allocation as values: slices of devices, classes, claims, and what claims were given.

Amounts are in nano units, as everywhere (``model.quantity``). Source of the fields: ``k8s.io/api/resource/v1`` of 1.34
to 1.36; the older shapes are read into the same values (``wire.resource_slices``, ``wire.resource_claims``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from hami_plugins.model.pods import Requirement, Toleration
from hami_plugins.model.units import NodeName


class SemanticVersion(NamedTuple):
    """A semantic version as it is written; minimal by the rules of semver, so that equal versions are equal texts."""

    text: str


AttributeValue: TypeAlias = str | int | bool | SemanticVersion
"""One value of a device's attribute."""


class PoolId(NamedTuple):
    """A pool of devices: the driver that publishes it, and its name."""

    driver: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


class PoolDevice(NamedTuple):
    """A device in the cluster."""

    pool: PoolId
    name: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.name}"


class CapacityPolicy(NamedTuple):
    """How requests of a capacity are rounded and limited (``requestPolicy``); ``values`` ascend."""

    default: int | None = None
    least: int | None = None
    most: int | None = None
    step: int | None = None
    values: tuple[int, ...] = ()

    @property
    def ranged(self) -> bool:
        """Whether it has a valid range."""
        return self.least is not None or self.most is not None


class DeviceCapacity(NamedTuple):
    """An amount that a device has, and how it is given out where the device may be allocated several times."""

    value: int
    policy: CapacityPolicy | None = None


class CounterUse(NamedTuple):
    """What a device takes of one counter set of its pool while it is allocated: counters with amounts."""

    counters: str
    amounts: tuple[tuple[str, int], ...]


class DeviceTaint(NamedTuple):
    """A taint of a device."""

    key: str
    value: str = ""
    effect: str = ""


class DeviceNodes(NamedTuple):
    """The nodes that reach a device: one by name, all, or those that a selector (an OR of ANDs) chooses."""

    node: NodeName | None = None
    everywhere: bool = False
    terms: tuple[tuple[Requirement, ...], ...] | None = None

    @property
    def known(self) -> bool:
        """Whether it says anything that is understood here."""
        return self.node is not None or self.everywhere or self.terms is not None


NOWHERE: Final = DeviceNodes()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SliceDevice:
    """A device as its driver publishes it. ``shared`` is ``allowMultipleAllocations``, ``waits`` whether something has
    to happen before a pod can use it (binding conditions).

    Names of attributes and capacities are as written, with or without their domain. ``nodes`` is set where each device
    of the slice has its own nodes. ``not_read`` names a member that decides about the device and is not understood.
    """

    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[str, DeviceCapacity] = field(default_factory=dict)
    shared: bool = False
    uses: tuple[CounterUse, ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    nodes: DeviceNodes | None = None
    waits: bool = False
    not_read: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResourceSlice:
    """Some devices of a pool, or counters that its devices use. ``slices`` is how many the pool has."""

    name: str
    pool: PoolId
    generation: int = 0
    slices: int = 1
    nodes: DeviceNodes = NOWHERE
    per_device: bool = False
    devices: tuple[SliceDevice, ...] = ()
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """A class of devices: CEL expressions that all have to hold, and the plain resource that stands for it.

    ``made_at`` is when it was created (Unix seconds): of two classes with one resource the newer counts.
    """

    name: str
    selectors: tuple[str, ...] = ()
    resource: str = ""
    made_at: int | None = None
    not_read: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChoice:
    """What one request may be met with: devices of a class that all selectors accept. ``count`` 0 is "all of them".

    ``name`` is that of the alternative of a prioritized list, empty for a request without one. ``capacity`` are the
    requested amounts by name, ``not_read`` a member that decides and is not understood.
    """

    class_name: str
    name: str = ""
    selectors: tuple[str, ...] = ()
    count: int = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    not_read: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """One request of a claim; the first of its choices that can be had is taken.

    ``listed`` says that they come from a prioritized list (``firstAvailable``).
    """

    name: str
    choices: tuple[DeviceChoice, ...]
    listed: bool = False


class ClaimConstraint(NamedTuple):
    """Devices of these requests (of all without any) have one value of an attribute, or all different ones."""

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSpec:
    """What a claim asks for. ``not_read`` names a member that decides and is not understood."""

    requests: tuple[ClaimRequest, ...] = ()
    constraints: tuple[ClaimConstraint, ...] = ()
    not_read: str = ""


class ClaimedDevice(NamedTuple):
    """A device allocated to a claim. ``share`` is set if other claims may have it as well; ``consumed`` is the part of
    its capacities that this claim took. With ``admin`` it does not count as taken."""

    device: PoolDevice
    request: str = ""
    share: str = ""
    consumed: tuple[tuple[str, int], ...] = ()
    admin: bool = False


class ClaimAllocation(NamedTuple):
    """What a claim was given, and on which nodes it can be used (an OR of ANDs; ``None`` is everywhere)."""

    devices: tuple[ClaimedDevice, ...]
    terms: tuple[tuple[Requirement, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaim:
    """A claim. ``pod`` is the pod that it was made for, by name, ``users`` the pods that it is reserved for."""

    namespace: str
    name: str
    uid: str = ""
    spec: ClaimSpec = ClaimSpec()
    allocation: ClaimAllocation | None = None
    users: tuple[str, ...] = ()
    pod: str = ""
    ending: bool = False

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTemplate:
    """A ResourceClaimTemplate: each pod that names it gets a claim of its own."""

    namespace: str
    name: str
    spec: ClaimSpec = ClaimSpec()

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class PoolUsage(NamedTuple):
    """What is taken of a pool: devices as a whole, and amounts of the capacities of shared ones, by device."""

    devices: frozenset[str] = frozenset()
    consumed: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DynamicResources:
    """All that is known of Dynamic Resource Allocation in a cluster.

    ``claims`` and ``templates`` go by full name, ``classes`` by name. ``stands_for`` is the class that stands for a
    plain resource, ``taken`` what the claims hold of each pool; only ``engine.claims.usage`` makes them. ``unread``
    counts objects of the API group that could not be read, by kind: what they say is not known.
    """

    slices: tuple[ResourceSlice, ...] = ()
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    stands_for: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, ResourceClaim] = field(default_factory=dict)
    templates: Mapping[str, ClaimTemplate] = field(default_factory=dict)
    taken: Mapping[PoolId, PoolUsage] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether the source has nothing of it, which may also mean that it was not listed or may not be read."""
        return not (self.slices or self.classes or self.claims or self.templates or self.unread)


NO_RESOURCES: Final = DynamicResources()


class PlacedClaim(NamedTuple):
    """What a placement gives to one claim of a pod.

    ``name`` is its name in the pod, empty for the claim that stands for plain resources. ``claim`` is the full name of
    a claim that exists, empty for one that is made for the pod. ``new`` is false for one that had its devices already.
    """

    name: str
    claim: str
    spec: ClaimSpec
    allocation: ClaimAllocation
    new: bool = True
