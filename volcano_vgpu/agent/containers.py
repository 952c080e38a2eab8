"""The directories of containers on the host, where HAMi-core keeps its shared cache, and what is left of gone pods.

Owner and mode, and why:

* ``<hook>/vgpu/containers`` belongs to root, 0755: no container can move or replace another's directory.
* ``.../<pod UID>_<container>`` is 0777, for the cache in it is made by whatever user the container runs as, and
  several users of a container share it. It is not sticky: with ``fs.protected_regular``, which is usual, a second user
  could not open the first one's cache in a sticky directory. Only this one container sees the directory.
* ``/tmp/vgpulock`` is 0777 and not sticky either: it holds one lock file for all containers of the node, and any
  process that finds it stale has to remove it, whichever user created it.

A directory is never emptied or made anew: a container that runs would lose its cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from hami_plugins.model.units import PodUid
from hami_plugins.node.hami_core.directories import make_for_all
from hami_plugins.node.hami_core.folders import measure_tree, remove_tree
from volcano_vgpu.agent.cdi import CdiDirectory
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode

FOR_ROOT: Final = 0o755

_DEVICE_FILES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")

_NAME: Final = re.compile(r"([A-Za-z0-9-]{1,64})_([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)", re.ASCII)

LONGEST_PAUSE: Final = 64
"""Looks between two tries to remove what cannot be removed."""

_CERTAIN: Final = 2
"""Looks after which a pod is gone."""

REMEDY: Final = "run the agent as root with the capability FOWNER, or remove it by hand"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DirectoryTotals:
    """What directories of containers take on the node's disk.

    ``size`` is in bytes. ``unmeasured`` is how many of them take more than that: they have too many entries or levels,
    or are private to another user.
    """

    count: int = 0
    size: int = 0
    unmeasured: int = 0

    def plus(self, other: DirectoryTotals) -> DirectoryTotals:
        """Both together."""
        return DirectoryTotals(self.count + other.count, self.size + other.size, self.unmeasured + other.unmeasured)


class ContainerDirectories:
    """One directory for each container that was served."""

    def __init__(self, hook: Path, lock: Path) -> None:
        self._root = hook / "vgpu" / "containers"
        self._lock = lock

    @property
    def root(self) -> Path:
        """The directory that all of them are in."""
        return self._root

    def make(self, names: Collection[str]) -> ContainerRefusal | None:
        """Make the directories of these containers (``<pod UID>_<container>``) where they are not there yet."""
        path = self._root
        try:
            self._root.mkdir(mode=FOR_ROOT, parents=True, exist_ok=True)
            for name in names:
                if _NAME.fullmatch(name) is None:
                    return ContainerRefusal(
                        RefusalCode.DIRECTORY, f"{name!r} is not a valid directory name; expected <pod UID>_<container>"
                    )
                path = self._root / name
                make_for_all(path)
            path = self._lock
            make_for_all(path)
        except OSError as error:
            return ContainerRefusal(
                RefusalCode.DIRECTORY,
                f"{path}: {error.strerror or error}; let the agent make directories there (hookPath is {self._root})",
            )
        return None

    def names(self) -> tuple[str, ...]:
        """The directories that are there."""
        try:
            return tuple(sorted(path.name for path in self._root.iterdir() if _NAME.fullmatch(path.name)))
        except FileNotFoundError:
            return ()

    def path(self, name: str) -> Path:
        """The directory of that name."""
        return self._root / name

    def measure(self, name: str) -> DirectoryTotals:
        """What the directory of that name takes."""
        size = measure_tree(self.path(name))
        return DirectoryTotals(1, size.taken, int(not size.whole))

    def remove(self, name: str) -> bool:
        """Remove the directory of a container that is gone; false where it is so large that the next call goes on.

        Raises ``OSError`` where something of it cannot be removed; the rest is.
        """
        return remove_tree(self.path(name))


class _Kept(NamedTuple):
    """Why something of a pod stays, how often its removal failed, and at which look it is tried again."""

    reason: str
    failures: int
    due: int


class GarbageCollector:
    """Removes what belongs to pods that are gone.

    A pod is gone when neither the kubelet's record nor the pods of this node have it, in two checks in a row: the
    record is written late, and the watch may lag behind. ``recorded`` and ``live`` raise or return ``None`` if they do
    not know; then nothing is removed. A directory that cannot be removed is logged once and retried, ever more seldom;
    it does not block others.
    """

    def __init__(
        self,
        specifications: CdiDirectory,
        directories: ContainerDirectories,
        *,
        recorded: Callable[[], Collection[PodUid] | None],
        live: Callable[[], Collection[PodUid] | None],
    ) -> None:
        self._specifications = specifications
        self._directories = directories
        self._recorded = recorded
        self._live = live
        self._looks = 0
        self._missing: frozenset[PodUid] = frozenset()
        self._kept: Mapping[PodUid, _Kept] = {}
        self.totals: Mapping[str, DirectoryTotals] = {}
        """By state (``in_use``, ``not_removed``), as of the last look."""

    @property
    def kept(self) -> str | None:
        """What of ended pods cannot be removed, and why; empty where nothing stays, ``None`` before the second look."""
        if self._looks < _CERTAIN:
            return None
        if not self._kept:
            return ""
        first, rest = min(self._kept.items()), len(self._kept) - 1
        others = f" (and those of {rest} more pods)" if rest else ""
        return f"files of pod {first[0]}, which ended, cannot be removed: {first[1].reason}{others}; {REMEDY}"

    def collect(self) -> frozenset[PodUid]:
        """Look once; the pods whose remains were removed now."""
        recorded, live = self._recorded(), self._live()
        if recorded is None or live is None:
            self._missing = frozenset()
            return frozenset()
        self._looks += 1
        names = self._directories.names()
        known = self._specifications.pods | {_pod_of(name) for name in names}
        missing = frozenset(known - frozenset(recorded) - frozenset(live))
        gone, self._missing = missing & self._missing, missing
        self._kept = {uid: kept for uid, kept in self._kept.items() if uid in missing}
        removed = frozenset(uid for uid in sorted(gone) if self._due(uid) and self._removed(uid, names))
        if removed:
            _log.info("leftovers_removed", pods=sorted(removed))
        self._measure()
        return removed

    def _due(self, uid: PodUid) -> bool:
        kept = self._kept.get(uid)
        return kept is None or kept.due <= self._looks

    def _removed(self, uid: PodUid, names: Collection[str]) -> bool:
        """Whether all that a pod left is gone now."""
        reasons, whole = [], True
        if why := self._specifications.forget(uid):
            reasons.append(why)
        for name in names:
            if _pod_of(name) == uid:
                try:
                    whole = self._directories.remove(name) and whole
                except OSError as error:
                    reasons.append(f"{self._directories.path(name)}: {error.strerror or error}")
        before = self._kept.get(uid)
        self._kept = {other: kept for other, kept in self._kept.items() if other != uid}
        if reasons:
            failures = 1 if before is None else before.failures + 1
            due = self._looks + min(LONGEST_PAUSE, 2**failures)
            self._kept = {**self._kept, uid: _Kept(reasons[0], failures, due)}
            if before is None:
                _log.warning("leftovers_kept", pod_uid=uid, reason=reasons[0], remedy=REMEDY)
        return whole and not reasons

    def _measure(self) -> None:
        totals = {"in_use": DirectoryTotals(), "not_removed": DirectoryTotals()}
        for name in self._directories.names():
            state = "not_removed" if _pod_of(name) in self._kept else "in_use"
            totals[state] = totals[state].plus(self._directories.measure(name))
        self.totals = totals


def owner_of(name: str) -> tuple[PodUid, str] | None:
    """The pod and the container that a directory of that name is for; ``None`` for any other name."""
    match = _NAME.fullmatch(name)
    return None if match is None else (PodUid(match.group(1)), match.group(2))


def device_files(root: Path = Path("/dev")) -> tuple[str, ...]:
    """The device files that a container needs besides those of its cards, if the driver has created them by now."""
    return tuple(str(root / name) for name in _DEVICE_FILES if (root / name).exists())


def _pod_of(name: str) -> PodUid:
    return PodUid(name.partition("_")[0])
