"""``python -m tests.hardware --libvgpu PATH``: what only a card can show, as a table."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.hardware import rows
from tests.hardware.checks import CHECKS
from tests.hardware.machine import missing
from tests.hardware.rows import CheckRow


def main(arguments: Sequence[str]) -> int:
    """0 where every check passes, 1 where one fails, 2 where something is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hardware",
        description="Checks on the first NVIDIA card of this machine: discovery, HAMi-core's limits, nvidia-smi in a "
        "slice, the monitor's figures, two programs at once, resizes. Two to ten minutes; the card should be idle.",
    )
    parser.add_argument(
        "--libvgpu", metavar="PATH", type=Path, help="libvgpu.so of a HAMi-core that you have built here"
    )
    parser.add_argument("--check", action="store_true", help="only say what is missing on this machine")
    parser.add_argument("--only", metavar="NAME", choices=[each.__name__ for each in CHECKS], help="one of the checks")
    given = parser.parse_args(arguments)
    lacks = missing(given.libvgpu)
    for each in lacks:
        sys.stderr.write(f"missing: {each}\n")
    if lacks or given.check:
        return 2 if lacks else 0
    return run(given.libvgpu.absolute(), given.only)


def run(library: Path, only: str | None) -> int:
    """Each check by itself: one that breaks off is a failed row, and the others go on."""
    found: list[CheckRow] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for check in CHECKS:
            if only in {None, check.__name__}:
                sys.stderr.write(f"{check.__name__} ...\n")
                try:
                    found.extend(check(library, Path(folder)))
                except Exception as error:  # noqa: BLE001 - what went wrong is the result
                    found.append(
                        CheckRow(check.__name__, "to end", f"{type(error).__name__}: {error}"[:120], passed=False)
                    )
    sys.stdout.write(rows.table(found))
    seconds, passed = time.monotonic() - began, sum(each.passed for each in found)
    sys.stdout.write(f"{passed} of {len(found)} as expected, in {seconds:.0f} s\n")
    return 0 if all(each.passed for each in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
