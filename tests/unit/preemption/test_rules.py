"""Victims and beneficiaries: one claim for each rule, on one or two cards of the plain vendor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.quota import left_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot, NamespaceQuota, PodGroup, Queue
from hami_plugins.model.devices import Instance, Profile, SlicePlacement
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.pods import Neighbours, NodeConstraints, PodRecord, PodTerm, Requirement
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import CoreShare, MiB, NodeName
from hami_plugins.preemption import demand_search, node_search
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.reclaim import divided_gate
from hami_plugins.preemption.rules import EvictionRules
from hami_plugins.preemption.running import RunningPodIndex
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan, NoVictims, Rule
from hami_plugins.vendors import nvidia
from tests.builders import (
    COUNT,
    MEMORY,
    a_container,
    a_device,
    a_node,
    a_pod,
    a_record,
    a_share,
    a_snapshot,
    allocated,
    amounts,
)
from tests.unit.clusters import CARD, REGISTRY
from tests.unit.preemption.clusters import GROUP, a_cluster, in_queue, running, waiting, web_budget


def find(snapshot: ClusterSnapshot, *infos: PodInfo) -> EvictionPlan | NoVictims:
    return VictimSearch(REGISTRY).find(snapshot, infos or (waiting(),))


def victims(snapshot: ClusterSnapshot, *infos: PodInfo) -> list[str]:
    found = find(snapshot, *infos)
    assert isinstance(found, EvictionPlan), found
    return sorted(victim.pod.name for victim in found.victims)


def refusal(snapshot: ClusterSnapshot, *infos: PodInfo) -> NoVictims:
    found = find(snapshot, *infos)
    assert isinstance(found, NoVictims), found
    return found


def spared(snapshot: ClusterSnapshot, *infos: PodInfo) -> list[str]:
    return [str(each) for each, _ in refusal(snapshot, *infos).spared]


class TestTheCheapestSet:
    def test_a_pod_that_fits_needs_no_victims(self) -> None:
        found = find(a_cluster([running("a")]))
        assert isinstance(found, EvictionPlan)
        assert (found.victims, found.ending) == ((), ())
        assert found.places[0][1].node == "n0"

    def test_sums_that_suffice_do_not_help_where_no_card_has_room(self) -> None:
        """Two cards with 6 GiB free each: the decision is made card by card."""
        assert victims(a_cluster([running("a", 0), running("b", 1)])) == ["a"]

    def test_both_pods_of_one_card_leave_and_none_of_two(self) -> None:
        pods = [running("mid", 0, 8_000, priority=5), running("low", 0, 8_000)]
        pods += [running("mid-1", 1, 8_000, priority=5), running("low-1", 1, 8_000)]
        assert victims(a_cluster(pods), waiting(16_000)) in (["low", "mid"], ["low-1", "mid-1"])

    def test_one_pod_of_higher_priority_stays_where_two_of_lower_priority_are_enough(self) -> None:
        assert victims(
            a_cluster([running("mid", 0, priority=5), running("a", 1, 8_000), running("b", 1, 8_000)]), waiting(16_000)
        ) == ["a", "b"]

    def test_of_equal_priorities_the_fewest_pods_leave(self) -> None:
        pods = [running("a", 0, 8_000), running("b", 0, 8_000), running("c", 1, 16_000)]
        assert victims(a_cluster(pods), waiting(16_000)) == ["c"]

    def test_of_equally_many_the_ones_with_fewer_of_the_highest_priority_leave(self) -> None:
        pods = [running("a", 0, 8_000, priority=5), running("b", 0, 8_000, priority=5)]
        pods += [running("c", 1, 8_000, priority=5), running("d", 1, 8_000)]
        assert victims(a_cluster(pods), waiting(16_000)) == ["c", "d"]

    def test_of_equals_the_youngest_leaves(self) -> None:
        pods = [running("old", 0, made_at=100), running("young", 1, made_at=200)]
        assert victims(a_cluster(pods)) == ["young"]
        assert victims(a_cluster(pods[::-1])) == ["young"]
        assert victims(a_cluster(pods[:1], [running("new", made_at=300)], cards=1)) == ["new"]

    def test_a_pod_of_unknown_age_counts_as_the_oldest(self) -> None:
        assert victims(a_cluster([running("unknown", 0), running("old", 1, made_at=1)])) == ["old"]

    def test_pods_that_are_being_deleted_leave_before_any_victim(self) -> None:
        found = find(a_cluster([running("a", 0, terminating=True), running("b", 1)]))
        assert isinstance(found, EvictionPlan)
        assert found.victims == ()
        assert [each.pod.name for each in found.ending] == ["a"]

    def test_shares_of_devices_that_a_node_has_lost_make_no_room(self) -> None:
        lost = replace(running("a"), allocations=(allocated(a_share("card-9", 10_000)),))
        assert victims(a_cluster([lost, running("b")], cards=1)) == ["b"]

    def test_the_state_afterwards_has_the_pod_and_no_victim(self) -> None:
        found = find(a_cluster([running("a")], cards=1))
        assert isinstance(found, EvictionPlan)
        assert [record.name for record in found.after.nodes[0].pods] == ["high"]

    def test_node_sums_have_victims_as_devices_do(self) -> None:
        facts = NodeFacts(allocatable=amounts({"cpu": 4, "pods": 2}))
        pods = [running("a", 0, 10, requests=(("cpu", NANO),)), running("b", 1, 10, requests=(("cpu", 3 * NANO),))]
        node = with_pods(a_node("n", a_device(), a_device(), facts=facts), pods)
        info = waiting(10)
        demand = replace(info.demand, constraints=NodeConstraints(requests=(("cpu", 2 * NANO),)))
        assert victims(a_snapshot(node), replace(info, demand=demand)) == ["b"]

    def test_a_node_with_all_its_pods_loses_one(self) -> None:
        facts = NodeFacts(allocatable=amounts({"pods": 1}))
        node = with_pods(a_node("n", a_device(), facts=facts), [running("a", 0, 10)])
        assert victims(a_snapshot(node), waiting(10)) == ["a"]

    def test_pods_on_nodes_that_the_pod_may_not_use_stay(self) -> None:
        snapshot = a_cluster([running("a", priority=1)], [running("b")], cards=1)
        only = replace(
            snapshot,
            nodes=tuple(
                replace(each, facts=replace(each.facts, unschedulable=each.name == "n1")) for each in snapshot.nodes
            ),
        )
        assert victims(only) == ["a"]
        none = refusal(a_snapshot(replace(snapshot.nodes[0], facts=NodeFacts(unschedulable=True))))
        assert none.why == "no node with such devices allows the pod, whatever runs there"

    def test_a_quota_counts_what_victims_return(self) -> None:
        quota = {"default": NamespaceQuota(namespace="default", hard={f"limits.{MEMORY}": 12_000 * NANO})}
        snapshot = a_cluster([running("a", 0), running("other", 1, namespace="team")], quotas=quota)
        info = waiting()

        info = take_in(info.submitted, REGISTRY, Rules(), left_in(snapshot, "default", REGISTRY), admitted=True)
        assert victims(snapshot, info) == ["a"]
        small = {"default": NamespaceQuota(namespace="default", hard={f"limits.{MEMORY}": 9_000 * NANO})}
        assert isinstance(find(replace(snapshot, quotas=small), info), NoVictims)


def test_places_are_looked_for_on_the_named_nodes_alone() -> None:
    snapshot = a_cluster([running("cheap")], [running("dear", priority=5)], cards=1)
    infos = [waiting()]
    assert victims(snapshot, *infos) == ["cheap"]
    second = [snapshot.nodes[1].name]
    found = VictimSearch(REGISTRY).find(snapshot, infos, within=[*second, NodeName("unknown")])
    assert isinstance(found, EvictionPlan)
    assert [victim.pod.name for victim in found.victims] == ["dear"]
    assert isinstance(VictimSearch(REGISTRY).find(snapshot, infos, within=()), NoVictims)


class TestWhoStays:
    @pytest.mark.parametrize(
        ("record", "info", "why"),
        [
            (running("a", priority=100), waiting(), "its priority 100 is not below 100"),
            (running("a", preemptable=False), waiting(), 'volcano.sh/preemptable is "false"'),
            (
                running("a", namespace="kube-system"),
                waiting(),
                "it belongs to the system (namespace kube-system, priority 0)",
            ),
            (
                running("a", priority=2_000_000_000),
                waiting(priority=2_000_000_001),
                "it belongs to the system (namespace default, priority 2000000000)",
            ),
            (
                running("a", labels={"app": "web"}),
                waiting(
                    neighbours=Neighbours(
                        near=(PodTerm("host", (Requirement("app", "In", ("web",)),), frozenset({"default"})),)
                    )
                ),
                "the waiting pod has to be near it (podAffinity)",
            ),
            (
                running("a", group="g"),
                waiting(annotations={GROUP: "g"}),
                "it is a member of the same gang",
            ),
            (running("a"), in_queue(), "it has no PodGroup, so Volcano does not evict it"),
        ],
    )
    def test_a_pod_stays(self, record: PodRecord, info: PodInfo, why: str) -> None:
        place = f"may not evict {record.full_name}: "
        assert spared(a_cluster([record], cards=1), info) == [place + why]

    def test_pods_that_the_waiting_pod_has_to_be_near_stay_and_others_leave(self) -> None:
        near = PodTerm("host", (Requirement("app", "In", ("web",)),), frozenset({"default"}))
        keeper = running("keeper", 0, 100, labels={"app": "web"})
        snapshot = a_cluster([keeper, running("a")], cards=1)
        labelled = replace(snapshot.nodes[0], facts=replace(snapshot.nodes[0].facts, labels={"host": "n0"}))
        info = waiting(16_000, neighbours=Neighbours(near=(near,)))
        assert victims(a_snapshot(labelled), info) == ["a"]

    def test_pods_of_other_namespaces_than_those_to_be_near_leave(self) -> None:
        near = PodTerm("host", (Requirement("app", "In", ("web",)),), frozenset({"team"}))
        pods = [
            running("other", labels={"app": "web"}),
            running("keeper", 0, 10, namespace="team", labels={"app": "web"}),
        ]
        (entry,) = a_cluster(pods, cards=1).nodes
        labelled = replace(entry, facts=replace(entry.facts, labels={"host": "n0"}))
        assert victims(a_snapshot(labelled), waiting(neighbours=Neighbours(near=(near,)))) == ["other"]

    def test_members_of_its_own_gang_stay_and_pods_like_them_leave(self) -> None:
        pods = [running("mate", 0, group="g"), running("other", 1)]
        assert victims(a_cluster(pods), waiting(annotations={GROUP: "g"})) == ["other"]
        assert victims(a_cluster(pods[::-1]), waiting(annotations={GROUP: "g"})) == ["other"]

    def test_one_priority_lower_is_enough(self) -> None:
        assert victims(a_cluster([running("a", priority=99)], cards=1)) == ["a"]

    def test_a_pod_that_never_preempts_has_no_victims(self) -> None:
        assert (
            refusal(a_cluster([running("a")], cards=1), waiting(preempts=False)).why == "its preemptionPolicy is Never"
        )

    def test_a_pod_whose_class_never_preempts_has_no_victims(self) -> None:
        calm = replace(a_cluster([running("a")], cards=1), never_preempting=frozenset({"calm"}))
        why = "the preemptionPolicy of its PriorityClass calm is Never"
        assert refusal(calm, waiting(priority_class="calm")).why == why
        assert victims(calm, waiting(priority_class="eager")) == ["a"]

    def test_a_refusal_counts_the_pods_of_each_rule(self) -> None:
        pods = [running("a", priority=100), running("b", 1, priority=200), running("c", 1, 10, preemptable=False)]
        found = refusal(a_cluster(pods))
        assert found.why == "no pod on 1 node may be evicted for it"
        assert [(each.rule, count) for each, count in found.spared] == [(Rule.PRIORITY, 2), (Rule.MARKED, 1)]

    def test_a_pod_that_no_empty_node_holds_is_told_of_no_other_pod(self) -> None:
        found = refusal(a_cluster([running("a", preemptable=False)], []), waiting(20_000))
        assert found.why == "no node has room for it even without any pod (2 nodes)"
        assert found.spared == ()

    def test_a_refusal_says_when_evictable_pods_are_not_enough(self) -> None:
        found = refusal(a_cluster([running("a", 0, 10), running("b", 0, 16_000, priority=100)], cards=1))
        assert found.why == "no node has room even without pods that may be evicted (1 pod on 1 node)"


class TestAffinity:
    """The decision about the state afterwards knows which pods are left."""

    def web(self, *records: PodRecord) -> ClusterSnapshot:
        snapshot = a_cluster(records, cards=1)
        facts = NodeFacts(labels={"host": "n0"})
        return a_snapshot(*[replace(entry, facts=facts) for entry in snapshot.nodes])

    TERM = PodTerm("host", (Requirement("app", "In", ("web",)),), frozenset({"default"}))

    def apart(self, name: str = "high") -> PodInfo:
        return waiting(name=name, neighbours=Neighbours(apart=(self.TERM,)))

    def test_a_victim_whose_neighbours_keep_the_pod_away_would_leave_in_vain(self) -> None:
        stays = running("b", 0, 100, labels={"app": "web"}, priority=500)
        assert isinstance(find(self.web(running("a"), stays), self.apart()), NoVictims)
        assert victims(self.web(running("a"), stays)) == ["a"]

    def test_neighbours_do_not_matter_where_the_scheduler_has_looked_at_them(self) -> None:
        stays = running("b", 0, 100, labels={"app": "web"}, priority=500)
        snapshot = self.web(running("a"), stays)
        found = VictimSearch(REGISTRY, devices_only=True).find(snapshot, [self.apart()])
        assert isinstance(found, EvictionPlan)
        assert [victim.pod.name for victim in found.victims] == ["a"]

    @pytest.mark.parametrize("ending", [False, True])
    def test_a_running_pod_keeps_it_away_also_where_the_search_knew_the_cluster_before(self, ending: bool) -> None:
        """One that is being deleted does not."""
        strict = running("b", 0, 100, apart=(self.TERM,), priority=500, terminating=ending)
        (other,) = a_cluster([running("c", priority=500)], cards=1).nodes
        other = replace(other, name=NodeName("other"))
        search, info = VictimSearch(REGISTRY), waiting(labels={"app": "web"})
        assert isinstance(search.find(a_snapshot(*self.web(running("a")).nodes, other), [info]), EvictionPlan)
        after = search.find(a_snapshot(*self.web(running("a"), strict).nodes, other), [info])
        assert isinstance(after, EvictionPlan) is ending

    def test_each_member_of_a_gang_is_kept_away_by_its_own_terms(self) -> None:
        """The decisions about both are the same, and what keeps the second away is no part of a demand."""
        stays = running("b", 0, 100, labels={"app": "web"}, priority=500)
        both = self.web(running("a", memory=5_000), running("c", memory=5_000), stays)
        assert isinstance(find(both, waiting(5_000), waiting(5_000, name="high-1")), EvictionPlan)
        strict = waiting(5_000, name="high-1", neighbours=Neighbours(apart=(self.TERM,)))
        assert isinstance(find(both, waiting(5_000), strict), NoVictims)

    def test_a_victim_does_not_keep_the_pod_away(self) -> None:
        assert victims(self.web(running("a", labels={"app": "web"})), self.apart()) == ["a"]


class TestBudgets:
    def test_a_budget_that_allows_none_keeps_its_pods(self) -> None:
        snapshot = a_cluster([running("a", labels={"app": "web"})], cards=1, budgets=(web_budget(0),))
        assert spared(snapshot) == ["may not evict default/a: its PodDisruptionBudget web allows 0 more"]
        assert victims(replace(snapshot, budgets=(web_budget(1),))) == ["a"]

    def test_of_equal_sets_the_one_that_breaks_no_budget_leaves(self) -> None:
        pods = [running("a", 0, labels={"app": "web"}, made_at=9), running("b", 1)]
        assert victims(a_cluster(pods, budgets=(web_budget(0),))) == ["b"]

    def test_a_budget_is_used_by_every_victim(self) -> None:
        pods = [running(name, 0, 8_000, labels={"app": "web"}) for name in "ab"]
        snapshot = a_cluster([*pods, running("mid", 1, 16_000, priority=50)], budgets=(web_budget(1),))
        assert victims(snapshot, waiting(16_000)) == ["mid"]
        assert victims(replace(snapshot, budgets=(web_budget(2),)), waiting(16_000)) == ["a", "b"]

    def test_a_budget_of_another_namespace_does_not_matter(self) -> None:
        other = replace(web_budget(0), namespace="team")
        assert victims(a_cluster([running("a", labels={"app": "web"})], cards=1, budgets=(other,))) == ["a"]

    def test_a_pod_of_two_budgets_stays(self) -> None:
        two = (web_budget(1), web_budget(1, "more"))
        snapshot = a_cluster([running("a", labels={"app": "web"})], cards=1, budgets=two)
        assert "it has 2 PodDisruptionBudgets (more, web)" in spared(snapshot)[0]

    def test_a_gang_uses_a_budget_on_all_its_nodes(self) -> None:
        nodes = [[running(f"a{at}", labels={"app": "web"})] for at in range(2)]
        snapshot = a_cluster(*nodes, [running("mid", priority=50)], cards=1, budgets=(web_budget(1),))
        pair = waiting(), waiting(name="high-1")
        assert victims(snapshot, *pair) in (["a0", "mid"], ["a1", "mid"])
        assert victims(replace(snapshot, budgets=(web_budget(2),)), *pair) == ["a0", "a1"]


class TestGangs:
    def groups(self, least: int, **fields: Any) -> dict[str, PodGroup]:
        return {"default/g": PodGroup(namespace="default", name="g", min_member=least, **fields)}

    def test_a_gang_above_its_minimum_gives_one_member(self) -> None:
        nodes = [[running(f"a{at}", group="g", made_at=at)] for at in range(3)]
        assert victims(a_cluster(*nodes, cards=1, pod_groups=self.groups(2))) == ["a2"]

    def test_a_gang_at_its_minimum_leaves_as_a_whole(self) -> None:
        nodes = [[running(f"a{at}", group="g")] for at in range(2)]
        assert victims(a_cluster(*nodes, cards=1, pod_groups=self.groups(2))) == ["a0", "a1"]

    def test_its_size_is_its_price(self) -> None:
        nodes = [[running(f"a{at}", group="g")] for at in range(2)]
        snapshot = a_cluster(*nodes, [running("alone", made_at=None)], cards=1, pod_groups=self.groups(2))
        assert victims(snapshot) == ["alone"]

    def test_a_gang_with_a_member_that_stays_stays(self) -> None:
        nodes = [[running("a", group="g")], [running("b", group="g", preemptable=False)]]
        assert isinstance(find(a_cluster(*nodes, cards=1, pod_groups=self.groups(2))), NoVictims)

    def test_minima_of_tasks_hold_as_well(self) -> None:
        nodes = [[running("master", group="g", task="m", made_at=9)], [running("worker", group="g", task="w")]]
        groups = self.groups(1, min_by_task={"m": 1})
        assert victims(a_cluster(*nodes, cards=1, pod_groups=groups)) == ["worker"]

    def test_members_that_have_ended_well_count(self) -> None:
        snapshot = a_cluster([running("a", group="g"), running("b", 1, group="g")], pod_groups=self.groups(2))
        assert victims(snapshot) == ["a", "b"]
        assert len(victims(replace(snapshot, succeeded={"default/g": {"": 1}}))) == 1

    def test_two_members_on_one_node_may_be_one_too_many(self) -> None:
        pods = [running(f"a{at}", 0, 8_000, group="g") for at in range(2)]
        snapshot = a_cluster(pods, [running("b", group="g"), running("c", 0, 6_000, priority=500)], cards=1)
        snapshot = replace(snapshot, pod_groups=self.groups(2))
        assert victims(snapshot, waiting(16_000)) == ["a0", "a1", "b"]

    def test_no_member_counts_beside_its_whole_gang(self) -> None:
        """The gang on n0 has two members more than it needs, and all three leave where each would have to."""
        pods = [running("a0", 0, 8_000, group="g"), running("a1", 0, 8_000, group="g")]
        groups = self.groups(2)
        snapshot = a_cluster(pods, [running("a2", group="g")], cards=1, pod_groups=groups)
        pair = waiting(16_000), waiting(16_000, name="high-1")
        assert victims(snapshot, *pair) == ["a0", "a1", "a2"]

    def test_a_member_does_not_make_room_twice_beside_its_whole_gang(self) -> None:
        pods = [running("a0", 0, 4_000, group="g"), running("a1", 0, 4_000, group="g")]
        pods += [running("c", 0, 4_000), running("d", 0, 3_900)]
        other = [running("a2", group="g"), running("stays", 0, 6_000, priority=500)]
        snapshot = replace(a_cluster(pods, other, cards=1), pod_groups=self.groups(2))
        assert victims(snapshot, waiting(16_000)) == ["a0", "a1", "a2", "c", "d"]

    def test_a_waiting_gang_gets_places_for_all_or_none(self) -> None:
        gang = [waiting(name=f"high-{at}") for at in range(3)]
        snapshot = a_cluster([running("a")], [running("b")], cards=1)
        assert isinstance(find(snapshot, *gang), NoVictims)
        assert victims(snapshot, *gang[:2]) == ["a", "b"]

    def test_a_waiting_gang_takes_free_places_first(self) -> None:
        snapshot = a_cluster([running("a")], [], [running("b", priority=1)], cards=1)
        assert victims(snapshot, *[waiting(name=f"high-{at}") for at in range(2)]) == ["a"]

    def test_one_gang_that_leaves_makes_room_for_two_members(self) -> None:
        nodes = [[running(f"a{at}", group="g")] for at in range(2)]
        nodes += [[running("b", made_at=9)], [running("c", priority=1)]]
        pair = waiting(), waiting(name="high-1")
        assert victims(a_cluster(*nodes, cards=1, pod_groups=self.groups(2)), *pair) == ["a0", "a1"]

    def test_members_with_different_demands_all_get_places(self) -> None:
        snapshot = a_cluster([running("a"), running("b", 1)], cards=2)
        found = find(snapshot, waiting(12_000), waiting(9_000, name="small"))
        assert isinstance(found, EvictionPlan)
        assert [pod.name for pod, _ in found.places] == ["high", "small"]
        assert len(found.victims) == 2

    def test_a_gang_counts_with_its_highest_priority(self) -> None:
        pair = waiting(priority=1), waiting(name="high-1", priority=100)
        assert victims(a_cluster([running("a", 0, priority=50), running("b", 1, priority=50)]), *pair) == ["a", "b"]

    def test_kube_scheduler_looks_at_the_priority_of_pods_alone(self) -> None:
        groups = {"default/g": PodGroup(namespace="default", name="g", priority_class="gold")}
        snapshot = a_cluster([running("a", group="g")], cards=1, pod_groups=groups, priorities={"gold": 5_000})
        assert victims(snapshot) == ["a"]

    def test_a_gang_of_volcanos_has_the_priority_of_its_podgroup(self) -> None:
        groups = {
            "default/waiting": PodGroup(namespace="default", name="waiting", queue="mine", priority_class="gold"),
            "default/g": PodGroup(namespace="default", name="g", queue="mine", priority_class="silver"),
        }
        snapshot = a_cluster([running("a", group="g", priority=999)], cards=1, pod_groups=groups)
        assert victims(replace(snapshot, priorities={"gold": 7, "silver": 6}), in_queue(priority=0)) == ["a"]
        assert isinstance(find(replace(snapshot, priorities={"gold": 6, "silver": 6}), in_queue()), NoVictims)


class TestQueues:
    """The queue ``mine`` wants what the queue ``theirs`` holds."""

    def snapshot(self, *records: PodRecord, mine: int = 10_000, theirs: int = 5_000, **about: Any) -> ClusterSnapshot:
        groups = {
            f"default/{each.name}": PodGroup(namespace="default", name=each.name, queue="theirs") for each in records
        }
        queues = {
            "mine": Queue(name="mine", deserved={MEMORY: mine * NANO}),
            "theirs": Queue(name="theirs", deserved={MEMORY: theirs * NANO}, **about),
        }
        pods = [replace(each, group=each.name) for each in records]
        return a_cluster(pods, cards=2, pod_groups=groups, queues=queues)

    def test_a_queue_above_its_share_gives_even_a_pod_of_higher_priority(self) -> None:
        snapshot = self.snapshot(running("a", 0, priority=500), running("b", 1, priority=500))
        assert len(victims(snapshot, in_queue())) == 1

    def test_a_queue_within_its_share_gives_nothing(self) -> None:
        snapshot = self.snapshot(running("a", 0), running("b", 1), theirs=20_000)
        why = f"its queue theirs holds 20000 of the 20000 {MEMORY} it deserves"
        assert why in spared(snapshot, in_queue())[0]
        assert victims(self.snapshot(running("a", 0), running("b", 1), theirs=19_999), in_queue())

    def test_a_queue_gives_only_while_it_is_above_its_share(self) -> None:
        pods = [running(name, card, 8_000) for name, card in (("a", 0), ("b", 0), ("c", 1), ("d", 1))]
        assert isinstance(find(self.snapshot(*pods, mine=16_000, theirs=24_000), in_queue(16_000)), NoVictims)
        assert len(victims(self.snapshot(*pods, mine=16_000, theirs=23_999), in_queue(16_000))) == 2

    def test_what_is_guaranteed_stays(self) -> None:
        pods = [running("a", 0), running("b", 1)]
        kept = self.snapshot(*pods, guarantee={MEMORY: 10_001 * NANO})
        assert isinstance(find(kept, in_queue()), NoVictims)
        assert victims(self.snapshot(*pods, guarantee={MEMORY: 10_000 * NANO}), in_queue())

    def test_a_queue_that_is_not_reclaimable_gives_nothing(self) -> None:
        snapshot = self.snapshot(running("a", 0), running("b", 1), reclaimable=False)
        assert "its queue theirs is not reclaimable" in spared(snapshot, in_queue())[0]

    def test_a_queue_that_would_hold_more_than_its_share_takes_nothing(self) -> None:
        snapshot = self.snapshot(running("a", 0), running("b", 1), mine=9_999)
        why = f"queue mine would hold 10000 {MEMORY} of the 9999 it deserves"
        assert why in spared(snapshot, in_queue())[0]

    def test_what_no_queue_deserves_is_not_divided_among_them(self) -> None:
        snapshot = self.snapshot(running("a", 0), running("b", 1))
        info = in_queue()
        requests = (*info.pod.constraints.requests, (COUNT, NANO))
        asks = replace(info, pod=replace(info.pod, constraints=NodeConstraints(requests=requests)))
        assert len(victims(snapshot, asks)) == 1
        counted = {
            name: replace(queue, deserved={**queue.deserved, COUNT: amount})
            for (name, queue), amount in zip(snapshot.queues.items(), (0, NANO), strict=True)
        }
        assert (
            f"queue mine would hold 1 {COUNT} of the 0 it deserves"
            in spared(replace(snapshot, queues=counted), asks)[0]
        )

    def test_a_gang_counts_as_a_whole(self) -> None:
        snapshot = self.snapshot(running("a", 0), running("b", 1), mine=19_999, theirs=0)
        assert isinstance(find(snapshot, in_queue(), in_queue(name="high-1")), NoVictims)

    def test_within_a_queue_priorities_decide(self) -> None:
        snapshot = self.snapshot(running("a", 0), running("b", 1, priority=100))
        assert victims(snapshot, in_queue(queue="theirs")) == ["a"]

    def test_an_unknown_queue_neither_gives_nor_takes(self) -> None:
        snapshot = self.snapshot(running("a", 0), running("b", 1))
        known = {name: snapshot.queues[name] for name in ("mine",)}
        assert "nothing is known of its queue theirs" in spared(replace(snapshot, queues=known), in_queue())[0]
        assert "nothing is known of queue else" in spared(snapshot, in_queue(queue="else"))[0]

    def test_shares_by_weight_are_those_of_proportion(self) -> None:
        snapshot = self.snapshot(running("a", 0, 16_000), running("b", 1, 16_000))
        plain = {name: Queue(name=name, weight=weight) for name, weight in (("mine", 1), ("theirs", 1))}
        search = VictimSearch(REGISTRY, Rules(queue_plugin="proportion"))
        found = search.find(replace(snapshot, queues=plain), [in_queue(16_000)])
        assert isinstance(found, EvictionPlan)
        assert len(found.victims) == 1
        heavy = {**plain, "theirs": Queue(name="theirs", weight=1_000)}
        assert isinstance(search.find(replace(snapshot, queues=heavy), [in_queue(16_000)]), NoVictims)

    def test_pods_that_wait_in_other_queues_make_shares_smaller(self) -> None:
        snapshot = self.snapshot(running("a", 0, 16_000), running("b", 1, 16_000))
        other = PodGroup(namespace="default", name="other", queue="third")
        asks = NodeConstraints(requests=((MEMORY, 16_000 * NANO),))
        pending = a_pod(name="p", annotations={GROUP: "other"}, constraints=asks)
        stray = a_pod(name="stray", constraints=asks)
        snapshot = replace(snapshot, queues={name: Queue(name=name) for name in ("mine", "theirs", "third")})
        search = VictimSearch(REGISTRY, Rules(queue_plugin="proportion"))
        assert isinstance(search.find(snapshot, [in_queue(16_000)]), EvictionPlan)
        assert isinstance(search.find(replace(snapshot, pending=(stray,)), [in_queue(16_000)]), EvictionPlan)
        more = replace(snapshot, pending=(pending,), pod_groups={**snapshot.pod_groups, other.full_name: other})
        assert isinstance(search.find(more, [in_queue(16_000)]), NoVictims)

    def test_what_is_known_of_shares_does_not_outlive_them(self) -> None:
        records = [running(name, card, group=name, queue="theirs") for card, name in enumerate("ab")]
        queues = {name: Queue(name=name, deserved={MEMORY: 10_000 * NANO}) for name in ("mine", "theirs")}
        snapshot = a_cluster(records, queues=queues)
        search = VictimSearch(REGISTRY)
        assert isinstance(search.find(snapshot, [in_queue()]), EvictionPlan)
        more = {**queues, "theirs": Queue(name="theirs", deserved={MEMORY: 20_000 * NANO})}
        assert isinstance(search.find(replace(snapshot, queues=more), [in_queue()]), NoVictims)

    def test_an_ending_pod_is_not_given_back_to_its_queue_twice(self) -> None:
        """It does not count in its queue any more, so that its queue has no more room once it is gone."""
        snapshot = self.snapshot(running("a", 0), running("ends", 1, terminating=True))
        limited = Queue(name="theirs", capability={MEMORY: 20_000 * NANO}, deserved={MEMORY: NANO})
        assert victims(replace(snapshot, queues={"theirs": limited}), in_queue(11_000, "theirs")) == ["a"]

    def test_the_limit_of_its_own_queue_is_met_by_victims_of_that_queue(self) -> None:
        snapshot = self.snapshot(running("a", 0), running("b", 1))
        limited = Queue(name="theirs", capability={MEMORY: 20_000 * NANO}, deserved={MEMORY: NANO})
        assert victims(replace(snapshot, queues={"theirs": limited}), in_queue(1_000, "theirs")) in (["a"], ["b"])

    def test_cpus_are_divided_where_nodes_say_how_many_they_have(self) -> None:
        snapshot = self.snapshot(running("a", 0), running("b", 1))
        info = in_queue()
        requests = (*info.pod.constraints.requests, ("cpu", 2 * NANO))
        asks = replace(info, pod=replace(info.pod, constraints=NodeConstraints(requests=requests)))
        queues = {
            name: replace(each, deserved={**each.deserved, "cpu": NANO}) for name, each in snapshot.queues.items()
        }
        divided = replace(snapshot, queues=queues)
        assert len(victims(divided, asks)) == 1
        (entry,) = snapshot.nodes
        total = {**entry.facts.allocatable, **amounts({"cpu": 8})}
        known = replace(divided, nodes=(replace(entry, facts=replace(entry.facts, allocatable=total)),))
        assert "queue mine would hold 2 cpu of the 1 it deserves" in spared(known, asks)[0]


class TestWhyNotTogether:
    """The reason names the last of the pods."""

    def rules(self, snapshot: ClusterSnapshot, info: PodInfo) -> EvictionRules:
        preemptor = Preemptor.of(snapshot, [info])
        index = RunningPodIndex.of(snapshot)
        gate = divided_gate(snapshot, preemptor, Rules(), index) if preemptor.queue else None
        return EvictionRules(snapshot, preemptor, gate, index)

    def test_a_gang_that_would_lose_too_many(self) -> None:
        pods = [running("a", 0, group="g"), running("b", 1, group="g")]
        groups = {"default/g": PodGroup(namespace="default", name="g", min_member=1, min_by_task={"": 1})}
        snapshot = a_cluster(pods, pod_groups=groups)
        found = self.rules(snapshot, waiting()).conflict(pods)
        assert found is not None
        assert (found.rule, found.pod.name) == (Rule.GANG, "b")
        assert found.why == "its gang default/g needs 1 of its 2 members, and 2 would leave"

    def test_a_queue_that_would_hold_less_than_its_share(self) -> None:
        snapshot = TestQueues().snapshot(running("a", 0), running("b", 1), theirs=10_000)
        (entry,) = snapshot.nodes
        found = self.rules(snapshot, in_queue()).conflict(entry.pods)
        assert found is not None
        assert (found.rule, found.pod.name) == (Rule.SHARE, "b")
        assert found.why.endswith("and 2 pods would leave")

    def test_a_queue_that_would_hold_less_than_it_is_guaranteed(self) -> None:
        snapshot = TestQueues().snapshot(running("a", 0), running("b", 1), guarantee={MEMORY: 5_000 * NANO})
        (entry,) = snapshot.nodes
        found = self.rules(snapshot, in_queue()).conflict(entry.pods)
        assert found is not None
        assert (found.rule, found.pod.name) == (Rule.SHARE, "b")
        assert found.why == f"its queue theirs would hold 0 of 5000 guaranteed {MEMORY}"


def test_who_may_leave_a_node_depends_on_other_nodes_where_a_podgroup_has_a_minimum() -> None:
    """Else what one search found out of nodes holds for the next one."""
    groups = {"default/g": PodGroup(namespace="default", name="g")}
    snapshot = a_cluster([running("a", group="g")], pod_groups=groups)
    preemptor = Preemptor.of(snapshot, [waiting()])
    assert not EvictionRules(snapshot, preemptor, None).span_nodes
    least = {"default/g": replace(groups["default/g"], min_member=2)}
    assert EvictionRules(replace(snapshot, pod_groups=least), preemptor, None).span_nodes


class TestGangsUnderQuotas:
    def limited(self, limit: int, *by_node: Sequence[PodRecord]) -> tuple[ClusterSnapshot, list[PodInfo]]:
        """A gang of two of 5,000 MiB each in a namespace that may hold so much."""
        quota = {"default": NamespaceQuota(namespace="default", hard={f"limits.{MEMORY}": limit * NANO})}
        snapshot = a_cluster(*by_node, quotas=quota)
        left = left_in(snapshot, "default", REGISTRY)
        infos = [waiting(5_000, name=name) for name in ("m0", "m1")]
        return snapshot, [take_in(each.submitted, REGISTRY, Rules(), left, admitted=True) for each in infos]

    def test_members_on_one_node_count_for_each_other(self) -> None:
        """The younger pod of the other namespace would make room on a card, and none in the quota."""
        pods = [running("a", 0, 12_000, made_at=1), running("other", 1, 12_000, namespace="team", made_at=2)]
        snapshot, pair = self.limited(19_000, pods)
        assert victims(snapshot, *pair) == ["a"]
        snapshot, pair = self.limited(22_000, pods)
        assert victims(snapshot, *pair) == ["other"]

    def test_members_on_two_nodes_count_for_each_other(self) -> None:
        full = [running("full", 1, CARD, preemptable=False, namespace="team")]
        nodes = [[running(f"a{at}", 0, 12_000, namespace="team"), *full] for at in range(2)]
        for limit, fits in ((9_999, False), (10_000, True)):
            snapshot, pair = self.limited(limit, *nodes)
            assert isinstance(find(snapshot, *pair), EvictionPlan) is fits


class TestPartitions:
    """A card of 40 GiB in mode MIG, cut into slices of one seventh and larger ones that start at fixed places."""

    registry = Registry([nvidia.SPEC])
    profiles = (
        Profile("1g.5gb", MiB(4_864), CoreShare(0), 1, tuple(SlicePlacement(at, 1) for at in range(7))),
        Profile("3g.20gb", MiB(19_968), CoreShare(0), 3, (SlicePlacement(0, 4), SlicePlacement(4, 4))),
    )

    def snapshot(self, *, stays: int) -> ClusterSnapshot:
        """Seven small slices; the pod of one of them may not be evicted, and that of the first one is the oldest."""
        card = a_device(vendor="NVIDIA", model="A100", slots=7, memory=40_960, mode="mig", profiles=self.profiles)
        records = [
            replace(
                a_record(
                    allocated(
                        a_share("card-0", 4_864, mark=Instance("1g.5gb", SlicePlacement(at, 1)), vendor="NVIDIA")
                    ),
                    name=f"slice-{at}",
                ),
                preemptable=at != stays,
                made_at=at,
            )
            for at in range(7)
        ]
        return a_snapshot(with_pods(a_node("n", card), records))

    def waiting(self, memory: int) -> PodInfo:
        pod = a_pod(a_container({"nvidia.com/gpu": 1, "nvidia.com/gpumem": memory}), name="high", priority=100)
        return take_in(pod, self.registry, Rules())

    def victims(self, snapshot: ClusterSnapshot, memory: int) -> list[str]:
        found = VictimSearch(self.registry).find(snapshot, [self.waiting(memory)])
        assert isinstance(found, EvictionPlan), found
        return sorted(victim.pod.name for victim in found.victims)

    def test_the_victims_are_those_whose_places_the_new_slice_needs(self) -> None:
        """Three of seven slices have the memory and are younger; the larger slice starts at place 0 or 4."""
        assert self.victims(self.snapshot(stays=5), 19_000) == ["slice-0", "slice-1", "slice-2", "slice-3"]
        assert self.victims(self.snapshot(stays=2), 19_000) == ["slice-4", "slice-5", "slice-6"]

    def test_one_slice_of_the_same_size_has_one_victim(self) -> None:
        assert self.victims(self.snapshot(stays=6), 4_000) == ["slice-5"]


class TestSearchesThatAreGivenUp:
    def gangs(self) -> tuple[ClusterSnapshot, tuple[PodInfo, ...]]:
        """Two nodes for two waiting members; a budget allows one of the two youngest pods to go."""
        nodes = [[running(f"a{at}", labels={"app": "web"})] for at in range(2)]
        snapshot = a_cluster(*nodes, [running("mid", priority=50)], cards=1, budgets=(web_budget(1),))
        return snapshot, (waiting(), waiting(name="high-1"))

    def test_a_finished_search_says_nothing(self) -> None:
        snapshot, pair = self.gangs()
        found = find(snapshot, *pair)
        assert isinstance(found, EvictionPlan)
        assert not found.cut
        assert not refusal(a_cluster([running("a", preemptable=False)], cards=1)).cut

    def test_too_many_branches_are_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(demand_search, "MOST_BRANCHES", 1)
        snapshot, pair = self.gangs()
        assert refusal(snapshot, *pair).cut

    def test_too_many_steps_are_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(node_search, "MOST_STEPS", 1)
        found = find(a_cluster([running("a", 0), running("b", 1)]))
        assert isinstance(found, EvictionPlan)
        assert len(found.victims) == 1
        assert found.cut
