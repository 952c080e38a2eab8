"""The book of what is held: metrics, and a journal that survives restarts and full disks."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from hami_plugins.allocator.charges import AllocationJournal, ChargeTotals
from hami_plugins.allocator.settings import ChargingSettings
from hami_plugins.occupancy.charges import TimeSpan
from hami_plugins.occupancy.journal_charges import charges_of
from hami_plugins.wire import allocation_journal
from tests.unit.volcano_vgpu.allocation.cluster import Cluster, a_pod


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in path.read_text(encoding="utf-8").splitlines()]


def events(path: Path) -> list[str]:
    return [str(each["event"]) for each in lines(path)]


def running(name: str = "p", memory: int = 10_240) -> dict[str, Any]:
    return a_pod(name, node="n1", ids=f"GPU-n1-0,NVIDIA,{memory},0:;")


def a_journal(folder: Path, clock: Clock, unix: int = 1_790_000_000) -> AllocationJournal:
    return AllocationJournal(folder, "allocator/7", clock=clock, now_ns=lambda: unix * 1_000_000_000)


def test_the_journal_has_what_began_ended_and_a_sign_of_life_in_between(tmp_path: Path) -> None:
    cluster, clock = Cluster(), Clock()
    journal = a_journal(tmp_path / "new", clock)
    book = ChargeTotals(cluster.cache, ChargingSettings(), journal)
    cluster.shows(running("a"))

    def at(seconds: float) -> list[str]:
        clock.seconds = 100 + seconds
        book.look(clock.seconds)
        return events(journal.path)

    assert at(0) == ["began", "held", "listed"]
    assert at(15) == ["began", "held", "listed"]
    cluster.shows(running("b"))
    assert at(30)[3:] == ["held"]
    assert at(75)[3:] == ["held"]
    assert at(90)[3:] == ["held", "alive"]
    cluster.shows(running("a"), "deleted")
    assert at(105)[3:] == ["held", "alive", "ended"]
    assert [each["elapsedMilliseconds"] for each in lines(journal.path)] == [0, 0, 0, 30_000, 90_000, 105_000]
    assert journal.path.name == "allocator-7.jsonl"


def test_looks_are_15_seconds_apart(tmp_path: Path) -> None:
    cluster, clock = Cluster(), Clock()
    book = ChargeTotals(cluster.cache, ChargingSettings(), a_journal(tmp_path, clock))
    book.look(100.0)
    cluster.shows(running())
    book.look(114.0)
    assert not book.totals
    book.look(115.0)
    assert len(book.totals) == 1


def test_what_is_written_is_charged_across_a_restart(tmp_path: Path) -> None:
    """An hour in one process, an hour without any, an hour in the next one: a quarter of a card is held throughout."""
    cluster, clock, unix = Cluster(), Clock(), 1_790_000_000
    cluster.shows(running())
    path = a_journal(tmp_path, clock).path
    for began in (unix, unix + 7200):
        book = ChargeTotals(cluster.cache, ChargingSettings(), a_journal(tmp_path, clock, began))
        for _ in range(61):
            book.look(clock.seconds)
            clock.seconds += 60
    records = [allocation_journal.decode(each, "line:") for each in lines(path)]
    span = TimeSpan(unix * 1000, (unix + 10_800) * 1000)
    found = charges_of(records, span)
    assert (found.total.device_hours, found.total.gib_hours) == (Fraction(3, 4), Fraction(30))
    assert [each.milliseconds for each in found.gaps] == [3_600_000]


def test_what_cannot_be_written_begins_another_run_after_a_torn_line(tmp_path: Path) -> None:
    cluster, clock = Cluster(), Clock()
    journal = a_journal(tmp_path, clock)
    book = ChargeTotals(cluster.cache, ChargingSettings(), journal)
    journal.path.mkdir()
    book.look(clock.seconds)
    journal.path.rmdir()
    journal.path.write_text('{"torn', encoding="utf-8")
    clock.seconds += 15
    book.look(clock.seconds)
    torn, *rest = journal.path.read_text(encoding="utf-8").splitlines()
    assert torn == '{"torn'
    assert [json.loads(each)["event"] for each in rest] == ["began", "listed"]


def test_totals_are_by_owner_label_and_bounded(tmp_path: Path) -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        raw = running(name)
        cluster.shows({**raw, "metadata": {**raw["metadata"], "labels": {"payer": name}}})
    book = ChargeTotals(cluster.cache, ChargingSettings(owner_label="payer", most_owners=2))
    book.look(0.0)
    assert {key.owner: float(total.devices) for key, total in book.totals.items()} == {
        "a": 0.25,
        "b": 0.25,
        "(other)": 0.25,
    }
    assert list(tmp_path.iterdir()) == []
