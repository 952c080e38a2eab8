"""Which slots the kubelet is asked for: those of the allocated cards, never one that is held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.volcano_vgpu.allocated_pods import container, offer, pod
from volcano_vgpu.core.preferred import AdmittedPod, Listed, admitted, preferred

A, B = ("a0", "a1", "a2"), ("b0", "b1")
ALL = (*A, *B)


def listed(name: str, **held: tuple[str, ...]) -> list[Listed]:
    return [Listed("team", name, each, frozenset(slots)) for each, slots in held.items()]


def found(rows: list[Listed], *pods: Mapping[str, Any]) -> AdmittedPod | None:
    by_name = {(raw["metadata"]["namespace"], raw["metadata"]["name"]): raw for raw in pods}
    return admitted(rows, lambda namespace, name: by_name.get((namespace, name)), offer())


def test_the_pod_with_empty_hands_is_the_one() -> None:
    rows = [*listed("p", main=()), *listed("q", main=("s1",)), *listed("idle", main=())]
    idle = pod(container("main"), name="idle", ids=None)
    one = found(rows, pod(), pod(name="q"), idle)
    assert one is not None
    assert (one.pod_uid, one.container, one.cards) == ("uid-p", "main", ("GPU-a",))


def test_two_pods_with_empty_hands_are_one_too_many() -> None:
    assert found([*listed("p", main=()), *listed("q", main=())], pod(), pod(name="q")) is None


def test_a_pod_that_nobody_knows_may_be_the_one() -> None:
    assert found([*listed("p", main=()), *listed("unknown", main=())], pod()) is None


def test_a_pod_that_has_ended_is_not_the_one() -> None:
    failed = pod(name="q", phase="Failed")
    one = found([*listed("p", main=()), *listed("q", main=())], pod(), failed)
    assert one is not None
    assert one.pod_uid == "uid-p"


def test_the_cards_are_those_of_the_containers_that_have_none_yet() -> None:
    raw = pod(container("one", count=1), container("two", count=1), ids="GPU-a,NVIDIA,1,0:;GPU-b,NVIDIA,1,0:")
    one = found(listed("p", one=("s0",), two=()), raw)
    assert one is not None
    assert (one.container, one.cards) == ("two", ("GPU-b",))


def test_a_pod_without_an_allocation_wants_no_card_in_particular() -> None:
    for raw in (pod(ids=None), pod(ids="GPU-a"), pod(ids="GPU-a,NVIDIA,1,0:;GPU-b,NVIDIA,1,0:")):
        one = found(listed("p", main=()), raw)
        assert one is not None
        assert one.cards == ()


def test_one_slot_of_each_allocated_card_in_the_order_of_the_allocation() -> None:
    assert preferred(2, available=ALL, required=(), cards=(B, A), busy=()) == ("b0", "a0")


def test_slots_that_are_required_come_first() -> None:
    assert preferred(2, available=ALL, required=("a2",), cards=(B,), busy=()) == ("a2", "b0")


def test_a_slot_that_is_held_is_not_named() -> None:
    assert preferred(1, available=ALL, required=(), cards=(B,), busy={"b0"}) == ("b1",)
    assert preferred(1, available=ALL, required=(), cards=(), busy={"a0"}) == ("a1",)


def test_a_full_card_leaves_the_choice_to_the_others() -> None:
    assert preferred(1, available=A, required=(), cards=(B,), busy=()) == ()
    assert preferred(2, available=A, required=(), cards=(B, A), busy=()) == ("a0", "a1")


def test_there_is_nothing_to_say_where_nothing_is_allocated_and_nothing_held() -> None:
    assert preferred(2, available=ALL, required=(), cards=(), busy=()) == ()


@given(
    st.integers(1, 4), st.sets(st.sampled_from(ALL)), st.sets(st.sampled_from(ALL)), st.permutations([A, B]), st.data()
)
def test_what_is_preferred_is_available_and_free(
    size: int, available: set[str], busy: set[str], cards: list[tuple[str, ...]], data: st.DataObject
) -> None:
    required = data.draw(st.lists(st.sampled_from(sorted(available)), max_size=1)) if available else []
    answer = preferred(size, available=sorted(available), required=required, cards=cards, busy=busy)
    assert len(answer) == len(set(answer)) <= size
    assert set(answer) <= available
    assert not (set(answer) - set(required)) & busy
