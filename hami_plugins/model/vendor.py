"""What a vendor is: data, plus at most a few named hooks. ``None`` means the common behaviour."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from hami_plugins.model.device_links import Relabelled, Together, WiringLayout
from hami_plugins.model.devices import AllocatedShare, Device, DeviceShare, DeviceUsage
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.nodes import NodeShape, NodeState
from hami_plugins.model.pods import Container, ContainerAllocation, Pod, ResourceList, Unlocated
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName, VendorName
from hami_plugins.model.verdicts import Reason

SHARED_LOCK: Final = "hami.io/mutex.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNames:
    """The extended resources of a vendor; an empty name means that the vendor has no such resource.

    ``older`` are names under which nodes offered devices before, and pods still ask for them.
    """

    count: str
    memory: str = ""
    memory_percentage: str = ""
    cores: str = ""
    priority: str = ""
    older: tuple[str, ...] = ()

    def all(self) -> tuple[str, ...]:
        """Every name that is set."""
        names = (self.count, self.memory, self.memory_percentage, self.cores, self.priority, *self.older)
        return tuple(name for name in names if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationKeys:
    """Every annotation key of a vendor; empty means that there is none.

    ``more`` has, by container name, what ``allocated`` has no place for. ``inputs`` are further keys that it reads from
    pods or nodes, ``of_jobs`` those among them that it also reads from a pod's Volcano Job, ``extra`` those that its
    ``annotate`` hook writes.
    """

    allocated: str
    to_allocate: str = ""
    more: str = ""
    register: str = ""
    handshake: str = ""
    pair_scores: str = ""
    use_ids: tuple[str, ...] = ()
    avoid_ids: tuple[str, ...] = ()
    use_models: str = ""
    avoid_models: str = ""
    mode: str = ""
    lock: str = SHARED_LOCK
    inputs: tuple[str, ...] = ()
    of_jobs: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def all(self) -> tuple[str, ...]:
        """Every key that is set."""
        single = (
            self.allocated,
            self.to_allocate,
            self.more,
            self.register,
            self.handshake,
            self.pair_scores,
            self.use_models,
            self.avoid_models,
            self.mode,
            self.lock,
        )
        keys = (*single, *self.use_ids, *self.avoid_ids, *self.inputs, *self.extra)
        return tuple(dict.fromkeys(key for key in keys if key))

    def written(self) -> tuple[str, ...]:
        """The keys of an allocation: a scheduler or an agent writes them on pods, and no user does."""
        return tuple(key for key in (self.allocated, self.to_allocate, self.more, *self.extra) if key)


class OnBadMemory(StrEnum):
    """What a memory amount with a fraction means to a vendor (a negative or overflowing one is always refused)."""

    REFUSE = "refuse"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRules:
    """How a container's resources become a request (``GenerateResourceRequests`` in HAMi 2.10.0
    ``pkg/device/*/device.go``), for vendors without a ``request`` hook.

    ``memory_unit`` is how many MiB one unit of the memory resource means; ``cores_default`` is what a request without
    cores asks for; ``requests_too`` whether ``resources.requests`` counts where the limit is missing.
    """

    memory_unit: MiB = MiB(1)
    cores_default: CoreShare = CoreShare(0)
    requests_too: bool = True
    bad_memory: OnBadMemory = OnBadMemory.REFUSE


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


class NodeCondition(NamedTuple):
    """A condition that a component reports on a node, as the API server has it; ``reason`` is one word."""

    kind: str
    status: str
    reason: str = ""


class NodeObject(NamedTuple):
    """The parts of a Node object that an inventory is made from.

    ``published`` is what somebody publishes of the node's devices as an object of its own, as it was read.
    """

    name: NodeName
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    capacity: ResourceList
    allocatable: ResourceList
    published: object = None
    conditions: tuple[NodeCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceInventory:
    """The devices of one vendor on one node: ``ids[i]`` names ``devices[i]``, ``links[i][j]`` scores the pair.

    ``remarks`` say what was left out of account, and what an operator should know of the node's devices. ``notes`` are
    facts on which no choice of devices depends, but whether a pod may come at all: the vendor's ``objection`` reads
    them.
    """

    devices: tuple[Device, ...] = ()
    ids: tuple[DeviceId, ...] = ()
    links: tuple[tuple[int, ...], ...] = ()
    traits: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


NO_DEVICES: Final = DeviceInventory()
"""The inventory of a node that has none of a vendor's devices."""


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


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """One container's request in the context of its pod: what the checks and hooks look at beside the device.

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


Spell = Callable[[Shortfall, ContainerRequest], str | None]
"""HAMi's words for a refusal, or ``None`` for the usual ``k/n Reason, ...``."""


class Scoring(NamedTuple):
    """A placement to be scored: the node before it, and what this vendor's requests got, container by container."""

    state: NodeState
    requests: tuple[DeviceRequest, ...]
    containers: tuple[tuple[DeviceShare, ...], ...]
    policy: Policy


ScoreNode = Callable[[Scoring], float]
"""What the vendor adds to the node's score for this placement."""

Objection = Callable[[Mapping[str, str], Pod, float], str]
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
    """What a pod holds by words that are not ours: by container, what only its node can tell, what to tell.

    ``remedy`` is what to do about what the remarks tell, where that is not to make the pod again.
    """

    allocations: tuple[ContainerAllocation, ...] = ()
    unlocated: tuple[Unlocated, ...] = ()
    remarks: tuple[str, ...] = ()
    remedy: str = ""


class ContainerAdmission(NamedTuple):
    """A vendor's word on one container at admission: whether the container uses its devices, and what to change."""

    claimed: bool
    changes: tuple[AdmissionChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorSpec:
    """A vendor: its names, how it reads requests and nodes, and the few rules in which it differs.

    Hooks (each ``None`` for the common behaviour):

    * ``inventory``: node object to devices; an empty one when the node has none, ``WireError`` when it is unreadable.
    * ``request``: container to request, ``None`` when it does not ask for this vendor; ``InvalidRequestError``.
    * ``options_of``: pod annotations to the request's vendor words.
    * ``objection``: see its type; it is asked before the node's devices are looked at.
    * ``on_node``: the request as it is on nodes of one shape, where that decides how many devices an amount means.
    * ``admit``: what the webhook does with one container; raises ``AdmissionDeniedError``.
    * ``health_checks``: further signs of an unhealthy device, which counts as unhealthy whatever else is wrong with it.
    * ``early_checks``/``late_checks``: checks right after model and health, and after all common ones.
    * ``select``: see its type; with ``select_when_near`` only under the topology-aware policy.
    * ``share_of``, ``score_node``: see their types; with ``scores_alone`` the hook's is the whole score of the node.
    * ``cores_of``, ``memory_of``: what a request takes of one device, where that is not what it says;
      ``cores_in_quota`` turns what was booked of a device back into the unit of the core resource.
    * ``takes_no_cores``: which requests hold no cores, so that no rule about cores applies to them.
    * ``spell``: see its type; asked about a node with too few devices only if ``spells_too_few``.
    * ``group_of``: the group of pods whose shares must not meet on a device, where a pod wants that (then its shares
      are marked with it); empty for none.
    * ``annotate``: the vendor's own annotations for a placement, beside HAMi's two lists.
    * ``recall``: puts back into decoded allocations what the assignment string leaves out (partitions, masks, tenants).
    * ``together``: the sets of devices that a request may be allocated on one shape, ``None`` where any will do; only
      what is told of a refusal, and which pods are looked at as ones that could leave, depends on it.
    * ``relabelled``: what a shape would be, were its node labelled otherwise.
    * ``layout``: how to draw the devices of a shape, ``None`` where there is nothing to draw.
    * ``read``: what a pod's list says, where it has a form of its own; raises ``WireError``. Who reads so writes with
      ``annotate`` alone.
    * ``foreign_allocations``: all that a placed pod holds, from what this vendor's list gives each container, from the
      words of another scheduler and from what it asks for; never less than it may use.

    Further knobs: ``exact_mode`` wants the mode that a pod names to be the device's (else it may be one of several);
    ``word_is_model`` puts the card model into assignment strings, where others have the vendor's word;
    ``noun`` is what people call one of its devices (in the singular, as part of a sentence);
    ``alike`` says that its ``select`` looks at what other members of a gang were given (``DeviceRequest.alike``);
    ``counted_by_scheduler`` are the resources that kube-scheduler holds against the node's capacity itself;
    ``sums_up`` says that amounts of memory and cores are sums over the devices, memory in bytes;
    ``schedulers`` are the names of other schedulers that place its pods themselves, or leave that to node agents;
    ``replaces`` says that this vendor, from another package, takes the place of the built-in one of its name.
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
    rules: RequestRules = RequestRules()
    options: VendorOptions = VendorOptions()
    request: Callable[[VendorSpec, Container, Pod], DeviceRequest | None] | None = None
    options_of: Callable[[VendorSpec, Mapping[str, str]], tuple[tuple[str, str], ...]] | None = None
    objection: Objection | None = None
    on_node: Callable[[DeviceRequest, NodeShape], DeviceRequest] | None = None
    admit: Callable[[VendorSpec, Container, Pod], ContainerAdmission] | None = None
    health_checks: tuple[Check, ...] = ()
    early_checks: tuple[Check, ...] = ()
    late_checks: tuple[Check, ...] = ()
    select: Select | None = None
    select_when_near: bool = False
    share_of: ShareOf | None = None
    cores_of: Callable[[Device, DeviceRequest], CoreShare] | None = None
    memory_of: Callable[[Device, DeviceRequest], MiB] | None = None
    cores_in_quota: Callable[[Device, CoreShare], CoreShare] | None = None
    takes_no_cores: Callable[[DeviceRequest], bool] | None = None
    spell: Spell | None = None
    spells_too_few: bool = False
    score_node: ScoreNode | None = None
    score_is_neutral: bool = False
    scores_alone: bool = False
    group_of: Callable[[Pod], str] | None = None
    annotate: Callable[[AllocationView], Mapping[str, str]] | None = None
    recall: Callable[[Mapping[str, str], tuple[ContainerAllocation, ...]], tuple[ContainerAllocation, ...]] | None = (
        None
    )
    read: Callable[[VendorSpec, Pod, str], ForeignAllocation] | None = None
    foreign_allocations: Callable[[VendorSpec, Pod, Sequence[Sequence[AllocatedShare]]], ForeignAllocation] | None = (
        None
    )
    together: Callable[[DeviceRequest, NodeShape], Together | None] | None = None
    relabelled: Callable[[NodeShape], Sequence[Relabelled]] | None = None
    layout: Callable[[NodeShape], WiringLayout | None] | None = None
    clamps_cores: bool = True
    binds_numa: bool = False
    partitions: bool = False
    exact_mode: bool = False
    writes_to_allocate: bool = True
    word_is_model: bool = False
    counted_by_scheduler: tuple[str, ...] = ()
    alike: bool = False
    sums_up: bool = False
    replaces: bool = False
    schedulers: tuple[str, ...] = ()
    memory_step: str = ""
    core_step: str = ""
    several: str = ""

    @property
    def ignored_by_scheduler(self) -> tuple[str, ...]:
        """The resources that kube-scheduler leaves to the extender."""
        return tuple(name for name in self.resources.all() if name not in self.counted_by_scheduler)

    def wire_word(self) -> str:
        """The type member of this vendor's assignment strings, unless ``word_is_model``."""
        return self.word or self.name

    def memory_factor(self) -> int:
        """MiB per unit of the memory resource, for quotas (the limit is in units)."""
        return self.rules.memory_unit * max(self.options.memory_factor, 1)

    def written(self, amount: int, count: int, *, memory: bool = False) -> int:
        """How an amount on each of so many devices is written into a pod."""
        if not self.sums_up:
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
