"""What the real components kept of the cases, as a file: who was asked, when, and which cases held.

A run of all cases of a suite against the real components writes its part anew (``tests/cluster``, ``--update-golden``):
that of the suite and of the release of the component under test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Final, TypedDict

FILE: Final = Path(__file__).with_name("real_run.json")


class Run(TypedDict):
    """One suite against the real components: the day, their versions by name, and the cases that held."""

    day: str
    versions: Mapping[str, str]
    kept: list[str]


def runs() -> dict[str, list[Run]]:
    """The last complete run of each suite with each release that had one, the oldest release first."""
    found: dict[str, list[Run]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return found


def tested(run: Run) -> str:
    """The release of the component that the suite is about: the first of the versions."""
    return next(iter(run["versions"].values()))


def write(suite: str, *, day: date, versions: Mapping[str, str], kept: Iterable[str]) -> None:
    """Put a complete run of a suite in the place of its last one with the same release."""
    fresh: Run = {"day": day.isoformat(), "versions": dict(versions), "kept": list(kept)}
    others = [run for run in runs().get(suite, []) if tested(run) != tested(fresh)]
    every = sorted([*others, fresh], key=lambda run: [int(part) for part in tested(run).split(".")])
    FILE.write_text(json.dumps(runs() | {suite: every}, indent=1) + "\n", encoding="utf-8")
