"""Makes and removes MIG instances for the pods of the node, from a thread of its own: no call of the kubelet waits.

Each instance is written down before the driver is asked, and again after it has answered. So an agent that is killed at
any moment leaves a journal by which the next one finds out what is its own (``core.flexible_mig.settled``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

import structlog

from hami_plugins.errors import WireError
from hami_plugins.model.units import DeviceId
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.node.files import write_whole
from hami_plugins.wire.fields import Json
from volcano_vgpu.core import flexible_mig
from volcano_vgpu.core.flexible_mig import (
    BlockedPromise,
    Journal,
    JournalEntry,
    JournalState,
    MigPlace,
    MigStepKind,
    MigView,
)
from volcano_vgpu.discovery.partitions import Partitioner, PartitionError

JOURNAL: Final = "mig-instances.json"
"""The file below the agent's directory on the node (``hookPath``)."""

LOOK_SECONDS: Final = 15.0
"""Between two passes without a change notification, and so between two tries of a failed step."""

_log = structlog.get_logger(__name__)


class JournalFile:
    """The journal on the node's disk. Each write is whole and on the disk before it returns; raises ``OSError``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: Journal = {}

    def read(self) -> None:
        """Read the existing state. An unreadable journal is put aside: the instances it records as the agent's then
        belong to no one.
        """
        try:
            self.entries = flexible_mig.decode(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            self.entries = {}
        except (WireError, UnicodeDecodeError) as error:
            aside = self.path.with_suffix(".broken")
            self.path.replace(aside)
            _log.error("mig_journal_unreadable", error=str(error), kept_as=str(aside))
            self.entries = {}

    def write(self, entries: Journal) -> None:
        """Make this the journal."""
        if entries == self.entries:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(flexible_mig.encode(entries).encode(), self.path, mode=0o644)
        self.entries = entries


class PromiseSource(Protocol):
    """What the preparer reads of the node: its pods, and what containers were handed."""

    def pods(self) -> Iterable[Json] | None:
        """The pods of the node; ``None`` while the watch may lag behind, when nothing is removed or made."""

    def handed(self) -> Collection[tuple[DeviceId, str, int]]:
        """Card, profile and start of every instance that a container of a live pod was handed."""


class MigPreparer:
    """``on_change`` is called when an instance was created or removed, ``on_blocked`` with promises that cannot be kept
    now.
    """

    def __init__(  # noqa: PLR0913 - its collaborators, and its callbacks
        self,
        partitioner: Partitioner,
        journal: JournalFile,
        state: PromiseSource,
        *,
        node: str,
        spec: VendorSpec,
        on_change: Callable[[], None],
        on_blocked: Callable[[tuple[BlockedPromise, ...]], None],
        look: float = LOOK_SECONDS,
    ) -> None:
        self._partitioner = partitioner
        self._journal = journal
        self._state = state
        self._node = node
        self._spec = spec
        self._on_change = on_change
        self._on_blocked = on_blocked
        self._look = look
        self._told: tuple[BlockedPromise, ...] = ()
        self._failed: Mapping[MigPlace, str] = {}
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mig", daemon=True)

    @property
    def ours(self) -> Journal:
        """The instances that the agent has made, or is about to."""
        return self._journal.entries

    def start(self) -> None:
        """Begins with what an agent before this one left unfinished."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after the step under way; instances stay as they are for the next agent."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Something changed: a pod came or went."""
        self._wake.set()

    def prepare(self) -> None:
        """Do all pending work. A failure of one instance is reported, and does not keep another from being created.

        Raises ``PartitionError`` and ``OSError`` where the cards or the journal cannot be read.
        """
        self._failed = {}
        changed = self._settle()
        while not self._stop.is_set() and (view := self._view()) is not None:
            step = flexible_mig.next_step(self._open(), view)
            if step is None:
                self._tell(flexible_mig.blocked(self._journal.entries, view))
                break
            try:
                (self._create if step.kind is MigStepKind.CREATE else self._remove)(step.place)
                changed = True
                _log.info("mig_instance", step=step.kind, place=str(step.place), pods=list(step.pods))
            except PartitionError as error:
                self._failed = {**self._failed, step.place: str(error)}
                _log.warning("mig_instance_failed", step=step.kind, place=str(step.place), error=str(error))
            self._settle()
            if (step.place in self._journal.entries) != (step.kind is MigStepKind.CREATE):
                # Whatever the driver answered: a step that changed nothing is not repeated without end.
                self._failed = {step.place: f"the driver did not {step.kind} it", **self._failed}
        if changed:
            self._on_change()

    def _run(self) -> None:
        failed = ""
        try:
            self._journal.read()
        except OSError as error:
            _log.error("mig_journal_unreadable", error=str(error))
            return
        while not self._stop.is_set():
            self._wake.clear()
            try:
                self.prepare()
                failed = ""
            except (PartitionError, OSError) as error:
                if failed != str(error):
                    failed = str(error)
                    _log.warning("mig_not_prepared", error=failed)
            except Exception:  # noqa: BLE001 - the outermost loop: whatever a driver does, the agent stays
                _log.exception("mig_not_prepared")
            self._wake.wait(self._look)

    def _settle(self) -> bool:
        before = self._journal.entries
        self._journal.write(flexible_mig.settled(before, self._partitioner.existing()))
        return before != self._journal.entries

    def _view(self) -> MigView | None:
        pods = self._state.pods()
        if pods is None:
            return None
        found = flexible_mig.promised(pods, self._node, self._spec)
        return MigView(
            existing=self._partitioner.existing(),
            possible=self._partitioner.possible(),
            promised={place: names for place, names in found.items() if place not in self._failed},
            handed=self._state.handed(),
        )

    def _open(self) -> Journal:
        """The journal without what failed just now; the next look tries it again."""
        return {place: entry for place, entry in self._journal.entries.items() if place not in self._failed}

    def _create(self, place: MigPlace) -> None:
        entries = self._journal.entries
        self._journal.write({**entries, place: JournalEntry(place, JournalState.CREATING)})
        self._partitioner.create(place)

    def _remove(self, place: MigPlace) -> None:
        entries = self._journal.entries
        self._journal.write({**entries, place: entries[place]._replace(state=JournalState.REMOVING)})
        self._partitioner.destroy(place)

    def _tell(self, found: tuple[BlockedPromise, ...]) -> None:
        """Reports promises that cannot be kept, each reason once."""
        pods = self._state.pods() or ()
        failed = flexible_mig.promised(pods, self._node, self._spec) if self._failed else {}
        found += tuple(
            BlockedPromise(place, failed[place], why) for place, why in self._failed.items() if place in failed
        )
        new = tuple(each for each in found if each not in self._told)
        self._told = found
        if new:
            self._on_blocked(new)


def take_back(journal: JournalFile, partitioner: Partitioner, pods: Iterable[Json], node: str, spec: VendorSpec) -> str:
    """Remove the agent's instances that no live pod has and no process uses, and the journal with the last of them.

    The answer is why some stay, empty where none does. For the end of an agent: nothing is made any more.
    """
    try:
        journal.read()
        wanted = flexible_mig.promised(pods, node, spec)
        refused: set[MigPlace] = set()
        while True:
            existing = partitioner.existing()
            journal.write(flexible_mig.settled(journal.entries, existing))
            ours = {place: entry for place, entry in journal.entries.items() if place not in refused}
            step = flexible_mig.next_step(ours, MigView(existing=existing, possible={}, promised=wanted))
            if step is None:
                break
            refused.add(step.place)
            journal.write(
                {**journal.entries, step.place: journal.entries[step.place]._replace(state=JournalState.REMOVING)}
            )
            partitioner.destroy(step.place)
        if not journal.entries:
            journal.path.unlink(missing_ok=True)
            return ""
    except (PartitionError, OSError) as error:
        return f"MIG instances of the agent ({journal.path}): {error}"
    names = ", ".join(map(str, sorted(journal.entries)))
    return f"MIG instances {names}: a pod or a process uses them; end it, and run this again"
