"""Which pods move so that a waiting pod fits: as few as possible, and only where there is room in their turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.defrag import room
from hami_plugins.defrag.movable import MoveRules
from hami_plugins.defrag.new_places import MoveState, NewPlaces, blocker
from hami_plugins.defrag.room import RoomSearch
from hami_plugins.defrag.values import DefragPlan, RunningCluster, Staying
from hami_plugins.engine.apply import with_pod
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.model.cluster import NamespaceQuota
from hami_plugins.model.pods import Neighbours, NodeConstraints, PodRecord, PodTerm, Requirement
from hami_plugins.model.quantity import NANO
from hami_plugins.preemption.costs import CostScale
from tests.builders import CORES, COUNT, MEMORY, a_container, a_device, a_node, a_share, allocated
from tests.unit.defrag.clusters import CARD, REGISTRY, a_cluster, a_defragmenter, planned, refused, told, waiting

HALF = CARD // 2
SPREAD = {"annotations": {"hami.io/node-scheduler-policy": "spread"}}
"""A pod that chooses the emptiest node, which is the one that it has just left."""


def test_a_pod_that_fits_needs_no_move() -> None:
    found = planned(a_cluster(a=[{"small": 1000}]), waiting(HALF))
    assert found.moves == ()
    assert [(pod.name, placed.node) for pod, placed in found.places] == [("waiting", "a")]


def test_one_pod_moves_to_the_other_node_and_the_waiting_pod_fits_where_it_was() -> None:
    found = planned(a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}]), waiting(12_000))
    assert told(found.moves) == ["other: b/card-0 -> a/card-0"]
    assert [placed.node for _, placed in found.places] == ["b"]


def test_a_pod_may_move_to_another_card_of_its_node() -> None:
    found = planned(a_cluster(a=[{"one": HALF}, {"two": HALF}]), waiting(CARD))
    assert len(found.moves) == 1
    assert found.moves[0].placed.node == "a"


def test_two_pods_never_swap_places_without_room() -> None:
    cluster = a_cluster(
        a=[{"one": 9_000, "rest": 7_384}],
        b=[{"two": 7_000, "rest2": 9_384}],
        controllers={"rest": "DaemonSet", "rest2": "DaemonSet"},
    )
    assert refused(cluster, waiting(9_000)).why == "at most 10 moves: no room is found for default/waiting"


def test_the_cluster_afterwards_has_the_moved_pods_and_not_the_waiting_one() -> None:
    found = planned(a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}]), waiting(12_000))
    assert {entry.name: [each.name for each in entry.pods] for entry in found.after.nodes} == {
        "a": ["fixed", "other"],
        "b": [],
    }
    assert found.after.nodes[0].state.usage[0].memory == HALF + 6000


def test_the_fewest_pods_move() -> None:
    cluster = a_cluster(a=[{"a1": 2000, "a2": 2000}], b=[{"b1": 5000}], c=[{"fixed": 10_000}])
    assert told(planned(cluster, waiting(CARD)).moves) == ["b1: b/card-0 -> c/card-0"]


def test_of_equally_many_pods_those_of_lower_priority_move() -> None:
    def ranked(record: PodRecord) -> PodRecord:
        return replace(record, priority=9 if record.name == "dear" else 0)

    cluster = a_cluster(ranked, a=[{"dear": 6000}], b=[{"cheap": 6000}], c=[{"full": 10_000}])
    assert [move.pod.name for move in planned(cluster, waiting(CARD)).moves] == ["cheap"]


def test_of_equally_many_pods_of_one_priority_the_youngest_moves() -> None:
    def aged(record: PodRecord) -> PodRecord:
        return replace(record, made_at=900 if record.name == "young" else 100)

    cluster = a_cluster(aged, a=[{"old": 6000}], b=[{"young": 6000}], c=[{"full": 10_000}])
    assert [move.pod.name for move in planned(cluster, waiting(CARD)).moves] == ["young"]


def test_a_moved_pod_goes_where_another_one_makes_room_first() -> None:
    cluster = a_cluster(
        a=[{"big": 12_000}],
        b=[{"small": 5_000}],
        c=[{"full": 11_000}],
        pods={
            "big": {"constraints": NodeConstraints(selector=(("name", "b"),))},
            "full": {"constraints": NodeConstraints(selector=(("name", "c"),))},
        },
    )
    only_a = waiting(CARD, constraints=NodeConstraints(selector=(("name", "a"),)))
    found = planned(cluster, only_a)
    assert told(found.moves) == ["small: b/card-0 -> c/card-0", "big: a/card-0 -> b/card-0"]


def test_a_chain_of_two_is_taken_where_three_pods_would_have_to_leave_directly() -> None:
    here = {"constraints": NodeConstraints(selector=(("name", "b"),))}
    cluster = a_cluster(
        a=[{"p": 9_000}],
        b=[{"q": 9_000}],
        c=[{"r": 4_000, "s": 4_000, "t": 4_000}],
        d=[{"fixed": 7_000}],
        pods={"p": here},
    )
    assert told(planned(cluster, waiting(CARD, constraints=NodeConstraints(affinity=None))).moves) == [
        "q: b/card-0 -> d/card-0"
    ]
    at_a_or_c = replace(
        waiting(CARD).pod.constraints,
        affinity=((Requirement("name", "In", ("a", "c")),),),
    )
    found = planned(cluster, waiting(CARD, constraints=at_a_or_c))
    assert told(found.moves) == ["q: b/card-0 -> d/card-0", "p: a/card-0 -> b/card-0"]


def test_no_more_pods_move_than_allowed() -> None:
    cluster = a_cluster(a=[{"one": 5000, "two": 5000}], b=[{"x": 6000}], c=[{"y": 6000}])
    pinned = waiting(CARD, constraints=NodeConstraints(selector=(("name", "a"),)))
    assert len(planned(cluster, pinned, most=2).moves) == 2
    assert refused(cluster, pinned, most=1).why == "at most 1 move: no room is found for default/waiting"


def test_each_pod_of_a_gang_gets_room_of_its_own() -> None:
    cluster = a_cluster(a=[{"a1": 6000}], b=[{"b1": 6000}], c=[{"fixed": 4000}])
    found = planned(cluster, waiting(14_000, name="w1"), waiting(14_000, name="w2"))
    assert len(found.moves) == 2
    assert len({placed.node for _, placed in found.places}) == 2


def test_of_a_gang_that_does_not_fit_as_a_whole_it_is_told_how_many_would() -> None:
    cluster = a_cluster(a=[{"a1": 6000}], b=[{"b1": 6000}])
    found = refused(cluster, waiting(14_000, name="w1"), waiting(14_000, name="w2"), most=3)
    assert found.placed == 1
    assert found.why == "at most 3 moves: no room is found for default/w2"


def test_the_place_of_one_waiting_pod_is_not_given_to_a_pod_that_moves_for_another() -> None:
    cluster = a_cluster(a=[{"a1": 7_000}], b=[{"b1": 7_000}], c=[{}])
    found = planned(cluster, waiting(CARD, name="w1"), waiting(CARD, name="w2"))
    assert told(found.moves) in (["a1: a/card-0 -> b/card-0"], ["b1: b/card-0 -> a/card-0"])


def test_several_cards_of_a_node_are_freed_together() -> None:
    cluster = a_cluster(a=[{"a1": 3000}, {"a2": 3000}, {"a3": 15_000}], b=[{"b1": 9000}])
    found = planned(cluster, waiting(CARD, count=2))
    assert sorted(move.pod.name for move in found.moves) == ["a1", "a2"]
    ((_, placed),) = found.places
    assert sorted(share.device for share in placed.shares()) == ["card-0", "card-1"]


def test_a_pod_moves_for_cpu_as_well() -> None:
    cluster = a_cluster(a=[{"a1": 1000, "fixed-a": 1000}], b=[{"fixed-b": 12_000}], cpu=2)
    asks = NodeConstraints(requests=(("cpu", NANO),))
    assert told(planned(cluster, waiting(8000, constraints=asks)).moves) == ["a1: a/card-0 -> b/card-0"]
    assert planned(cluster, waiting(8000)).moves == ()


def test_a_node_whose_sums_no_moves_can_free_is_left() -> None:
    cluster = a_cluster(a=[{"fixed-a": 1000, "fixed-b": 1000}], b=[{"b1": 12_000}], cpu=2)
    asks = NodeConstraints(requests=(("cpu", 2 * NANO),))
    assert refused(cluster, waiting(8000, constraints=asks)).movable == 1


def test_a_pod_that_no_node_may_take_needs_more_than_moves() -> None:
    nowhere = waiting(1000, constraints=NodeConstraints(selector=(("name", "z"),)))
    assert refused(a_cluster(a=[{"small": 1}]), nowhere).placed == 0


def test_a_waiting_pod_that_is_refused_for_what_it_says_is_told() -> None:
    found = refused(a_cluster(a=[{}]), replace(waiting(1), refusal="memory 0"))
    assert found.why == "default/waiting gets no devices anywhere: memory 0"
    assert (found.placed, found.movable) == (0, 0)


def test_the_quota_of_a_moved_pod_has_room_for_it_once() -> None:
    quota = {"default": NamespaceQuota(namespace="default", hard={f"limits.{MEMORY}": 26_000 * NANO})}
    cluster = a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}], about={"quotas": quota})
    assert told(planned(cluster, waiting(11_000)).moves) == ["other: b/card-0 -> a/card-0"]
    assert refused(cluster, waiting(12_000)).placed == 0


def test_a_moved_pod_keeps_its_distance() -> None:
    term = PodTerm("name", (), frozenset({"default"}))
    apart = {"other": {"neighbours": Neighbours(apart=(term,))}}
    cluster = a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}], pods=apart)
    assert refused(cluster, waiting(12_000)).placed == 0


def test_pods_keep_a_moved_pod_at_a_distance() -> None:
    term = PodTerm("name", (), frozenset({"default"}))

    def alone(record: PodRecord) -> PodRecord:
        return replace(record, apart=(term,)) if record.name == "fixed" else record

    cluster = a_cluster(alone, a=[{"fixed": HALF}], b=[{"other": 6000}])
    assert refused(cluster, waiting(12_000)).placed == 0


def test_a_move_is_sure_where_the_pod_goes_there_by_itself() -> None:
    full = a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}])
    assert [move.sure for move in planned(full, waiting(12_000)).moves] == [True]


def test_a_pod_that_would_go_back_moves_only_while_its_old_place_is_held() -> None:
    cluster = a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}], pods={"other": SPREAD})
    found = planned(cluster, waiting(12_000))
    assert told(found.moves) == ["other: b/card-0 -> a/card-0"]
    assert [move.sure for move in found.moves] == [False]
    assert refused(cluster, waiting(12_000), sure=True).placed == 0


def test_a_pod_that_would_get_its_own_node_while_the_old_one_ends_does_not_move_for_sure() -> None:
    """A ReplicaSet creates the new pod as soon as the old one begins to end."""
    cluster = a_cluster(a=[{"fixed": 6000}], b=[{"other": 7000}])
    assert [move.sure for move in planned(cluster, waiting(12_000)).moves] == [False]
    assert refused(cluster, waiting(12_000), sure=True).placed == 0


def test_a_pod_moves_for_sure_where_its_node_has_no_room_for_it_twice() -> None:
    cluster = a_cluster(a=[{"fixed": 6000}], b=[{"other": 9000}])
    assert [move.sure for move in planned(cluster, waiting(10_500)).moves] == [True]


def test_a_pod_that_nothing_takes_while_the_old_one_ends_waits_and_then_moves_for_sure() -> None:
    quota = {"default": NamespaceQuota(namespace="default", hard={f"limits.{MEMORY}": 20_000 * NANO})}
    cluster = a_cluster(a=[{"fixed": 6000}], b=[{"other": 7500}], about={"quotas": quota})
    assert where(cluster, sure=True) == "other: b/card-0 -> a/card-0"


def test_of_equally_many_moves_sure_ones_are_taken() -> None:
    cluster = a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}], c=[{"third": 6000}], pods={"other": SPREAD})
    found = planned(cluster, waiting(12_000))
    assert [(move.pod.name, move.sure) for move in found.moves] == [("third", True)]


def test_a_search_for_sure_moves_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MORE_TRIES", 1)
    cluster = a_cluster(
        a=[{"fixed": HALF}], b=[{"other": 6000}], c=[{"third": 6000}], d=[{"fourth": 6000}], pods={"other": SPREAD}
    )
    assert [move.pod.name for move in planned(cluster, waiting(12_000)).moves] == ["other"]


def test_of_very_many_pods_on_a_card_those_that_hold_most_are_considered() -> None:
    many = {f"small-{at:02}": 500 for at in range(14)} | {"large": 8_000}
    found = planned(a_cluster(a=[many], b=[{"fixed": HALF}], slots=20), waiting(9_000), most=1)
    assert told(found.moves) == ["large: a/card-0 -> b/card-0"]


def where(cluster: RunningCluster, pod: str = "default/other", **options: Any) -> str:
    """Where a pod lands that is evicted now."""
    found = a_defragmenter(cluster, **options).move_of(pod)
    return "nowhere" if found is None else str(found) if isinstance(found, Staying) else told([found])[0]


def test_a_pod_that_is_evicted_now_lands_where_the_decision_function_says() -> None:
    cluster = a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}])
    assert where(cluster) == "other: b/card-0 -> a/card-0"


def test_a_pod_that_is_evicted_now_may_be_given_its_devices_again_or_be_gone() -> None:
    assert where(a_cluster(a=[{"fixed": CARD}], b=[{"other": 6000}])) == "nowhere"
    assert where(a_cluster(a=[{"fixed": HALF}], b=[{"third": 6000}])) == "nowhere"


def test_a_pod_that_may_not_be_evicted_now_is_told() -> None:
    cluster = a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}], controllers={"other": ""})
    assert where(cluster) == "default/other stays: no controller creates it again; --alone allows the move"


def test_the_moves_for_all_pods_together_are_no_more_than_allowed() -> None:
    cluster = a_cluster(a=[{"a1": 6000}], b=[{"b1": 6000}], c=[{"fixed": 4000}])
    gang = waiting(14_000, name="w1"), waiting(14_000, name="w2")
    assert len(planned(cluster, *gang, most=2).moves) == 2
    assert refused(cluster, *gang, most=1).placed == 1


def test_moved_pods_keep_away_from_places_of_waiting_pods_that_want_to_be_alone() -> None:
    term = PodTerm("name", (), frozenset({"default"}))
    cluster = a_cluster(a=[{}], b=[{"b1": 6000}], c=[{"fixed": 8000}], pods={"b1": SPREAD})
    lonely = waiting(8000, name="w1", neighbours=Neighbours(apart=(term,)))
    assert told(planned(cluster, waiting(CARD, name="w2"), most=1).moves) == []
    found = planned(cluster, lonely, waiting(CARD, name="w2"))
    assert [placed.node for _, placed in found.places] == ["a", "b"]
    assert told(found.moves) == ["b1: b/card-0 -> c/card-0"]


def on(node: str) -> NodeConstraints:
    return NodeConstraints(selector=(("name", node),))


def test_a_pod_keeps_its_own_choice_although_a_held_place_makes_another_one_look_better() -> None:
    cluster = a_cluster(x=[{"fixed-x": 3000}], y=[{"fixed-y": 2000}], z=[{"v": 2500}])
    gang = waiting(8000, name="w1", constraints=on("y")), waiting(CARD, name="w2", constraints=on("z"))
    found = planned(cluster, *gang)
    assert [(told([move])[0], move.sure) for move in found.moves] == [("v: z/card-0 -> x/card-0", True)]


def test_room_is_sure_only_if_all_of_its_moves_are() -> None:
    pods = {"one": SPREAD, "three": SPREAD}
    cluster = a_cluster(
        a=[{"one": 3000, "two": 3001}], b=[{"fixed-b": 9000}], c=[{"three": 3000, "four": 3001}], pods=pods
    )
    found = planned(cluster, waiting(CARD, constraints=on("a")))
    assert {move.pod.name: move.sure for move in found.moves} == {"one": False, "two": True}
    assert refused(cluster, waiting(CARD, constraints=on("a")), sure=True).placed == 0


@pytest.mark.parametrize(("limit", "fits"), [(25_192, True), (25_191, False)])
def test_a_moved_pod_counts_once_for_its_quota_whatever_node_it_is_on(limit: int, fits: bool) -> None:
    quota = {"default": NamespaceQuota(namespace="default", hard={f"limits.{MEMORY}": limit * NANO})}
    cluster = a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}], about={"quotas": quota})
    defragmenter = a_defragmenter(cluster)
    assert isinstance(defragmenter.for_pods([waiting(11_000)]), DefragPlan) is fits


def test_of_equally_many_moves_those_are_taken_that_are_all_sure() -> None:
    cluster = a_cluster(
        a=[{"one": 3000, "two": 3001}], b=[{"fixed-b": 9000}], c=[{"three": 3000, "four": 3001}], pods={"one": SPREAD}
    )
    at_a_or_c = NodeConstraints(affinity=((Requirement("name", "In", ("a", "c")),),))
    found = planned(cluster, waiting(CARD, constraints=at_a_or_c))
    assert {move.pod.name: move.sure for move in found.moves} == {"three": True, "four": True}


def test_of_pods_that_leave_a_node_the_largest_gets_its_place_first() -> None:
    """The small one would choose the emptiest node, the only one with room for the large one."""
    cluster = a_cluster(
        a=[{"small": 2_000, "large": 8_000}], b=[{"fixed-b": HALF}], c=[{"fixed-c": 12_000}], pods={"small": SPREAD}
    )
    found = planned(cluster, waiting(CARD, constraints=on("a")))
    assert told(found.moves) == ["large: a/card-0 -> b/card-0", "small: a/card-0 -> c/card-0"]


def test_a_place_that_is_freed_is_the_only_one_of_its_node() -> None:
    found = planned(a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}]), waiting(12_000))
    assert [placed.candidates for _, placed in found.places] == [1]


@pytest.mark.parametrize(("limit", "fits"), [(80, True), (79, False)])
def test_a_quota_of_cores_counts_the_pods_of_all_nodes(limit: int, fits: bool) -> None:
    quota = {"default": NamespaceQuota(namespace="default", hard={f"limits.{CORES}": limit * NANO})}

    def busy(record: PodRecord) -> PodRecord:
        (share,) = (share for allocation in record.allocations for share in allocation.shares)
        return replace(record, allocations=(allocated(a_share(share.device, share.memory, 30)),))

    asks = {name: {"containers": (a_container({COUNT: 1, MEMORY: 6000, CORES: 30}),)} for name in ("other",)}
    cluster = a_cluster(busy, a=[{"fixed": HALF}], b=[{"other": 6000}], about={"quotas": quota}, pods=asks)
    pod = waiting(12_000)
    asked = a_container({COUNT: 1, MEMORY: 12_000, CORES: 20})
    info = take_in(replace(pod.submitted, containers=(asked,)), REGISTRY, Rules())
    assert isinstance(a_defragmenter(cluster).for_pods([info]), DefragPlan) is fits


@pytest.mark.parametrize(("limit", "placed"), [(20_000, 2), (19_999, 1)])
def test_a_quota_counts_the_places_of_pods_that_waited_before(limit: int, placed: int) -> None:
    quota = {"default": NamespaceQuota(namespace="default", hard={f"limits.{MEMORY}": limit * NANO})}
    cluster = a_cluster(a=[{}], b=[{}], about={"quotas": quota})
    found = a_defragmenter(cluster).for_pods([waiting(10_000, name="w1"), waiting(10_000, name="w2")])
    assert (len(found.places) if isinstance(found, DefragPlan) else found.placed) == placed


def test_a_blocked_device_has_nothing_left_and_the_others_all() -> None:
    entry = a_node("n", a_device(slots=1), a_device(index=1, slots=3), a_device(index=2))
    usage = with_pod(entry, blocker(entry, [0, 1])).state.usage
    assert [each.slots for each in usage] == [1, 3, 0]
    assert [each.memory >= CARD for each in usage] == [True, True, False]
    assert [each.cores >= 100 for each in usage] == [True, True, False]


def test_a_chain_counts_all_of_its_moves() -> None:
    cluster = a_cluster(
        a=[{"big": 12_000}], b=[{"small": 5_000}], c=[{"fixed": 11_000}], pods={"big": {"constraints": on("b")}}
    )
    only_a = waiting(CARD, constraints=on("a"))
    assert len(planned(cluster, only_a, most=2).moves) == 2
    assert refused(cluster, only_a, most=1).placed == 0
    beside = a_cluster(
        a=[{"big": 12_000}],
        b=[{"one": 5_000, "two": 5_000}],
        c=[{"fixed": 6_384}],
        pods={"big": {"constraints": on("b")}},
    )
    assert len(planned(beside, only_a, most=3).moves) == 3
    assert refused(beside, only_a, most=2).placed == 0


def test_a_chain_for_each_of_two_pods_counts_all_moves() -> None:
    cluster = a_cluster(
        a=[{"p": 8_000, "q": 8_000}],
        b=[{"r": 5_000, "fixed-b": 5_000}],
        c=[{"s": 5_000, "fixed-c": 5_000}],
        d=[{"fixed-d": 6_384}],
        pods={name: {"constraints": on(node)} for name, node in zip("pqrs", "bcdd", strict=True)},
    )
    only_a = waiting(CARD, constraints=on("a"))
    assert len(planned(cluster, only_a, most=4).moves) == 4
    assert refused(cluster, only_a, most=3).placed == 0


def a_search(cluster: RunningCluster) -> RoomSearch:
    rules = MoveRules(cluster, REGISTRY, Rules())
    places = NewPlaces(Decider(REGISTRY), rules, sure=False, distant=False)
    return RoomSearch(Decider(REGISTRY), rules, CostScale([0]), places, most=1)


def test_a_pod_that_has_moved_does_not_move_again() -> None:
    cluster = a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}])
    state = MoveState(cluster.snapshot, cluster.snapshot)
    assert a_search(cluster).find(state, waiting(12_000), 1) is not None
    pinned = state._replace(pinned=frozenset({"default/other"}))
    assert a_search(cluster).find(pinned, waiting(12_000), 1) is None


def test_pods_that_have_moved_are_remembered() -> None:
    cluster = a_cluster(a=[{"fixed": HALF}], b=[{"other": 6000}])
    state = MoveState(cluster.snapshot, cluster.snapshot, frozenset({"default/before"}))
    found = a_search(cluster).find(state, waiting(12_000), 1)
    assert found is not None
    assert found.state.pinned == {"default/before", "default/other"}


def test_where_the_cheapest_places_of_several_pods_do_not_work_others_are_tried() -> None:
    cluster = a_cluster(
        a=[{"p0": 5426, "p1": 5257}, {"p2": 5667, "p3": 2489}], b=[{"p4": 2304, "p5": 9692}, {"p6": 2095, "p7": 4918}]
    )
    found = planned(cluster, waiting(12_588, name="w0"), waiting(9_423, name="w1"), most=2)
    assert len(found.moves) == 2


def test_only_some_choices_of_places_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_CHOICES", 1)
    cluster = a_cluster(
        a=[{"p0": 5426, "p1": 5257}, {"p2": 5667, "p3": 2489}], b=[{"p4": 2304, "p5": 9692}, {"p6": 2095, "p7": 4918}]
    )
    assert refused(cluster, waiting(12_588, name="w0"), waiting(9_423, name="w1"), most=2).placed == 1


def test_very_many_pods_get_their_places_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster(a=[{"a1": 6000}], b=[{"b1": 6000}], c=[{"fixed": 4000}])
    gang = waiting(14_000, name="w1"), waiting(14_000, name="w2")
    monkeypatch.setattr(room, "MOST_TOGETHER", 2)
    assert len(planned(cluster, *gang).moves) == 2
    monkeypatch.setattr(room, "MOST_TOGETHER", 1)
    assert refused(cluster, *gang).placed == 1


def test_places_one_after_another_are_taken_where_they_need_fewer_moves() -> None:
    cluster = a_cluster(
        a=[{"p0": 6735, "p1": 2121}],
        b=[{"p2": 6024, "p3": 5076}],
        c=[{"p4": 3312, "p5": 2281, "p6": 6265}, {"p7": 2623, "p8": 4047, "p9": 4701}],
    )
    assert len(planned(cluster, waiting(9917, name="w0"), waiting(4730, name="w1")).moves) == 1


def test_the_first_pod_without_room_is_named_whatever_fits_after_it() -> None:
    found = refused(a_cluster(a=[{}]), waiting(CARD + 1, name="w1"), waiting(1000, name="w2"))
    assert (found.placed, found.why) == (0, "at most 10 moves: no room is found for default/w1")


def test_a_gang_for_which_there_is_no_room_ends_the_search() -> None:
    cluster = a_cluster(a=[{f"a{at}": 1000 for at in range(8)}], b=[{f"b{at}": 1000 for at in range(8)}])
    assert refused(cluster, *(waiting(9_000, name=f"w{at}") for at in range(12))).placed == 1
