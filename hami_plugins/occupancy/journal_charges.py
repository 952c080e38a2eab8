"""Charges from journals of allocations: what their runs say, and what is true of the time between two runs.

A bound pod keeps its allocation, so a pod that holds it before and after a gap is charged for the gap. A pod that ended
in a gap is charged up to the gap, one that began in it from its end on; the possible rest is ``uncertain``. Each moment
counts once: if the machine's clock was set back between two runs, or two replicas wrote at the same time, time that was
already counted is not counted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hami_plugins.model.charges import NOTHING_CHARGED, ChargedAmount, ChargeKey, HeldAmount
from hami_plugins.model.units import PodUid, VendorName
from hami_plugins.occupancy.charges import ChargeReport, TimeSpan
from hami_plugins.wire.allocation_journal import AllListed, JournalEvent, JournalRecord, PodEnded, PodHeld, RunBegan

LONGEST_SILENCE: Final = 150_000
"""Milliseconds between two lines of a healthy writer, at most: it says at least once a minute that it writes."""

_Holder = tuple[PodUid, VendorName]


class JournalRun(NamedTuple):
    """What one process wrote: when each line was, in Unix milliseconds by the time of day at its beginning."""

    name: str
    began: int
    events: tuple[tuple[int, JournalEvent], ...]


def charges_of(records: Iterable[JournalRecord], span: TimeSpan, *, defects: Sequence[str] = ()) -> ChargeReport:
    """What the runs charge in the span. ``defects`` are what the reader of the files could not use."""
    runs, wrong = runs_of(records)
    account = _Account(span)
    for run in runs:
        account.take(run)
    account.close()
    return ChargeReport(
        span=span,
        charged=account.charged,
        gaps=tuple(account.gaps),
        uncertain=account.uncertain,
        defects=(*defects, *wrong),
        remarks=tuple(account.remarks),
    )


def runs_of(records: Iterable[JournalRecord]) -> tuple[tuple[JournalRun, ...], tuple[str, ...]]:
    """The complete runs, the earliest first, and what is wrong with the others."""
    found: dict[str, list[JournalRecord]] = {}
    for record in records:
        found.setdefault(record.run, []).append(record)
    runs: list[JournalRun] = []
    wrong: list[str] = []
    for name, lines in found.items():
        first = lines[0].event
        if not isinstance(first, RunBegan):
            wrong.append(f"run {name}: its first line is missing, so that its times are not known; it is left out")
        elif not any(isinstance(each.event, AllListed) for each in lines):
            wrong.append(f"run {name}: it ended before it had written all that was held; it is left out")
        else:
            runs.append(JournalRun(name, first.unix_milliseconds, tuple(_timed(lines, first.unix_milliseconds))))
    return tuple(sorted(runs, key=lambda run: (run.began, run.name))), tuple(wrong)


def _timed(lines: Iterable[JournalRecord], began: int) -> Iterator[tuple[int, JournalEvent]]:
    """The events with their times, none of which is before the one that stands before it."""
    at = began
    for line in lines:
        at = max(at, began + line.elapsed_milliseconds)
        yield at, line.event


class _Account:
    """What is held, since when, and what that has amounted to in the span."""

    def __init__(self, span: TimeSpan) -> None:
        self.charged: dict[ChargeKey, ChargedAmount] = {}
        self.uncertain = NOTHING_CHARGED
        self.gaps: list[TimeSpan] = []
        self.remarks: list[str] = []
        self._span = span
        self._held: dict[_Holder, tuple[HeldAmount, int]] = {}
        self._until: int | None = None

    def take(self, run: JournalRun) -> None:
        """The next run."""
        before = self._until
        if before is None:
            self._gap(TimeSpan(self._span.since, run.began))
        elif run.began < before:
            seconds = (before - run.began) / 1000
            self.remarks.append(
                f"run {run.name} began {seconds:.0f} s before the end of the one before it: a clock was set back, or "
                "two replicas wrote; that time counts once"
            )
        else:
            self._gap(TimeSpan(before, run.began))
        listed: set[_Holder] = set()
        is_listed = False
        for told_at, event in run.events:
            at = told_at if before is None else max(told_at, before)
            match event:
                case PodHeld(amount):
                    if not is_listed:
                        listed.add(amount.holder)
                        self._began_before(amount, at, before)
                    self._hold(amount, at)
                case PodEnded(uid, vendor):
                    self._end((uid, vendor), at)
                case AllListed():
                    is_listed = True
                    if before is not None:
                        self._drop_unlisted(listed, TimeSpan(before, at))
                case _:
                    pass
            self._until = at

    def close(self) -> None:
        """The journal ends. What was held then may still be."""
        until = self._until
        if until is None:
            self._gap(self._span)
            return
        self._gap(TimeSpan(until, self._span.until))
        for holder, (amount, _) in list(self._held.items()):
            self._end(holder, until)
            self._doubt(amount, TimeSpan(until, self._span.until))

    def _began_before(self, amount: HeldAmount, at: int, before: int | None) -> None:
        """A pod that a run finds when it begins, and that the run before it did not know."""
        if before is not None and amount.holder not in self._held:
            self._doubt(amount, TimeSpan(before, at))

    def _hold(self, amount: HeldAmount, at: int) -> None:
        known = self._held.get(amount.holder)
        if known is not None and known[0] == amount:
            return
        self._end(amount.holder, at)
        self._held[amount.holder] = amount, at

    def _end(self, holder: _Holder, at: int) -> None:
        known = self._held.pop(holder, None)
        if known is not None:
            amount, since = known
            during = amount.during(TimeSpan(since, at).within(self._span).milliseconds)
            self.charged[amount.key] = self.charged.get(amount.key, NOTHING_CHARGED).plus(during)

    def _drop_unlisted(self, listed: set[_Holder], gap: TimeSpan) -> None:
        """Pods that a run does not list when it begins ended in the gap before it."""
        for holder, (amount, _) in list(self._held.items()):
            if holder not in listed:
                self._end(holder, gap.since)
                self._doubt(amount, gap)

    def _doubt(self, amount: HeldAmount, span: TimeSpan) -> None:
        self.uncertain = self.uncertain.plus(amount.during(span.within(self._span).milliseconds))

    def _gap(self, span: TimeSpan) -> None:
        inside = span.within(self._span)
        if inside.milliseconds > LONGEST_SILENCE:
            self.gaps.append(inside)
