"""Running pods by node, PodGroup and queue, as successive snapshots show them: only what has changed is looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import NodeName
from hami_plugins.model.versions import changed_names
from hami_plugins.preemption.values import EvictedPod
from hami_plugins.queueing import gangs
from hami_plugins.queueing.gangs import Need
from hami_plugins.queueing.queues import DEFAULT, Amounts
from hami_plugins.queueing.usage import total_of

MOST_KINDS: Final = 10_000
"""Kinds of pods that are remembered, whether such pods still run or not."""


class RunningGang(NamedTuple):
    """A gang with a minimum: its running members, and how many count for the minimum by task."""

    need: Need
    have: Mapping[str, int]
    members: tuple[EvictedPod, ...]

    def spares(self, leaving: Iterable[PodRecord]) -> bool:
        """Whether enough members stay when these leave."""
        left = Counter(self.have)
        left.subtract(record.task for record in leaving)
        return not gangs.missing(self.need, left)


@dataclass(frozen=True, slots=True, eq=False)
class PodKind:
    """What members of PodGroups have in common that rules for single pods treat alike, unless they look at labels.

    ``priority`` is the pods' own, ``of_group`` that of their PodGroup, ``None`` for none. ``queue`` is where Volcano
    counts them. Kinds are compared by identity: pods of one kind have the same one.
    """

    namespace: str
    preemptable: bool
    priority: int
    of_group: int | None
    queue: str

    @property
    def lowest(self) -> int:
        """The lower one of the priorities, of which the rules take one."""
        return self.priority if self.of_group is None else min(self.priority, self.of_group)


class RunningOnNode(NamedTuple):
    """The pods of a node; another value when the node changes, or a PodGroup of its pods in what counts here.

    ``ending`` says that some are being deleted, ``apart`` that some keep other pods away by their anti-affinity;
    ``priorities`` are those of the pods themselves. Of pods that are not being deleted and have a PodGroup there are
    the ``members`` by PodGroup (``namespace/name``), their ``kinds`` by the identity of the records, and what they hold
    by queue.
    """

    entry: NodeEntry
    ending: bool
    apart: bool
    priorities: frozenset[int]
    members: Mapping[str, list[PodRecord]]
    kinds: Mapping[int, PodKind]
    held: Mapping[str, Amounts]


class RunningPodIndex:
    """The running pods of the snapshot that was seen last. One thread at a time uses it."""

    def __init__(self) -> None:
        self._seen = ClusterSnapshot()
        self._nodes: dict[NodeName, RunningOnNode] = {}
        self._nodes_of: dict[str, tuple[NodeName, ...]] = {}
        self._gangs: dict[str, RunningGang | None] = {}
        self._held: dict[str, dict[str, int]] = {}
        self._total: Amounts | None = None
        self._kinds: dict[tuple[Hashable, ...], PodKind] = {}
        self._with_minimum: set[str] = set()

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> RunningPodIndex:
        """Those of one snapshot."""
        found = cls()
        found.see(snapshot)
        return found

    def see(self, snapshot: ClusterSnapshot) -> None:
        """Another snapshot is looked at from now on."""
        if snapshot is self._seen:
            return
        before, self._seen = self._seen, snapshot
        if before.succeeded != snapshot.succeeded:
            self._gangs.clear()
        stale = set[NodeName]()
        if before.priorities != snapshot.priorities or len(self._kinds) > MOST_KINDS:
            stale.update(self._nodes)
            self._kinds.clear()
        for name in _changed(before.pod_groups, snapshot.pod_groups):
            group = snapshot.pod_groups.get(name)
            (self._with_minimum.discard if group is None or not _has_minimum(group) else self._with_minimum.add)(name)
            stale.update(self._nodes_of.get(name, ()))
        for gone in self._nodes.keys() - snapshot.position.keys():
            self._replace(gone, None)
        for entry in snapshot.nodes:
            known = self._nodes.get(entry.name)
            if known is None or known.entry is not entry or (stale and entry.name in stale):
                self._replace(entry.name, self._pods_of(entry))

    def at(self, node: NodeName) -> RunningOnNode:
        """The pods of a node of the snapshot."""
        return self._nodes[node]

    @property
    def nodes(self) -> Iterable[RunningOnNode]:
        """The pods of all nodes."""
        return self._nodes.values()

    def nodes_of(self, group: str) -> tuple[NodeName, ...]:
        """The nodes on which members of a PodGroup run that are not being deleted."""
        return self._nodes_of.get(group, ())

    def have(self, group: str) -> Counter[str]:
        """The members of a PodGroup that have a place or have ended well, per task; see ``gangs.running``."""
        found = Counter(record.task for node in self.nodes_of(group) for record in self._nodes[node].members[group])
        found.update(self._seen.succeeded.get(group, {}))
        return found

    @property
    def has_gangs(self) -> bool:
        """Whether any PodGroup has a minimum, so that its members depend on each other."""
        return bool(self._with_minimum)

    def gang(self, name: str) -> RunningGang | None:
        """The running gang of a name; ``None`` where it has no minimum or no members run."""
        if name not in self._with_minimum:
            return None
        if name not in self._gangs:
            self._gangs[name] = self._gang(name)
        return self._gangs[name]

    def kind_of(self, record: PodRecord) -> PodKind | None:
        """The kind of a pod, whether it runs or not; ``None`` for one without a PodGroup."""
        return self._kind(record, record.full_group) if record.group else None

    @property
    def kinds(self) -> Collection[PodKind]:
        """The kinds of pods, and some of pods that ran before."""
        return self._kinds.values()

    @property
    def priorities(self) -> set[int]:
        """The priorities of all pods, not of their PodGroups."""
        return set().union(*(node.priorities for node in self._nodes.values()))

    @property
    def keep_apart(self) -> bool:
        """Whether any pod keeps others away by its anti-affinity; see ``neighbours.matter``."""
        return any(node.apart for node in self._nodes.values())

    @property
    def held(self) -> Mapping[str, Amounts]:
        """What the members of PodGroups hold by queue (nano units); those being deleted hold nothing."""
        return {queue: dict(amounts) for queue, amounts in self._held.items()}

    @property
    def total(self) -> Amounts:
        """What all nodes have together; see ``total_of``."""
        if self._total is None:
            self._total = total_of(self._seen.nodes)
        return self._total

    def _gang(self, name: str) -> RunningGang | None:
        nodes = sorted(self.nodes_of(name))
        members = tuple(EvictedPod(record, node) for node in nodes for record in self._nodes[node].members[name])
        group = self._seen.pod_groups[name]
        need = Need(group.min_member, tuple(sorted(group.min_by_task.items())))
        return RunningGang(need, self.have(name), members) if members else None

    def _replace(self, name: NodeName, after: RunningOnNode | None) -> None:
        before = self._nodes.pop(name, None)
        if before is None or after is None or before.entry.facts is not after.entry.facts:
            self._total = None
        if before is not None:
            self._leave(name, before)
        if after is not None:
            self._nodes[name] = after
            self._come(name, after)

    def _leave(self, name: NodeName, pods: RunningOnNode) -> None:
        for queue, amounts in pods.held.items():
            held = self._held[queue]
            for resource, amount in amounts.items():
                held[resource] -= amount
        for group in pods.members:
            self._gangs.pop(group, None)
            left = tuple(node for node in self._nodes_of.pop(group) if node != name)
            if left:
                self._nodes_of[group] = left

    def _come(self, name: NodeName, pods: RunningOnNode) -> None:
        for queue, amounts in pods.held.items():
            held = self._held.setdefault(queue, {})
            for resource, amount in amounts.items():
                held[resource] = held.get(resource, 0) + amount
        nodes_of, here = self._nodes_of, (name,)
        for group in pods.members:
            nodes_of[group] = nodes_of[group] + here if group in nodes_of else here
        if self._gangs:
            for group in pods.members:
                self._gangs.pop(group, None)

    def _pods_of(self, entry: NodeEntry) -> RunningOnNode:
        members: dict[str, list[PodRecord]] = {}
        kinds: dict[int, PodKind] = {}
        held: dict[str, dict[str, int]] = {}
        priorities = set[int]()
        ending = apart = False
        for record in entry.pods:
            priorities.add(record.priority)
            if record.apart:
                apart = True
            if record.terminating:
                ending = True
                continue
            if not record.group:
                continue
            name = record.full_group
            if name in members:
                members[name].append(record)
            else:
                members[name] = [record]
            kinds[id(record)] = kind = self._kind(record, name)
            if kind.queue not in held:
                held[kind.queue] = dict(record.requests)
                continue
            amounts = held[kind.queue]
            for resource, amount in record.requests:
                amounts[resource] = amounts.get(resource, 0) + amount
        return RunningOnNode(entry, ending, apart, frozenset(priorities), members, kinds, held)

    def _kind(self, record: PodRecord, group: str) -> PodKind:
        known = self._seen.pod_groups.get(group)
        queue, of_group = (record.queue, "") if known is None else (known.queue, known.priority_class)
        key = queue, of_group, record.priority, record.preemptable, record.namespace
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = PodKind(
                namespace=record.namespace,
                preemptable=record.preemptable,
                priority=record.priority,
                of_group=self._seen.priorities.get(of_group),
                queue=queue or DEFAULT,
            )
        return found


def _changed(before: Mapping[str, PodGroup], after: Mapping[str, PodGroup]) -> list[str]:
    """The names of the groups that came, went or changed in what running pods count with."""
    return [
        name
        for name in changed_names(before, after)
        if name not in before or name not in after or _counts_with(before[name]) != _counts_with(after[name])
    ]


def _counts_with(group: PodGroup) -> tuple[object, ...]:
    return group.queue, group.priority_class, group.min_member, group.min_by_task


def _has_minimum(group: PodGroup) -> bool:
    return group.min_member > 1 or bool(group.min_by_task)
