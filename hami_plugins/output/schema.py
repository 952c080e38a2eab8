"""The documents that ``-o json`` and ``-o yaml`` print, as types; ``schemas/`` holds them as JSON Schema.

Members are spelled as JSON spells them. A member is never left out: what is not known is ``null`` or empty.
"""

from __future__ import annotations

from typing import Final, Literal

from typing_extensions import TypedDict

from hami_plugins.output.cost_schema import CostDocument, GrowthDocument
from hami_plugins.wire.usage import ContainerUsageDocument

API_VERSION: Final = "hami-plugins.io/v1alpha1"
"""Of every document. A change that breaks a reader gets another version."""


class SliceDocument(TypedDict):
    """One container's share of one card."""

    id: str
    """What the vendor calls the card."""
    vendor: str
    """HAMi's common word of the backend."""
    model: str
    index: int | None
    """The card's index on its node; null for a card that the node does not report."""
    memoryMiB: int
    cores: int
    """In the vendor's unit: per cent of a card on most, 16ths on Moore Threads."""
    partition: str
    """The hardware partition (``1g.10gb@0``) or the core numbers; empty for a plain share."""


class ContainerDocument(TypedDict):
    """A container after the webhook's changes, and what it gets."""

    name: str
    kind: Literal["init", "sidecar", "app"]
    limits: dict[str, str]
    requests: dict[str, str]
    slices: list[SliceDocument]


class ChangeDocument(TypedDict):
    """One change that the webhook makes."""

    container: str | None
    """Null when the pod itself is changed."""
    kind: str
    """limit, request, env, annotation, runtimeClassName or schedulerName."""
    key: str
    value: str


class AdmissionDocument(TypedDict):
    """The webhook's answer."""

    allowed: bool
    code: int
    message: str
    changes: list[ChangeDocument]


class NearestPodDocument(TypedDict):
    """A pod that holds a part of the nearest set."""

    pod: str
    devices: list[int]
    """The devices of the set that it holds, by index."""


class NearestDocument(TypedDict):
    """The set of linked devices that the fewest pods keep from the one that asks."""

    node: str
    devices: list[int]
    """By index."""
    holders: list[NearestPodDocument]


class ReasonDocument(TypedDict):
    """One reason why nodes refuse the pod."""

    nodes: int
    """How many nodes gave it."""
    words: str
    """What was asked, the most that there is, and what there is in all."""
    examples: list[str]
    """Some of the nodes, by name."""
    nearest: NearestDocument | None
    """Null unless enough devices are free and no set of them that goes together."""


class CounterfactualDocument(TypedDict):
    """A change with which the pod would fit. It has been tried: ``node`` is where the pod would go."""

    changes: list[str]
    """What has to change; several changes are needed together."""
    words: str
    """The same as one sentence."""
    node: str


class ShortageDocument(TypedDict):
    """A resource of which a limit leaves too little, in the amounts that people write."""

    resource: str
    queue: str | None
    """The queue that has the limit; null for the limit of the whole cluster."""
    byWeight: bool
    """Whether the limit is a share among queues that all ask."""
    asked: str
    allocated: str
    """What pods hold."""
    inqueue: str
    """The amount that enqueued gangs wait for."""
    elastic: str
    """What is held beyond what gangs need, which does not count."""
    limit: str


class BlockerDocument(TypedDict):
    """A PodGroup or queue that takes part of the resource that the pod lacks."""

    name: str
    """A PodGroup (namespace and name), or a queue where the prospect is ``kept``."""
    prospect: Literal["never", "lacking", "waits", "runs", "kept"]
    """``never``: its pods do not fit on the cluster without any other. ``lacking``: some of its pods do not exist yet.
    ``waits``: it would fit without others. ``runs``: its pods hold it. ``kept``: it is guaranteed to a queue."""
    phase: str
    ageSeconds: int | None
    planned: bool
    """Whether it is of the plan itself."""
    pods: list[str]
    """Its pods that wait."""
    resource: str
    takes: str
    limit: str
    words: str


