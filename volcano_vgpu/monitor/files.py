"""Reads the regions of this node's containers from their directories on the host.

A container can change its directory at will: put a link, a pipe or a device in place of the file, cut the file while it
is read, write anything into it. So nothing is opened before it is known to be a plain file, nothing is mapped into
memory, and an unreadable file is reported and hides no other. No file is kept open between two reads: a recreated file
is simply read the next time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from hami_plugins.wire import shared_region
from hami_plugins.wire.shared_region import Header, NotReady, Tail, UnreadableReason, UnreadableRegion
from volcano_vgpu.agent.containers import owner_of
from volcano_vgpu.core.edits import cache_name
from volcano_vgpu.core.monitor.regions import Content, Region

SUFFIX: Final = ".cache"
MOST_FILES: Final = 64
"""So many names are looked at in a directory whose file has not the name that the agent gives it."""

MOST_LOOKS: Final = 4
"""So often slots are read again that are being written."""

_LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC

_log = structlog.get_logger(__name__)


class Parts(NamedTuple):
    """What is before and behind the slots of a region."""

    header: Header
    tail: Tail


class NotPlainError(Exception):
    """Something else than a plain file has the file's name."""


class RegionFiles:
    """The directories of containers below ``roots``; where two have one of the same name, the first root's counts."""

    def __init__(self, roots: Iterable[Path]) -> None:
        self._roots = tuple(dict.fromkeys(roots))
        self._told: dict[Path, set[UnreadableReason]] = {}

    def directories(self) -> Mapping[str, Path]:
        """The directories by name (``<pod UID>_<container>``); a root that is not there has none."""
        found: dict[str, Path] = {}
        for root in self._roots:
            try:
                with os.scandir(root) as entries:
                    names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
            except OSError:
                continue
            for name in names:
                if owner_of(name) is not None:
                    found.setdefault(name, root / name)
        return found

    def read_all(self) -> Mapping[Path, Content]:
        """What every directory holds. A file that cannot be read is logged once for each reason."""
        found = {path: read(path) for path in self.directories().values()}
        self._told = {path: reasons for path, reasons in self._told.items() if path in found}
        for path, content in found.items():
            if isinstance(content, UnreadableRegion) and content.reason not in self._told.setdefault(path, set()):
                self._told[path].add(content.reason)
                _log.warning("region_unreadable", path=str(path), reason=content.reason.value, error=content.text)
        return found


def read(directory: Path) -> Content:
    """What a container's directory holds."""
    try:
        with opened(directory, os.O_RDONLY) as file:
            return None if file is None else _region(file)
    except NotPlainError as error:
        return UnreadableRegion(UnreadableReason.NO_FILE, str(error))
    except OSError as error:
        return UnreadableRegion(UnreadableReason.NO_ACCESS, error.strerror or str(error))


@contextmanager
def opened(directory: Path, mode: int) -> Iterator[int | None]:
    """The descriptor of the region's file, ``None`` where there is none.

    Raises ``NotPlainError`` where something else has its name, and ``OSError`` where it cannot be opened.
    """
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = _found(folder, directory.name)
    finally:
        os.close(folder)
    if found is None:
        yield None
        return
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise NotPlainError("the container has replaced the file; delete the pod")
        # Opened by its descriptor, it is the same file that was looked at, whatever has its name by now.
        file = os.open(f"/proc/self/fd/{found}", mode | _FLAGS)
    finally:
        os.close(found)
    try:
        yield file
    finally:
        os.close(file)


def parts(file: int) -> Parts | NotReady | UnreadableRegion:
    """Reads them, and nothing of the slots."""
    head = os.pread(file, shared_region.HEADER_BYTES, 0)
    header = shared_region.header(head, os.fstat(file).st_size)
    if not isinstance(header, Header):
        return header
    layout = header.layout
    tail = shared_region.tail(layout, os.pread(file, layout.tail_bytes, layout.tail))
    return Parts(header, tail) if isinstance(tail, Tail) else tail


def _found(folder: int, name: str) -> int | None:
    """A descriptor to look at the file with: the agent's own name for it, else the first of its kind."""
    try:
        return os.open(cache_name(name), _LOOK, dir_fd=folder)
    except FileNotFoundError:
        pass
    with os.scandir(folder) as entries:
        names = sorted(each.name for each in islice(entries, MOST_FILES) if each.name.endswith(SUFFIX))
    try:
        return os.open(names[0], _LOOK, dir_fd=folder) if names else None
    except FileNotFoundError:
        return None


def _region(file: int) -> Content:
    found = parts(file)
    if not isinstance(found, Parts):
        return found
    header, tail = found
    layout = header.layout
    length = tail.proc_num * layout.slot_size
    before = os.pread(file, length, layout.slots)
    unsettled: frozenset[int] = frozenset()
    for _ in range(MOST_LOOKS):
        after = os.pread(file, length, layout.slots)
        unsettled = shared_region.unsettled(layout, before, after)
        before = after
        if not unsettled:
            break
    if len(before) < length:
        return UnreadableRegion(
            UnreadableReason.SHRUNK, f"only {len(before)} bytes of {tail.proc_num} processes were there"
        )
    processes = shared_region.processes(header, before)
    return Region(header=header, tail=tail, processes=processes, unsettled=unsettled)
