"""A search that remembers finds on a changed cluster what a new one finds, with gangs, budgets and queues."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from hami_plugins.engine.apply import without_pods
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.quota import left_in
from hami_plugins.model.cluster import ClusterSnapshot, DisruptionBudget, NamespaceQuota, PodGroup, Queue
from hami_plugins.model.pods import PodRecord, PodTerm, Requirement
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.preemption import rules as rules_module
from hami_plugins.preemption import running as running_module
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan, NoVictims
from hami_plugins.wire.gang_keys import GROUP_KEY
from tests.builders import MEMORY
from tests.history import NAMESPACE
from tests.unit.clusters import REGISTRY
from tests.unit.preemption.clusters import a_cluster, in_queue, running, waiting
from tests.unit.preemption.small_clusters import QUEUES, Case, a_case, cheapest, cost_of

STEPS = 12
"""Searches in each cluster."""

CLASSES = {f"class-{value}": value for value in (0, 1, 2, 3, 4, 7, 8)}
"""All priorities that pods have: another one would be another scale of costs, by which nothing is remembered."""

APP_A = Requirement("app", "In", ("a",))

Change = Callable[[ClusterSnapshot, random.Random], ClusterSnapshot]


def pods_of(snapshot: ClusterSnapshot) -> list[PodRecord]:
    return [record for entry in snapshot.nodes for record in entry.pods]


def with_another(snapshot: ClusterSnapshot, chance: random.Random, **values: object) -> ClusterSnapshot:
    """One pod says something else of itself."""
    entry = chance.choice(snapshot.nodes)
    if not entry.pods:
        return snapshot
    changed = chance.choice(entry.pods)
    records = [replace(each, **values) if each is changed else each for each in entry.pods]  # type: ignore[arg-type]
    return snapshot.with_node(with_pods(entry, records))


def a_pod_leaves(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    entry = chance.choice(snapshot.nodes)
    if not entry.pods:
        return snapshot
    gone = chance.choice(entry.pods)
    return snapshot.with_node(without_pods(entry, lambda record: record is gone))


def a_pod_is_deleted(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    return with_another(snapshot, chance, terminating=True)


def a_pod_may_be_evicted_or_not(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    return with_another(snapshot, chance, preemptable=chance.random() < 0.5, priority=chance.randrange(4))


def another_group(snapshot: ClusterSnapshot, chance: random.Random, **values: object) -> ClusterSnapshot:
    """A PodGroup that pods are in says something else."""
    names = sorted({record.full_group for record in pods_of(snapshot) if record.group})
    if not names:
        return snapshot
    name = chance.choice(names)
    known = snapshot.pod_groups.get(name) or PodGroup(namespace=NAMESPACE, name=name.partition("/")[2])
    changed = replace(known, **values)  # type: ignore[arg-type]
    return replace(snapshot, pod_groups={**snapshot.pod_groups, name: changed})


def a_minimum_changes(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    return another_group(snapshot, chance, min_member=chance.randrange(1, 4))


def a_group_is_moved(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    return another_group(snapshot, chance, queue=chance.choice(QUEUES))


def a_group_has_a_class(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    return another_group(snapshot, chance, priority_class=chance.choice(sorted(CLASSES)))


def classes_have_other_values(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    values = chance.sample(sorted(CLASSES.values()), len(CLASSES))
    return replace(snapshot, priorities=dict(zip(CLASSES, values, strict=True)))


def a_node_goes(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    gone = chance.choice(snapshot.nodes)
    return snapshot.only(lambda entry: entry is not gone) if len(snapshot.nodes) > 1 else snapshot


def a_node_offers_more_or_less(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    entry = chance.choice(snapshot.nodes)
    resources = set(entry.requested) | set(entry.facts.allocatable)
    most = chance.choice((1, 3, 10**12))
    offers = {name: Quantity(nano := NANO + most * entry.requested.get(name, NANO), f"{nano}n") for name in resources}
    return snapshot.with_node(replace(entry, facts=replace(entry.facts, allocatable=offers)))


def a_group_goes(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    names = sorted(snapshot.pod_groups)
    gone = chance.choice(names) if names else ""
    return replace(snapshot, pod_groups={name: group for name, group in snapshot.pod_groups.items() if name != gone})


def a_member_has_ended_well(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    names = sorted(snapshot.pod_groups)
    return replace(snapshot, succeeded={chance.choice(names): {"": chance.randrange(3)}} if names else {})


def a_budget_allows_another_number(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    budgets = tuple(replace(each, allowed=chance.randrange(4)) for each in snapshot.budgets)
    return replace(snapshot, budgets=budgets)


def a_queue_deserves_another_share(snapshot: ClusterSnapshot, chance: random.Random) -> ClusterSnapshot:
    if not snapshot.queues:
        return snapshot
    queue = snapshot.queues[chance.choice(sorted(snapshot.queues))]
    deserved = {name: amount * chance.randrange(8) // 4 for name, amount in queue.deserved.items()}
    guarantee = {name: amount * chance.randrange(3) // 2 for name, amount in queue.guarantee.items()}
    changed = replace(queue, deserved=deserved, guarantee=guarantee, reclaimable=chance.random() < 0.8)
    return replace(snapshot, queues={**snapshot.queues, queue.name: changed})


CHANGES: tuple[Change, ...] = (
    a_pod_leaves,
    a_pod_is_deleted,
    a_pod_may_be_evicted_or_not,
    a_minimum_changes,
    a_group_is_moved,
    a_group_has_a_class,
    classes_have_other_values,
    a_node_goes,
    a_node_offers_more_or_less,
    a_group_goes,
    a_member_has_ended_well,
    a_budget_allows_another_number,
    a_queue_deserves_another_share,
)


def asked(case: Case, snapshot: ClusterSnapshot, chance: random.Random) -> list[PodInfo]:
    """The pods that wait; or some of them, of a gang that runs, with another priority, or near other pods."""
    infos = list(case.infos[: chance.choice((1, len(case.infos), len(case.infos)))])
    groups = sorted({record.group for record in pods_of(snapshot) if record.group})
    pod = infos[0].pod
    if groups and chance.random() < 0.3:
        pod = replace(pod, annotations={**pod.annotations, GROUP_KEY: chance.choice(groups)})
    if chance.random() < 0.1:
        pod = replace(pod, priority=chance.choice(sorted(CLASSES.values())))
    if chance.random() < 0.1:
        term = Requirement("app", "In", (chance.choice("abc"),))
        near = PodTerm("kubernetes.io/hostname", (term,), frozenset({NAMESPACE}))
        pod = replace(pod, neighbours=pod.neighbours._replace(near=(near,)))
    return [replace(info, pod=replace(pod, name=info.pod.name)) for info in infos]


def told(found: EvictionPlan | NoVictims) -> object:
    """All messages about a plan."""
    if isinstance(found, NoVictims):
        return found
    victims = [victim.pod.full_name for victim in found.victims]
    return victims, [placed.node for _, placed in found.places], found.ending, found.cut


def histories(seeds: range, *, queued: bool) -> Iterator[tuple[int, Case, random.Random]]:
    for seed in seeds:
        chance = random.Random(seed)
        case = a_case(seed, chance.choice((1, 2, 3)), queued=queued)
        if case is not None:
            yield seed, case, chance


@pytest.mark.parametrize("queued", [False, True], ids=["kube-scheduler", "volcano"])
def test_on_a_changed_cluster_a_search_that_remembers_finds_what_a_new_one_finds(queued: bool) -> None:
    plans = refusals = 0
    for seed, case, chance in histories(range(60), queued=queued):
        registry, alone = case.history.registry, chance.random() < 0.5
        search = VictimSearch(registry, devices_only=alone)
        snapshot = replace(case.snapshot, priorities=CLASSES)
        for step in range(STEPS):
            infos = asked(case, snapshot, chance)
            found = search.find(snapshot, infos)
            new = VictimSearch(registry, devices_only=alone).find(snapshot, infos)
            assert told(found) == told(new), f"a_case({seed}, {len(case.infos)}, queued={queued}), step {step}"
            plans, refusals = plans + isinstance(found, EvictionPlan), refusals + isinstance(found, NoVictims)
            if isinstance(found, EvictionPlan) and chance.random() < 0.3:
                snapshot = replace(found.after, budgets=snapshot.budgets)
            for change in chance.choices(CHANGES, k=chance.randrange(3)):
                snapshot = change(snapshot, chance)
    assert min(plans, refusals) > 40, "most cases have become trivial"


@pytest.mark.parametrize("queued", [False, True], ids=["kube-scheduler", "volcano"])
def test_on_a_changed_cluster_no_allowed_set_is_cheaper_than_what_a_search_that_remembers_finds(queued: bool) -> None:
    """The changes are those that trying every set of pods takes into account."""
    simple = (a_pod_leaves, a_pod_may_be_evicted_or_not, a_minimum_changes, a_queue_deserves_another_share)
    for seed, case, chance in histories(range(40), queued=queued):
        search, snapshot = VictimSearch(case.history.registry), case.snapshot
        for step in range(3):
            found = search.find(snapshot, case.infos)
            mine = cost_of(each.pod for each in found.victims) if isinstance(found, EvictionPlan) else None
            expected = cheapest(replace(case, snapshot=snapshot))
            assert mine == expected, f"a_case({seed}, {len(case.infos)}, queued={queued}), step {step}"
            for change in chance.choices(simple, k=1):
                snapshot = change(snapshot, chance)


class TestWhatIsFoundOutForANodeDoesNotOutlive:
    """Both nodes stay as they are, and the younger victims of the first search are not the answer any more."""

    def both(
        self, first: ClusterSnapshot, second: ClusterSnapshot, info: PodInfo, then: PodInfo | None = None
    ) -> tuple[list[str], list[str]]:
        """The victims of one search and then of another, by a search that remembers."""
        search = VictimSearch(REGISTRY)
        found = search.find(first, [info]), search.find(second, [then or info])
        one, other = (
            sorted(each.pod.name for each in plan.victims) if isinstance(plan, EvictionPlan) else [] for plan in found
        )
        return one, other

    def test_what_a_quota_leaves(self) -> None:
        snapshot = a_cluster([running("young", made_at=9)], [running("old", memory=16_000, made_at=1)], cards=1)
        wide, narrow = (
            {"default": NamespaceQuota(namespace="default", hard={f"limits.{MEMORY}": mib * NANO})}
            for mib in (26_000, 22_000)
        )
        snapshot = replace(snapshot, quotas=wide)
        info = take_in(waiting().submitted, REGISTRY, Rules(), left_in(snapshot, "default", REGISTRY), admitted=True)
        assert self.both(snapshot, replace(snapshot, quotas=narrow), info) == (["young"], ["old"])

    def test_how_many_a_budget_allows(self) -> None:
        labels = {"app": "a"}
        young = [running(name, memory=8_000, made_at=9, labels=labels) for name in ("young-1", "young-2")]
        old = [running(name, memory=8_000, made_at=1) for name in ("old-1", "old-2")]
        two, one = (
            (DisruptionBudget(namespace="default", name="b", requirements=(APP_A,), allowed=allowed),)
            for allowed in (2, 1)
        )
        snapshot = a_cluster(young, old, cards=1, budgets=two)
        found = self.both(snapshot, replace(snapshot, budgets=one), waiting(16_000))
        assert found == (["young-1", "young-2"], ["old-1", "old-2"])

    def test_whether_a_budget_allows_any(self) -> None:
        snapshot = a_cluster([running("young", made_at=9, labels={"app": "a"})], [running("old", made_at=1)], cards=1)
        none, one = (
            replace(
                snapshot,
                budgets=(DisruptionBudget(namespace="default", name="b", requirements=(APP_A,), allowed=allowed),),
            )
            for allowed in (0, 1)
        )
        assert self.both(none, one, waiting()) == (["old"], ["young"])
        assert self.both(one, none, waiting()) == (["young"], ["old"])

    def test_of_which_gang_the_waiting_pod_is(self) -> None:
        snapshot = a_cluster([running("young", made_at=9, group="g")], [running("old", made_at=1)], cards=1)
        member = waiting(annotations={GROUP_KEY: "g"})
        assert self.both(snapshot, snapshot, waiting(), member) == (["young"], ["old"])
        assert self.both(snapshot, snapshot, member, waiting()) == (["old"], ["young"])

    def test_that_a_node_was_there(self) -> None:
        snapshot = a_cluster([running("young", made_at=9)], [running("old", made_at=1)], cards=1)
        second = snapshot.only(lambda entry: entry.name == "n1")
        assert self.both(snapshot, second, waiting()) == (["young"], ["old"])
        assert self.both(second, snapshot, waiting()) == (["old"], ["young"])

    def test_how_many_members_a_gang_needs(self) -> None:
        spare, whole = (self.gang_on_nodes("a", "b", least=least) for least in (1, 2))
        assert self.both(spare, replace(spare, pod_groups=whole.pod_groups), waiting()) == (["b"], ["a", "b"])
        assert self.both(whole, replace(whole, pod_groups=spare.pod_groups), waiting()) == (["a", "b"], ["b"])

    def test_which_members_of_a_gang_have_ended_well(self) -> None:
        snapshot = self.gang_on_nodes("a", "b", least=2)
        ended = replace(snapshot, succeeded={"default/g": {"": 1}})
        assert self.both(snapshot, ended, waiting()) == (["a", "b"], ["b"])

    def test_which_members_of_a_gang_run_on_other_nodes(self) -> None:
        three = self.gang_on_nodes("a", "b", "c", least=2)
        two = three.with_node(with_pods(three.nodes[2], [running("alone", preemptable=False)]))
        assert self.both(three, two, waiting()) == (["c"], ["a", "b"])
        assert self.both(two, three, waiting()) == (["a", "b"], ["c"])

    def gang_on_nodes(self, *names: str, least: int) -> ClusterSnapshot:
        """One member on each node, the last one the youngest."""
        groups = {"default/g": PodGroup(namespace="default", name="g", min_member=least)}
        pods = ([running(name, group="g", made_at=at)] for at, name in enumerate(names))
        return a_cluster(*pods, cards=1, pod_groups=groups)

    def test_that_a_queue_gives_nothing_or_is_not_known(self) -> None:
        group = PodGroup(namespace="default", name="g", queue="theirs")
        few, many = (
            {
                "mine": Queue(name="mine", deserved={MEMORY: 10_000 * NANO}),
                "theirs": Queue(name="theirs", deserved={MEMORY: mib * NANO}),
            }
            for mib in (1_000, 10_000)
        )
        snapshot = a_cluster([running("a", group="g")], cards=1, pod_groups={"default/g": group}, queues=many)
        assert self.both(snapshot, replace(snapshot, queues=few), in_queue()) == ([], ["a"])
        unknown = replace(snapshot, queues={"mine": few["mine"]})
        assert self.both(unknown, replace(snapshot, queues=few), in_queue()) == ([], ["a"])


def test_more_kinds_of_pods_than_are_remembered_are_judged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_module, "MOST_JUDGED", 1)
    monkeypatch.setattr(running_module, "MOST_KINDS", 1)
    pods = [running("a", priority=5), running("b", 1, priority=4, namespace="team"), running("c", 1, 1_000)]
    search, snapshot = VictimSearch(REGISTRY), a_cluster(pods)
    found = search.find(snapshot, [waiting()])
    assert told(found) == told(VictimSearch(REGISTRY).find(snapshot, [waiting()]))
    less = snapshot.with_node(with_pods(snapshot.nodes[0], pods[1:]))
    assert told(search.find(less, [waiting()])) == told(VictimSearch(REGISTRY).find(less, [waiting()]))


def test_a_group_without_a_minimum_is_no_gang() -> None:
    snapshot = a_cluster([running("a", group="g")])
    rules = rules_module.EvictionRules(snapshot, Preemptor.of(snapshot, [waiting()]), None)
    with pytest.raises(KeyError, match="default/g"):
        rules.gang("default/g")
