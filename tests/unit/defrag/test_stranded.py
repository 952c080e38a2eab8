"""Which moves make stranded memory usable: one claim each, on cards with few slots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.defrag import stranded
from hami_plugins.defrag.values import DefragPlan, NoMoves
from hami_plugins.engine.inventory import with_pods
from hami_plugins.model.pods import NodeConstraints, PodRecord
from tests.builders import a_device, a_node
from tests.unit.defrag.clusters import CARD, a_cluster, a_defragmenter, planned, refused, told, waiting


def for_waiting(cluster: Any, memory: int, **options: Any) -> DefragPlan | NoMoves:
    """The plan where pods of one size wait."""
    return a_defragmenter(cluster, **options).for_stranded([waiting(memory)])


def moves_for(cluster: Any, memory: int, **options: Any) -> list[str]:
    found = for_waiting(cluster, memory, **options)
    assert isinstance(found, DefragPlan), found
    return told(found.moves)


def test_a_card_whose_slots_are_all_taken_gives_one_pod_away() -> None:
    found = planned(a_cluster(a=[{"one": 1000, "two": 1000}], b=[{"x": 9000}], slots=2))
    assert len(found.moves) == 1
    assert found.moves[0].source == "a"
    assert found.stranded == (CARD - 2000, CARD - 10_000)


def test_where_nothing_is_stranded_nothing_moves() -> None:
    assert refused(a_cluster(a=[{"one": 1000}], b=[{"x": 9000}])).why == "no memory is stranded"


def test_memory_that_no_move_frees_is_told() -> None:
    cluster = a_cluster(a=[{"fixed-1": 1000, "fixed-2": 1000}], b=[{"x": 9000}], slots=2)
    assert refused(cluster).why == "no move makes any of 14,384 MiB of stranded memory usable"


def test_what_waiting_pods_ask_for_says_what_is_stranded() -> None:
    cluster = a_cluster(a=[{"a1": 10_000}], b=[{"b1": 6_000, "fixed": 6_000}])
    assert refused(cluster).why == "no memory is stranded"
    assert moves_for(cluster, 10_000) == ["b1: b/card-0 -> a/card-0"]


def test_the_card_that_is_freed_is_not_filled_again_by_the_same_move() -> None:
    cluster = a_cluster(a=[{"a1": 10_000}], b=[{"b1": 6_000, "fixed": 6_000}])
    found = for_waiting(cluster, 10_000)
    assert isinstance(found, DefragPlan)
    assert found.stranded == (6_384 + 4_384, 384)


def test_several_pods_of_a_card_move_together_where_one_is_not_enough() -> None:
    cluster = a_cluster(
        a=[{"fixed-a": 2_000, "one": 4_000, "two": 4_000}], b=[{"fixed-b": 8_000}], c=[{"fixed-c": CARD}]
    )
    assert sorted(moves_for(cluster, 14_000)) == ["one: a/card-0 -> b/card-0", "two: a/card-0 -> b/card-0"]


def test_no_more_pods_move_than_allowed() -> None:
    cluster = a_cluster(a=[{"fixed-a": 2_000, "one": 4_000, "two": 4_000}], b=[{"fixed-b": 8_000}])
    assert isinstance(for_waiting(cluster, 14_000, most=1), DefragPlan | NoMoves)
    found = for_waiting(cluster, 14_000, most=1)
    assert isinstance(found, NoMoves) or len(found.moves) == 1


def test_moves_go_on_until_none_gains_anything() -> None:
    full = {"one": 1000, "two": 1000}
    cluster = a_cluster(a=[full], b=[{"three": 1000, "four": 1000}], c=[{}, {}], slots=2)
    assert len(planned(cluster).moves) == 2
    assert len(planned(cluster, most=1).moves) == 1


def test_a_pod_of_another_card_fills_a_stranded_part() -> None:
    cluster = a_cluster(a=[{"fixed": 10_000}], b=[{"b1": 6_000}, {}])
    assert moves_for(cluster, 8_000) == ["b1: b/card-0 -> a/card-0"]


def test_a_part_is_filled_although_the_pod_would_choose_another_card() -> None:
    spread = {"b1": {"annotations": {"hami.io/node-scheduler-policy": "spread"}}}
    cluster = a_cluster(a=[{"fixed": 10_000}], b=[{"b1": 6_000}, {}], pods=spread)
    found = for_waiting(cluster, 8_000)
    assert isinstance(found, DefragPlan)
    assert told(found.moves) == ["b1: b/card-0 -> a/card-0"]
    assert [move.sure for move in found.moves] == [False]


def test_only_sure_moves_count_where_they_are_asked_for() -> None:
    spread = {"b1": {"annotations": {"hami.io/node-scheduler-policy": "spread"}}}
    cluster = a_cluster(a=[{"fixed": 10_000}], b=[{"b1": 6_000}, {}], pods=spread)
    assert isinstance(for_waiting(cluster, 8_000, sure=True), NoMoves)


def test_a_stranded_part_that_is_too_small_for_the_pod_is_not_filled() -> None:
    cluster = a_cluster(a=[{"fixed": 12_000}], b=[{"b1": 6_000}, {}])
    assert isinstance(for_waiting(cluster, 8_000), NoMoves)


def test_pods_that_have_no_other_place_stay() -> None:
    here = {name: {"constraints": NodeConstraints(selector=(("name", "a"),))} for name in ("one", "two")}
    cluster = a_cluster(a=[{"one": 1000, "two": 1000}], b=[{"x": 9000}], slots=2, pods=here)
    assert refused(cluster).movable == 3


def test_a_pod_that_has_moved_does_not_move_again() -> None:
    cluster = a_cluster(a=[{"one": 1000, "two": 1000}], b=[{"x": 9000}], slots=2)
    names = [move.pod.name for move in planned(cluster).moves]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("state", [{"unschedulable": True}, {"ready": False}])
def test_what_is_free_on_a_node_that_takes_no_pods_is_not_stranded(state: dict[str, Any]) -> None:
    cluster = a_cluster(a=[{"one": 1000, "two": 1000}], b=[{"x": 9000}], slots=2)
    first, second = cluster.snapshot.nodes
    closed = replace(first, facts=replace(first.facts, **state))
    shut = cluster._replace(snapshot=replace(cluster.snapshot, nodes=(closed, second)))
    assert refused(shut).why == "no memory is stranded"


@pytest.mark.parametrize("fault", [{"healthy": False}, {"cordoned": True}])
def test_what_is_free_on_a_card_that_takes_no_pods_is_not_stranded(fault: dict[str, Any]) -> None:
    cluster = a_cluster(a=[{"one": 1000, "two": 1000}], b=[{"x": 9000}], slots=2)
    first, second = cluster.snapshot.nodes
    broken = with_pods(a_node("a", a_device(slots=2, **fault), facts=first.facts), first.pods)
    shut = cluster._replace(snapshot=replace(cluster.snapshot, nodes=(broken, second)))
    assert refused(shut).why == "no memory is stranded"


def test_a_search_that_has_tried_enough_takes_the_best_known_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stranded, "MOST_TRIES", 1)
    full = {"one": 1000, "two": 1000}
    cluster = a_cluster(a=[full], b=[{"three": 1000, "four": 1000}], c=[{}, {}], slots=2)
    assert len(planned(cluster).moves) == 1


def test_cheap_pods_move_where_they_gain_as_much() -> None:
    def ranked(record: PodRecord) -> PodRecord:
        return replace(record, priority=9 if record.name == "one" else 0)

    cluster = a_cluster(ranked, a=[{"one": 1000, "two": 1000}], b=[{"fixed": 9000}], slots=2)
    assert [move.pod.name for move in planned(cluster).moves] == ["two"]


def test_pods_that_have_to_leave_together_stay_where_not_all_of_them_may_move() -> None:
    cluster = a_cluster(
        a=[{"fixed-a": 2_000, "one": 4_000, "two": 4_000}],
        b=[{"fixed-b": 4_000}],
        c=[{"fixed-c": 8_000}],
        d=[{"fixed-d": 2_000, "x": 9_000}],
    )
    found = for_waiting(cluster, 14_000, most=2)
    assert isinstance(found, DefragPlan)
    assert found.moves[0].pod.name == "x"
    assert len(found.moves) <= 2
    more = for_waiting(cluster, 14_000, most=3)
    assert isinstance(more, DefragPlan)
    assert sorted(move.pod.name for move in more.moves) == ["one", "two", "x"]
