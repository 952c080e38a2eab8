"""Looks twice for what ended pods left in a folder, in a process of its own: ``python -m ... HOOK CDI [LOOKS]``.

Prints one JSON line: the pods that were removed, the directories that stay, and what the process reports about them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from structlog.testing import capture_logs

from volcano_vgpu.agent.cdi import CdiDirectory
from volcano_vgpu.agent.containers import ContainerDirectories, GarbageCollector


def main(hook: str, cdi: str, looks: str = "2") -> None:
    """See above."""
    directories = ContainerDirectories(Path(hook), Path(hook) / "lock")
    leftovers = GarbageCollector(CdiDirectory(Path(cdi)), directories, recorded=frozenset, live=frozenset)
    removed: set[str] = set()
    with capture_logs() as logs:
        for _ in range(int(looks)):
            removed |= leftovers.collect()
    print(json.dumps({"removed": sorted(removed), "left": directories.names(), "logs": logs}, default=str))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
