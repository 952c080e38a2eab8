"""The directories of containers on the host, where HAMi-core keeps its shared cache, and what is left of gone pods.

Owner and mode, and why:

* ``<hook>/vgpu/containers`` belongs to root, 0755: no container can move or replace another's directory.
* ``.../<pod UID>_<container>`` is 0777, for the cache in it is made by whatever user the container runs as, and
  several users of a container share it. It is not sticky: with ``fs.protected_regular``, which is usual, a second user
  could not open the first one's cache in a sticky directory. Only this one container sees the directory.
* ``/tmp/vgpulock`` is 0777 and not sticky either: it holds one lock file for all containers of the node, and whoever
  finds it stale has to remove it, whoever made it.

A directory is never emptied or made anew: a container that runs would lose its cache.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import structlog

from hami_plugins.hami_core.directories import make_for_all
from hami_plugins.model.units import PodUid
from volcano_vgpu.cdi import CdiDirectory
from volcano_vgpu.refusals import Code, Refusal

FOR_ROOT: Final = 0o755

_DEVICE_FILES: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")

_NAME: Final = re.compile(r"([A-Za-z0-9-]{1,64})_([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)", re.ASCII)

_log = structlog.get_logger(__name__)


class ContainerDirectories:
    """One directory for each container that was served."""

    def __init__(self, hook: Path, lock: Path) -> None:
        self._root = hook / "vgpu" / "containers"
        self._lock = lock

    @property
    def root(self) -> Path:
        """The directory that all of them are in."""
        return self._root

    def make(self, names: Collection[str]) -> Refusal | None:
        """Make the directories of these containers (``<pod UID>_<container>``) where they are not there yet."""
        path = self._root
        try:
            self._root.mkdir(mode=FOR_ROOT, parents=True, exist_ok=True)
            for name in names:
                if _NAME.fullmatch(name) is None:
                    return Refusal(Code.DIRECTORY, f"{name!r} is no name of a directory: want <pod UID>_<container>")
                path = self._root / name
                make_for_all(path)
            path = self._lock
            make_for_all(path)
        except OSError as error:
            return Refusal(
                Code.DIRECTORY,
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

    def remove(self, name: str) -> None:
        """Remove the directory of a container that is gone; what cannot be removed is tried again next time."""
        path = self._root / name
        try:
            shutil.rmtree(path)
        except OSError as error:
            _log.warning("container_directory_kept", path=str(path), error=str(error))


class Leftovers:
    """Removes what belongs to pods that are gone.

    A pod is gone when neither the kubelet's record nor the pods of this node have it, at two looks in a row: the record
    is written late, and the watch may lag behind. ``recorded`` and ``live`` raise or give ``None`` where they do not
    know; then nothing is removed.
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
        self._missing: frozenset[PodUid] = frozenset()

    def collect(self) -> frozenset[PodUid]:
        """Look once; the pods whose remains were removed now."""
        recorded, live = self._recorded(), self._live()
        if recorded is None or live is None:
            self._missing = frozenset()
            return frozenset()
        names = self._directories.names()
        known = self._specifications.pods | {_pod_of(name) for name in names}
        missing = frozenset(known - frozenset(recorded) - frozenset(live))
        gone = missing & self._missing
        self._missing = missing - gone
        for uid in gone:
            self._specifications.forget(uid)
        for name in names:
            if _pod_of(name) in gone:
                self._directories.remove(name)
        if gone:
            _log.info("leftovers_removed", pods=sorted(gone))
        return gone


def owner_of(name: str) -> tuple[PodUid, str] | None:
    """The pod and the container that a directory of that name is for; ``None`` where it is no such name."""
    match = _NAME.fullmatch(name)
    return None if match is None else (PodUid(match.group(1)), match.group(2))


def device_files(root: Path = Path("/dev")) -> tuple[str, ...]:
    """The device files that a container needs beside those of its cards, as far as the driver has made them by now."""
    return tuple(str(root / name) for name in _DEVICE_FILES if (root / name).exists())


def _pod_of(name: str) -> PodUid:
    return PodUid(name.partition("_")[0])
