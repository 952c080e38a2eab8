"""Gangs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.inventory import with_pods
from hami_plugins.model.pods import PodRecord
from hami_plugins.queueing import gangs
from hami_plugins.queueing.gangs import Missing, Need
from tests.builders import a_node, a_record, a_snapshot

tasks = st.lists(st.sampled_from(["ps", "worker", ""]), max_size=12)
needs = st.builds(
    Need, st.integers(0, 8), st.lists(st.tuples(st.sampled_from(["ps", "worker"]), st.integers(0, 4)), max_size=2)
)


def test_a_complete_gang_misses_nothing() -> None:
    assert gangs.missing(Need(3, (("ps", 1),)), {"ps": 1, "worker": 2}) == ()


def test_what_is_missing_is_said_for_the_whole_and_for_each_task() -> None:
    found = gangs.missing(Need(4, (("ps", 2), ("worker", 1))), {"worker": 2})
    assert found == (Missing(4, 2), Missing(2, 0, "ps"))


def test_members_that_tasks_need_come_first() -> None:
    assert gangs.in_turn(["worker", "worker", "ps"], Need(2, (("ps", 1),)), {}) == [2, 0, 1]


def test_members_that_are_there_already_are_not_needed_again() -> None:
    assert gangs.in_turn(["worker", "ps"], Need(2, (("ps", 1),)), {"ps": 1}) == [0, 1]


@given(tasks, needs)
def test_every_member_has_its_turn_once(listed: list[str], need: Need) -> None:
    assert sorted(gangs.in_turn(listed, need, {})) == list(range(len(listed)))


def test_the_least_that_a_gang_asks_is_that_of_the_members_it_needs() -> None:
    members = [("worker", {"cpu": 4}, 1), ("worker", {"cpu": 4, "gpu": 1}, 1), ("ps", {"cpu": 1}, 1)]
    assert gangs.least_requests(members, Need(2, (("ps", 1),))) == {"cpu": 5}
    assert gangs.least_requests(members, Need(0)) == {}


def test_members_that_have_a_place_count_per_task_unless_they_are_going() -> None:
    def member(name: str, task: str, *, group: str = "ring", terminating: bool = False) -> PodRecord:
        return replace(a_record(name=name, namespace="team"), group=group, task=task, terminating=terminating)

    here = with_pods(a_node("a"), [member("w0", "worker"), member("w1", "worker", terminating=True), a_record()])
    there = with_pods(a_node("b"), [member("w2", "worker"), member("p0", "ps"), member("x", "ps", group="other")])
    assert gangs.running(a_snapshot(here, there), "team", "ring") == {"worker": 2, "ps": 1}
    assert gangs.running(a_snapshot(here, there), "elsewhere", "ring") == {}
