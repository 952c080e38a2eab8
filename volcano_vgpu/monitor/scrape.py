"""One look at all regions of the node, joined with what is known of its pods."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hami_plugins.model.units import PodUid
from hami_plugins.wire.usage import ContainerUsage
from volcano_vgpu.core.monitor.join import Known, usage_of
from volcano_vgpu.core.monitor.regions import ContainerRegion, Content, Presence, Region
from volcano_vgpu.monitor.files import RegionFiles, read
from volcano_vgpu.monitor.processes import HostProcesses

LOOKS_AT_SILENCE: Final = 2
"""So often a region is read again in which something seems to compute nothing."""

PAUSE_SECONDS: Final = 0.01
"""Before each of them; a watcher takes some milliseconds to ask the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What was found, what the directories held, and how long it took."""

    containers: tuple[ContainerUsage, ...]
    contents: Mapping[Path, Content]
    seconds: float


class Scraper:
    """Looks when it is asked. Safe to use from several threads, one after the other.

    ``clock`` gives Unix seconds, ``pause`` waits; both are for tests.
    """

    def __init__(
        self,
        files: RegionFiles,
        processes: HostProcesses,
        known: Callable[[], Known],
        *,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._files = files
        self._processes = processes
        self._known = known
        self._clock = clock
        self._pause = pause
        self._lock = threading.Lock()

    def scrape(self) -> Scrape:
        """Reads all regions."""
        with self._lock:
            begin = time.perf_counter()
            contents = self._contents()
            look = self._processes.presence if self._processes.visible() else _unseen
            seen = [
                ContainerRegion(path.name, content, _presence(path.name, content, look))
                for path, content in contents.items()
            ]
            usages = usage_of(seen, self._known(), now=self._clock())
            return Scrape(containers=usages, contents=contents, seconds=time.perf_counter() - begin)

    def _contents(self) -> Mapping[Path, Content]:
        found = dict(self._files.read_all())
        for _ in range(LOOKS_AT_SILENCE):
            silent = {path: each for path, each in found.items() if isinstance(each, Region) and each.silent}
            if not silent:
                break
            self._pause(PAUSE_SECONDS)
            for path, before in silent.items():
                after = read(path)
                if isinstance(after, Region) and after.header == before.header:
                    found[path] = before.with_busiest(after)
        return found


Look = Callable[[int, int, PodUid], Presence]
"""Whether a process is there: its number on the host, that in its container, its pod."""


def _unseen(_hostpid: int, _pid: int, _pod: PodUid) -> Presence:
    return Presence.UNKNOWN


def _presence(name: str, content: Content, look: Look) -> tuple[Presence, ...]:
    """One for each process of a region; those that have exited need no lookup."""
    if not isinstance(content, Region):
        return ()
    pod = PodUid(name.partition("_")[0])
    return tuple(
        look(process.hostpid, process.pid, pod) if process.counts else Presence.GONE for process in content.processes
    )
