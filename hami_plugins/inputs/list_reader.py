"""From Kubernetes objects, as any listing holds them, to a snapshot. Fed one by one, so that pages can be dropped."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.engine.claims.same_devices import HeldByClaims
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.inputs.claim_objects import ClaimObjects
from hami_plugins.inputs.node_pools import NodePoolObjects
from hami_plugins.model.cluster import ClusterSnapshot, DisruptionBudget, Listing, NamespaceQuota, PodGroup, Queue
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeEntry, NodeFacts, Problem
from hami_plugins.model.pods import FINISHED, SUCCEEDED, Pod, PodRecord
from hami_plugins.model.units import NodeName
from hami_plugins.wire import koordinator_devices, kubernetes_gangs, objects
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import GROUP_KEY, TASK_KEY
from hami_plugins.wire.objects import EvictionEvent
from hami_plugins.wire.pages import with_kind

SNAPSHOT_KIND: Final = "ClusterSnapshot"
"""Kind of our own snapshot files: a list of trimmed objects."""

SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The priority classes that every cluster has."""


class ListingReader:
    """Collects nodes, pods, claims, quotas, budgets, queues, pod groups and node pools, then makes the snapshot.

    ``progress`` gets the number of items of lists that were read, and in the end the number of nodes that were built.
    """

    def __init__(self, registry: Registry, progress: Callable[[int], None] | None = None) -> None:
        self._progress = progress
        self._registry = registry
        self._builder = NodeBuilder(registry)
        self._records = RecordReader(registry)
        self._nodes: dict[NodeName, tuple[NodeObject, NodeFacts]] = {}
        self._published: dict[NodeName, object] = {}
        self._pods: set[str] = set()
        self._placed: dict[NodeName, list[PodRecord]] = defaultdict(list)
        self._pending: list[Pod] = []
        self._quotas: dict[str, NamespaceQuota] = {}
        self._budgets: list[DisruptionBudget] = []
        self._queues: dict[str, Queue] = {}
        self._groups: dict[str, PodGroup] = {}
        self._succeeded: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._claims = ClaimObjects()
        self._pools = NodePoolObjects()
        self._priorities: dict[str, int] = dict(SYSTEM_PRIORITIES)
        self._never_preempting: set[str] = set()
        self._evicted: dict[str, EvictionEvent] = {}
        self._problems: list[Problem] = []
        self._latest = ""
        self._kinds: Counter[str] = Counter()
        self._namespaces: set[str] = set()
        self._complete = False

    def feed(self, raw: object, place: str = "listing") -> None:
        """Take one object; lists are taken apart. What cannot be read becomes a problem of the snapshot.

        Kinds that a plan does not look at are passed over.
        """
        if not isinstance(raw, Mapping):
            self._problems.append(Problem(place, f"not an object but {type(raw).__name__}; skipped"))
            return
        kind = str(raw.get("kind", "List"))
        items = raw.get("items")
        if isinstance(items, list) and (kind.endswith("List") or kind == SNAPSHOT_KIND):
            self._complete = self._complete or (kind == SNAPSHOT_KIND and _is_complete(raw))
            self._feed_items(items, kind.removesuffix("List"), place)
            return
        self._latest = max(self._latest, objects.latest_time(raw))
        try:
            self._take(kind, raw, place)
        except WireError as error:
            self._problems.append(Problem(place, str(error)))

    def _feed_items(self, items: list[object], implied: str, place: str) -> None:
        kind = "" if implied == SNAPSHOT_KIND else implied
        for at, item in enumerate(items):
            self.feed(with_kind(item, kind), f"{place} item {at}")
            if self._progress is not None:
                self._progress(1)

    def _take(self, kind: str, raw: Json, place: str) -> None:
        self._kinds[kind] += 1
        match kind:
            case "Node":
                self._take_node(objects.node_object(raw), objects.node_facts(raw))
            case "Device" if koordinator_devices.is_one(raw):
                name = koordinator_devices.name_of(raw)
                if name in self._published:
                    raise WireError(f"device {name}", name, "listed twice; the first counts")
                self._published[name] = raw
            case "Pod":
                self._take_pod(objects.pod(raw))
            case "ResourceQuota":
                quota = objects.resource_quota(raw)
                known = self._quotas.get(quota.namespace)
                self._quotas[quota.namespace] = quota if known is None else known.together_with(quota)
            case "PodDisruptionBudget" if (budget := objects.disruption_budget(raw)) is not None:
                self._budgets.append(budget)
            case "Queue":
                queue, wrong = objects.readable_queue(raw)
                self._queues[queue.name] = queue
                self._problems.extend(Problem(place, f"{each}; counts as not set") for each in wrong)
            case "PodGroup" | "Workload":
                self._take_group(kind, raw, place)
            case _:
                if not self._claims.takes(kind, raw) and not self._pools.takes(kind, raw):
                    self._take_about_evictions(kind, raw)

    def _take_group(self, kind: str, raw: object, place: str) -> None:
        """A PodGroup of Volcano and the like, or the gangs of Kubernetes; Kueue's Workloads are none."""
        if isinstance(raw, Mapping) and kubernetes_gangs.is_one(raw):
            self._groups.update((group.full_name, group) for group in kubernetes_gangs.pod_groups(raw))
        elif kind == "PodGroup":
            group, wrong = objects.readable_pod_group(raw)
            self._groups[group.full_name] = group
            self._problems.extend(Problem(place, f"{each}; counts as not set") for each in wrong)

    def _take_about_evictions(self, kind: str, raw: object) -> None:
        """What pods are worth, and which of them were evicted."""
        if kind == "PriorityClass":
            found = objects.priority_class(raw)
            self._priorities[found.name] = found.value
            if not found.preempts:
                self._never_preempting.add(found.name)
        elif kind == "Event" and (eviction := objects.eviction(raw)) is not None:
            known = self._evicted.get(eviction.pod)
            if known is None or eviction.at >= known.at:
                self._evicted[eviction.pod] = eviction

    def _take_node(self, node: NodeObject, facts: NodeFacts) -> None:
        if node.name in self._nodes:
            raise WireError(f"node {node.name}", str(node.name), "listed twice; the first counts")
        self._nodes[node.name] = node, facts

    def _take_pod(self, pod: Pod) -> None:
        self._namespaces.add(pod.namespace)
        if not pod.name.endswith("-"):  # such a name is the start of one that the API server has yet to make up
            seen = len(self._pods)
            self._pods.add(pod.uid or pod.full_name)
            if len(self._pods) == seen:
                raise WireError(f"pod {pod.full_name}", pod.uid or pod.name, "listed twice; the first counts")
        if pod.priority_class and pod.priority:
            # Listings seldom hold the classes, but the API server writes their values on the pods.
            self._priorities.setdefault(pod.priority_class, pod.priority)
        if pod.phase in FINISHED:
            if pod.phase == SUCCEEDED and (group := kubernetes_gangs.group_of(pod)):
                self._succeeded[f"{pod.namespace}/{group}"][pod.annotations.get(TASK_KEY, "")] += 1
            return
        if pod.node is None:
            self._pending.append(pod)
            return
        record, problems = self._records.record(pod)
        self._placed[pod.node].append(record)
        self._problems.extend(problems)

    def finish(self) -> ClusterSnapshot:
        """The snapshot of everything taken so far."""
        entries: list[NodeEntry] = []
        problems = list(self._problems)
        dynamic = self._claims.finish()
        claimed = HeldByClaims(self._registry, dynamic)
        for name, (node, facts) in self._nodes.items():
            published = self._published.pop(name, None)
            entry = self._builder.entry(node if published is None else node._replace(published=published), facts)
            problems.extend(entry.problems)
            placed = self._placed.pop(name, [])
            known = frozenset(entry.ids)
            records = [settled(record, entry, known) for record in placed]
            problems.extend(
                Problem(
                    f"pod {record.full_name}",
                    f"holds {share.device}, which node {name} does not report; kept, and not counted as free anywhere",
                )
                for record in records
                for share in record.strangers
            )
            records.extend(claimed.on(entry))
            entries.append(with_pods(entry, records) if records else entry)
            if self._progress is not None:
                self._progress(1)
        problems.extend(
            Problem(f"node {name}", f"{_run(len(records))} on it, but the listing does not have it")
            for name, records in sorted(self._placed.items())
        )
        problems.extend(
            Problem(f"device {name}", "is published for a node that the listing does not have")
            for name in sorted(self._published)
        )
        return ClusterSnapshot(
            nodes=tuple(entries),
            pending=tuple(map(self._in_group, self._pending)),
            quotas=self._quotas,
            queues=self._queues,
            pod_groups=self._groups,
            succeeded=self._succeeded,
            priorities=self._priorities,
            never_preempting=frozenset(self._never_preempting),
            budgets=tuple(self._budgets),
            problems=tuple(problems),
            taken_at=objects.seconds(self._latest),
            listing=None if self._complete else self._listing(),
            evicted={name: event.message for name, event in self._evicted.items()},
            dynamic=dynamic,
            pools=self._pools.finish(),
        )

    def _listing(self) -> Listing:
        return Listing(kinds=self._kinds, pod_namespaces=frozenset(self._namespaces))

    def _in_group(self, pod: Pod) -> Pod:
        """The pod with what its PodGroup says."""
        group = self._groups.get(f"{pod.namespace}/{pod.annotations.get(GROUP_KEY, '')}")
        return pod if group is None or not group.annotations else replace(pod, of_group=group.annotations)


def snapshot_of(items: Iterable[object], registry: Registry) -> ClusterSnapshot:
    """The snapshot of some objects."""
    reader = ListingReader(registry)
    for at, item in enumerate(items):
        reader.feed(item, f"item {at}")
    return reader.finish()


def _is_complete(snapshot: Mapping[str, object]) -> bool:
    """Whether a snapshot file was made from a source that has everything."""
    metadata = snapshot.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get("complete") is True


def _run(pods: int) -> str:
    return "1 pod runs" if pods == 1 else f"{pods:,} pods run"
