"""Plans with evictions: victims and beneficiaries, the turn of each, and the messages about the pods that stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from hami_plugins.engine.claims.needs import ClaimNeeds
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot, Listing
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.pods import Pod, PodClaim
from hami_plugins.model.units import NodeName
from hami_plugins.plan import Plan, Planner, PlanUnit, PodPlan, Stage, submission
from hami_plugins.plan.preemption import CLAIMED, PlanEvictor
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan, Rule
from hami_plugins.queueing.evictions import RoomRequest
from tests.builders import COUNT, MEMORY, a_container, a_pod, amounts
from tests.unit.plan import plans
from tests.unit.preemption.clusters import a_cluster, running
from tests.unit.preemption.small_clusters import a_case
from tests.unit.queueing import test_cycle as volcano
from tests.unit.queueing.test_cycle import REGISTRY, a_group, a_job, a_node, a_queue


def asking(name: str = "high", memory: int = 10_000, *, priority: int = 100, **about: Any) -> Pod:
    """A pod that asks for most of a card."""
    return a_pod(a_container({COUNT: 1, MEMORY: memory}), name=name, priority=priority, **about)


def planned(snapshot: ClusterSnapshot, *pods: Pod, together: bool = False) -> Plan:
    """The plan with preemption of pods that are each a workload, or ``together`` replicas of one."""
    units = [PlanUnit(name=f"pod/{pod.full_name}", pods=(pod,)) for pod in pods]
    if together:
        units = [PlanUnit(name="deployment/default/high", pods=pods)]
    return Planner(plans.REGISTRY).plan(snapshot, units, preemption=True)


def under_volcano(cluster: Sequence[dict[str, Any]], *submitted: dict[str, Any]) -> Plan:
    """The plan with preemption of manifests on a listing."""
    before = snapshot_of(cluster, REGISTRY)
    read = workloads.read(manifests.read(yaml.safe_dump_all(submitted), source="test"), pod_groups=before.pod_groups)
    before = submission.with_objects(before, read)
    return Planner(REGISTRY).plan(before, submission.units(read, before), preemption=True)


def low(name: str, node: str = "n1", memory: int = 9_000, **about: Any) -> dict[str, Any]:
    """A running pod of Volcano's in a PodGroup of its own."""
    return volcano.a_pod(name, memory, node=node, group=f"of-{name}", priority=1, **about)


def high(name: str = "high", memory: int = 6_000, **about: Any) -> dict[str, Any]:
    return volcano.a_pod(name, memory, priority=1000, **about)


def the(name: str, plan: Plan) -> PodPlan:
    return next(each for each in plan.pods if each.pod.name == name)


def leaving(plan: Plan) -> list[list[str]]:
    """The names of the victims, by the pods or gangs they leave for."""
    return [sorted(victim.pod.name for victim in each.victims) for each in plan.evictions]


FULL = a_cluster([running("a", 0, priority=1), running("b", 1, priority=2)])
"""A node with two cards, neither of which has room for another pod."""


class TestOnePod:
    def test_it_has_a_place_after_eviction_and_is_not_placed(self) -> None:
        plan = planned(FULL, asking())
        (pod,) = plan.pods
        assert (pod.stage, plan.complete) == (Stage.NODES, False)
        assert pod.by_eviction is not None
        assert pod.place is pod.by_eviction
        assert pod.place.node == "n0"
        assert leaving(plan) == [["a"]]
        assert plan.in_vain == {}

    def test_the_cluster_afterwards_has_it_and_not_the_victim(self) -> None:
        after = planned(FULL, asking()).after
        assert sorted(record.name for record in after.nodes[0].pods) == ["b", "high"]

    def test_nobody_is_evicted_where_nobody_asked(self) -> None:
        plan = plans.a_plan(asking(), on=FULL)
        assert (plan.evictions, plan.in_vain, plan.pods[0].by_eviction) == ((), {}, None)

    def test_a_pod_that_fits_evicts_nobody(self) -> None:
        plan = planned(a_cluster([running("a", 0)]), asking())
        assert plan.complete
        assert (plan.pods[0].notes, plan.evictions) == ((), ())

    def test_a_pod_without_victims_says_why(self) -> None:
        plan = planned(FULL, asking(priority=1))
        assert plan.evictions == ()
        assert plan.in_vain["default/high"].why == "no pod on 1 node may be evicted for it"

    def test_one_that_cannot_be_read_evicts_nobody(self) -> None:
        broken = a_pod(a_container({COUNT: -1}), name="broken", priority=100)
        plan = planned(FULL, broken)
        assert plan.pods[0].stage is not Stage.NODES
        assert (plan.evictions, plan.in_vain) == ((), {})

    def test_nor_does_it_where_the_node_has_all_its_pods(self) -> None:
        (entry,) = FULL.nodes
        full = replace(FULL, nodes=(replace(entry, facts=NodeFacts(allocatable=amounts({"pods": 2}))),))
        assert planned(full, a_pod(a_container({COUNT: -1}), name="broken", priority=100)).evictions == ()
        assert planned(full, asking("high", 10)).evictions

    def test_a_place_that_ending_pods_leave_needs_no_victims(self) -> None:
        snapshot = a_cluster([running("ends", 0, terminating=True), running("b", 1)])
        plan = planned(snapshot, asking())
        (found,) = plan.evictions
        assert found.victims == ()
        assert plan.pods[0].by_eviction is not None
        assert [each.pod.name for each in found.ending] == ["ends"]
        assert not plan.complete
        assert plan.pods[0].notes == ()

    def test_a_listing_without_priority_classes_says_so_where_victims_are_looked_for(self) -> None:
        listing = Listing(kinds={"Pod": 2, "Node": 1}, pod_namespaces=frozenset({"default", "kube-system"}))
        snapshot = replace(FULL, listing=listing)
        assert [each.kind for each in planned(snapshot, asking()).gaps] == ["PriorityClass"]
        assert [each.kind for each in planned(snapshot, asking(priority=0)).gaps] == ["PriorityClass"]
        assert plans.a_plan(asking(), on=snapshot).gaps == ()
        complete = replace(snapshot, listing=replace(listing, kinds={**listing.kinds, "PriorityClass": 2}))
        assert planned(complete, asking()).gaps == ()

    def test_its_scheduler_alone_would_evict_by_sums(self) -> None:
        (note,) = planned(FULL, asking()).pods[0].notes
        assert "kube-scheduler alone evicts by sums of a node" in note


