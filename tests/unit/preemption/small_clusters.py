"""Small full clusters of many vendors, and the cheapest victims in them by trying every set of pods."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from hami_plugins.engine.apply import assigned, removed
from hami_plugins.engine.intake import PodInfo, take_in
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.quota import left_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot, DisruptionBudget, PodGroup, Queue
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import PodRecord, Requirement
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.units import NodeName
from hami_plugins.queueing.queues import plus, summed
from hami_plugins.queueing.usage import gate_of
from hami_plugins.wire import objects
from hami_plugins.wire.gang_keys import GROUP_KEY, QUEUE_KEY
from neuron_topology.core.vendor import SPEC as NEURON
from tests.history import NAMESPACE, RULES, History, Raw
from tests.machines import MACHINES, SPECS

MOST_EVICTABLE: Final = 8
QUEUES: Final = ("default", "research", "training")
"""The first is that of the pods that wait."""

PRIORITY: Final = 5
"""Of the pods that wait; running pods that may be evicted have 0 to 3."""

LINKED: Final = tuple(NEURON if spec.name == NEURON.name else spec for spec in SPECS)
"""The vendors with the one that allocates Neuron devices in linked sets."""

LINKED_MACHINES: Final = tuple(
    replace(each, asks=tuple({NEURON.resources.count: count} for count in (1, 2, 4, 8)))
    for each in MACHINES
    if each.name == "trainium"
)

Cost = tuple[int, int, tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Case:
    """A full cluster, and equal pods that wait in it."""

    history: History
    snapshot: ClusterSnapshot
    infos: tuple[PodInfo, ...]


def a_case(seed: int, members: int = 1, *, queued: bool = False) -> Case | None:
    """A cluster in which the pods do not fit; ``None`` where chance made none. ``queued`` pods are Volcano's."""
    chance = random.Random(seed)
    linked = chance.random() < 0.1
    history = History(chance, registry=Registry(LINKED if linked else SPECS))
    machine = chance.choice(LINKED_MACHINES if linked else MACHINES)
    for _ in range(chance.choice((1, 1, 2, 3))):
        history.join(machine)
    if members == 1 and not queued and chance.random() < 0.2:
        history.limit()
    for _ in range(chance.randrange(3, 12)):
        history.submit(history.request(machine, single=True) if linked else history.another(machine))
    asked = history.request(machine, single=linked or chance.random() < 0.7)
    if chance.random() < 0.5:
        asked = history.request(replace(machine, asks=machine.asks[-1:]), single=True)
    if chance.random() < 0.5:
        _fill(history, history.request(replace(machine, asks=machine.asks[:1]), single=True), chance.randrange(20))
    if not _fill(history, history.request(machine, single=True), 80, enough=asked):
        return None
    snapshot = _marked(history, chance)
    left = left_in(snapshot, NAMESPACE, history.registry)
    info = take_in(objects.pod(_waiting(asked, queued=queued)), history.registry, RULES, left)
    if info.refusal:
        return None
    infos = tuple(replace(info, pod=replace(info.pod, name=f"waiting-{at}")) for at in range(members))
    if queued:
        snapshot = _in_queues(snapshot, dict(info.pod.constraints.requests), chance)
    return Case(history, snapshot, infos)


def _waiting(raw: Raw, *, queued: bool) -> Raw:
    annotations = {**raw["metadata"]["annotations"], **({QUEUE_KEY: QUEUES[0], GROUP_KEY: "waiting"} if queued else {})}
    spec = {**raw["spec"], "priority": PRIORITY, "schedulerName": "volcano" if queued else "default-scheduler"}
    return {**raw, "metadata": {**raw["metadata"], "annotations": annotations}, "spec": spec}