class EnqueueDocument(TypedDict):
    """Why Volcano does not enqueue a pod."""

    queue: str
    lacks: list[ShortageDocument]
    """Empty where the queue takes no pods at all."""
    heldBy: list[BlockerDocument]


class SparedDocument(TypedDict):
    """A running pod that may not be evicted, for all that the same rule protects."""

    pod: str
    rule: str
    """priority, critical, preemptable, same-gang, scheduler, queue, share, budget, gang or affinity."""
    words: str
    pods: int
    """How many pods the rule protects, this one included."""


class PreemptionDocument(TypedDict):
    """What a search for pods to evict found for one pod."""

    node: str | None
    """Where the pod goes once the victims have left; null where no allowed eviction makes room."""
    slices: list[SliceDocument]
    victims: list[str]
    """The pods to evict, for its whole gang."""
    ending: list[str]
    """Pods that are terminating already and are waited for."""
    spared: list[SparedDocument]
    exhaustive: bool
    """False where the search was given up, so that fewer victims may be enough."""
    words: list[str]


class PodOnNodeDocument(TypedDict):
    """A pod and a node."""

    pod: str
    node: str


class GroundDocument(TypedDict):
    """A rule by which a pod is evicted."""

    rule: str
    """priority, share, gang, budget or youngest."""
    words: str


class VictimDocument(TypedDict):
    """A pod that would be evicted."""

    pod: str
    node: str
    priority: int
    rules: list[GroundDocument]
    again: str | None
    """The node that takes it if its controller creates it again; null where it waits or is not followed."""
    followed: bool
    """Whether that was worked out: it is for the first 64 victims."""


class NodeAfterDocument(TypedDict):
    """A node after the whole plan."""

    node: str
    devices: int
    devicesUsed: int
    memoryMiB: int
    memoryUsedMiB: int


class EvictionsDocument(TypedDict):
    """Evictions that make room for one pod, or for the pods of a gang together."""

    pods: list[PodOnNodeDocument]
    victims: list[VictimDocument]
    ending: list[PodOnNodeDocument]
    exhaustive: bool
    after: list[NodeAfterDocument]


class ClaimedDeviceDocument(TypedDict):
    """A device of a claim (Dynamic Resource Allocation)."""

    claim: str
    """Its name in the pod of a plan; its own name for a running pod."""
    request: str
    """The request that it meets; with the alternative that was taken, as ``request/alternative``."""
    driver: str
    pool: str
    device: str
    shared: bool
    """Whether other claims may have the device as well."""
    consumed: dict[str, str]
    """What is taken of the capacities of a shared device."""
    adminAccess: bool


class PodDocument(TypedDict):
    """What happens to one pod of a plan."""

    namespace: str
    name: str
    replicas: int
    """How many pods it is about: itself and the replicas numbered after it, all with the same answer. Of a run of more
    than 1,000 pods those without a place are put together."""
    workload: str
    """The workload it comes from, as ``Kind/namespace/name``."""
    dialect: Literal["hami", "volcano", "koordinator"]
    scheduler: str
    """The scheduler that the pod names after admission."""
    admission: AdmissionDocument
    stage: Literal["placed", "admission", "request", "quota", "gate", "gang", "nodes", "elsewhere", "unknown"]
    """How far the pod gets. ``gate``: something holds it back before any node is looked at. ``gang``: it would fit, but
    its gang is not complete. ``elsewhere``: its scheduler does not look at the devices it asks for. ``unknown``: no
    node is known to take it, and some may."""
    verdict: Literal["placed", "refused"]
    node: str | None
    score: float | None
    candidates: int
    """How many nodes would take the pod."""
    choice: str
    """Why this node; empty for a refused pod."""
    containers: list[ContainerDocument]
    claims: list[ClaimedDeviceDocument]
    """The devices that its claims get, or have already."""
    reason: str
    """Why it is not placed, in our words; empty for a placed pod."""
    hamiReason: str
    """The same as the upstream scheduler spells it."""
    reasons: list[ReasonDocument]
    gate: EnqueueDocument | None
    """Null for a pod that no queue and no limit of the cluster holds back."""
    counterfactuals: list[CounterfactualDocument]
    growth: list[GrowthDocument]
    """What node pools can do for the workload, the best first; empty without pools."""
    annotations: dict[str, str]
    """What the scheduler of the dialect writes on the pod."""
    labels: dict[str, str]
    notes: list[str]
    """Where the upstream scheduler may do otherwise."""
    preemption: PreemptionDocument | None
    """Null if no victims were searched for: the pod has a place, or preemption was not requested."""


