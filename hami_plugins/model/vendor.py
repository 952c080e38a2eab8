"""A vendor: data, plus at most a few named hooks. ``None`` means the common behaviour."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from hami_plugins.model.device_links import Relabelled, Together, WiringLayout
from hami_plugins.model.devices import AllocatedShare, Device, DeviceShare, DeviceUsage
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.facts import NOTHING_KNOWN, VendorFacts
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.nodes import NodeShape, NodeState
from hami_plugins.model.pods import Container, ContainerAllocation, Pod, Unlocated
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName, VendorName
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import Reason


class OnBadMemory(StrEnum):
    """What a memory amount with a fraction means to a vendor (a negative or overflowing one is always refused)."""

    REFUSE = "refuse"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorOptions:
    """Settings of HAMi's device config that change what a vendor's requests mean or what its webhook writes."""

    default_count: int = 0
    default_memory: MiB = MiB(0)
    default_cores: CoreShare = CoreShare(0)
    memory_factor: int = 1
    overwrite_env: bool = False
    core_policy: str = ""
    runtime_class: str = ""
    flags: Mapping[str, bool] = field(default_factory=dict)


class Candidate(NamedTuple):
    """One device in one decision: where it stands, what it is, what is promised of it, and whether its id is wanted."""

    position: int
    device: Device
    used: DeviceUsage
    wanted: bool = True


class Headroom(NamedTuple):
    """What a namespace quota leaves of one vendor; ``None`` is "no limit"."""

    memory: MiB | None = None
    cores: CoreShare | None = None


Left = tuple[tuple[VendorName, Headroom], ...]
"""What a namespace's quotas leave of each vendor that they limit; empty where there are none."""


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """One container's request in the context of its pod: the input of checks and hooks besides the device.

    ``held`` are the positions that earlier containers of the pod got from the same vendor, ``shape`` the node's shape,
    ``usage`` what is promised of each of its devices.
    """

    request: DeviceRequest
    policy: Policy
    shape: NodeShape
    held: tuple[int, ...] = ()
    cores_of: Callable[[Device, DeviceRequest], CoreShare] | None = None
    memory_of: Callable[[Device, DeviceRequest], MiB] | None = None
    usage: Sequence[DeviceUsage] = ()


class Unselectable(NamedTuple):
    """Enough devices passed every check, but no set of them will do: why, and how many of them count under that."""

    reason: Reason
    cards: int


Check = Callable[[Candidate, ContainerRequest], Reason | None]
"""One rule about one device. The order of a tuple of checks is the order of the explanation."""

Select = Callable[[Sequence[Candidate], ContainerRequest], Sequence[Candidate] | Unselectable]
"""Chooses ``request.count`` of the candidates that passed every check, best-ranked first (it may get fewer)."""

ShareOf = Callable[[Candidate, ContainerRequest], DeviceShare]
"""What the request takes of one device."""


class Shortfall(NamedTuple):
    """A request that could not be met: the counted objections, every device, and those that passed all checks."""

    tally: Mapping[Reason, int]
    devices: Sequence[Candidate]
    passed: Sequence[Candidate]


RefusalMessage = Callable[[Shortfall, ContainerRequest], str | None]
"""HAMi's words for a refusal, or ``None`` for the usual ``k/n Reason, ...``."""


class Scoring(NamedTuple):
    """A placement to be scored: the node before it, and what this vendor's requests got, container by container."""

    state: NodeState
    requests: tuple[DeviceRequest, ...]
    containers: tuple[tuple[DeviceShare, ...], ...]
    policy: Policy


ScoreNode = Callable[[Scoring], float]
"""What the vendor adds to the node's score for this placement."""

NodeFilter = Callable[[Mapping[str, str], Pod, float], str]
"""Why a pod that asks for the vendor's devices must not begin on a node now, whatever is free there; empty: it may.

It is given the notes of the node's inventory, the pod, and the time in Unix seconds.
"""


