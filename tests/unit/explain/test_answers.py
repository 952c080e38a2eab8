"""Why here, why not, and what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.engine.intake import Rules
from hami_plugins.explain import answers
from hami_plugins.explain.answers import Answers, briefly
from hami_plugins.model.units import NodeName
from hami_plugins.plan import Planner, PlanUnit, Stage
from hami_plugins.plan.what_if import with_policy
from tests.builders import MEMORY, a_device, a_node, a_snapshot
from tests.unit.plan.plans import REGISTRY, a_plan, answers_of, asking


def test_a_placed_pod_says_why_here() -> None:
    (answer,) = answers_of(a_plan(asking(), on=[a_node("a"), a_node("b")])).all
    assert answer.why.startswith("the fullest of 2 that fit, of 2 nodes (binpack)")
    assert answer.causes == ()
    assert answer.ways_out == ()


@pytest.mark.parametrize(
    ("nodes", "policy", "words"),
    [(1, "", ""), (3, "", "fullest of 3"), (3, "node=spread", "emptiest of 3")],
)
def test_why_here_in_a_few_words(nodes: int, policy: str, words: str) -> None:
    planner = Planner(REGISTRY, with_policy(Rules(), policy))
    snapshot = a_snapshot(*(a_node(f"n{at}") for at in range(nodes)))
    plan = planner.plan(snapshot, [PlanUnit(name="pod/p", pods=(asking(),))])
    assert briefly(plan.pods[0]) == words


def test_a_refused_pod_says_why_not_and_what_would_help() -> None:
    (answer,) = answers_of(a_plan(asking(20_000))).all
    (cause,) = answer.causes
    assert (cause.nodes, cause.tally, cause.examples) == (1, "1 of 1 node", ("node-0",))
    assert "asked 20,000 MiB on 1 card; largest free 16,384 MiB (node-0)" in cause.words
    assert cause.words in answer.why
    assert answer.ways_out[0].changes == (f"with {MEMORY}: 16384 instead of 20000",)
    assert answer.ways_out[0].sentence.endswith("(on node-0)")
    assert not briefly(answer.plan)


def test_a_pod_that_is_not_admitted_says_what_the_webhook_says() -> None:
    (answer,) = answers_of(a_plan(asking(-5))).all
    assert answer.plan.stage in {Stage.ADMISSION, Stage.REQUEST}
    assert MEMORY in answer.why
    assert answer.ways_out == ()


def test_the_node_that_a_controller_names_is_not_to_be_given_up() -> None:
    pod = asking()
    pod = replace(pod, constraints=replace(pod.constraints, node=NodeName("b")))
    snapshot = a_snapshot(a_node("a"), a_node("b", a_device(healthy=False)))
    planner = Planner(REGISTRY)
    for unit, advised in [("pod/default/p", True), ("daemonset/default/p", False)]:
        (answer,) = Answers(planner.plan(snapshot, [PlanUnit(name=unit, pods=(pod,))]), planner).all
        assert any("spec.nodeName" in way.sentence for way in answer.ways_out) is advised


def test_pods_of_one_workload_with_one_reason_are_told_of_together() -> None:
    pods = tuple(asking(20_000, name=f"big-{at}") for at in range(3))
    planner = Planner(REGISTRY)
    units = [
        PlanUnit(name="deployment/default/big", pods=pods),
        PlanUnit(name="pod/other", pods=(asking(30_000, name="o"),)),
    ]
    found = Answers(planner.plan(a_snapshot(), units), planner).refusals()
    assert [refusal.title for refusal in found] == ["default/big-[0-2]", "default/o"]
    assert [pod.pod.name for pod in found[0].pods] == ["big-0", "big-1", "big-2"]


def test_ways_out_are_looked_for_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_ADVISED", 2)
    plan = a_plan(*(asking(20_000 + at, name=f"p{at}") for at in range(4)))
    assert [bool(answer.ways_out) for answer in answers_of(plan).all] == [True, True, False, False]


def test_choices_are_told_briefly_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_LOOKS", 0)
    (answer,) = answers_of(a_plan(asking(), on=[a_node("a"), a_node("b")])).all
    assert answer.why == "fullest of 2"


def test_a_title_counts_the_pods_that_its_first_name_does_not_have() -> None:
    pods = tuple(asking(20_000, name=name) for name in ("master-0", "worker-0", "worker-1", "worker-2"))
    planner = Planner(REGISTRY)
    (refusal,) = Answers(planner.plan(a_snapshot(), [PlanUnit(name="job/default/j", pods=pods)]), planner).refusals()
    assert refusal.title == "default/master-0 and 3 more pods"
