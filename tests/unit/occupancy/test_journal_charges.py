"""Charges from journals: sums made by hand, and what is true of restarts, gaps and clocks that are set."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import pytest

from hami_plugins.model.charges import ChargedAmount, ChargeKey, HeldAmount
from hami_plugins.model.units import MiB, NodeName, PodUid, VendorName
from hami_plugins.occupancy.charges import ChargeReport, TimeSpan
from hami_plugins.occupancy.journal_charges import charges_of
from hami_plugins.wire.allocation_journal import (
    AllListed,
    JournalEvent,
    JournalRecord,
    PodEnded,
    PodHeld,
    RunAlive,
    RunBegan,
)

NVIDIA: Final = VendorName("NVIDIA")
MINUTES: Final = 60_000
DAY: Final = TimeSpan(0, 24 * 60 * MINUTES)


def held(name: str = "train", devices: str = "1/4", memory: int = 10_240, *, queue: str = "gold") -> HeldAmount:
    """A quarter of a card with 10 GiB."""
    key = ChargeKey("team", queue, "Job/train", NVIDIA)
    uid, node = PodUid(f"uid-{name}"), NodeName("n")
    return HeldAmount(uid=uid, pod=name, node=node, key=key, devices=Fraction(devices), memory=MiB(memory))


def ended(name: str = "train") -> PodEnded:
    return PodEnded(PodUid(f"uid-{name}"), NVIDIA)


def a_run(
    began: int, *events: tuple[int, JournalEvent], name: str = "", listed: tuple[HeldAmount, ...] = ()
) -> list[JournalRecord]:
    """A run that began at a minute of the day and found these pods; the events are minutes after its beginning."""
    found = ((0, PodHeld(each)) for each in listed)
    first: list[tuple[int, JournalEvent]] = [(0, RunBegan(began * MINUTES)), *found, (0, AllListed())]
    return [
        JournalRecord(run=name or f"run at {began}", elapsed_milliseconds=at * MINUTES, event=event)
        for at, event in (*first, *events)
    ]


def charged(*runs: list[JournalRecord], span: TimeSpan = DAY) -> ChargeReport:
    return charges_of([record for run in runs for record in run], span)


def hours(found: ChargeReport) -> tuple[Fraction, Fraction]:
    return found.total.device_hours, found.total.gib_hours


def test_a_quarter_of_a_card_for_90_minutes_is_three_eighths_of_a_device_hour_and_15_gib_hours() -> None:
    found = charged(a_run(0, (30, PodHeld(held())), (120, ended()), (1440, RunAlive())))
    assert found.charged == {
        ChargeKey("team", "gold", "Job/train", NVIDIA): ChargedAmount(
            Fraction(1, 4) * 90 * 60_000, Fraction(10_240 * 90 * 60_000)
        )
    }
    assert hours(found) == (Fraction(3, 8), Fraction(15))
    assert found.is_complete


def test_thirds_of_devices_add_up_exactly() -> None:
    thirds = [held(name, "1/3", 1) for name in ("a", "b", "c")]
    found = charged(a_run(0, (60, RunAlive()), (1440, RunAlive()), listed=tuple(thirds)))
    assert hours(found) == (Fraction(24), Fraction(72, 1024))


def test_what_is_before_and_after_the_span_is_not_charged() -> None:
    found = charged(a_run(0, (1440, RunAlive()), listed=(held(),)), span=TimeSpan(60 * MINUTES, 180 * MINUTES))
    assert hours(found) == (Fraction(1, 2), Fraction(20))


def test_keys_are_charged_apart_and_a_changed_amount_from_its_line_on() -> None:
    events = (60, PodHeld(held(devices="1/2", memory=20_480))), (120, ended()), (1440, RunAlive())
    found = charged(a_run(0, *events, listed=(held(), held("b", queue="iron"))))
    by_queue = {key.queue: (amount.device_hours, amount.gib_hours) for key, amount in found.charged.items()}
    assert by_queue == {"gold": (Fraction(3, 4), Fraction(30)), "iron": (Fraction(6), Fraction(240))}


def test_a_pod_that_is_held_before_and_after_a_gap_is_charged_for_it() -> None:
    found = charged(a_run(0, (60, RunAlive()), listed=(held(),)), a_run(180, (1260, RunAlive()), listed=(held(),)))
    assert hours(found) == (Fraction(6), Fraction(240))
    assert (found.gaps, found.uncertain.device_hours) == ((TimeSpan(60 * MINUTES, 180 * MINUTES),), Fraction(0))
    assert not found.is_complete


def test_a_pod_that_ended_in_a_gap_is_charged_up_to_it_and_the_rest_is_uncertain() -> None:
    found = charged(a_run(0, (60, RunAlive()), listed=(held(),)), a_run(180, (1260, RunAlive())))
    assert hours(found) == (Fraction(1, 4), Fraction(10))
    assert (found.uncertain.device_hours, found.uncertain.gib_hours) == (Fraction(1, 2), Fraction(20))


def test_a_pod_that_began_in_a_gap_is_charged_from_its_end_on_and_the_rest_is_uncertain() -> None:
    found = charged(a_run(0, (60, RunAlive())), a_run(180, (60, ended()), (1260, RunAlive()), listed=(held(),)))
    assert hours(found) == (Fraction(1, 4), Fraction(10))
    assert found.uncertain.device_hours == Fraction(1, 2)


def test_the_end_of_the_journal_leaves_what_was_held_uncertain() -> None:
    found = charged(a_run(0, (1380, RunAlive()), listed=(held(),)))
    assert hours(found)[0] == Fraction(23, 4)
    assert (found.gaps, found.uncertain.device_hours) == ((TimeSpan(1380 * MINUTES, DAY.until),), Fraction(1, 4))


def test_time_before_the_first_run_is_a_gap_and_a_restart_within_two_minutes_is_none() -> None:
    found = charged(a_run(60, (60, RunAlive())), a_run(122, (1318, RunAlive())))
    assert found.gaps == (TimeSpan(0, 60 * MINUTES),)


def test_without_any_run_the_whole_span_is_a_gap() -> None:
    assert charged().gaps == (DAY,)


def test_a_clock_that_was_set_back_between_two_runs_counts_no_time_twice() -> None:
    back = a_run(60, (1380, RunAlive()), listed=(held(),))
    found = charged(a_run(0, (120, RunAlive()), listed=(held(),)), back)
    assert hours(found) == (Fraction(6), Fraction(240))
    assert found.remarks == (
        "run run at 60 began 3600 s before the end of the one before it: a clock was set back, or two replicas wrote; "
        "that time counts once",
    )
    assert not found.gaps


def test_two_replicas_that_wrote_at_once_are_charged_once() -> None:
    both = (
        a_run(0, (720, RunAlive()), name="a", listed=(held(),)),
        a_run(700, (740, RunAlive()), name="b", listed=(held(),)),
    )
    mixed = sorted((record for run in both for record in run), key=lambda each: each.elapsed_milliseconds)
    assert hours(charges_of(mixed, DAY)) == (Fraction(6), Fraction(240))


def test_a_line_whose_time_goes_back_counts_at_the_time_of_the_line_before() -> None:
    found = charged(a_run(0, (60, PodHeld(held())), (30, RunAlive()), (20, ended()), (1440, RunAlive())))
    assert hours(found)[0] == 0


def test_a_pod_that_ended_twice_or_was_never_held_changes_nothing() -> None:
    found = charged(a_run(0, (30, PodHeld(held())), (60, ended()), (70, ended()), (80, ended("x")), (1440, RunAlive())))
    assert hours(found)[0] == Fraction(1, 8)


@pytest.mark.parametrize(
    ("records", "defect"),
    [
        (a_run(0, (60, RunAlive()))[1:], "run run at 0: its first line is missing, so that its times are not known"),
        (a_run(0, listed=(held(),))[:2], "run run at 0: it ended before it had written all that was held"),
    ],
)
def test_a_run_that_is_not_whole_is_left_out_and_named(records: list[JournalRecord], defect: str) -> None:
    found = charged(records)
    assert found.defects == (f"{defect}; it is left out",)
    assert not found.charged
    assert not found.is_complete
