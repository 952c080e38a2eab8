"""Who is blocked, and whose core limit is enforced: the tables of HAMi 2.10.0 ``cmd/vGPUmonitor/feedback.go``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import raw_objects
from volcano_vgpu.core.monitor.feedback import Fields, Standing, other_monitor, released, tick

A, B = "GPU-a", "GPU-b"


def at(priority: int, recent: int = 3, switch: int = 1, cards: Sequence[str] = (A,)) -> Standing:
    return Standing(cards=tuple(cards), priority=priority, fields=Fields(recent, switch))


def course(*standings: Standing, ticks: int = 3) -> list[tuple[str, ...]]:
    """The fields after each tick as ``recent/switch``, container by container."""
    found: list[tuple[str, ...]] = []
    for _ in range(ticks):
        decided = tick(standings)
        standings = tuple(replace(each, fields=fields) for each, fields in zip(standings, decided, strict=True))
        found.append(tuple(f"{fields.recent_kernel}/{fields.utilization_switch}" for fields in decided))
    return found


@pytest.mark.parametrize("lower", [1, 2, 5])
def test_a_lower_priority_is_blocked_until_the_higher_one_has_been_idle(lower: int) -> None:
    assert course(at(0), at(lower)) == [("2/0", "-1/1"), ("1/0", "-1/1"), ("0/0", "0/0")]


def test_equals_are_limited_and_not_blocked() -> None:
    assert course(at(1), at(1)) == [("2/1", "2/1"), ("1/1", "1/1"), ("0/0", "0/0")]


def test_a_single_launch_is_active_in_one_tick() -> None:
    assert course(at(0, recent=2), at(1, recent=0), ticks=2) == [("1/0", "-1/1"), ("0/0", "0/0")]


def test_idle_neighbours_are_not_limited() -> None:
    assert course(at(0, recent=0), at(0, recent=0), ticks=1) == [("0/0", "0/0")]


def test_an_idle_container_is_limited_where_several_of_its_priority_are_active() -> None:
    assert course(at(1), at(1), at(1, recent=0), ticks=1) == [("2/1", "2/1", "0/1")]


def test_nobody_is_blocked_on_another_card() -> None:
    assert course(at(0, cards=[A]), at(1, cards=[B]), ticks=1) == [("2/0", "2/0")]


def test_one_shared_card_is_enough_to_be_blocked() -> None:
    assert course(at(0, cards=[B]), at(1, cards=[A, B]), ticks=1) == [("2/0", "-1/1")]


def test_a_negative_priority_neither_counts_nor_is_blocked() -> None:
    assert course(at(-1), at(1), at(-1), ticks=1) == [("2/0", "2/0", "2/0")]


def test_a_card_that_is_named_twice_counts_once() -> None:
    assert course(at(1, cards=[A, A]), ticks=1) == [("2/0",)]


def test_a_middle_priority_is_blocked_by_the_highest_and_blocks_the_lowest() -> None:
    assert course(at(0), at(2), at(7), ticks=1) == [("2/0", "-1/1", "-1/1")]
    assert course(at(2), at(7), ticks=1) == [("2/0", "-1/1")]


def test_a_forged_count_does_not_block_for_long() -> None:
    assert course(at(0, recent=2**31 - 1), at(1))[-1] == ("0/0", "0/0")


def test_a_forged_block_is_lifted() -> None:
    assert course(at(0, recent=-7), ticks=1) == [("0/0",)]


def test_who_is_let_go_may_compute_within_its_limit() -> None:
    assert released(Fields(-1, 0)) == Fields(0, 1)
    assert released(Fields(2, 1)) == Fields(2, 1)


standings = st.builds(
    at,
    st.integers(-2, 5),
    st.integers(-1, 3),
    st.integers(0, 1),
    st.lists(st.sampled_from([A, B]), min_size=1, max_size=2),
)


@given(st.lists(standings, max_size=6))
def test_whoever_has_the_highest_priority_is_never_blocked_and_idleness_frees_all(found: list[Standing]) -> None:
    decided = tick(found)
    highest = min((each.priority for each in found if each.priority >= 0), default=0)
    for each, fields in zip(found, decided, strict=True):
        if each.priority <= highest:
            assert fields.recent_kernel >= 0
    if found:
        assert set(course(*found, ticks=4)[-1]) == {"0/0"}


@given(st.lists(standings, max_size=6), st.randoms())
def test_the_order_of_containers_decides_nothing(found: list[Standing], luck: Any) -> None:
    order = list(range(len(found)))
    luck.shuffle(order)
    decided, shuffled = tick(found), tick([found[place] for place in order])
    assert [decided[place] for place in order] == list(shuffled)


def pod(container: dict[str, Any], phase: str = "Running") -> dict[str, Any]:
    return raw_objects.pod(
        "plugin", raw_objects.container(), container, metadata={"namespace": "kube-system"}, phase=phase
    )


@pytest.mark.parametrize(
    "container",
    [
        {"name": "vgpu-monitor"},
        {"name": "monitor", "command": ["/k8s-vgpu/bin/vGPUmonitor"]},
        {"name": "monitor", "args": ["volcano-vgpu-monitor", "--v=4"]},
    ],
)
def test_another_monitor_is_known_by_name_or_command(container: dict[str, Any]) -> None:
    assert other_monitor([pod({"name": "x"}), pod(container)]) == f"kube-system/plugin container {container['name']}"
    assert other_monitor([pod(container, phase="Succeeded")]) == ""


def test_the_agent_is_no_other_monitor() -> None:
    assert other_monitor([pod({"name": "agent", "args": ["volcano-vgpu", "agent"]}), {}]) == ""
