"""Pods: as submitted (``Pod``), and as holders of devices (``PodRecord``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import NodeName, PodUid

ResourceList = Mapping[str, Quantity]


SUCCEEDED: Final = "Succeeded"
FINISHED: Final = frozenset({SUCCEEDED, "Failed"})
"""Phases in which a pod holds nothing any more."""


class UsedClaim(NamedTuple):
    """What a container uses of the claims of its pod: one by its name in the pod, or one request of it."""

    name: str
    request: str = ""


class PodClaim(NamedTuple):
    """A claim of a pod (Dynamic Resource Allocation): one that exists, or one that is made of a template for the pod.

    ``name`` is its name in the pod. ``made`` is the claim that was made of the template, ``""`` where none was needed
    and ``None`` while its controller has not reported.
    """

    name: str
    claim: str = ""
    template: str = ""
    made: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a pod, with what the decisions read of it. ``env`` are the names of its variables."""

    name: str
    kind: ContainerKind = ContainerKind.APP
    limits: ResourceList = field(default_factory=dict)
    requests: ResourceList = field(default_factory=dict)
    env: frozenset[str] = frozenset()
    privileged: bool = False
    claims: tuple[UsedClaim, ...] = ()

    def amount(self, resource: str, *, requests_too: bool = True) -> Quantity | None:
        """The limit of a resource, else (by default) its request, else ``None``."""
        found = self.limits.get(resource)
        if found is None and requests_too:
            return self.requests.get(resource)
        return found


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration of node taints; empty members match anything, as in Kubernetes."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One node-selector requirement: ``operator`` is In, NotIn, Exists, DoesNotExist, Gt or Lt.

    ``on_field`` is set for ``matchFields`` (only ``metadata.name`` exists).
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    on_field: bool = False


EVERYWHERE = "*"
"""Among the namespaces of a term: all of them."""


class PodTerm(NamedTuple):
    """Pods that another pod wants near or far: those whose labels meet every requirement, in the same ``topology``.

    ``namespaces`` are where they are looked for. Without requirements every pod is meant.
    """

    topology: str
    requirements: tuple[Requirement, ...]
    namespaces: frozenset[str]


class TopologySpread(NamedTuple):
    """No part of a ``topology`` holds ``max_skew`` more of the pods that meet the requirements than the emptiest part.

    With fewer than ``min_domains`` parts the emptiest counts as empty.
    """

    topology: str
    max_skew: int
    requirements: tuple[Requirement, ...]
    min_domains: int = 1


class Neighbours(NamedTuple):
    """Which other pods a pod must be near, must be apart from, and how pods like it must be spread."""

    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    spread: tuple[TopologySpread, ...] = ()


NOBODY = Neighbours()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConstraints:
    """Where a pod may go, devices aside. ``affinity`` is an OR of ANDs; ``None`` is "anywhere".

    ``requests`` are the plain resources (nano units) that the scheduler sums up per node; ``node`` pins a name.
    ``barred`` are nodes that other pods keep it from, by the scheduler's words for it. ``tolerates_requests``: on nodes
    of providers that add a toleration for requested resources it counts as added.
    """

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    requests: tuple[tuple[str, int], ...] = ()
    node: NodeName | None = None
    barred: tuple[tuple[str, frozenset[NodeName]], ...] = ()
    tolerates_requests: bool = True


