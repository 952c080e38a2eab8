"""Enqueue admission in the current cluster: what each pod counts for, and which limit applies to it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from hami_plugins.engine.intake import Rules
from hami_plugins.model.cluster import PodGroup, Queue
from hami_plugins.model.pods import NodeConstraints, PodRecord
from hami_plugins.queueing import usage
from hami_plugins.queueing.queues import EnqueueAdmission
from tests.builders import a_container, a_pod
from tests.unit.queueing.test_queues import GPU, a_cluster, gpus, held


def gate(*records: PodRecord, plugin: str = "", nested: bool | None = None, **about: object) -> EnqueueAdmission:
    found = usage.gate_of(a_cluster(*records, **about), plugin, nested=nested)  # type: ignore[arg-type]
    assert found is not None
    return found


def a_group(phase: str, least: int, *, members: int = 1) -> dict[str, PodGroup]:
    made = PodGroup(namespace="default", name="g", phase=phase, min_resources=gpus(least), min_member=members)
    return {made.full_name: made}


class TestWhoCounts:
    @pytest.mark.parametrize(
        ("phase", "waits"), [("Inqueue", 4), ("Pending", 0), ("Running", 0), ("Completed", 0), ("Unknown", 0)]
    )
    def test_a_group_without_pods_counts_while_it_is_inqueue(self, phase: str, waits: int) -> None:
        assert gate(pod_groups=a_group(phase, 4)).waited_for.get(GPU, 0) == gpus(waits).get(GPU, 0)

    def test_a_group_that_runs_counts_for_what_it_lacks_of_its_least(self) -> None:
        found = gate(held(3), pod_groups=a_group("Running", 4))
        assert found.waited_for == gpus(1)
        assert gate(held(4), pod_groups=a_group("Running", 4)).waited_for == {}

    def test_a_group_with_too_few_members_has_lost_its_turn(self) -> None:
        assert gate(held(3), pod_groups=a_group("Running", 4, members=2)).waited_for == {}

    def test_a_group_whose_pod_is_being_deleted_counts_on_top_of_it(self) -> None:
        found = gate(held(4, terminating=True), pod_groups=a_group("Running", 4))
        assert found.used[GPU] == found.waited_for[GPU] == gpus(4)[GPU]

    @pytest.mark.parametrize("phase", ["Pending", "Running"])
    def test_it_stands_at_the_gate_like_any_other(self, phase: str) -> None:
        found = gate(held(7, terminating=True), pod_groups=a_group(phase, 7))
        assert (found.used, found.waited_for) == (gpus(7), {})  # 14 of 12 it may not have
        let_in_before = gate(held(7, terminating=True), pod_groups=a_group("Inqueue", 7))
        assert let_in_before.waited_for == gpus(7)

    def test_of_two_that_come_back_the_older_one_is_first(self) -> None:
        leaving = [held(3, name, terminating=True) for name in ("old", "young")]
        groups = {
            f"default/{name}": PodGroup(namespace="default", name=name, min_resources=gpus(4), made_at=made_at)
            for name, made_at in (("young", 2), ("old", 1))
        }
        snapshot = a_cluster(*leaving, pod_groups=groups)
        assert [claim.group for claim in usage.claims_of(snapshot)] == ["default/old"]
        assert gate(*leaving, pod_groups=groups).accounts["default"].waited_for == gpus(4)

    def test_nothing_comes_back_to_a_cluster_without_queues(self) -> None:
        snapshot = a_cluster(held(3, terminating=True), pod_groups=a_group("Running", 4))
        assert usage.claims_of(snapshot) != ()
        assert usage.claims_of(replace(snapshot, queues={})) == ()

    def test_one_that_has_enough_members_without_it_does_not(self) -> None:
        leaving = replace(held(4, terminating=True), name="leaving")
        assert gate(held(4), leaving, pod_groups=a_group("Running", 4)).waited_for == {}

    def test_pods_with_scheduling_gates_do_not_count(self) -> None:
        pod = replace(
            a_pod(a_container({})),
            gates=("a",),
            annotations={"scheduling.k8s.io/group-name": "g"},
            constraints=NodeConstraints(requests=tuple(gpus(3).items())),
        )
        assert gate(pod_groups=a_group("Inqueue", 4), pending=(pod,)).waited_for == gpus(1)
        assert gate(pod_groups=a_group("Inqueue", 3), pending=(pod,)).waited_for == {}
        assert gate(pod_groups=a_group("Inqueue", 3), pending=(replace(pod, gates=()),)).waited_for == gpus(3)

    def test_a_group_without_minimum_never_counts(self) -> None:
        group = {"default/g": PodGroup(namespace="default", name="g", phase="Inqueue")}
        assert gate(pod_groups=group).waited_for == {}


class TestPlugins:
    def test_who_deserves_something_is_in_a_cluster_with_capacity(self) -> None:
        deserving = {"a": Queue(name="a", deserved=gpus(1))}
        assert gate().by_weight
        assert not gate(queues=deserving).by_weight

    def test_whoever_knows_the_plugin_says_so(self) -> None:
        deserving = {"a": Queue(name="a", deserved=gpus(1))}
        assert gate(queues=deserving, plugin=usage.PROPORTION).by_weight
        assert not gate(plugin=usage.CAPACITY).by_weight


def test_how_much_is_given_away_together_is_as_set() -> None:
    crowded = a_cluster(held(4, terminating=True), queues={"q": Queue(name="q")})  # which are not the queue's any more
    usual = usage.gate_by(crowded, Rules())
    tight = usage.gate_by(crowded, Rules(overcommit=Fraction(1)))
    assert usual is not None
    assert tight is not None
    assert usual.objections("q", gpus(8)) == ()
    (shortage,) = tight.objections("q", gpus(8))
    assert (shortage.limit, shortage.left, shortage.queue) == (gpus(10)[GPU], gpus(6)[GPU], "")


FAMILY = {
    "root": Queue(name="root"),
    "parent": Queue(name="parent", parent="root", capability=gpus(4)),
    "one": Queue(name="one", parent="parent"),
    "two": Queue(name="two", parent="parent", guarantee=gpus(1)),
    "other": Queue(name="other", parent="root"),
}


class TestNestedQueues:
    def test_the_limit_of_a_queue_holds_for_those_under_it(self) -> None:
        found = gate(queues=FAMILY, plugin=usage.CAPACITY)
        (shortage,) = found.objections("one", gpus(5))
        assert (shortage.queue, shortage.limit) == ("parent", gpus(4)[GPU])
        assert found.objections("other", gpus(10)) == ()

    def test_what_one_child_was_promised_the_other_cannot_have(self) -> None:
        found = gate(queues=FAMILY, plugin=usage.CAPACITY).let_in("one", gpus(3))
        assert found.objections("two", gpus(1)) == ()
        (shortage,) = found.objections("two", gpus(2))
        assert (shortage.queue, shortage.inqueue) == ("parent", gpus(3)[GPU])

    def test_what_pods_of_a_child_hold_counts_above(self) -> None:
        found = gate(held(3, queue="one"), queues=FAMILY, plugin=usage.CAPACITY)
        assert found.accounts["parent"].held == gpus(3)
        assert found.overdrawn("two", gpus(2)) != ()
        assert found.given("one", gpus(1)).overdrawn("two", gpus(1)) != ()

    def test_guarantees_are_kept_from_brothers_alone(self) -> None:
        found = gate(queues=FAMILY, plugin=usage.CAPACITY)
        assert found.accounts["one"].limit == gpus(9)
        assert found.accounts["other"].limit == gpus(10)

    def test_under_proportion_parents_do_not_matter(self) -> None:
        assert gate(queues=FAMILY, plugin=usage.PROPORTION).objections("one", gpus(5)) == ()

    def test_without_hierarchy_parents_do_not_matter_and_guarantees_are_kept_from_all(self) -> None:
        found = gate(queues=FAMILY, plugin=usage.CAPACITY, nested=False)
        assert found.objections("one", gpus(9)) == ()
        assert found.accounts["one"].limit == found.accounts["other"].limit == gpus(9)
        assert gate(queues=FAMILY, plugin=usage.PROPORTION, nested=True).objections("one", gpus(5)) == ()

    def test_a_ring_of_queues_ends(self) -> None:
        ring = {"a": Queue(name="a", parent="b", capability=gpus(4)), "b": Queue(name="b", parent="a")}
        found = gate(queues=ring, plugin=usage.CAPACITY)
        assert found.objections("b", gpus(5)) != ()
        assert found.let_in("b", gpus(4)).objections("a", gpus(1)) != ()


def test_queues_of_higher_priority_come_first() -> None:
    two = {"low": Queue(name="low"), "high": Queue(name="high", priority=5)}
    found = gate(held(9, queue="high"), queues=two)
    assert found.turn("high") < found.turn("low")


class TestTurnsUnderCapacity:
    """``updateQueueAttrShare`` and ``compareShareWithDeserved`` of the plugin, release 1.14.1."""

    def test_who_holds_less_of_what_it_deserves_comes_first(self) -> None:
        two = {name: Queue(name=name, deserved=gpus(most)) for name, most in (("a", 2), ("b", 8))}
        found = gate(held(1, queue="a"), queues=two)
        assert found.turn("b") < found.turn("a")
        assert found.turn("a").parts == ((0.5, False),)

    def test_who_deserves_nothing_comes_last(self) -> None:
        two = {
            "older": Queue(name="older", made_at=1),
            "deserving": Queue(name="deserving", deserved=gpus(2), made_at=2),
        }
        assert gate(queues=two).turn("deserving") < gate(queues=two).turn("older")
        full = gate(held(2, queue="deserving"), queues=two)
        assert full.turn("deserving") < full.turn("older")
        above = gate(held(3, queue="deserving"), queues=two)
        assert above.turn("older") < above.turn("deserving")

    def test_nobody_deserves_more_than_it_may_hold(self) -> None:
        capped = {"a": Queue(name="a", deserved=gpus(8), capability=gpus(2))}
        assert gate(held(1, queue="a"), queues=capped).turn("a").parts == ((0.5, False),)

    def test_under_hierarchy_the_queues_above_come_first(self) -> None:
        family = {
            "rich": Queue(name="rich", deserved=gpus(4)),
            "poor": Queue(name="poor", deserved=gpus(4)),
            "rich-1": Queue(name="rich-1", parent="rich", deserved=gpus(2)),
            "rich-2": Queue(name="rich-2", parent="rich", deserved=gpus(2)),
            "poor-1": Queue(name="poor-1", parent="poor", deserved=gpus(1)),
        }
        found = gate(held(2, "x", queue="rich-1"), held(1, "y", queue="poor-1"), queues=family, nested=True)
        assert found.turn("poor-1") < found.turn("rich-2") < found.turn("rich-1")
        flat = gate(held(2, "x", queue="rich-1"), held(1, "y", queue="poor-1"), queues=family, nested=False)
        assert flat.turn("rich-2") < flat.turn("poor-1")


def test_equal_queues_come_by_age_and_then_by_name() -> None:
    queues = {name: Queue(name=name, made_at=made_at) for name, made_at in (("c", 1), ("b", 2), ("a", 2))}
    found = gate(queues=queues)
    assert sorted(queues, key=found.turn) == ["c", "a", "b"]


def test_a_capability_below_what_is_guaranteed_wins() -> None:
    odd = {"a": Queue(name="a", capability=gpus(2), guarantee=gpus(50)), "b": Queue(name="b")}
    found = gate(queues=odd)
    assert found.accounts["a"].limit == gpus(2)
    assert found.objections("b", gpus(1)) != ()
