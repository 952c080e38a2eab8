"""What is to be written about a node next."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hami_plugins.vendors.volcano import TOUCHED_KEY
from tests.unit.volcano_vgpu.cards import card, inventory, settings, sick, uuid
from volcano_vgpu.core import publication
from volcano_vgpu.core.publication import Duties, Offer, PublicationStep, PublicationTiming, Touch
from volcano_vgpu.core.register import HANDSHAKE_KEY, REGISTER_KEY, NodeRegistration, desired

LOCK_KEY = "hamivgpu"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TIMING = PublicationTiming()
COUNT = "volcano.sh/vgpu-number"
BOTH = desired(inventory(card(0), card(1)), settings())
NONE = desired(inventory(*sick(0, 1)), settings())


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def node(words: NodeRegistration | None = None, *, number: str = "20", **annotations: str) -> dict[str, Any]:
    """A node that says these words."""
    said = {} if words is None else dict(words.annotations)
    sums = {} if words is None else {name: str(amount) for name, amount in words.capacity.items()}
    return {
        "metadata": {"name": "n1", "annotations": said | annotations},
        "status": {"capacity": {**sums, COUNT: number}, "allocatable": {**sums, COUNT: number}},
    }


def step(found: dict[str, Any], now: datetime = NOW, **duties: Any) -> PublicationStep:
    return publication.next_step(found, Duties(**duties), settings(), now, TIMING)


def notes(found: PublicationStep) -> dict[str, Any]:
    """The annotations that a step writes."""
    assert found.patch is not None
    assert not found.patch.status
    return dict(found.patch.body["metadata"]["annotations"])


def touched(seconds: float) -> dict[str, str]:
    return {TOUCHED_KEY: f"{at(seconds).isoformat()} register"}


def touch(first: float, last: float | None = None) -> Touch:
    return Touch(at(first), at(first if last is None else last), frozenset({"pod-bound"}))


def test_before_the_first_inventory_nothing_is_written() -> None:
    assert step(node()) == PublicationStep()


def test_a_node_that_says_it_all_is_left_alone() -> None:
    assert step(node(BOTH), words=BOTH) == PublicationStep()


def test_the_register_comes_before_the_sums() -> None:
    assert set(notes(step(node(), words=BOTH))) == {REGISTER_KEY, HANDSHAKE_KEY, TOUCHED_KEY}
    without_sums = node(BOTH)
    without_sums["status"] = {}
    second = step(without_sums, words=BOTH)
    assert second.patch is not None
    assert (second.patch.status, second.patch.why) == (True, "capacity")
    assert second.patch.body == {
        "status": {"capacity": {"volcano.sh/vgpu-memory": "81920", "volcano.sh/vgpu-cores": "200"}}
    }


def test_the_first_write_after_a_start_waits_for_its_turn() -> None:
    assert step(node(), words=BOTH, not_before=at(2)) == PublicationStep(wake=at(2))
    assert step(node(), at(2), words=BOTH, not_before=at(2)).patch is not None
    assert step(node(BOTH), words=BOTH, not_before=at(2)) == PublicationStep()


def test_the_register_goes_only_when_no_slot_is_on_offer() -> None:
    assert step(node(BOTH, number="20"), words=NONE) == PublicationStep()
    assert notes(step(node(BOTH, number="0"), words=NONE))[REGISTER_KEY] == ""


def test_while_the_register_has_to_stay_its_handshake_is_kept_right() -> None:
    given_up = node(BOTH, number="20", **{HANDSHAKE_KEY: "Deleted_2026.11.21 12:00:00"})
    assert set(notes(step(given_up, words=NONE))) == {HANDSHAKE_KEY, TOUCHED_KEY}


def test_a_register_that_is_broken_already_is_set_right_at_once() -> None:
    broken = node(BOTH, **{REGISTER_KEY: "broken"})
    assert notes(step(broken, words=NONE))[REGISTER_KEY] == ""
    assert notes(step(broken, words=BOTH))[REGISTER_KEY] == BOTH.annotations[REGISTER_KEY]


def test_a_touch_is_written_when_it_is_due_and_not_before() -> None:
    found = node(BOTH, **touched(-60))
    assert step(found, words=BOTH, touch=touch(1)) == PublicationStep(wake=at(1))
    assert notes(step(found, at(1), words=BOTH, touch=touch(1))) == {
        TOUCHED_KEY: "2026-11-21T12:00:01.000000+00:00 pod-bound"
    }


@pytest.mark.parametrize("before", [0.0, 3.5])
def test_two_touches_are_five_seconds_apart(before: float) -> None:
    assert step(node(BOTH, **touched(before)), at(4), words=BOTH, touch=touch(3.6)) == PublicationStep(
        wake=at(before + 5)
    )


def test_a_touch_that_was_overtaken_by_another_write_is_not_written() -> None:
    assert step(node(BOTH, **touched(3)), at(9), words=BOTH, touch=touch(1, 3)) == PublicationStep()


def test_a_write_between_two_requests_leaves_the_later_one() -> None:
    assert step(node(BOTH, **touched(2)), at(9), words=BOTH, touch=touch(1, 3)).patch is not None


@pytest.mark.parametrize("text", ["nonsense", "2026-11-21T11:00:00 x", "2026-11-21T13:00:00+00:00 x"])
def test_a_stamp_that_means_nothing_or_is_of_the_future_does_not_hold_a_touch_up(text: str) -> None:
    assert step(node(BOTH, **{TOUCHED_KEY: text}), words=BOTH, touch=touch(0)).patch is not None


@pytest.mark.parametrize("words", [None, NONE])
def test_a_node_without_cards_is_not_touched(words: NodeRegistration | None) -> None:
    assert step(node(words, number="0"), words=words, touch=touch(0)) == PublicationStep()


def test_a_change_of_the_register_is_a_touch_too() -> None:
    found = notes(step(node(number="0"), words=BOTH, touch=touch(0)))
    assert found[TOUCHED_KEY].endswith(" register,pod-bound")


def test_joined_touches_reach_from_the_first_to_the_last() -> None:
    later = Touch(at(5), at(6), frozenset({"b"}))
    assert touch(1, 2).joined(later) == Touch(at(1), at(6), frozenset({"pod-bound", "b"}))
    assert later.joined(None) == later
    assert later.after(at(6)) is None
    assert later.after(at(5)) == replace(later, first=at(6))
    assert later.after(at(4)) == later


@pytest.mark.parametrize(
    ("lock", "until", "released"),
    [
        ("2026-11-21T12:00:00Z", 0, True),
        ("2026-11-21T12:00:00Z", 5, True),
        ("2026-11-21T12:00:01Z", 0, False),
        ("whose", 0, False),
        (None, 0, False),
        ("2026-11-21T12:00:00Z", None, False),
    ],
)
def test_a_lock_is_released_that_was_taken_for_a_pod_that_is_served(
    lock: str | None, until: int | None, released: bool
) -> None:
    found = node(BOTH) if lock is None else node(BOTH, **{LOCK_KEY: lock})
    done = step(found, words=BOTH, served_until=None if until is None else at(until))
    if not released:
        assert done == PublicationStep()
        return
    assert notes(done)[LOCK_KEY] is None
    assert done.patch is not None
    assert done.patch.why == "lock"


def test_withdrawing_waits_for_the_number_to_reach_zero() -> None:
    assert step(node(BOTH), words=BOTH, withdraw_by=at(9)) == PublicationStep(wake=at(9))
    found = notes(step(node(BOTH, number="0"), words=BOTH, withdraw_by=at(9)))
    assert found == {REGISTER_KEY: None, HANDSHAKE_KEY: None}


def test_a_number_that_nobody_answers_for_is_set_to_zero_at_last() -> None:
    found = step(node(BOTH), at(9), words=BOTH, withdraw_by=at(9))
    assert found.patch is not None
    assert found.patch.status
    assert found.patch.body == {"status": {"capacity": {COUNT: "0"}, "allocatable": {COUNT: "0"}}}


def test_after_the_register_the_sums_go_and_then_it_is_finished() -> None:
    bare = node(BOTH, number="0")
    bare["metadata"]["annotations"] = {}
    found = step(bare, withdraw_by=at(9))
    assert found.patch is not None
    gone = {"volcano.sh/vgpu-memory": None, "volcano.sh/vgpu-cores": None, COUNT: None}
    assert found.patch.body == {"status": {"capacity": gone, "allocatable": gone}}
    assert step({"metadata": {}, "status": {"capacity": {}}}, withdraw_by=at(9)) == PublicationStep(finished=True)


def offered(found: dict[str, Any] | None, before: Offer | None = None, now: datetime = NOW, **duties: Any) -> Offer:
    return publication.offer(found, Duties(**duties), before or Offer(), now, TIMING)


def test_cards_are_offered_once_the_node_registers_them() -> None:
    assert offered(node(BOTH), words=BOTH).cards == {uuid(0), uuid(1)}
    one = desired(inventory(card(0)), settings())
    assert offered(node(one), words=BOTH).cards == {uuid(0)}
    assert offered(node(BOTH), words=one).cards == {uuid(0)}


@pytest.mark.parametrize("found", [None, node(), node(NONE)])
def test_without_a_valid_register_nothing_is_offered(found: dict[str, Any] | None) -> None:
    assert offered(found, words=BOTH).cards == frozenset()


def test_before_an_inventory_and_while_withdrawing_nothing_is_offered() -> None:
    assert offered(node(BOTH)) == Offer()
    assert offered(node(BOTH), words=BOTH, withdraw_by=NOW) == Offer()
    assert offered(node(BOTH), words=NONE) == Offer()


def test_a_register_that_somebody_broke_has_a_moment_to_be_repaired() -> None:
    before = offered(node(BOTH), words=BOTH)
    broken = node(BOTH, **{HANDSHAKE_KEY: "Deleted_2026.11.21 12:00:00"})
    within = offered(broken, before, at(0), words=BOTH)
    assert (within.cards, within.broken_since) == (before.cards, at(0))
    still = offered(broken, within, at(0.9), words=BOTH)
    assert still == within
    assert offered(broken, still, at(1), words=BOTH) == Offer(broken_since=at(0))
    assert offered(node(BOTH), still, at(0.9), words=BOTH) == before


def test_a_handshake_that_is_not_needed_may_be_missing() -> None:
    words = desired(inventory(card(0)), settings(), handshake=False)
    assert offered(node(words), words=words, handshake=False).cards == {uuid(0)}
    assert offered(node(words), words=words).cards == frozenset()