ANYWHERE = NodeConstraints()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as its author wrote it and the API server defaulted it. ``containers``: init containers first.

    ``of_group`` are the annotations of its PodGroup, where that is known. ``made_at`` is when it was created (Unix
    seconds), ``None`` where that is not known. ``preempts`` is whether other pods may be evicted for it
    (``preemptionPolicy`` other than ``Never``), ``preemptable`` whether it may be evicted for others
    (``volcano.sh/preemptable``). ``nominated`` is the node on which room is made for it (``nominatedNodeName``),
    ``disruption`` the reason for which it is about to be ended (condition ``DisruptionTarget``), empty for none.
    ``owner`` is its controller, as ``Kind/name``, empty for none.
    ``gates`` are the names of its scheduling gates.
    ``native_group`` is the gang of Kubernetes (``wire.kubernetes_gangs``) that it names, empty for none.
    ``template_requests`` are the requests in the template of a Volcano Job that it will be created from: the API server
    copies limits into the requests of pods, not of templates. ``None`` for all other pods.
    """

    namespace: str
    name: str
    uid: PodUid = PodUid("")
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    containers: tuple[Container, ...] = ()
    scheduler: str = ""
    node: NodeName | None = None
    phase: str = "Pending"
    priority: int = 0
    priority_class: str = ""
    runtime_class: str | None = None
    gates: tuple[str, ...] = ()
    terminating: bool = False
    init_finished: bool = False
    constraints: NodeConstraints = ANYWHERE
    neighbours: Neighbours = NOBODY
    of_group: Mapping[str, str] = field(default_factory=dict)
    made_at: int | None = None
    preempts: bool = True
    preemptable: bool = True
    nominated: NodeName | None = None
    disruption: str = ""
    owner: str = ""
    claims: tuple[PodClaim, ...] = ()
    native_group: str = ""
    template_requests: tuple[tuple[str, int], ...] | None = None

    @property
    def gated(self) -> bool:
        """Whether scheduling gates keep every scheduler from it."""
        return bool(self.gates)

    @property
    def full_name(self) -> str:
        """``namespace/name``, the way every message names a pod."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ContainerAllocation:
    """What one container of a placed pod holds."""

    kind: ContainerKind
    shares: tuple[AllocatedShare, ...] = ()


class Unlocated(NamedTuple):
    """Devices that a pod holds and that only its node can tell.

    ``numbers`` are cores, counted over all devices of the vendor on the node; without any the pod may use every device
    there. ``container`` is the place of the holder among the pod's containers, ``share`` what it holds of one device.
    Where there is a ``device_index``, it is the device of that index alone, and ``percent`` of its memory where that is
    not 0. With ``whole`` it is all of the device that the share names, because the amounts cannot be read.
    """

    container: int
    share: AllocatedShare
    numbers: tuple[int, ...] = ()
    device_index: int | None = None
    percent: int = 0
    whole: bool = False

    @property
    def is_particular(self) -> bool:
        """Whether it is known which devices of the node these are."""
        return bool(self.numbers) or self.device_index is not None or self.whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PodRecord:
    """A pod that occupies a node: its allocations by container, and its plain requests in nano units.

    ``containers`` are the names of the containers, where they are known. ``init_finished`` says that init containers no
    longer count; ``strangers`` are allocations that name devices the node does not have: they are kept and shown, never
    freed. ``unlocated`` becomes allocations once the node is known. ``made_at`` is when the pod was created (Unix
    seconds), ``None`` if unknown; ``preemptable`` whether it may be evicted for other pods; ``disruption`` the reason
    for which it is about to be ended, ``owner`` its controller (``Kind/name``), or empty. ``group`` is its PodGroup of
    Volcano, ``native_group`` its gang of Kubernetes, each empty for none. ``resize`` describes a requested resize,
    empty for none.
    """

    namespace: str
    name: str
    uid: PodUid
    allocations: tuple[ContainerAllocation, ...] = ()
    containers: tuple[str, ...] = ()
    requests: tuple[tuple[str, int], ...] = ()
    init_finished: bool = False
    terminating: bool = False
    strangers: tuple[AllocatedShare, ...] = ()
    unlocated: tuple[Unlocated, ...] = ()
    queue: str = ""
    group: str = ""
    task: str = ""
    priority: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    apart: tuple[PodTerm, ...] = ()
    made_at: int | None = None
    preemptable: bool = True
    disruption: str = ""
    owner: str = ""
    native_group: str = ""
    resize: str = ""

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def full_group(self) -> str:
        """``namespace/name`` of its PodGroup, empty for none."""
        return f"{self.namespace}/{self.group}" if self.group else ""