class TestOrder:
    def test_the_pod_of_higher_priority_is_looked_at_first(self) -> None:
        plan = planned(a_cluster([running("a")], cards=1), asking("mid", priority=50), asking("high"))
        assert [each.pod.name for each in plan.pods] == ["high", "mid"]
        assert leaving(plan) == [["a"]]
        assert the("high", plan).by_eviction is not None
        assert "default/mid" in plan.in_vain

    def test_each_replica_evicts_in_its_turn(self) -> None:
        plan = planned(FULL, *[asking(f"high-{at}") for at in range(3)], together=True)
        assert leaving(plan) == [["a"], ["b"]]
        assert [each.by_eviction is not None for each in plan.pods] == [True, True, False]
        assert set(plan.in_vain) == {"default/high-2"}

    def test_equal_pods_that_find_nobody_are_asked_about_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = Mock(wraps=VictimSearch(plans.REGISTRY).find)
        monkeypatch.setattr(VictimSearch, "find", asked)
        plan = planned(FULL, *[asking(f"high-{at}", priority=1) for at in range(5)], together=True)
        assert len(plan.in_vain) == 5
        asked.assert_called_once()

    def test_what_was_found_on_one_cluster_does_not_hold_on_another(self) -> None:
        evictor = PlanEvictor(VictimSearch(plans.REGISTRY), Decider(plans.REGISTRY))
        info = take_in(asking(priority=2), plans.REGISTRY, Rules())
        kept = a_cluster([running("a", 0, priority=9), running("b", 1, priority=9)])
        assert evictor(RoomRequest(kept, [info], None)) is None
        found = evictor(RoomRequest(FULL, [info], None))
        assert found is not None
        assert [placed.node for placed in found.places] == ["n0"]

    def test_a_gang_evicts_nobody_if_one_of_its_pods_has_claims(self) -> None:
        evictor = PlanEvictor(VictimSearch(plans.REGISTRY), Decider(plans.REGISTRY))
        plain, other = (take_in(asking(name), plans.REGISTRY, Rules()) for name in ("plain", "claiming"))
        claims = ClaimNeeds("default", (PodClaim("c", claim="c"),))
        claiming = replace(other, demand=replace(other.demand, claims=claims))
        assert evictor(RoomRequest(FULL, [plain, other], None)) is not None
        assert evictor(RoomRequest(FULL, [plain, claiming], None)) is None
        assert {name: found.why for name, found in evictor.in_vain.items()} == {
            "default/plain": CLAIMED,
            "default/claiming": CLAIMED,
        }

    def test_a_pod_of_the_plan_may_be_evicted_for_a_job_whose_pods_are_made_later(self) -> None:
        cluster = [a_node(cards=1), a_queue()]
        cluster.append(low("low", memory=4_000))
        job = a_job("j", 9000, {"replicas": 1}, priorityClassName="gold")
        classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        gold = {**classes, "metadata": {"name": "gold"}, "value": 50}
        group = a_group("mine", 1, phase="Inqueue")
        plan = under_volcano(cluster, gold, group, volcano.a_pod("plain", 5_000, group="mine"), job)
        assert leaving(plan) == [["low", "plain"]]
        assert any("evicted again for default/j-default0-0" in note for note in the("plain", plan).notes)