class AdmissionChange(NamedTuple):
    """One change that the webhook makes.

    ``kind`` is ``limit``, ``request`` or ``env`` for a container, ``annotation`` or ``runtimeClassName`` for the pod.
    """

    kind: str
    key: str
    value: str


class ForeignAllocation(NamedTuple):
    """A pod's allocation recorded in another project's annotations: by container, the part that only its node can
    resolve, and messages.

    ``remedy`` is what to do about what the remarks tell, where that is not to make the pod again.
    """

    allocations: tuple[ContainerAllocation, ...] = ()
    unlocated: tuple[Unlocated, ...] = ()
    remarks: tuple[str, ...] = ()
    remedy: str = ""


Recall = Callable[[Mapping[str, str], tuple[ContainerAllocation, ...]], tuple[ContainerAllocation, ...]]
"""A pod's annotations and what was decoded of them to the allocations as they really are."""


class ContainerAdmission(NamedTuple):
    """A vendor's word on one container at admission: whether the container uses its devices, and what to change."""

    claimed: bool
    changes: tuple[AdmissionChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRules:
    """How a container's resources become a request (``GenerateResourceRequests`` in HAMi 2.10.0
    ``pkg/device/*/device.go``).

    * ``memory_unit``: how many MiB one unit of the memory resource means.
    * ``cores_default``: what a request without cores asks for.
    * ``requests_too``: whether ``resources.requests`` counts where the limit is missing.
    * ``sums_up``: amounts of memory and cores are sums over the devices, memory in bytes.
    * ``read``: reads a container in place of all this; ``None`` when it does not ask for this vendor. Raises
      ``InvalidRequestError``.
    * ``options_of``: the request's options, from the pod's annotations.
    * ``on_node``: the request as it is on nodes of one shape, where that decides how many devices an amount means.
    """

    memory_unit: MiB = MiB(1)
    cores_default: CoreShare = CoreShare(0)
    requests_too: bool = True
    bad_memory: OnBadMemory = OnBadMemory.REFUSE
    sums_up: bool = False
    read: Callable[[VendorSpec, Container, Pod], DeviceRequest | None] | None = None
    options_of: Callable[[VendorSpec, Mapping[str, str]], tuple[tuple[str, str], ...]] | None = None
    on_node: Callable[[DeviceRequest, NodeShape], DeviceRequest] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingRules:
    """Which devices a request may have, and what it takes of them.

    * ``filter_reason``: asked about a node before its devices are looked at.
    * ``health_checks``: further signs of an unhealthy device, which counts as unhealthy whatever else is wrong with it.
    * ``early_checks``, ``late_checks``: checks right after model and health, and after all common ones.
    * ``exact_mode``: the mode that a pod names is the device's; otherwise it may be one of several.
    * ``binds_numa``: a pod may ask for all its devices on one NUMA node.
    * ``clamps_cores``: an amount of cores over 100 counts as 100.
    * ``takes_no_cores``: which requests hold no cores, so that no rule about cores applies to them.
    * ``select``: chooses among the devices that fit; with ``select_when_near`` only under the topology-aware policy.
    * ``alike``: ``select`` looks at what other members of a gang were given (``DeviceRequest.alike``).
    * ``share_of``: what a request takes of one device, with its mark; ``cores_of`` and ``memory_of`` are the amounts
      alone, where they are not what the request says. ``cores_in_quota`` turns booked cores back into the unit of the
      core resource.
    * ``partitions``: whole parts of a device are given, not amounts.
    * ``group_of``: the group of pods whose shares must not meet on a device, empty for none; shares are marked with it.
    * ``message``: HAMi's message for a refusal; asked about a node with too few devices only if
      ``message_when_too_few``.
    """

    filter_reason: NodeFilter | None = None
    health_checks: tuple[Check, ...] = ()
    early_checks: tuple[Check, ...] = ()
    late_checks: tuple[Check, ...] = ()
    exact_mode: bool = False
    binds_numa: bool = False
    clamps_cores: bool = True
    takes_no_cores: Callable[[DeviceRequest], bool] | None = None
    select: Select | None = None
    select_when_near: bool = False
    alike: bool = False
    share_of: ShareOf | None = None
    cores_of: Callable[[Device, DeviceRequest], CoreShare] | None = None
    memory_of: Callable[[Device, DeviceRequest], MiB] | None = None
    cores_in_quota: Callable[[Device, CoreShare], CoreShare] | None = None
    partitions: bool = False
    group_of: Callable[[Pod], str] | None = None
    message: RefusalMessage | None = None
    message_when_too_few: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringRules:
    """What the vendor adds to the score of a node.

    With ``is_whole`` its score is the whole score of the node; with ``is_neutral`` the policies of pods do not turn it
    around.
    """

    score_node: ScoreNode | None = None
    is_neutral: bool = False
    is_whole: bool = False


class ClaimedDevices(NamedTuple):
    """A driver of Dynamic Resource Allocation, and the attribute with the number that the device plugin uses."""

    driver: str
    number: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRecords:
    """How allocations are written on pods and read back.

    * ``annotate``: the vendor's own annotations for an allocation, besides HAMi's two lists.
    * ``writes_to_allocate``: whether the list of what is still to be allocated is written.
    * ``word_is_model``: assignment strings name the card's model, where others have the vendor's word.
    * ``recall``: puts back into decoded allocations what the assignment string leaves out (partitions, masks, tenants).
    * ``read``: reads a pod's list that has a form of its own; raises ``WireError``. Who reads so writes with
      ``annotate`` alone.
    * ``foreign_allocations``: all that a placed pod holds, from what this vendor's list gives each container, from
      another scheduler's annotations and from what it asks for; never less than it may use.
    * ``claimed``: the driver that offers the same devices to claims, and how it numbers them.
    * ``counterparts``: vendors of the same devices in another dialect. Allocations in their lists are read as well,
      because a node's agent may have used that dialect when the pods were placed.
    """

    annotate: Callable[[AllocationView], Mapping[str, str]] | None = None
    writes_to_allocate: bool = True
    word_is_model: bool = False
    recall: Recall | None = None
    read: Callable[[VendorSpec, Pod, str], ForeignAllocation] | None = None
    foreign_allocations: Callable[[VendorSpec, Pod, Sequence[Sequence[AllocatedShare]]], ForeignAllocation] | None = (
        None
    )
    claimed: ClaimedDevices | None = None
    counterparts: tuple[VendorSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRules:
    """How the devices of a node belong together; no decision depends on it, only what is reported.

    * ``together``: the sets of devices that a request may be allocated on one shape, ``None`` where any set will do.
    * ``relabelled``: what a shape would be, were its node labelled otherwise.
    * ``layout``: how to draw the devices of a shape, ``None`` where there is nothing to draw.
    """

    together: Callable[[DeviceRequest, NodeShape], Together | None] | None = None
    relabelled: Callable[[NodeShape], Sequence[Relabelled]] | None = None
    layout: Callable[[NodeShape], WiringLayout | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRules:
    """How an allocator gives the vendor's devices to the pods of a running cluster.

    * ``word``: what its messages call the devices, where that is not the vendor's name.
    * ``held``: annotations by which a bound pod is known to hold devices, besides the lists of allocated ones.
    * ``remedy_without``: what to do about a node that offers none of the devices.
    * ``remedy``: what to do about a refusal of a node; the usual words where it says nothing.
    * ``at_most_requested``: node agents hand over at most what a container requests, so that more never counts.
    * ``any_scheduler``: pods of every scheduler are given its devices, also those that ask no allocator.
    * ``complete``: what the webhook on new pods adds to a container that does not say it itself.
    * ``wrong``: what is wrong with the annotations of a new pod; empty where nothing is.
    * ``blocking_reason``: why a pod gets nothing whatever is free; empty where nothing is in its way.
    * ``containers_of``: the containers that the annotations of an unreadable pod name.
    * ``network``: its gangs may be limited to a part of the network, and these resources keep the parts together: how
      much each of them weighs in Volcano's choice among HyperNodes.
    """

    word: str = ""
    held: tuple[str, ...] = ()
    remedy_without: str = "run its device plugin there"
    remedy: Callable[[Reason, DeviceRequest], str] | None = None
    at_most_requested: bool = False
    any_scheduler: bool = False
    complete: Callable[[VendorSpec, Container], Sequence[AdmissionChange]] | None = None
    wrong: Callable[[Mapping[str, str]], str] | None = None
    blocking_reason: Callable[[VendorSpec, Pod], str] | None = None
    containers_of: Callable[[VendorSpec, Mapping[str, str]], tuple[Container, ...]] | None = None
    network: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorSpec:
    """A vendor: its names, how it reads nodes and requests, and the few rules in which it differs.

    * ``inventory``: node object to devices, an empty one when the node has none; raises ``WireError``.
    * ``word``: the type member of assignment strings, where that is not the name.
    * ``noun``: what people call one of its devices (in the singular, as part of a sentence).
    * ``admit``: what the webhook does with one container; raises ``AdmissionDeniedError``.
    * ``counted_by_scheduler``: the resources that kube-scheduler holds against the node's capacity itself.
    * ``schedulers``: other schedulers that place its pods themselves, or leave that to node agents.
    * ``replaces``: this vendor, from another package, takes the place of the built-in one of its name.
    * ``memory_step``, ``core_step``, ``several``: what amounts are rounded to, and whether several devices can be
      shared, in words.
    * ``facts``: what is known about its devices besides these rules, each with its source.
    """

    name: VendorName
    title: str
    vendor: str
    resources: ResourceNames
    keys: AnnotationKeys
    inventory: Callable[[VendorSpec, NodeObject], DeviceInventory]
    word: str = ""
    noun: str = "card"
    dialect: Dialect = Dialect.HAMI
    options: VendorOptions = VendorOptions()
    admit: Callable[[VendorSpec, Container, Pod], ContainerAdmission] | None = None
    requests: RequestRules = RequestRules()
    fitting: FittingRules = FittingRules()
    scoring: ScoringRules = ScoringRules()
    records: AllocationRecords = AllocationRecords()
    allocation: AllocationRules = AllocationRules()
    topology: TopologyRules = TopologyRules()
    counted_by_scheduler: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    replaces: bool = False
    memory_step: str = "1 MiB"
    core_step: str = "1 %"
    several: str = "each card may be a slice"
    facts: VendorFacts = NOTHING_KNOWN

    @property
    def ignored_by_scheduler(self) -> tuple[str, ...]:
        """The resources that kube-scheduler leaves to the extender."""
        return tuple(name for name in self.resources.all() if name not in self.counted_by_scheduler)

    def wire_word(self) -> str:
        """The type member of this vendor's assignment strings, unless ``word_is_model``."""
        return self.word or self.name

    def memory_factor(self) -> int:
        """MiB per unit of the memory resource, for quotas (the limit is in units)."""
        return self.requests.memory_unit * max(self.options.memory_factor, 1)

    def written(self, amount: int, count: int, *, memory: bool = False) -> int:
        """How an amount on each of so many devices is written into a pod."""
        if not self.requests.sums_up:
            return amount
        return amount * count << 20 if memory else amount * count

    def asked_of(self, amounts: Mapping[str, Quantity]) -> bool:
        """Whether a resource list names any of this vendor's resources."""
        return any(name in amounts for name in self.resources.all())


class AllocationView(NamedTuple):
    """What an ``annotate`` hook sees of a placement: the pod, the node, the allocations of this vendor per container.

    ``indexes`` gives each allocated device's index; ``now_ns`` is the time to write (Unix nanoseconds); ``notes`` are
    those of the node's inventory.
    """

    spec: VendorSpec
    pod: Pod
    node: NodeName
    containers: tuple[tuple[AllocatedShare, ...], ...]
    indexes: Mapping[DeviceId, int]
    devices: Mapping[DeviceId, Device]
    now_ns: int
    notes: tuple[tuple[str, str], ...] = ()
