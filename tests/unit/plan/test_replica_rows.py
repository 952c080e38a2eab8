"""Equal replicas stand in one row, under one name that has all their numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.model.decisions import Refused
from hami_plugins.output import page, tables
from hami_plugins.plan import replica_rows
from tests.builders import a_device, a_node
from tests.unit.output.test_page import read
from tests.unit.plan.plans import REGISTRY, a_plan, answers_of, asking


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], []),
        (["team/a"], ["team/a"]),
        (["team/a-0"], ["team/a-0"]),
        (["team/a-0", "team/a-1"], ["team/a-[0-1]"]),
        (["team/a-0", "team/a-1", "team/a-7"], ["team/a-[0-1,7]"]),
        (["team/a-0", "team/b-0", "team/a-1"], ["team/a-[0-1]", "team/b-0"]),
        (["team/a-0", "other/a-1"], ["team/a-0", "other/a-1"]),
        (["team/a-00", "team/a-01"], ["team/a-00", "team/a-01"]),
        ([f"team/a-{at * 2}" for at in range(10)], ["team/a-[0,2,4,6,8,10,12,14,...]"]),
    ],
)
def test_names_that_differ_in_their_last_number_are_written_as_one(names: list[str], shown: list[str]) -> None:
    assert list(replica_rows.ranged(names)) == shown


def rows(plan: object) -> list[tuple[str, ...]]:
    return [row.cells for row in tables.plan(plan, REGISTRY).rows]  # type: ignore[arg-type]


def a_workload(*memory: int, nodes: int = 1) -> object:
    plan = a_plan(
        *(asking(each, name=f"w-{at}") for at, each in enumerate(memory)),
        on=[a_node(f"node-{at}", a_device(slots=4)) for at in range(nodes)],
    )
    return replace(plan, pods=tuple(replace(each, unit="deployment/default/w") for each in plan.pods))


def test_pods_that_follow_each_other_with_the_same_answer_are_one_row() -> None:
    found = rows(a_workload(1000, 1000, 20_000, 20_000, 20_000, 1000))
    assert [(row[0], row[1]) for row in found] == [
        ("default/w-[0-1]", "fits"),
        ("default/w-[2-4]", "does not fit"),
        ("default/w-5", "fits"),
    ]


def test_replicas_on_different_cards_of_a_node_are_one_row_with_all_cards() -> None:
    plan = a_plan(*(asking(10_000, name=f"w-{at}") for at in range(3)), on=[a_node("n", a_device(), a_device(index=1))])
    plan = replace(plan, pods=tuple(replace(each, unit="u") for each in plan.pods))
    assert [row[0:5] for row in rows(plan)] == [
        ("default/w-[0-1]", "fits", "n", "Acme #0-1", "10000 MiB each"),
        ("default/w-2", "does not fit", "-", "-", "-"),
    ]


def test_roles_of_one_workload_are_rows_of_their_own() -> None:
    plan = a_plan(*(asking(20_000, name=name) for name in ("master-0", "worker-0", "worker-1")))
    plan = replace(plan, pods=tuple(replace(each, unit="u") for each in plan.pods))
    assert [row[0] for row in rows(plan)] == ["default/master-0", "default/worker-[0-1]"]


def test_pods_of_two_workloads_are_two_rows() -> None:
    plan = a_plan(asking(20_000, name="w-0"), asking(20_000, name="w-1"))
    assert [row[0] for row in rows(plan)] == ["default/w-0", "default/w-1"]


def test_a_cluster_of_one_node_has_no_reasons_for_a_choice() -> None:
    assert tables.plan(a_workload(1000), REGISTRY).columns == ("POD", "STATUS", "NODE", "CARDS", "SLICE")  # type: ignore[arg-type]
    two = tables.plan(a_workload(1000, nodes=2), REGISTRY)  # type: ignore[arg-type]
    assert (two.columns[-1], two.rows[0].cells[-1]) == ("WHY HERE", "fullest of 2")


def test_the_only_node_of_several_that_fits_is_a_reason() -> None:
    plan = a_plan(asking(10_000), on=[a_node("small", a_device(memory=1000)), a_node("large")])
    assert rows(plan)[0][-1] == "the only one that fits"


def test_a_refusal_names_all_its_pods_and_what_the_scheduler_writes_in_its_event() -> None:
    found = answers_of(a_workload(20_000, 20_000))  # type: ignore[arg-type]
    (refusal,) = found.refusals()
    lines = [line.words for line in tables.refusal(refusal)]
    assert lines[0] == "default/w-[0-1]: does not fit"
    decision = refusal.answer.plan.decision
    assert isinstance(decision, Refused)
    assert f"  scheduler event: {refusal.answer.plan.words}" in lines
    assert "CardInsufficientMemory" in refusal.answer.plan.words


def test_an_event_that_says_the_same_is_not_repeated() -> None:
    found = answers_of(a_workload(20_000))  # type: ignore[arg-type]
    (refusal,) = found.refusals()
    bare = replace(refusal.answer, causes=(), why=refusal.answer.plan.words)
    lines = [line.words for line in tables.refusal(replace(refusal, answer=bare))]
    assert not any("event" in line for line in lines)


def test_the_page_has_one_row_for_equal_replicas() -> None:
    found = page.answered(answers_of(a_workload(1000, 1000, 1000)), page.Heading())  # type: ignore[arg-type]
    texts = read(found).texts
    assert "default/w-[0-2]" in texts
    assert "Score" not in texts
