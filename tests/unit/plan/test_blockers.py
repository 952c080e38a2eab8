"""Which PodGroups block a pod's enqueue admission, and what would admit it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from hami_plugins.explain import explain
from hami_plugins.explain.answers import Answers, PodAnswer
from hami_plugins.explain.enqueue import MOST_PROOFS, EnqueueSuggestions, age_words, holder_lines
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.output import documents, explanations, page, tables
from hami_plugins.output.page.plan import refusals_of
from hami_plugins.plan import Planner, Stage, submission
from hami_plugins.plan.blockers import BlockerVerdict
from tests.schema import ADAPTER
from tests.unit.queueing.test_cycle import GPU, MEMORY, REGISTRY, a_group, a_job, a_node, a_pod, a_queue

NOW = "2026-01-01T12:00:00Z"


def answered(cluster: list[dict[str, Any]], *submitted: dict[str, Any]) -> tuple[Answers, dict[str, PodAnswer]]:
    snapshot = snapshot_of(cluster, REGISTRY)
    text = yaml.safe_dump_all(submitted)
    read = workloads.read(manifests.read(text, source="test"), pod_groups=snapshot.pod_groups)
    snapshot = submission.with_objects(snapshot, read)
    planner = Planner(REGISTRY)
    answers = Answers(planner.plan(snapshot, submission.units(read, snapshot)), planner)
    return answers, {each.plan.pod.name: each for each in answers.all}


def inqueue(name: str, takes: int, *, least: int = 1, made: str = "2026-01-01T09:00:00Z") -> dict[str, Any]:
    group = a_group(name, least, "Inqueue", minResources={GPU: str(takes)})
    group["metadata"]["creationTimestamp"] = made
    return group


def member(name: str, group: str, count: int, memory: int = 100) -> dict[str, Any]:
    pod = a_pod(name, group=group)
    amounts = {GPU: str(count), MEMORY: str(memory)}
    pod["spec"]["containers"] = [{"name": "c", "resources": {"limits": amounts, "requests": amounts}}]
    return pod


def beating(node: dict[str, Any]) -> dict[str, Any]:
    node["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": NOW}]
    return node


STUCK = (beating(a_node()), a_queue(), inqueue("x", 19), member("x-0", "x", 3))
"""A PodGroup that can never fit takes nearly all slots of enqueue admission."""


def ways(answer: PodAnswer) -> list[str]:
    return [each.sentence for each in answer.ways_out]


class TestWhoHolds:
    """Two cards of ten slots; a pod that asks for three cards can never fit."""

    def test_a_group_that_can_never_fit_is_named_with_its_age_and_what_it_takes(self) -> None:
        _, found = answered([*STUCK], member("small", "", 2))
        held = found["small"]
        assert held.plan.stage is Stage.GATE
        assert held.why.endswith(f"{GPU}: asks 2, queue default has 1 of 20 left (19 inqueue)")
        assert list(holder_lines(held.holders)) == [
            f"PodGroup default/x (Inqueue for 3 h) can never fit and reserves 19 of 20 {GPU}"
        ]

    def test_it_is_judged_once_for_all_pods_that_it_holds(self) -> None:
        _, found = answered([*STUCK], member("small", "", 2), member("other", "", 3))
        assert {found[name].holders[0].prospect for name in ("small", "other")} == {BlockerVerdict.NEVER}

    def test_without_it_the_pod_fits_and_so_it_does_when_it_asks_for_less(self) -> None:
        _, found = answered([*STUCK], member("small", "", 2))
        assert ways(found["small"]) == [
            "fits without PodGroup default/x, which can never fit (on n1)",
            f"fits with PodGroup default/x asking for 18 instead of 19 {GPU} (on n1)",
        ]

    def test_one_that_would_fit_without_others_waits_too(self) -> None:
        waiting = [inqueue("y", 19), member("y-0", "y", 1, 9000)]
        full = [a_pod(f"old-{at}", 9500, node="n1") for at in range(1)]
        _, found = answered([beating(a_node(cards=2)), a_queue(), *waiting, *full], member("small", "", 2))
        (holder,) = (each for each in found["small"].holders if each.name == "default/y")
        assert holder.prospect is BlockerVerdict.WAITS
        assert "also waits and reserves 19 of 20" in next(holder_lines([holder]))

    def test_one_whose_pods_are_not_all_there(self) -> None:
        lacking = [inqueue("z", 19, least=3), member("z-0", "z", 1)]
        _, found = answered([a_node(), a_queue(), *lacking], member("small", "", 2))
        (line,) = holder_lines(found["small"].holders)
        assert line == f"PodGroup default/z (Inqueue for 0 s) has 1 of the 3 pods it needs and reserves 19 of 20 {GPU}"

    def test_one_without_pods_waits_as_far_as_anybody_can_tell(self) -> None:
        _, found = answered([a_node(), a_queue(), inqueue("x", 19)], member("small", "", 2))
        (holder,) = found["small"].holders
        assert holder.prospect is BlockerVerdict.WAITS

    def test_pods_that_want_to_be_near_others_are_not_judged_alone(self) -> None:
        near = member("x-0", "x", 3)
        term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
        near["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        _, found = answered([a_node(), a_queue(), inqueue("x", 19), near], member("small", "", 2))
        assert found["small"].holders[0].prospect is BlockerVerdict.WAITS

    def test_groups_of_the_plan_itself_hold_others(self) -> None:
        _, found = answered([a_node(), a_queue()], member("big", "", 3), member("huge", "", 19))
        line, *_ = holder_lines(found["huge"].holders)
        assert line == (
            "PodGroup default/podgroup-big of pod default/big (of this plan, Inqueue) can never fit "
            f"and reserves 3 of 20 {GPU}"
        )

    def test_many_holders_are_counted(self) -> None:
        cluster = [a_node(), a_queue(), *(inqueue(f"g{at}", 3) for at in range(6))]
        _, found = answered(cluster, member("small", "", 3))
        lines = list(holder_lines(found["small"].holders))
        assert len(lines) == 6
        assert lines[-1] == "and others that take less"

    def test_only_groups_of_the_same_queue_hold_it_at_the_queues_limit(self) -> None:
        queues = [a_queue(), a_queue("team", capability={GPU: "4"})]
        other = inqueue("other", 3)
        own = inqueue("own", 3)
        own["spec"]["queue"] = "team"
        _, found = answered(
            [a_node(), *queues, other, own],
            {
                **member("p", "", 2),
            },
        )
        assert found["p"].holders == ()
        pod = a_pod("p", 100, queue="team")
        pod["spec"]["containers"][0]["resources"]["limits"][GPU] = "2"
        pod["spec"]["containers"][0]["resources"]["requests"][GPU] = "2"
        _, found = answered([a_node(), *queues, other, own], pod)
        assert [each.name for each in found["p"].holders] == ["default/own"]

    def test_a_closed_queue_is_held_by_nobody(self) -> None:
        _, found = answered([a_node(), a_queue(), a_queue("team", "Closed")], a_pod(queue="team"))
        assert (found["p"].holders, found["p"].ways_out) == ((), ())


class TestWaysThrough:
    def test_a_capability_is_raised_by_what_is_missing(self) -> None:
        queues = [a_queue(), a_queue("team", capability={GPU: "1"})]
        _, found = answered([a_node(), *queues], a_pod("a", 100, queue="team"), a_pod("b", 100, queue="team"))
        assert ways(found["b"])[0] == f"fits with queue team capable of 2 instead of 1 {GPU} (on n1)"
        assert "fits without PodGroup default/podgroup-a, which runs (on n1)" in ways(found["b"])

    def test_a_guarantee_is_lowered(self) -> None:
        queues = [a_queue(), a_queue("idle", guarantee={"resource": {GPU: "19"}})]
        _, found = answered([a_node(), *queues], a_pod("a", 100), a_pod("b", 100))
        assert f"fits with queue idle guaranteed 18 instead of 19 {GPU} (on n1)" in ways(found["b"])
        lines = list(holder_lines(found["b"].holders))
        assert f"queue idle is guaranteed 19 {GPU}, which other queues cannot use" in lines

    def test_several_go_together_where_one_is_not_enough(self) -> None:
        stuck = [inqueue("x", 10), member("x-0", "x", 3), inqueue("y", 10), member("y-0", "y", 3)]
        job = a_job("j", 100, {"replicas": 15})
        _, found = answered([a_node(), a_queue(), *stuck], job)
        (way,) = ways(found["j-default0-0"])
        assert way.startswith("fits without PodGroup default/x, which can never fit and without PodGroup default/y")

    def test_what_does_not_help_is_not_offered(self) -> None:
        stuck = [inqueue("x", 19), member("x-0", "x", 3)]
        _, found = answered([a_node(), a_queue(), *stuck], member("small", "", 2, memory=20000))
        assert found["small"].holders != ()
        assert ways(found["small"]) == []

    def test_a_waiting_pod_of_the_cluster_is_told_the_same(self) -> None:
        cluster = [*STUCK, a_group("s", 1, minResources={GPU: "2"}), member("small", "s", 2)]
        found = explain(snapshot_of(cluster, REGISTRY), "small", Planner(REGISTRY))
        words = [line.words for line in explanations.lines(found, REGISTRY)]
        assert words[0] == "default/small: pending, waits"
        assert any("PodGroup default/x (Inqueue for 3 h) can never fit" in each for each in words)
        assert any("-> fits without PodGroup default/x, which can never fit" in each for each in words)

    def test_at_most_so_many_are_offered_and_none_twice(self) -> None:
        answers, found = answered([*STUCK], member("small", "", 2))
        keeper = EnqueueSuggestions(answers.plan, Planner(REGISTRY))
        plan = found["small"].plan
        assert len(keeper.freed(plan, limit=1)) == 1
        assert keeper.freed(replace(plan, hold=None)) == ()
        for _ in range(MOST_PROOFS):
            keeper.freed(plan)
        assert keeper.freed(plan) == ()  # a plan of many pods does not try for ever


class TestWhereItIsShown:
    def test_in_tables_documents_and_the_page(self) -> None:
        answers, found = answered([*STUCK], member("small", "", 2))
        (refusal,) = answers.refusals()
        said = "PodGroup default/x (Inqueue for 3 h) can never fit"
        assert any(said in line.words for line in tables.refusal(refusal))
        assert said in refusals_of(answers)[0].holders[0]
        ADAPTER.validate_python(documents.plan(answers.plan, answers), strict=True)
        gate = documents.pod(found["small"])["gate"]
        assert gate is not None
        (shortage,) = gate["lacks"]
        assert (shortage["asked"], shortage["allocated"], shortage["inqueue"], shortage["limit"]) == (
            "2",
            "0",
            "19",
            "20",
        )
        (holder,) = gate["heldBy"]
        assert (holder["name"], holder["prospect"], holder["ageSeconds"]) == ("default/x", "never", 10800)

    def test_a_pod_that_nothing_holds_has_no_gate(self) -> None:
        _, found = answered([a_node()], a_pod())
        assert documents.pod(found["p"])["gate"] is None


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3600, "1 h"), (7199, "1 h"), (90_000, "1 d")]
)
def test_ages_are_short(seconds: int, words: str) -> None:
    assert age_words(seconds) == words


def test_the_page_says_who_holds_a_pod() -> None:
    answers, _ = answered([*STUCK], member("small", "", 2))
    text = page.answered(answers, page.Heading(title="t"))
    assert "<h4>Who holds it</h4>" in text
    assert "PodGroup default/x (Inqueue for 3 h) can never fit" in text
    quiet, _ = answered([a_node()], a_pod(memory=20000))
    assert "Who holds it" not in page.answered(quiet, page.Heading(title="t"))
