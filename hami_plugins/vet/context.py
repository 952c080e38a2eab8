"""The inputs of every check besides its object: vendors, settings, the other objects, the cluster if one is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hami_plugins.engine.decide import Decider
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.manifests import Document
from hami_plugins.inputs.vocabulary import Vocabulary, speaks
from hami_plugins.model.claims import NO_RESOURCES, DynamicResources
from hami_plugins.model.cluster import ClusterSnapshot, Queue
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors.volcano_releases import Quirk
from hami_plugins.vet import parsed_requests
from hami_plugins.vet.findings import Check, Violation
from hami_plugins.vet.hardware import Hardware
from hami_plugins.vet.installed import NOTHING_KNOWN, Installed
from hami_plugins.vet.managers import ManagerSigns
from hami_plugins.vet.new_nodes import new_nodes
from hami_plugins.vet.parsed_requests import ParsedRequest
from hami_plugins.vet.pods_by_queue import NOBODY, PodsByQueue
from hami_plugins.vet.resources import ContainerView, PodView, Subject
from hami_plugins.vet.settings import VetSettings
from hami_plugins.vet.suppression import NOTHING, Suppression


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """All that was given. ``idle`` is the snapshot without its pods: what does not fit there never fits. ``hardware``
    is what devices it has; both are set with ``snapshot``.

    ``declared`` are the full names of the objects by group and kind, ``unseen`` the namespaces that the webhook is
    configured to ignore. ``rule_names`` are the ids and names of all rules, in lower case. ``listed`` are the documents
    that are objects of the cluster itself, ``volcano`` is the state of its Volcano, ``queues`` are those of both, and
    ``occupants`` the cluster's pods. ``signs`` shows, from objects other than the nodes, which component allocates
    their devices, ``placing`` the vendors whose devices schedulers allocate there. ``dynamic`` holds the claims of
    cluster and manifests.
    """

    registry: Registry
    vocabulary: Vocabulary
    settings: VetSettings
    subjects: Sequence[Subject]
    declared: Mapping[tuple[str, str], frozenset[str]]
    unseen: frozenset[str]
    suppressions: Mapping[Document, Suppression]
    rule_names: frozenset[str]
    decider: Decider
    listed: frozenset[Document] = frozenset()
    volcano: Installed = NOTHING_KNOWN
    queues: Mapping[str, Queue] = field(default_factory=dict)
    occupants: PodsByQueue = NOBODY
    signs: ManagerSigns = field(default_factory=ManagerSigns)
    placing: Registry = field(default_factory=lambda: Registry(()))
    dynamic: DynamicResources = NO_RESOURCES
    snapshot: ClusterSnapshot | None = None
    idle: ClusterSnapshot | None = None
    hardware: Hardware | None = None
    _asked: dict[int, tuple[VendorSpec, ...]] = field(default_factory=dict)
    _readings: dict[tuple[int, str], ParsedRequest] = field(default_factory=dict)
    _added: dict[VendorName, tuple[NodeShape, ...]] = field(default_factory=dict)

    def overlooked(self, subject: Subject) -> Suppression:
        """What the author of an object asks to overlook."""
        return self.suppressions.get(subject.document, NOTHING)

    def does(self, quirk: Quirk) -> bool:
        """Whether the cluster's Volcano is to be expected to do something."""
        return quirk.holds(self.volcano.release, self.volcano.assigner)

    def is_declared(self, subject: Subject) -> bool:
        """Whether an object stands among the manifests."""
        return subject.full_name in self.declared.get((subject.group, subject.kind), ())

    def reading(self, spec: VendorSpec, container: ContainerView) -> ParsedRequest:
        """What a vendor makes of a container."""
        key = (id(container), spec.name)
        if key not in self._readings:
            self._readings[key] = parsed_requests.read(spec, container.alone)
        return self._readings[key]

    def in_cluster(self, spec: VendorSpec) -> bool:
        """Whether a snapshot is given, and any node of it has devices of a vendor."""
        return self.hardware is not None and self.hardware.has(spec)

    def added_shapes(self, spec: VendorSpec) -> tuple[NodeShape, ...]:
        """Nodes with devices of a vendor that an autoscaler of the cluster may add."""
        if self.snapshot is None:
            return ()
        if spec.name not in self._added:
            found = new_nodes(self.snapshot, self.registry, NodeConstraints(), (spec.name,))
            self._added[spec.name] = tuple(
                each.state.shape for each in found if spec.name in each.state.shape.positions
            )
        return self._added[spec.name]

    def most(self, spec: VendorSpec) -> int:
        """The largest number of devices of a vendor on a node that the cluster has or may get."""
        there = 0 if self.hardware is None else self.hardware.most.get(spec.name, 0)
        return max(there, *(len(shape.positions[spec.name]) for shape in self.added_shapes(spec)), 0)

    def asked_of(self, container: ContainerView) -> tuple[VendorSpec, ...]:
        """The vendors whose resources a container names."""
        known = self._asked.get(id(container))
        if known is None:
            found = (self.registry.owner_of(resource) for resource in container.amounts)
            known = self._asked[id(container)] = _once(spec for spec in found if spec is not None)
        return known

    def asked_by(self, pod: PodView) -> tuple[VendorSpec, ...]:
        """The vendors whose resources any container of a pod names."""
        return _once(spec for container in pod.containers for spec in self.asked_of(container))

    def in_hami_words(self, pod: PodView) -> tuple[VendorSpec, ...]:
        """The vendors that a pod asks in HAMi's words."""
        return speaks(Dialect.HAMI, self.asked_by(pod))

    def in_volcano_words(self, pod: PodView) -> tuple[VendorSpec, ...]:
        """The vendors that a pod asks in Volcano's words."""
        return speaks(Dialect.VOLCANO, self.asked_by(pod))


