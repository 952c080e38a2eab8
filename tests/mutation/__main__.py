"""``make mutate [ARGS="ROOM ... [--only TEXT]"]``: every survivor and the share of survivors, for each room.

A survivor is a change that no test of the room notices: a test is missing, or the change makes no difference. The exit
status is 1 where more than 3 % of a room survive. Reports are kept as ``build/mutation-ROOM.txt``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.mutation.operators import Mutation, mutations
from tests.mutation.rooms import ROOMS, ROOT
from tests.mutation.trying import FLAGS, Trial

MOST: Final = 0.03


def main(arguments: list[str]) -> int:
    """One room in this process, several in one process each: each room has modules that nothing has used yet."""
    only = arguments.pop(arguments.index("--only") + 1) if "--only" in arguments else ""
    names = [each for each in arguments if each != "--only"] or list(ROOMS)
    unknown = sorted(set(names) - set(ROOMS))
    if unknown:
        sys.stderr.write(f"no such room: {', '.join(unknown)}; there are {', '.join(ROOMS)}\n")
        return 2
    if len(names) == 1:
        return _room(names[0], only)
    options = ["--only", only] if only else []
    command = [sys.executable, "-m", "tests.mutation"]
    return max(subprocess.run([*command, each, *options], cwd=ROOT, check=False).returncode for each in names)


def _room(name: str, only: str) -> int:
    room = ROOMS[name]
    wanted = [each for path in room.files() for each in _of_file(path) if only in each.name]
    trial = Trial(room, wanted, jobs=os.cpu_count() or 1)
    status = pytest.main([*FLAGS, *room.tests], plugins=[trial])
    if trial.broken or status not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        sys.stderr.write(f"\n{name}: tests fail without any change: {', '.join(trial.broken[:3]) or status}\n")
        return 2
    share = len(trial.survivors) / max(1, trial.tried)
    lines = [f"{each.name}: {why}" for each, why in trial.survivors]
    lines.append(f"{name}: {len(trial.survivors)} of {trial.tried} changes survive ({share:.1%})")
    text = "".join(f"{each}\n" for each in lines)
    (ROOT / "build" / f"mutation-{name}.txt").write_text(text)
    sys.stdout.write(f"\n{text}")
    return int(share > MOST)


def _of_file(path: Path) -> list[Mutation]:
    return mutations(str(path.relative_to(ROOT)), path.read_text())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