class TestVictims:
    def test_the_rules_are_said(self) -> None:
        (found,) = planned(FULL, asking()).evictions
        (victim,) = found.victims
        assert [(each.rule, each.words) for each in victim.grounds] == [(Rule.PRIORITY, "priority 1 < 100")]
        assert found.nodes == ("n0",)

    def test_a_victim_that_has_room_elsewhere_finds_it_again_and_another_waits(self) -> None:
        pinned = replace(asking("high", 16_000).constraints, node=NodeName("n0"))
        pod = replace(asking("high", 16_000), constraints=pinned)
        pods = [running("a", 0, 8_000), running("b", 0, 8_000)]
        snapshot = a_cluster(pods, [running("c", 0, 8_000)], cards=1)
        (found,) = planned(snapshot, pod).evictions
        assert [victim.again for victim in found.victims] == ["n1", None]

    def test_a_victim_does_not_find_a_place_on_a_node_that_takes_no_pods(self) -> None:
        pod = replace(asking("high", 16_000), constraints=replace(asking().constraints, node=NodeName("n0")))
        snapshot = a_cluster([running("a", 0, 8_000)], [], cards=1)
        cordoned = [
            replace(each, facts=replace(each.facts, unschedulable=each.name == "n1")) for each in snapshot.nodes
        ]
        (found,) = planned(replace(snapshot, nodes=tuple(cordoned)), pod).evictions
        assert [victim.again for victim in found.victims] == [None]

    def test_only_the_first_victims_of_a_plan_are_followed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hami_plugins.plan.preemption.MOST_FOLLOWED", 2)
        nodes = [[running(f"a{at}", 0, 8_000), running(f"b{at}", 0, 8_000)] for at in range(2)]
        snapshot = a_cluster(*nodes, [], cards=1)
        pods = [asking(f"high-{at}", 16_000, priority=100 - at) for at in range(3)]
        first, second = planned(snapshot, *pods).evictions
        assert [victim.followed for victim in first.victims] == [True, True]
        assert [victim.followed for victim in second.victims] == [False, False]
        monkeypatch.setattr("hami_plugins.plan.preemption.MOST_FOLLOWED", 1)
        first, second = planned(snapshot, *pods).evictions
        assert [victim.followed for victim in (*first.victims, *second.victims)] == [True, False, False, False]

    def test_of_sixty_six_victims_sixty_four_are_followed(self) -> None:
        nodes = [[running(f"a{at}", 0, 8_000), running(f"b{at}", 0, 8_000)] for at in range(33)]
        pods = [asking(f"high-{at}", 16_000) for at in range(33)]
        found = planned(a_cluster(*nodes, cards=1), *pods).evictions
        followed = [victim.followed for each in found for victim in each.victims]
        assert (len(followed), sum(followed)) == (66, 64)

    def test_a_search_that_was_cut_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hami_plugins.preemption.node_search.MOST_STEPS", 1)
        (found,) = planned(FULL, asking()).evictions
        assert found.cut


