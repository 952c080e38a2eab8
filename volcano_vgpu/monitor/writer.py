"""The feedback loop: reads what containers did, decides (``feedback``), and writes the two fields that are a monitor's.

Nothing else of a region is ever written, nothing at all where it would say the same, and no file that is not known for
certain. There is one writer on a node: a lock says so, and where a pod looks like HAMi's or Volcano's own monitor, this
one does not write. Who stops writing lets everybody compute: a container that stayed blocked would never go on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from volcano_vgpu.core.monitor import feedback
from volcano_vgpu.core.monitor.feedback import Fields, Standing
from volcano_vgpu.monitor.files import NotPlainError, Parts, RegionFiles, opened, parts

TICK_SECONDS: Final = 5.0
"""What the library counts on: who launches something is active for one of these."""

_FIELD: Final = struct.Struct("<i")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """A region as it was read: which file it was, and what it said."""

    file: tuple[int, int]
    parts: Parts

    @property
    def fields(self) -> Fields:
        tail = self.parts.tail
        return Fields(tail.recent_kernel, tail.utilization_switch)

    def same(self, other: _Found | None) -> bool:
        """Whether it is the same file still, with the same fields; all else may have changed in between."""
        return other is not None and (self.file, self.fields) == (other.file, other.fields)

    @property
    def standing(self) -> Standing:
        cards = tuple(name for name in self.parts.header.uuids if name is not None)
        return Standing(cards=cards, priority=self.parts.tail.priority, fields=self.fields)


class WriterLock:
    """A file that one process of the node holds at a time; it is gone when no container is left blocked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None

    @property
    def left(self) -> bool:
        """Whether a writer is there, or ended without letting its containers go."""
        return self._path.exists()

    def acquire(self) -> bool:
        """Whether it is held by this process from now on. Raises ``OSError`` where no lock can be made."""
        if self._held is not None:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its owner may have removed it in between; then it locks out no other process.
            if os.path.samestat(os.fstat(file), self._path.stat()):
                self._held, file = file, -1
        except (BlockingIOError, FileNotFoundError):
            pass
        finally:
            if file >= 0:
                os.close(file)
        return self._held is not None

    def release(self) -> None:
        """Removes the file and lets go of it."""
        if self._held is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._held)
            self._held = None


class FeedbackWriter:
    """Writes at each ``step``. ``pods`` are those of the node, to see another monitor among them."""

    def __init__(
        self,
        files: RegionFiles,
        lock: WriterLock,
        pods: Callable[[], tuple[Mapping[str, Any], ...]],
        *,
        wrote: Callable[[], None] = lambda: None,
    ) -> None:
        self._files = files
        self._lock = lock
        self._pods = pods
        self._wrote = wrote
        self.blocking_reason = "no check has run yet"

    def step(self) -> None:
        """Looks once, and writes what has to change; ``blocking_reason`` says why it may not."""
        blocking_reason = self._hindered()
        if blocking_reason and blocking_reason != self.blocking_reason:
            _log.warning("feedback_paused", reason=blocking_reason)
        self.blocking_reason = blocking_reason
        if blocking_reason:
            return
        found = self._found()
        wanted = feedback.tick([each.standing for each in found.values()])
        for (path, each), fields in zip(found.items(), wanted, strict=True):
            self._write(path, each, fields)

    def let_go(self) -> None:
        """Lets every container compute, and gives the lock back; does nothing where another writer has it."""
        if self._lock.left and self._lock.acquire():
            for path, each in self._found().items():
                self._write(path, each, feedback.released(each.fields))
            self._lock.release()

    def _hindered(self) -> str:
        if other := feedback.other_monitor(self._pods()):
            return f"{other} looks like another monitor; remove it, or set monitor.feedback: false"
        try:
            return "" if self._lock.acquire() else "another process of this node writes feedback"
        except OSError as error:
            return f"no lock: {error.filename}: {error.strerror}; let the agent write there"

    def _found(self) -> Mapping[Path, _Found]:
        found: dict[Path, _Found] = {}
        for path in self._files.directories().values():
            with contextlib.suppress(OSError, NotPlainError), opened(path, os.O_RDONLY) as file:
                each = None if file is None else _look(file)
                if each is not None:
                    found[path] = each
        return found

    def _write(self, path: Path, before: _Found, wanted: Fields) -> None:
        """Writes what differs, into the same file, and only while it still says what was decided on."""
        if wanted == before.fields:
            return
        layout = before.parts.header.layout
        changes = (
            (layout.recent_kernel_at, before.fields.recent_kernel, wanted.recent_kernel),
            (layout.switch_at, before.fields.utilization_switch, wanted.utilization_switch),
        )
        try:
            with opened(path, os.O_RDWR) as file:
                if file is None or not before.same(_look(file)):
                    return
                for at, old, new in changes:
                    if old != new:
                        os.pwrite(file, _FIELD.pack(new), at)
                        self._wrote()
        except (OSError, NotPlainError) as error:
            _log.warning("feedback_not_written", path=str(path), error=str(error))


class FeedbackLoop:
    """A thread that steps every ``seconds``."""

    def __init__(self, writer: FeedbackWriter, *, seconds: float = TICK_SECONDS) -> None:
        self._writer = writer
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feedback", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, and lets every container compute."""
        self._stop.set()
        self._thread.join()
        self._writer.let_go()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._writer.step()
            except Exception:  # noqa: BLE001 - the outermost loop: the next step may work
                _log.exception("feedback_failed")


def _look(file: int) -> _Found | None:
    stat = os.fstat(file)
    found = parts(file)
    return _Found((stat.st_dev, stat.st_ino), found) if isinstance(found, Parts) else None
