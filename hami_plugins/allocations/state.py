"""What is held now, node by node: facts of a watch, and what is assumed until it shows them.

A pod that the watch shows on a node holds what its annotations say there and then, whatever was assumed before; until
then an ``Assumption`` holds its place. Later edits free nothing: a user who may edit a pod's annotations does not stop
the processes on its cards. Times are seconds of any monotonic clock.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from hami_plugins.allocations.answers import Assumption, AuditFinding, Statistics
from hami_plugins.allocations.assigned import ForeignAssignment
from hami_plugins.allocations.findings import AuditSnapshot, BoundPod, all_particular, wanting
from hami_plugins.allocations.known_answers import ChangeLog
from hami_plugins.allocations.nodes import CacheNode
from hami_plugins.allocations.quotas import NamespaceQuotas, QuotaHolder
from hami_plugins.allocations.requests import Compared, compared, cut, excess
from hami_plugins.allocations.resizes import BookedMemory, as_written
from hami_plugins.engine.inventory import NodeBuilder, RecordReader
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot, NamespaceQuota
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeEntry, NodeFacts, Problem
from hami_plugins.model.pods import FINISHED, ContainerAllocation, Pod, PodRecord
from hami_plugins.model.requests import DeviceDemand
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.vendor import Left

NOBODY: Final = PodUid("")


class CacheState:
    """Who holds what: bound pods as a watch shows them, and assumptions until it does.

    Nothing that is answered with lasts longer than ``keep`` seconds after its Binding; a pod that is gone is remembered
    as long. ``changes`` counts the changes of what is held or to be had, ``freed`` those after which more may be had.
    ``log`` has the nodes on which that was.
    """

    def __init__(self, registry: Registry, *, keep: float) -> None:
        self.keep = keep
        self.changes = self.freed = 0
        self.log = ChangeLog()
        self._registry = registry
        self._builder = NodeBuilder(registry)
        self._records = RecordReader(registry)
        self._nodes: dict[NodeName, CacheNode] = {}
        self._bound: dict[PodUid, BoundPod] = {}
        self._assumed: dict[PodUid, dict[NodeName, Assumption]] = {}
        self._gone: dict[PodUid, float] = {}
        self._quotas = NamespaceQuotas(registry, partial(_holding, self._nodes))
        self._assigned: dict[PodUid, ForeignAssignment] = {}

    # What a watch shows

    def see_node(self, node: NodeObject) -> tuple[Problem, ...]:
        """The current state of the node. An unreadable part is a problem, and the node then has no devices of that
        kind.
        """
        bare = self._builder.entry(node, NodeFacts())
        if self._node(node.name).see(bare):
            self.log.add(node.name)
            self._room()
            self._quotas.node_changed()
        return bare.problems

    def forget_node(self, name: NodeName) -> None:
        """The node is gone. Pods that hold something there do so until they are gone as well."""
        self._note(name, changed=self._node(name).see(None))
        self._tidy(name)

    def see_quota(self, uid: str, quota: NamespaceQuota) -> None:
        """A quota of a namespace as it is now, by the UID of its object."""
        held = (
            (record.namespace, QuotaHolder(name, record.uid)) for name, node in self._nodes.items() for record in node
        )
        if self._quotas.see(uid, quota, held):
            self._room()

    def forget_quota(self, uid: str) -> None:
        """A quota is gone."""
        if self._quotas.forget(uid):
            self._room()

    def see_pod(self, pod: Pod, now: float, *, fault: str = "", edited: str = "") -> tuple[Problem, ...]:
        """The pod as it is now: on a node it holds what it said when it got there, and nothing else, and nowhere else.

        A pod that had no devices there may be allocated some. A pod without a node changes nothing; a finished pod
        holds nothing. Unreadable and changed allocations are problems. With a ``fault`` (why the pod cannot be read)
        only its allocation is known, and it counts until the pod can be read. ``edited`` is the client that wrote the
        allocation after the pod was bound; for a pod first seen bound, that is a finding.
        """
        if pod.phase in FINISHED:
            self.forget_pod(pod.uid, now)
            return ()
        self._gone.pop(pod.uid, None)
        if pod.node is None:
            return ()
        said_memory, unresized = as_written(pod)
        record, problems = self._records.record(unresized)
        unreadable = "; ".join(problem.what for problem in problems)
        first = self._first(pod.uid, pod.node, fault)
        if first is not None and fault:
            return problems
        before = self._bound.get(pod.uid)
        said = record.allocations, record.unlocated
        written, (memory, shrunk) = said, (BookedMemory(said_memory), False)
        if before is not None and first is not None:
            written, (memory, shrunk) = before.written_first(said), before.memory.seen(said_memory)
            first = replace(first, allocations=before.plain)
        changed = written != said or shrunk
        if changed:
            what = "the allocation in its annotations was changed after it was bound; it keeps what it was bound with"
            problems = (*problems, Problem(f"pod {pod.full_name}", what))
        larger, uncompared = ("", ()) if fault else self._larger(pod, pod.node, record)
        if first is not None:
            unlocated = first.unlocated if all_particular(first.unlocated) else record.unlocated
            record = replace(record, allocations=first.allocations, unlocated=unlocated)
        elif larger:
            record = self._allowed(pod, pod.node, record)
        plain = record.allocations
        record = replace(record, allocations=memory.held(plain, record.containers))
        bound = BoundPod(
            node=pod.node,
            unreadable=unreadable,
            wanting=wanting(pod, record, self._registry),
            changed=changed,
            fault=fault,
            edited=edited if before is None or before.edited else "",
            remedied=any(problem.remedied for problem in problems),
            larger=larger,
            uncompared=uncompared,
            written=written,
            plain=plain,
            memory=memory,
        )
        holds = bound.is_wrong or record.unlocated or any(allocation.shares for allocation in record.allocations)
        self._drop(pod.uid, but=pod.node if holds else None)
        if holds:
            self._bound[pod.uid] = bound
            self._put(pod.node, record)
        return problems

    def see_assigned(self, pod: Pod, assigned: ForeignAssignment | None, now: float) -> None:
        """A pod without a node, and what another scheduler has assigned to it; ``None`` where that is nothing.

        It holds that for ``keep`` seconds, at most what it requests: until then it may be bound. Another assignment
        takes the place of the one before; the same one, seen again, lasts no longer.
        """
        if self._assigned.get(pod.uid) == assigned:
            return
        self._end_foreign(pod.uid)
        self._assigned.pop(pod.uid, None)
        if assigned is None:
            return
        self._assigned[pod.uid] = assigned
        if assigned.node in self._assumed.get(pod.uid, ()):
            return
        record, _ = self._records.record(replace(as_written(pod)[1], node=assigned.node))
        if self._larger(pod, assigned.node, record)[0]:
            record = cut(record, compared(pod, record, self._registry), every=True)
        made = Assumption(
            node=assigned.node,
            record=record,
            devices=DeviceDemand(()),
            made=now,
            until=now + self.keep,
            answered=True,
            job="",
            foreign=True,
        )
        self._assume(made)

    def forget_pod(self, uid: PodUid, now: float) -> None:
        """The pod is gone, and with it all that it held. For a while it is remembered, so that it gets nothing new."""
        self._drop(uid)
        self._gone[uid] = now + self.keep

    def expire(self, now: float, *, shown: float = math.inf) -> tuple[Assumption, ...]:
        """End the assumptions whose time is up, and say which.

        ``shown`` is up to when the watch has told all that happened: what a Binding was answered with may have come
        true since, so that its time is up only by then.
        """
        assumed = [each for held in self._assumed.values() for each in held.values()]
        ended = [each for each in assumed if each.until <= (min(now, shown) if each.answered else now)]
        for each in ended:
            self._end(each.record.uid, each.node)
        self._gone = {uid: until for uid, until in self._gone.items() if until > now}
        return tuple(ended)

    def overdue(self, now: float, *, after: float) -> tuple[Assumption, ...]:
        """What Bindings were answered with ``after`` seconds ago or earlier, and no watch has shown since."""
        assumed = (each for held in self._assumed.values() for each in held.values())
        return tuple(each for each in assumed if each.state == "answered" and each.made + after <= now)

    def reserved_before(self, time: float) -> frozenset[PodUid]:
        """The pods with reservations that were made at that time or earlier, and for which no Binding has come."""
        assumed = (each for held in self._assumed.values() for each in held.values())
        return frozenset(each.record.uid for each in assumed if each.state == "reserved" and each.made <= time)

    def fail(self, assumption: Assumption) -> bool:
        """A Binding is known to have failed: what it was answered with ends, unless it was answered again since."""
        uid, node = assumption.record.uid, assumption.node
        now = self._assumed.get(uid, {}).get(node)
        if now is None or not now.answered or now.made != assumption.made:
            return False
        self._end(uid, node)
        return True

    # What it knows

    @property
    def names(self) -> tuple[NodeName, ...]:
        """The nodes that are known, or have pods with devices."""
        return tuple(self._nodes)

    def entry(self, name: NodeName) -> NodeEntry | None:
        """The node with everybody who holds something there, or ``None``."""
        node = self._nodes.get(name)
        return None if node is None else node.entry()

    def entry_without(self, name: NodeName, uid: PodUid) -> NodeEntry | None:
        """The same as if one pod held nothing there."""
        node = self._nodes.get(name)
        return None if node is None else node.entry_without(uid)

    def bare(self, name: NodeName) -> NodeEntry | None:
        """The same with all devices free."""
        node = self._nodes.get(name)
        return None if node is None else node.bare

    def stranger(self, node: NodeObject) -> NodeEntry:
        """A node that only a scheduler knows, such as the template of a group that an autoscaler may enlarge."""
        return self._builder.entry(node, NodeFacts())

    def left(self, namespace: str, uid: PodUid = NOBODY) -> Left:
        """What the namespace's quotas leave, whatever one pod holds; empty where there are none."""
        return self._quotas.left(namespace, uid, self.nodes_of(uid))

    def holdings(self, uid: PodUid) -> tuple[tuple[NodeName, tuple[ContainerAllocation, ...]], ...]:
        """What a pod holds, or is assumed to hold, and on which nodes."""
        return tuple((name, self._nodes[name].record(uid).allocations) for name in self.nodes_of(uid))

    def nodes_of(self, uid: PodUid) -> tuple[NodeName, ...]:
        """Where a pod holds something, or is assumed to."""
        bound = self._bound.get(uid)
        return (*self._assumed.get(uid, ()), *(() if bound is None else (bound.node,)))

    def snapshot(self) -> ClusterSnapshot:
        """All nodes, with devices and who holds them, the quotas, and nothing else of the cluster."""
        return ClusterSnapshot(nodes=tuple(self.entries()), quotas=self._quotas.limits)

    def entries(self) -> Iterator[NodeEntry]:
        """All nodes that are known, in no order."""
        return (entry for node in self._nodes.values() if (entry := node.entry()) is not None)

    def assumptions(self, uid: PodUid) -> tuple[Assumption, ...]:
        """The assumed allocation of a pod."""
        return tuple(self._assumed.get(uid, {}).values())

    def bound_to(self, uid: PodUid) -> NodeName | None:
        """The node on which the watch has shown the pod, if it holds devices there or asks for some."""
        bound = self._bound.get(uid)
        return None if bound is None else bound.node

    def findings(self) -> tuple[AuditFinding, ...]:
        """What is wrong with what bound pods hold, node by node; see ``AuditSnapshot``."""
        return self.sheet().findings()

    def sheet(self) -> AuditSnapshot:
        """What is held now, to be looked through while the cache goes on."""
        return AuditSnapshot(self.snapshot().nodes, dict(self._bound))

    def statistics(self) -> Statistics:
        """Sizes, for metrics."""
        assumed = [each for held in self._assumed.values() for each in held.values()]
        known = [node.entry() for node in self._nodes.values()]
        states = Counter(each.state for each in assumed)
        return Statistics(
            nodes=sum(entry is not None for entry in known),
            devices=sum(len(entry.ids) for entry in known if entry is not None),
            holders=len(self._bound),
            reservations=states["reserved"],
            answered=states["answered"],
            foreign=states["foreign"],
        )

    def _assume(self, assumption: Assumption) -> None:
        self._assumed.setdefault(assumption.record.uid, {})[assumption.node] = assumption
        self._put(assumption.node, assumption.record)

    def _end(self, uid: PodUid, name: NodeName) -> None:
        """End what a pod is assumed to hold on a node."""
        held = self._assumed[uid]
        del held[name]
        if not held:
            del self._assumed[uid]
        self._take(name, uid)

    def _end_foreign(self, uid: PodUid) -> None:
        for each in self.assumptions(uid):
            if each.foreign:
                self._end(uid, each.node)

    def _first(self, uid: PodUid, name: NodeName, fault: str) -> PodRecord | None:
        """The pod's allocation since the watch showed it on the node; ``None`` for a pod without devices there.

        What was taken from a pod that could not be read counts for as long as it cannot. A pod that may use every
        device of its node has none in particular, so that it may be told which.
        """
        bound = self._bound.get(uid)
        if bound is None or bound.node != name or (bound.fault and not fault):
            return None
        record = self._nodes[name].record(uid)
        told = record.unlocated and all_particular(record.unlocated)
        return record if told or any(allocation.shares for allocation in record.allocations) else None

    def _larger(self, pod: Pod, name: NodeName, record: PodRecord) -> tuple[str, tuple[Compared, ...]]:
        """What is larger than the pod requests; and what can be compared only once its node is known."""
        containers = compared(pod, record, self._registry)
        node = self._nodes.get(name) or CacheNode()
        uncompared = () if node.known else tuple(each for each in containers if each.needs_devices)
        return excess(containers, record, node.device), uncompared

    def _allowed(self, pod: Pod, node: NodeName, record: PodRecord) -> PodRecord:
        """What a pod holds that comes bound with more than it requests: what its Binding was answered with."""
        answered = self._assumed.get(pod.uid, {}).get(node)
        if answered is not None and answered.state == "answered":
            return replace(record, allocations=answered.record.allocations, unlocated=())
        return cut(record, compared(pod, record, self._registry))

    def _drop(self, uid: PodUid, but: NodeName | None = None) -> None:
        """The pod is neither bound nor assumed anywhere; what it holds on one node can be left there for now."""
        bound = self._bound.pop(uid, None)
        self._assigned.pop(uid, None)
        for name in {*self._assumed.pop(uid, ()), *(() if bound is None else (bound.node,))}:
            if name != but:
                self._take(name, uid)

    def _put(self, name: NodeName, record: PodRecord) -> None:
        self._note(name, changed=self._node(name).put(record))
        self._quotas.put(record.namespace, QuotaHolder(name, record.uid))

    def _take(self, name: NodeName, uid: PodUid) -> None:
        self._quotas.take(self._nodes[name].record(uid).namespace, QuotaHolder(name, uid))
        self._nodes[name].take(uid)
        self.log.add(name)
        self._room()
        self._tidy(name)

    def _note(self, name: NodeName, *, changed: bool) -> None:
        """Something of a node is not to be had any more."""
        if changed:
            self.changes += 1
            self.log.add(name)

    def _room(self) -> None:
        """More may be had than before."""
        self.changes += 1
        self.freed += 1

    def _node(self, name: NodeName) -> CacheNode:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = CacheNode()
        return node

    def _tidy(self, name: NodeName) -> None:
        """Forget a node that does not exist and has no pods."""
        if self._nodes[name].idle:
            del self._nodes[name]


def _holding(nodes: Mapping[NodeName, CacheNode], holder: QuotaHolder) -> tuple[NodeEntry | None, PodRecord]:
    """Where a pod holds something, and what that is as its node has it.

    It knows the nodes and not the cache: a server has no collector that ends a circle of references.
    """
    node = nodes[holder.node]
    entry = node.entry()
    if entry is None:
        return None, node.record(holder.uid)
    return entry, next(record for record in entry.pods if record.uid == holder.uid)
