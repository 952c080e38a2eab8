"""``python -m tests.cluster.turn``: the Kubernetes release whose turn it is, printed for a run that may build only one.

The second in which the last commit was made says it: an even one the oldest release, an odd one the newest. It is the
same wherever the commit is tested, and a clone without history knows it. Sources without a commit get the oldest.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cluster.peers import KUBERNETES


def turn(second: int) -> str:
    """The release for a commit made in that second of the epoch."""
    oldest, *_, newest = KUBERNETES
    return newest if second % 2 else oldest


def committed() -> int:
    """The second of the last commit, zero where there is none."""
    asked = ["git", "log", "-1", "--format=%ct"]
    told = subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return int(told.stdout or 0)


if __name__ == "__main__":
    sys.stdout.write(turn(committed()) + "\n")
