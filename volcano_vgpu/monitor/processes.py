"""Whether the process that a slot names is still there, as far as the host's processes can be seen.

A process that was killed leaves its slot as it was. Its number on the host may belong to another process by now: that
one has another number inside its own namespace, or is in another pod's control group.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Final

from hami_plugins.model.units import PodUid
from hami_plugins.wire import cgroups
from volcano_vgpu.core.monitor.regions import Presence

_READ_BYTES: Final = 8192
_KERNEL: Final = b"kthreadd\n"
"""Process 2 of the host; no other namespace has it."""

_GONE: Final = frozenset({errno.ENOENT, errno.ESRCH})
_DEAD: Final = b"\nState:\tZ"
_INNER: Final = re.compile(rb"\nNSpid:[\t\d]*\t(\d+)\n")


class HostProcesses:
    """The processes of the host as ``root``, usually ``/proc``, shows them."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def visible(self) -> bool:
        """Whether these are the host's processes, and not those of a container alone."""
        return self._read("2/comm") == _KERNEL

    def presence(self, hostpid: int, pid: int, pod: PodUid) -> Presence:
        """Whether the process ``hostpid`` of the host is ``pid`` in its own namespace, and belongs to that pod."""
        if hostpid <= 0:
            return Presence.UNKNOWN
        status = self._read(f"{hostpid}/status")
        if status is None:
            return Presence.UNKNOWN
        inner = _INNER.search(status)
        if not status or _DEAD in status or (inner is not None and int(inner.group(1)) != pid):
            return Presence.GONE
        owners = cgroups.owner_of((self._read(f"{hostpid}/cgroup") or b"").decode(errors="replace")).pods
        return Presence.GONE if owners and pod not in owners else Presence.RUNNING

    def _read(self, name: str) -> bytes | None:
        """The beginning of a file; empty for a missing process, ``None`` if it may not be read."""
        try:
            opened = os.open(f"{self._root}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.read(opened, _READ_BYTES)
            finally:
                os.close(opened)
        except OSError as error:
            return b"" if error.errno in _GONE else None
