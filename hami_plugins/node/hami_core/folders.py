"""Folders that workloads fill: removed and measured, however deep, wide or private they are.

A workload writes what it wants into its folder. So nothing here recurses without a limit, no paths are joined (one of
3,000 levels is longer than the kernel takes), no link is followed, few descriptors are open, and the work has a limit.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

MOST_REMOVED: Final = 100_000
"""Entries that one call removes at most; the next call goes on."""

MOST_MEASURED: Final = 10_000
"""Entries that one call measures at most."""

DEEPEST_MEASURED: Final = 16
"""Levels that are measured, each of which takes a descriptor. HAMi-core itself uses one."""

_BATCH: Final = 1000
_BLOCK: Final = 512
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ALL: Final = 0o777


class Size(NamedTuple):
    """How much of the disk a folder takes, in bytes; ``whole`` is false where it takes more than was measured."""

    taken: int
    whole: bool


def remove_tree(path: Path, most: int = MOST_REMOVED) -> bool:
    """Remove a folder with all that is in it; whether it is gone. Where it is not, ``most`` entries are.

    A path that cannot be removed does not keep the rest: ``OSError`` with the first reason is raised at the end.
    Another user's folder is first made accessible to all, which takes the capability ``FOWNER`` and no other.
    """
    parent = os.open(path.parent, _OPEN)
    try:
        removal = _Removal(most)
        removal.remove(parent, path.name)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(parent)
    return removal.left > 0


def measure_tree(path: Path, most: int = MOST_MEASURED) -> Size:
    """How much a folder takes. What cannot be read, is too deep or beyond ``most`` entries is not counted."""
    measured = _Measurement(most)
    try:
        opened = os.open(path, _OPEN)
    except FileNotFoundError:
        return Size(0, whole=True)
    except OSError:
        return Size(0, whole=False)
    try:
        measured.add(opened)
    except OSError:
        measured.whole = False
    finally:
        os.close(opened)
    return Size(measured.taken, measured.whole)


class _Removal:
    """Moves every inner folder up into the outermost one, so that the tree is never more than two levels deep."""

    def __init__(self, most: int) -> None:
        self.left = most
        self._error: OSError | None = None

    def remove(self, parent: int, name: str) -> None:
        """Raises the first error where something stays for good."""
        with _opened(parent, name) as top:
            self._empty(top, lambda inner: self._flatten(top, inner))
        if self._error is not None:
            raise self._error
        if self.left > 0:
            os.rmdir(name, dir_fd=parent)

    def _flatten(self, top: int, name: str) -> None:
        """Removes a folder inside the outermost one, and moves the folders in it up to the outermost one."""
        with _opened(top, name) as folder:
            self._empty(folder, lambda inner: _move(folder, inner, top))
        if self.left > 0:
            os.rmdir(name, dir_fd=top)

    def _empty(self, folder: int, take: Callable[[str], None]) -> None:
        """Removes the files of a folder, and has its folders taken; what cannot be removed is passed over."""
        stuck: set[str] = set()
        while len(stuck) < _BATCH and (found := _entries(folder, stuck)):
            for name, is_folder in found:
                if self.left <= 0:
                    return
                self.left -= 1
                try:
                    if is_folder:
                        take(name)
                    else:
                        os.unlink(name, dir_fd=folder)
                except OSError as error:
                    stuck.add(name)
                    self._error = self._error or error


def _move(folder: int, name: str, top: int) -> None:
    """Moving a folder writes into it (its ``..``), so that it has to be open to this process."""
    _open_to_all(folder, name)
    os.rename(name, uuid4().hex, src_dir_fd=folder, dst_dir_fd=top)


@contextlib.contextmanager
def _opened(parent: int, name: str) -> Iterator[int]:
    _open_to_all(parent, name)
    opened = os.open(name, _OPEN, dir_fd=parent)
    try:
        yield opened
    finally:
        os.close(opened)


def _open_to_all(parent: int, name: str) -> None:
    """Lets every user list and change a folder, also one with the sticky bit; where that fails it may do without."""
    with contextlib.suppress(OSError):
        found = os.open(name, _OPEN | os.O_PATH, dir_fd=parent)
        try:
            if stat.S_IMODE(os.fstat(found).st_mode) != _ALL:
                # fchmod takes no such descriptor, and any other needs the right to read the folder.
                Path(f"/proc/self/fd/{found}").chmod(_ALL)
        finally:
            os.close(found)


def _entries(folder: int, passed: set[str]) -> list[tuple[str, bool]]:
    """Some entries of a folder, each with whether it is a folder."""
    with os.scandir(folder) as found:
        rest = (each for each in found if each.name not in passed)
        return [(each.name, each.is_dir(follow_symlinks=False)) for each in islice(rest, _BATCH)]


class _Measurement:
    def __init__(self, most: int) -> None:
        self.taken = 0
        self.whole = True
        self._left = most
        self._linked: set[tuple[int, int]] = set()

    def add(self, folder: int, level: int = 1) -> None:
        with os.scandir(folder) as found:
            for entry in found:
                if self._left <= 0:
                    self.whole = False
                    return
                self._left -= 1
                self._count(folder, entry, level)

    def _count(self, folder: int, entry: os.DirEntry[str], level: int) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                if (status.st_dev, status.st_ino) in self._linked:
                    return
                self._linked.add((status.st_dev, status.st_ino))
            self.taken += status.st_blocks * _BLOCK
            if not stat.S_ISDIR(status.st_mode):
                return
            if level >= DEEPEST_MEASURED:
                self.whole = False
                return
            inner = os.open(entry.name, _OPEN, dir_fd=folder)
            try:
                self.add(inner, level + 1)
            finally:
                os.close(inner)
        except FileNotFoundError:
            return
        except OSError:
            self.whole = False
