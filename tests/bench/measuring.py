"""Timing with its spread, and a description of the machine it was taken on."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure with its spread. ``target`` bounds the median (from above, or below for rates)."""

    name: str
    unit: str
    min: float
    median: float
    p99: float
    max: float
    target: str
    met: bool


def figure(
    name: str,
    values: Sequence[float],
    *,
    unit: str = "ms",
    at_most: float | None = None,
    at_least: float | None = None,
    p99_at_most: float | None = None,
) -> Figure:
    """The spread of some measurements, held against the targets."""
    ordered = sorted(values)
    median = statistics.median(ordered)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    wanted: list[str] = []
    met = True
    if at_most is not None:
        wanted.append(f"median <= {at_most:g}")
        met &= median <= at_most
    if p99_at_most is not None:
        wanted.append(f"p99 <= {p99_at_most:g}")
        met &= p99 <= p99_at_most
    if at_least is not None:
        wanted.append(f"median >= {at_least:g}")
        met &= median >= at_least
    return Figure(
        name=name,
        unit=unit,
        min=ordered[0],
        median=median,
        p99=p99,
        max=ordered[-1],
        target=", ".join(wanted) or "-",
        met=met,
    )


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def timed(
    action: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> tuple[float, Result]:
    """How long one call takes, in milliseconds, and what it returns."""
    start = time.perf_counter()
    result = action(*arguments, **named)
    return (time.perf_counter() - start) * 1000, result


def machine() -> dict[str, object]:
    """What the figures were taken on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        cpu = models[0] if models else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": sys.version.split()[0],
    }


def printed(figures: Sequence[Figure]) -> str:
    """The figures as a table."""
    width = max(len(each.name) for each in figures)
    lines = [f"{'case':{width}}  {'min':>10} {'median':>10} {'p99':>10} {'max':>10}  unit   target"]
    for each in figures:
        verdict = "" if each.target == "-" else ("  met" if each.met else "  MISSED")
        lines.append(
            f"{each.name:{width}}  {each.min:10.2f} {each.median:10.2f} {each.p99:10.2f} {each.max:10.2f}"
            f"  {each.unit:5}  {each.target}{verdict}"
        )
    return "\n".join(lines)


def write(figures: Sequence[Figure], path: Path) -> None:
    """The figures as JSON: a list of them, each with the machine it was taken on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    described = machine()
    path.write_text(json.dumps([{**asdict(each), "machine": described} for each in figures], indent=2) + "\n")