def declared(subjects: Iterable[Subject]) -> Mapping[tuple[str, str], frozenset[str]]:
    """The full names of objects by group and kind."""
    found: dict[tuple[str, str], set[str]] = {}
    for subject in subjects:
        found.setdefault((subject.group, subject.kind), set()).add(subject.full_name)
    return {kind: frozenset(names) for kind, names in found.items()}


def each_pod(check: Callable[[PodView, Context], Iterator[Violation]]) -> Check:
    """A check of pods as a check of objects."""

    def over_pods(subject: Subject, context: Context) -> Iterator[Violation]:
        for pod in subject.pods:
            yield from check(pod, context)

    return over_pods


def each_container(check: Callable[[ContainerView, PodView, Context], Iterator[Violation]]) -> Check:
    """A check of containers as a check of objects."""

    def over_containers(subject: Subject, context: Context) -> Iterator[Violation]:
        for pod in subject.pods:
            for container in pod.containers:
                yield from check(container, pod, context)

    return over_containers


def each_request(check: Callable[[VendorSpec, ContainerView, PodView, Context], Iterator[Violation]]) -> Check:
    """A check of what one container asks of one vendor as a check of objects.

    Koordinator's amounts are those of a pod, and have rules of their own.
    """

    def over_requests(container: ContainerView, pod: PodView, context: Context) -> Iterator[Violation]:
        for spec in context.asked_of(container):
            if spec.dialect is Dialect.KOORDINATOR:
                continue
            yield from check(spec, container, pod, context)

    return each_container(over_requests)


def where(container: ContainerView, pod: PodView) -> str:
    """How messages call a container."""
    named = f"container {container.name}"
    return f"{pod.label}, {named}" if pod.label else named


def none_of(nodes: int) -> str:
    """How messages begin about something that no node has."""
    return f"none of the {nodes} nodes" if nodes > 1 else "no node of the cluster"


def _once(specs: Iterable[VendorSpec]) -> tuple[VendorSpec, ...]:
    return tuple({spec.name: spec for spec in specs}.values())