class TestUnderVolcano:
    def test_a_gang_gets_places_for_its_least_and_evicts_nobody_for_more(self) -> None:
        cluster = [a_node(cards=3), a_queue()]
        cluster += [low(f"low-{at}") for at in range(3)]
        for at, pod in enumerate(cluster[2:]):
            pod["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"] = f"GPU-n1-{at},NVIDIA,9000,0:"
        gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 9}
        job = a_job("j", 6000, {"replicas": 3}, minAvailable=2, priorityClassName="gold")
        plan = under_volcano(cluster, gold, job)
        assert [len(each) for each in leaving(plan)] == [2]
        assert sum(each.by_eviction is not None for each in plan.pods) == 2
        assert sum(each.place is None for each in plan.pods) == 1

    def test_a_gang_counts_as_what_its_job_is_worth(self) -> None:
        """The class of the job is that of its PodGroup, whatever its pods are worth."""
        classes = [
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
            for name, value in (("gold", 50), ("none", 0))
        ]
        job = a_job("j", 6000, {"replicas": 1}, priorityClassName="gold")
        job["spec"]["tasks"][0]["template"]["spec"]["priorityClassName"] = "none"
        assert leaving(under_volcano([a_node(cards=1), a_queue(), low("low")], *classes, job)) == [["low"]]
        job["spec"]["priorityClassName"] = "none"
        assert leaving(under_volcano([a_node(cards=1), a_queue(), low("low")], *classes, job)) == []

    def test_a_pod_that_is_not_enqueued_has_a_turn_for_evictions(self) -> None:
        plan = under_volcano([a_node(cards=1), a_queue(), low("low")], high())
        (pod,) = plan.pods
        assert pod.stage is Stage.GATE
        assert "not enqueued by Volcano" in pod.why
        assert pod.place is not None
        assert leaving(plan) == [["low"]]
        assert plan.after.pod_groups == plan.before.pod_groups
        assert plan.standing.pending == ()
        assert plan.standing.pod_groups["default/podgroup-high"].phase == "Running"
        assert "its action enqueue" in pod.notes[-1]

    def test_one_that_is_not_enqueued_and_finds_no_victims_stays_so(self) -> None:
        plan = under_volcano([a_node(cards=1), a_queue(), low("low")], volcano.a_pod("equal", priority=1))
        (pod,) = plan.pods
        assert (pod.stage, pod.place) == (Stage.GATE, None)
        assert "default/equal" in plan.in_vain

    def test_one_for_which_only_the_gate_has_no_room_evicts_nobody(self) -> None:
        waits = a_group("waits", 1, phase="Inqueue", minResources={volcano.MEMORY: "9000"})
        plan = under_volcano([a_node(cards=1), a_queue(), waits], high())
        assert (plan.pods[0].stage, plan.evictions, plan.in_vain) == (Stage.GATE, (), {})
        assert plan.pods[0].place is None

    def test_what_victims_give_back_to_a_queue_counts_for_the_pods_after_them(self) -> None:
        cluster = [a_node(cards=2), a_queue(capability={volcano.MEMORY: "10000"}), low("low")]
        cluster += [a_group(name, 1, phase="Inqueue") for name in ("first", "then")]
        pods = [high("first", group="first"), high("then", 4_000, group="then")]
        plan = under_volcano(cluster, *pods)
        assert leaving(plan) == [["low"]]
        assert the("then", plan).stage is Stage.PLACED
        assert plan.after.pod_groups == plan.before.pod_groups

    def test_a_job_that_is_not_enqueued_evicts_for_all_its_least_members(self) -> None:
        cluster = [a_node(cards=1), a_queue(), low("low")]
        gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 9}
        job = a_job("j", 5_000, {"replicas": 3}, minAvailable=2, priorityClassName="gold")
        plan = under_volcano(cluster, gold, job)
        assert leaving(plan) == [["low"]]
        assert [each.place is not None for each in plan.pods] == [True, True, False]

    def test_a_queue_that_is_closed_has_no_turn(self) -> None:
        plan = under_volcano([a_node(cards=1), a_queue(state="Closed"), low("low")], high())
        assert (plan.pods[0].stage, plan.evictions, plan.in_vain) == (Stage.GATE, (), {})

    def test_a_gang_without_all_its_members_says_that_it_is_not_enqueued(self) -> None:
        group = a_group("g", 2, minResources={volcano.MEMORY: "90000"})
        plan = under_volcano([a_node(cards=1), a_queue(), low("low"), group], high(group="g"))
        assert plan.pods[0].why.startswith("not enqueued by Volcano")
        assert plan.evictions == ()


class TestOnRandomClusters:
    """Full clusters of many vendors, in which a pod of priority 5 waits."""

    @pytest.mark.parametrize("queued", [False, True], ids=["kube-scheduler", "volcano"])
    def test_a_plan_evicts_whom_the_search_names_and_its_cluster_holds_what_it_can(self, queued: bool) -> None:
        evicting = 0
        for seed in range(60):
            case = a_case(seed, queued=queued)
            if case is None:
                continue
            (info,) = case.infos
            unit = PlanUnit(name=f"pod/{info.pod.full_name}", pods=(info.submitted,), queue="default")
            plan = Planner(case.history.registry).plan(case.snapshot, [unit], preemption=True)
            found = VictimSearch(case.history.registry).find(case.snapshot, [info])
            assert_sound(plan)
            if isinstance(found, EvictionPlan) and plan.pods[0].stage is Stage.NODES:
                assert sum(len(each.victims) for each in plan.evictions) == len(found.victims), seed
                evicting += bool(plan.evictions)
            if not isinstance(found, EvictionPlan):
                assert plan.evictions == (), seed
        assert evicting > 5


def assert_sound(plan: Plan) -> None:
    """No device holds more than it has, victims are gone, and pods with places are there."""
    running = {record.full_name for entry in plan.after.nodes for record in entry.pods}
    for each in plan.evictions:
        assert not running & {victim.pod.full_name for victim in each.victims}
        assert not running & {ending.pod.full_name for ending in each.ending}
        assert running >= {pod.full_name for pod, _ in each.places}
    for entry in plan.after.nodes:
        for device, used in zip(entry.state.shape.devices, entry.state.usage, strict=True):
            assert used.memory <= device.memory or not device.memory
            assert used.slots <= device.slots