class FlawDocument(TypedDict):
    """Something wrong with what a running pod holds."""

    kind: str
    """stranger, unhealthy, cordoned, over-slots, over-memory, over-cores, unplaced or overlap."""
    device: str
    others: list[str]
    """Other pods that it concerns."""
    words: str


class AgainDocument(TypedDict):
    """What would become of a pod that asks for what a running one holds, if that were not there."""

    verdict: Literal["placed", "refused"]
    node: str | None
    stays: bool
    """Whether it is the same node."""
    choice: str
    reasons: list[ReasonDocument]


class RunningDocument(TypedDict):
    """A pod on a node."""

    node: str
    terminating: bool
    slices: list[SliceDocument]
    claims: list[ClaimedDeviceDocument]
    """The devices of the claims that it uses."""
    resize: str
    """What is asked, booked and in force of another memory, and why it is refused; empty where none was asked for."""
    flaws: list[FlawDocument]
    again: AgainDocument


class WarningDocument(TypedDict):
    """Something that the listing of the cluster lacks, so that the answer may be about another cluster."""

    kind: str
    """The kind of which objects are missing."""
    message: str


class EvictionDocument(TypedDict):
    """How a pod was or is evicted."""

    reason: str
    """The reason of its condition ``DisruptionTarget``; empty where it has none."""
    message: str
    """The message of the last event about it; empty where the listing has none."""
    successors: list[str]
    """The pods that take its place, as far as the listing shows them."""


class ExplanationDocument(TypedDict):
    """The answer of ``hami-plugins explain``: all about one pod."""

    apiVersion: str
    kind: Literal["Explanation"]
    pod: str
    """Namespace and name, with a slash between."""
    state: Literal["pending", "running"]
    asksNothing: bool
    """Whether it asks for no devices, or holds none."""
    pending: PodDocument | None
    """The pod as a plan of it alone has it now; it may fit by now."""
    running: RunningDocument | None
    usage: list[ContainerUsageDocument]
    """What its containers use, as far as usage was given; of a pod that waits: whose allocations are left unused."""
    eviction: EvictionDocument | None
    """Null where nothing says that it was evicted."""
    problems: list[ProblemDocument]
    """What could not be read of it."""
    warnings: list[WarningDocument]


class ExplanationListDocument(TypedDict):
    """Explanations of several pods."""

    apiVersion: str
    kind: Literal["ExplanationList"]
    items: list[ExplanationDocument]


class WrittenMetadata(TypedDict):
    """Which pod, and what is written on it."""

    namespace: str
    name: str
    annotations: dict[str, str]
    labels: dict[str, str]


class WrittenDocument(TypedDict):
    """What a scheduler writes on a pod when it places it: a patch that kubectl takes."""

    apiVersion: str
    kind: Literal["Pod"]
    metadata: WrittenMetadata


class IgnoredDocument(TypedDict):
    """A document that makes no difference to the plan."""

    file: str
    document: int
    line: int
    kind: str
    name: str
    why: str
    hasPods: bool
    """Whether its controller creates pods, which the plan does not contain."""


class ProblemDocument(TypedDict):
    """Something in the snapshot that could not be read; everything else counts."""

    place: str
    what: str


