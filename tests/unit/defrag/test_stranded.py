"""Which moves make stranded memory usable: one claim each, on cards with few slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.defrag import stranded
from hami_plugins.defrag.values import DefragPlan, NoMoves
from hami_plugins.engine.inventory import with_pods
from hami_plugins.model.pods import NodeConstraints, PodRecord, Requirement
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


def test_at_most_three_pods_of_a_card_move_together() -> None:
    for size, moves in ((4_000, 3), (3_000, 0)):
        count = 12_000 // size
        cluster = a_cluster(
            a=[{"fixed-a": 4_384, **{f"p{at}": size for at in range(count)}}],
            b=[{f"fixed-{at}": CARD - size} for at in range(4)],
            slots=count + 1,
        )
        found = for_waiting(cluster, 12_000)
        assert (len(found.moves) if isinstance(found, DefragPlan) else 0) == moves


def spread_on(*nodes: str) -> dict[str, Any]:
    """A pod that chooses the emptiest node, among these."""
    allowed = NodeConstraints(affinity=((Requirement("name", "In", nodes),),))
    return {"annotations": {"hami.io/node-scheduler-policy": "spread"}, "constraints": allowed}


@pytest.mark.parametrize(("node", "moves"), [("c", ["p: z/card-0 -> c/card-0"]), ("d", [])])
def test_of_the_stranded_parts_those_are_tried_of_which_the_pod_leaves_least(node: str, moves: list[str]) -> None:
    """Three of them, besides the card with most room; its own, and those that are too small, do not count."""
    tight: dict[str, Any] = {name: [{f"fixed-{name}": CARD - 6_400 - more}] for more, name in enumerate("abcd")}
    small: dict[str, Any] = {f"s{at}": [{f"fixed-s{at}": CARD - 5_999}] for at in range(3)}
    cluster = a_cluster(**tight, **small, z=[{"p": 6_000, "fixed-z": 4_000}, {}], pods={"p": spread_on(node, "z")})
    found = for_waiting(cluster, 12_000)
    assert (told(found.moves) if isinstance(found, DefragPlan) else []) == moves


def test_a_part_that_the_pod_fills_to_the_last_mebibyte_is_filled_beside_one_that_is_too_small() -> None:
    cluster = a_cluster(
        a=[{"fixed-0": CARD - 5_999}, {"fixed-1": CARD - 6_000}],
        b=[{"b1": 6_000}, {}],
        pods={"b1": spread_on("a", "b")},
    )
    assert moves_for(cluster, 8_000) == ["b1: b/card-0 -> a/card-1"]


def test_what_gains_most_a_move_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stranded, "MOST_TRIES", 1)
    cluster = a_cluster(
        a=[{"fixed-a": 2_000, "one": 4_000, "two": 4_000}],
        b=[{"fixed-b": 8_000}],
        c=[{"fixed-c": 2_000, "x": 9_000}],
        d=[{"fixed-d": CARD - 9_000}],
    )
    assert moves_for(cluster, 14_000) == ["x: c/card-0 -> d/card-0"]


def dear(*names: str) -> Callable[[PodRecord], PodRecord]:
    """These pods have a higher priority than the others, so others move rather than they."""
    return lambda record: replace(record, priority=9 if record.name in names else 0)


GOES_BACK = {"annotations": {"hami.io/node-scheduler-policy": "spread"}}
"""A pod that chooses the emptiest node, which is the one that it has just left."""


def test_of_moves_that_gain_as_much_the_sure_ones_are_taken() -> None:
    cluster = a_cluster(
        dear("two"),
        a=[{"fixed-a": 3_000, "one": 4_500, "two": 4_500}],
        b=[{"fixed-b": 10_000}],
        pods={"one": GOES_BACK},
    )
    found = for_waiting(cluster, 8_000)
    assert isinstance(found, DefragPlan)
    assert [(move.pod.name, move.sure) for move in found.moves] == [("two", True)]


def test_moves_that_belong_together_are_sure_where_all_of_them_are() -> None:
    cluster = a_cluster(
        dear("three", "four"),
        a=[{"fixed-a": 3_000, "one": 4_500, "two": 4_500}],
        b=[{"fixed-0": 10_000}, {"fixed-1": 10_000}],
        c=[{"fixed-c": 3_000, "three": 4_500, "four": 4_500}],
        pods={"one": GOES_BACK},
    )
    found = for_waiting(cluster, 12_000, most=2)
    assert isinstance(found, DefragPlan)
    assert {move.pod.name: move.sure for move in found.moves} == {"three": True, "four": True}


def test_what_gains_most_a_move_is_done_first() -> None:
    """The pair of the first node gains more, and less a move."""
    cluster = a_cluster(
        a=[{"fixed-a": 3_000, "one": 4_500, "two": 4_500}],
        b=[{"fixed-0": 10_000}, {"fixed-1": 10_000}],
        c=[{"fixed-c": 3_000, "three": 6_000}],
    )
    assert moves_for(cluster, 12_000, most=2)[0].startswith("three: c/card-0 -> b/")


def test_a_gain_of_one_mebibyte_is_one() -> None:
    assert moves_for(a_cluster(a=[{"fixed": 10_000}], b=[{"b1": 1}, {}]), 8_000) == ["b1: b/card-0 -> a/card-0"]


def test_a_card_that_has_lost_a_pod_is_looked_at_again() -> None:
    cluster = a_cluster(
        a=[{"p0": 9004}, {"p1": 3512, "p2": 8585}],
        b=[{"p3": 8496, "p4": 3525}, {"p5": 4485, "p6": 2993}],
        c=[{"p7": 9293, "p8": 2556}],
    )
    assert moves_for(cluster, 12_490) == ["p5: b/card-1 -> c/card-0", "p6: b/card-1 -> a/card-0"]
