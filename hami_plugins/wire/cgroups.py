"""The owner of a process, by the text of its ``/proc/PID/cgroup``: a pod and a container, or the host itself.

Kubelets name the folders of pods by UID, with ``-`` or, where systemd manages them, with ``_``; container runtimes name
those of containers by their id of 64 hexadecimal digits (containerd, CRI-O, Docker).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hami_plugins.model.units import PodUid

_POD: Final = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_CONTAINER: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class ProcessOwner(NamedTuple):
    """The pods that a process belongs to (more than one only where hierarchies disagree), and its container's id."""

    pods: frozenset[PodUid] = frozenset()
    container_id: str = ""


def owner_of(text: str) -> ProcessOwner:
    """Reads a process's control groups; a process of the host has no pod and no container."""
    containers = _CONTAINER.findall(text)
    pods = frozenset(PodUid(found.replace("_", "-")) for found in _POD.findall(text))
    return ProcessOwner(pods, containers[-1] if containers else "")
