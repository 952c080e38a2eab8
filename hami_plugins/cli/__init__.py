"""The command ``hami-plugins`` (also installed as ``kubectl-hami``). Imports its work only when a command runs.

Exit codes: 0 success, 1 findings (a pod does not fit, a check found a defect), 2 the command failed, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and say how it ended; the text goes to stdout, errors go to stderr as one clear line."""
    from hami_plugins.cli.kit import edge

    return edge.run(sys.argv[1:] if arguments is None else arguments)