def _in_queues(snapshot: ClusterSnapshot, asked: Mapping[str, int], chance: random.Random) -> ClusterSnapshot:
    """The cluster with every pod in a PodGroup of some queue, and queues that deserve about what they hold."""
    groups = {name: replace(group, queue=chance.choice(QUEUES)) for name, group in snapshot.pod_groups.items()}
    for entry in snapshot.nodes:
        records = []
        for record in entry.pods:
            group = record.group or f"group-of-{record.name}"
            full_name = f"{NAMESPACE}/{group}"
            if full_name not in groups:
                queue = chance.choice(QUEUES)
                groups[full_name] = PodGroup(namespace=NAMESPACE, name=group, min_member=1, queue=queue)
            priority = chance.choice((record.priority, PRIORITY + 2))
            records.append(replace(record, group=group, priority=priority))
        more = dict(entry.facts.allocatable) | {key: Quantity(10**12 * NANO, "1T") for key in asked}
        roomy = replace(entry, facts=replace(entry.facts, allocatable=more))
        snapshot = snapshot.with_node(with_pods(roomy, records))
    snapshot = replace(snapshot, pod_groups=groups)
    queues = {}
    for name in QUEUES:
        held = _held(snapshot, name)
        parts = (4, 13) if name == QUEUES[0] else (0, 6)
        wanted = {key: amount * chance.randrange(*parts) // 4 for key, amount in plus(held, asked).items() if amount}
        queues[name] = Queue(
            name=name,
            deserved=wanted,
            guarantee={key: amount * chance.randrange(5) // 4 for key, amount in held.items() if chance.random() < 0.3},
            reclaimable=chance.random() < 0.8,
        )
    return replace(snapshot, queues=queues)


def _held(snapshot: ClusterSnapshot, queue: str) -> dict[str, int]:
    return summed(
        dict(record.requests)
        for entry in snapshot.nodes
        for record in entry.pods
        if not record.terminating and snapshot.pod_groups[f"{NAMESPACE}/{record.group}"].queue == queue
    )


def _fill(history: History, asked: Raw, most: int, enough: Raw | None = None) -> bool:
    """Run pods of one kind until none fits, or until another pod does not."""
    for at in range(most):
        if enough is not None:
            info = history.taken_in(enough)
            if info.refusal or not isinstance(
                history.decider.decide(history.snapshot, info.demand, info.policy), Placed
            ):
                return True
        name = f"{asked['metadata']['name']}-{at}"
        raw = {**asked, "metadata": {**asked["metadata"], "name": name, "uid": name}, "spec": dict(asked["spec"])}
        if not isinstance(history.submit(raw), Placed):
            return enough is None
    return False


def _marked(history: History, chance: random.Random) -> ClusterSnapshot:
    """The cluster with few pods that may be evicted, of some priorities, ages, gangs and budgets."""
    names = [record.name for entry in history.snapshot.nodes for record in entry.pods]
    free = set(chance.sample(names, min(len(names), MOST_EVICTABLE)))
    priorities = chance.choice(((0,), (0, 1), (0, 1, 2, 3)))
    gangs = [f"gang-{at}" for at in range(chance.choice((0, 0, 1, 2)))]
    snapshot = history.snapshot
    for entry in snapshot.nodes:
        records = [
            replace(
                record,
                preemptable=record.name in free,
                priority=chance.choice(priorities),
                made_at=chance.choice((None, 100, 200, chance.randrange(1_000))),
                group=chance.choice(gangs) if gangs and chance.random() < 0.6 else "",
                labels={"app": chance.choice("abc")},
                terminating=chance.random() < 0.03,
            )
            for record in entry.pods
        ]
        snapshot = snapshot.with_node(with_pods(entry, records))
    groups = {
        f"{NAMESPACE}/{name}": PodGroup(namespace=NAMESPACE, name=name, min_member=chance.randrange(1, 5))
        for name in gangs
    }
    budgets = tuple(
        DisruptionBudget(
            namespace=NAMESPACE,
            name=f"budget-{app}",
            requirements=(Requirement("app", "In", (app,)),),
            allowed=chance.randrange(4),
        )
        for app in "abc"
        if chance.random() < 0.3
    )
    return replace(snapshot, pod_groups=groups, budgets=budgets)


def cost_of(victims: Iterable[PodRecord]) -> Cost:
    """Highest priority, number, priorities from the highest, and age."""
    listed = list(victims)
    priorities = tuple(sorted((record.priority for record in listed), reverse=True))
    return max(priorities, default=-1), len(listed), priorities, -sum(record.made_at or 0 for record in listed)


def cheapest(case: Case) -> Cost | None:
    """By trying every allowed set."""
    running = [record for entry in case.snapshot.nodes for record in entry.pods if not record.terminating]
    evictable = [each for each in running if each.preemptable]
    best: Cost | None = None
    for size in range(len(evictable) + 1):
        for chosen in combinations(evictable, size):
            cost = cost_of(chosen)
            if (best is None or cost < best) and _allowed(case, chosen, running) and fits(case, chosen):
                best = cost
    return best


def _allowed(case: Case, chosen: Sequence[PodRecord], running: Sequence[PodRecord]) -> bool:
    snapshot = case.snapshot
    for budget in snapshot.budgets:
        app = budget.requirements[0].values[0]
        if sum(record.labels["app"] == app for record in chosen) > budget.allowed:
            return False
    members = Counter(record.group for record in running if record.group)
    leaving = Counter(record.group for record in chosen if record.group)
    for name, count in leaving.items():
        least = snapshot.pod_groups[f"{NAMESPACE}/{name}"].min_member
        if least > 1 and members[name] - count < least and count < members[name]:
            return False
    by_queue: dict[str, list[PodRecord]] = {}
    for record in chosen:
        queue = snapshot.pod_groups[f"{NAMESPACE}/{record.group}"].queue if snapshot.queues else QUEUES[0]
        by_queue.setdefault(queue, []).append(record)
    if any(record.priority >= PRIORITY for record in by_queue.pop(QUEUES[0], ())):
        return False
    return not by_queue or _reclaims(case, by_queue)


def _reclaims(case: Case, by_queue: Mapping[str, Sequence[PodRecord]]) -> bool:
    """Whether the waiting pods' queue may take these pods from other queues, in some order."""
    queues = case.snapshot.queues
    requests = dict(case.infos[0].pod.constraints.requests)
    asked = {key: amount * len(case.infos) for key, amount in requests.items() if amount}
    wanted = plus(_held(case.snapshot, QUEUES[0]), asked)
    if any(wanted[key] > queues[QUEUES[0]].deserved.get(key, 0) for key in asked):
        return False

    def goes(held: Mapping[str, int], leaving: tuple[PodRecord, ...], queue: Queue) -> bool:
        if not leaving:
            return all(held.get(key, 0) >= least for key, least in queue.guarantee.items())
        if not any(held.get(key, 0) > queue.deserved.get(key, 0) for key in asked):
            return False
        return any(
            goes(
                {key: amount - dict(one.requests).get(key, 0) for key, amount in held.items()},
                (*leaving[:at], *leaving[at + 1 :]),
                queue,
            )
            for at, one in enumerate(leaving)
        )

    return all(
        queues[name].reclaimable and goes(_held(case.snapshot, name), tuple(records), queues[name])
        for name, records in by_queue.items()
    )


def fits(case: Case, chosen: Sequence[PodRecord]) -> bool:
    """Whether the nodes take all members when these pods are gone, each node one after another."""
    gone = set(map(id, chosen))
    after = removed(case.snapshot, lambda record: id(record) in gone)
    gate = gate_of(after, "capacity")
    for info in case.infos if gate is not None else ():
        requests = dict(info.pod.constraints.requests)
        if gate is None or gate.overdrawn(QUEUES[0], requests):
            return False
        gate = gate.given(QUEUES[0], requests)
    return sum(_room(case, after, entry.name, chosen) for entry in after.nodes) >= len(case.infos)


def _room(case: Case, after: ClusterSnapshot, node: NodeName, chosen: Sequence[PodRecord]) -> int:
    """The number of members that fit a node when its own ending pods are also gone."""
    if len(case.infos) == 1 and case.infos[0].demand.headroom and not _is_of(case.snapshot, node, chosen):
        return 0
    entry = after.nodes[after.position[node]]
    entry = with_pods(entry, [record for record in entry.pods if not record.terminating])
    after = after.with_node(entry)
    decider = case.history.decider
    for count, info in enumerate(case.infos):
        demand = info.demand
        if demand.headroom:
            left = left_in(after, NAMESPACE, case.history.registry) or {}
            demand = replace(demand, headroom=tuple(sorted(left.items())))
        decision = decider.decide(replace(after, nodes=after.nodes[after.position[node] :][:1]), demand, info.policy)
        if not isinstance(decision, Placed):
            return count
        after = assigned(after, info.pod, decision)
    return len(case.infos)


def _is_of(snapshot: ClusterSnapshot, node: NodeName, chosen: Sequence[PodRecord]) -> bool:
    """Whether every victim is on a node, or of a gang that has a victim there and leaves as a whole."""
    here = set(map(id, snapshot.nodes[snapshot.position[node]].pods))
    running = Counter(each.group for entry in snapshot.nodes for each in entry.pods if not each.terminating)
    leaving = Counter(record.group for record in chosen)
    whole = {
        record.group
        for record in chosen
        if id(record) in here and record.group and leaving[record.group] == running[record.group]
    }
    gangs = {name for name in whole if snapshot.pod_groups[f"{NAMESPACE}/{name}"].min_member > 1}
    return all(id(record) in here or record.group in gangs for record in chosen)