class SummaryDocument(TypedDict):
    """The counts."""

    pods: int
    placed: int
    refused: int
    nodes: int
    workloads: int
    """Objects that run pods, skipped ones included."""
    skipped: int
    """Those of them whose pods the plan does not contain; ``ignored`` has them."""
    afterEviction: int
    """Refused pods that get a place once others have been evicted."""
    evictions: int
    """The pods that would be evicted."""


class PlanDocument(TypedDict):
    """The answer of ``hami-plugins plan``."""

    apiVersion: str
    kind: Literal["Plan"]
    summary: SummaryDocument
    pods: list[PodDocument]
    evictions: list[EvictionsDocument]
    """Empty without --preemption."""
    ignored: list[IgnoredDocument]
    problems: list[ProblemDocument]
    warnings: list[WarningDocument]
    cost: CostDocument | None
    """Null without --prices."""
    listed: dict[str, int]
    """How many objects of each kind the dump of the cluster has; empty for a live cluster and for a fleet."""


class FleetDocument(TypedDict):
    """A shipped fleet."""

    name: str
    nodes: int
    devices: int


class ShapeDocument(TypedDict):
    """A shape of nodes that fleet files can name."""

    name: str
    instanceType: str
    devices: int
    vendor: str
    model: str
    memoryMiB: int
    """Of one device; 0 where the vendor registers none."""


class FleetListDocument(TypedDict):
    """The answer of ``hami-plugins fleets``."""

    apiVersion: str
    kind: Literal["FleetList"]
    fleets: list[FleetDocument]
    shapes: list[ShapeDocument]


class SettingDocument(TypedDict):
    """A setting of a program."""

    key: str
    """Its path in the file; ``[]`` stands for the members of a list."""
    variable: str
    """The environment variable that sets it; empty for members of lists, which the list's variable sets as JSON."""
    values: str
    default: str
    """As a file spells it; ``not set`` and ``required`` for settings without one."""
    meaning: str


class ProgramDocument(TypedDict):
    """The settings of a program."""

    name: str
    option: str
    """The option that gives the file."""
    commands: str
    """Which commands take the option."""
    settings: list[SettingDocument]


class SettingListDocument(TypedDict):
    """The answer of ``hami-plugins settings``."""

    apiVersion: str
    kind: Literal["SettingList"]
    programs: list[ProgramDocument]


class FeatureDocument(TypedDict):
    """Whether a vendor's devices have a feature, by which means, and the document or file that says so."""

    support: Literal["yes", "no", "whole", "unknown"]
    """``whole``: a container has the whole device, so that there is nothing to isolate."""
    words: str
    source: str


class FactDocument(TypedDict):
    """A statement about a vendor's devices and its source; both are empty where nothing is known."""

    words: str
    source: str


class VendorDocument(TypedDict):
    """One vendor's words and units, and what is known about its devices."""

    name: str
    title: str
    maker: str
    dialect: Literal["hami", "volcano", "koordinator"]
    resources: dict[str, str]
    """By meaning: count, memory, memoryPercentage, cores, priority."""
    annotations: dict[str, list[str]]
    """By meaning: useIds, avoidIds, useModels, avoidModels, mode and read are read from pods and nodes; register,
    handshake and lock stand on nodes; toAllocate, allocated and written are what the scheduler writes on pods."""
    memoryUnitMiB: int
    """How many MiB one unit of the memory resource means; 0 without such a resource."""
    memoryStep: str
    coreStep: str
    severalCards: str
    """What asking for more than one card means."""
    defaults: dict[str, int]
    source: str
    """Where names, filters and steps were read; empty where it is not said."""
    features: dict[str, FeatureDocument]
    """By name: memoryIsolation, coreIsolation, idFilter, modelFilter, numa, topology, runtimeClass (whether containers
    need the vendor's container runtime)."""
    facts: dict[str, FactDocument]
    """By name: models, plugin, chart, nodeLabel."""


class VendorListDocument(TypedDict):
    """The answer of ``hami-plugins vendors``."""

    apiVersion: str
    kind: Literal["VendorList"]
    items: list[VendorDocument]
