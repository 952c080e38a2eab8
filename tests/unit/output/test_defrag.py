"""Moves as a table, as lines, as a document and as a page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hami_plugins.defrag.values import DefragPlan, NoMoves, RunningCluster
from hami_plugins.model.cluster import Listing
from hami_plugins.output import defrag
from hami_plugins.output.page import Heading, moves_page
from hami_plugins.output.page import defrag as page_module
from hami_plugins.plan.completeness import Gap
from tests.schema import ADAPTER
from tests.unit.defrag.clusters import REGISTRY, a_cluster, planned, refused, waiting

SPREAD = {"other": {"annotations": {"hami.io/node-scheduler-policy": "spread"}}}


def a_moving_cluster(**about: Any) -> RunningCluster:
    return a_cluster(a=[{"fixed": 8192}], b=[{"other": 6000}], **about)


def a_plan(**about: Any) -> DefragPlan:
    return planned(a_moving_cluster(**about), waiting(12_000))


def no_moves() -> NoMoves:
    return refused(a_cluster(a=[{"fixed": 8192}]), waiting(12_000))


def words(found: DefragPlan | NoMoves) -> list[str]:
    return [line.words for line in defrag.lines(found)]


def page(found: DefragPlan | NoMoves, *gaps: Gap) -> str:
    before = found.before if isinstance(found, DefragPlan) else a_cluster(a=[{"fixed": 8192}]).snapshot
    return moves_page(found, before, REGISTRY, Heading(title="Defragmentation"), gaps)


def test_a_row_says_from_where_to_where_and_whether_the_pod_goes_there_by_itself() -> None:
    (row,) = defrag.table(a_plan()).rows
    assert row.cells == ("1", "default/other", "b", "Acme #0", "a", "Acme #0", "6000 MiB", "by itself")
    (unsure,) = defrag.table(a_plan(pods=SPREAD)).rows
    assert (unsure.cells[-1], unsure.tone) == ("if room is held", "warn")


def test_the_lines_say_what_the_moves_are_good_for_and_what_stays() -> None:
    assert words(a_plan()) == [
        "after 1 move default/waiting fits on b (Acme #0)",
        "1 pod with devices may move",
        "  1 pod must stay (node-bound), such as default/fixed: its DaemonSet creates it again on the same node",
    ]


def test_moves_that_need_held_room_are_told() -> None:
    told = "1 pod would land elsewhere unless the room is held; --sure looks for other moves"
    assert told in words(a_plan(pods=SPREAD))


def test_a_pod_that_fits_needs_no_move() -> None:
    fits = planned(a_cluster(a=[{}]), waiting(1000))
    assert words(fits) == ["without any move default/waiting fits on a (Acme #0)"]


def test_stranded_memory_is_told_before_and_after() -> None:
    found = planned(a_cluster(a=[{"one": 1000, "two": 1000}], b=[{"x": 9000}], slots=2))
    assert words(found)[0] == "after 1 move 6.2 GiB are stranded, 14.0 GiB before"


def test_why_there_are_no_moves_comes_first() -> None:
    assert words(no_moves())[0] == "at most 10 moves: no room is found for default/waiting"


def test_where_no_pod_runs_nothing_is_said_of_them() -> None:
    assert words(NoMoves(why="no")) == ["no"]


def test_the_document_is_the_one_of_the_schema() -> None:
    for found in (a_plan(), no_moves(), a_plan(pods=SPREAD)):
        ADAPTER.validate_python(defrag.document(found, [Gap("Pod", "no pods")]), strict=True)
    made = defrag.document(a_plan(), ())
    assert [(each["pod"], each["target"]["node"], each["sure"]) for each in made["moves"]] == [("other", "a", True)]
    assert [each["target"]["slices"][0]["memoryMiB"] for each in made["room"]] == [12_000]
    assert (made["movable"], made["found"], made["why"]) == (1, True, "")
    none = defrag.document(no_moves(), ())
    assert (none["found"], none["moves"]) == (False, [])
    assert [(each["rule"], each["pods"]) for each in none["staying"]] == [("node-bound", 1)]


def test_a_listing_without_budgets_has_a_gap() -> None:
    snapshot = a_moving_cluster().snapshot
    assert defrag.gaps_of(snapshot, ()) == ()
    listed = replace(snapshot, listing=Listing(kinds={"Pod": 2}))
    assert [gap.kind for gap in defrag.gaps_of(listed, ())] == ["PodDisruptionBudget"]
    complete = replace(snapshot, listing=Listing(kinds={"Pod": 2, "PodDisruptionBudget": 1}))
    assert defrag.gaps_of(complete, ()) == ()


def test_the_page_shows_each_node_that_changes_before_and_after() -> None:
    text = page(a_plan())
    assert [f"<h4>{name}</h4>" in text for name in ("a: before", "a: after", "b: before", "b: after")] == [True] * 4
    assert "Moves, one after another" in text
    assert "waiting pod fits afterwards" in text
    assert 'id="n0"' in text
    assert 'id="n3"' in text


def test_the_page_warns_of_moves_that_need_held_room_and_of_gaps() -> None:
    text = page(a_plan(pods=SPREAD), Gap("Pod", "no pods"))
    assert "some pods land as planned only if the room of the waiting pods is held" in text
    assert "no pods; list the whole cluster" in text


def test_the_page_of_several_pods_and_of_stranded_memory() -> None:
    several = planned(a_cluster(a=[{}, {}]), waiting(1000, name="w1"), waiting(1000, name="w2"))
    assert "waiting pods fit afterwards" in page(several)
    found = planned(a_cluster(a=[{"one": 1000, "two": 1000}], b=[{"x": 9000}], slots=2))
    assert "stranded memory of use again" in page(found)


def test_the_page_says_why_there_are_no_moves() -> None:
    text = page(no_moves())
    assert "at most 10 moves: no room is found for default/waiting" in text
    assert "1 pod must stay (node-bound), such as default/fixed" in text


def test_the_page_counts_the_nodes_that_it_does_not_draw(monkeypatch: Any) -> None:
    monkeypatch.setattr(page_module, "MOST_NODES", 1)
    text = page(a_plan())
    assert "and 1 more node that change" in text
    assert "<h4>b: after</h4>" not in text
