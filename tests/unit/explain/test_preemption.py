"""Messages about evictions, line by line."""

from __future__ import annotations

from typing import Any

from hami_plugins.explain import preemption
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod
from hami_plugins.plan import Plan
from hami_plugins.preemption.values import NoVictims
from tests.unit.plan.plans import answers_of
from tests.unit.plan.test_preemption import FULL, asking, planned
from tests.unit.preemption.clusters import a_cluster, running


def told(snapshot: ClusterSnapshot, *pods: Pod, **about: Any) -> list[tuple[str, ...]]:
    """The lines about evictions of each refusal."""
    return [each.preemption for each in answers_of(planned(snapshot, *pods, **about)).refusals()]


def test_victims_are_named_with_their_rule_and_node() -> None:
    assert told(FULL, asking()) == [("would preempt default/a (priority 1 < 100) on n0",)]


def test_victims_of_one_node_and_rule_are_named_together() -> None:
    pods = [running(f"low-{at}", 0, 2_000) for at in range(8)]
    (lines,) = told(a_cluster(pods, cards=1), asking(memory=16_000))
    assert lines == (
        "would preempt default/low-0, default/low-1, default/low-2, default/low-3, default/low-4, default/low-5, "
        "2 more (priority 0 < 100) on n0",
    )


def test_victims_of_different_rules_are_named_apart() -> None:
    pods = [running("low", 0, 8_000), running("mid", 0, 8_000, priority=50)]
    (lines,) = told(a_cluster(pods, cards=1), asking(memory=16_000))
    assert lines == ("would preempt default/low (priority 0 < 100) on n0, default/mid (priority 50 < 100) on n0",)


def test_each_replica_of_a_workload_names_its_victims() -> None:
    first, second = told(FULL, *[asking(f"high-{at}") for at in range(3)], together=True)
    assert first == (
        "would preempt default/a (priority 1 < 100) on n0",
        "would preempt default/b (priority 2 < 100) on n0",
    )
    assert second[0].startswith("would preempt no pod")


def test_pods_that_end_already_are_waited_for() -> None:
    ends = [running("ends", 0, 8_000, terminating=True), running("too", 0, 100, terminating=True)]
    assert told(a_cluster(ends, cards=1), asking()) == [
        ("needs no eviction: default/ends, default/too are terminating already, and that is waited for",)
    ]
    both = a_cluster([running("ends", 0, 8_000, terminating=True), running("low", 0, 8_000)], cards=1)
    assert told(both, asking(memory=16_000)) == [
        (
            "would preempt default/low (priority 0 < 100) on n0; "
            "default/ends is terminating already, and that is waited for",
        )
    ]


def test_where_no_pod_may_leave_each_rule_is_said_with_its_count() -> None:
    stays = running("stays", 1, 100, preemptable=False)
    assert told(FULL.with_node(a_cluster([*FULL.nodes[0].pods, stays]).nodes[0]), asking(priority=1)) == [
        (
            "would preempt no pod: no pod on 1 node may be evicted for it",
            "may not evict default/a and 1 more pod: its priority 1 is not below 1",
            'may not evict default/stays: volcano.sh/preemptable is "false"',
        )
    ]


def test_a_search_that_was_cut_says_so() -> None:
    (found,) = planned(FULL, asking()).evictions
    object.__setattr__(found, "cut", True)
    assert list(preemption.lines(found, None))[1] == preemption.GIVEN_UP
    assert list(preemption.lines(None, NoVictims(why="", cut=True)))[1] == preemption.NOT_ALL_TRIED


def test_other_suggestions_are_left_out_where_evictions_help() -> None:
    plan: Plan = planned(FULL, asking())
    assert answers_of(plan).all[0].ways_out == ()
    assert answers_of(planned(FULL, asking(priority=0))).all[0].ways_out
