"""What bound pods hold, looked at from time to time while a replica answers: for metrics and for a journal.

Two looks are ``EVERY`` seconds apart, and that is how exactly the journal knows when a pod began and ended to hold its
devices.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import orjson
import structlog

from hami_plugins.allocations.held_amounts import HeldAmounts, HeldTotal, Payer, named_payers, totals
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.settings import ChargingSettings
from hami_plugins.model.charges import ChargeKey, HeldAmount
from hami_plugins.model.units import PodUid, VendorName
from hami_plugins.wire import allocation_journal
from hami_plugins.wire.allocation_journal import (
    AllListed,
    JournalEvent,
    JournalRecord,
    PodEnded,
    PodHeld,
    RunAlive,
    RunBegan,
)

EVERY: Final = 15.0
"""Seconds between two looks."""

ALIVE_SECONDS: Final = 60.0
"""Seconds after which a journal says that it is still written, where nothing has changed."""

_log = structlog.get_logger(__name__)


class ChargeTotals:
    """``totals`` is what was held at the last look, by who is charged for it."""

    def __init__(
        self, cache: LockedAllocationCache, settings: ChargingSettings, journal: AllocationJournal | None = None
    ) -> None:
        self.totals: Mapping[ChargeKey, HeldTotal] = {}
        self._cache = cache
        self._settings = settings
        self._held = HeldAmounts(settings.owner_label)
        self._journal = journal
        self._named: frozenset[Payer] = frozenset()
        self._next = 0.0

    def look(self, now: float) -> None:
        """Looks, unless that was done a short while before ``now``."""
        if now < self._next:
            return
        self._next = now + EVERY
        held = self._held.of(self._cache.sheet())
        self._named = named_payers(self._named, held, self._settings.most_owners)
        self.totals = totals(held, self._named)
        if self._journal is not None:
            self._journal.note(held)


class AllocationJournal:
    """The file of one replica while it leads. A failed write is logged, and retried as another run."""

    def __init__(
        self,
        directory: Path,
        identity: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path = directory / f"{re.sub(r'[^A-Za-z0-9.-]', '-', identity)}.jsonl"
        self._identity = identity
        self._clock = clock
        self._now_ns = now_ns
        self._run = ""
        self._began = self._last = 0.0
        self._held: dict[tuple[PodUid, VendorName], HeldAmount] = {}

    def note(self, held: Iterable[HeldAmount]) -> None:
        """Writes what is other than at the last call; at the first one, all of it."""
        now = {each.holder: each for each in held}
        began = not self._run
        if began:
            unix = self._now_ns() // 1_000_000
            self._run, self._began = f"{self._identity} {unix}", self._clock()
            events: list[JournalEvent] = [RunBegan(unix), *map(PodHeld, now.values()), AllListed()]
        else:
            events = list(self._changes(now))
        if not events and self._clock() - self._last >= ALIVE_SECONDS:
            events = [RunAlive()]
        if not events:
            return
        try:
            self._write(events)
        except OSError as error:
            _log.warning("allocation_journal_not_written", path=str(self.path), error=str(error))
            self._run = ""
            return
        self._last, self._held = self._clock(), now

    def _changes(self, now: Mapping[tuple[PodUid, VendorName], HeldAmount]) -> Iterator[JournalEvent]:
        for holder in self._held:
            if holder not in now:
                yield PodEnded(*holder)
        for holder, amount in now.items():
            if self._held.get(holder) != amount:
                yield PodHeld(amount)

    def _write(self, events: Iterable[JournalEvent]) -> None:
        elapsed = int((self._clock() - self._began) * 1000)
        lines = (
            allocation_journal.encode(JournalRecord(run=self._run, elapsed_milliseconds=elapsed, event=each))
            for each in events
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            if file.tell() and not _ends_whole(self.path):
                file.write(b"\n")  # a line that an earlier process did not finish is unreadable
            file.write(b"".join(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in lines))
            file.flush()
            os.fsync(file.fileno())


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
