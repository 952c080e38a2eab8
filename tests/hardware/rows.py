"""What the checks compare, and the table that they print. Nothing here needs a card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

COLUMNS: Final = ("CHECK", "EXPECTED", "MEASURED", "VERDICT")

OUT_OF_MEMORY: Final = 2
"""``CUDA_ERROR_OUT_OF_MEMORY``."""


class CheckRow(NamedTuple):
    """One line of the table."""

    check: str
    expected: str
    measured: str
    passed: bool


class Card(NamedTuple):
    """A card as ``nvidia-smi`` lists it; memory in MiB."""

    number: int
    uuid: str
    model: str
    memory: int


QUERY: Final = "index,uuid,name,memory.total"


def cards(text: str) -> tuple[Card, ...]:
    """The answer to ``nvidia-smi --query-gpu=QUERY --format=csv,noheader,nounits``. Raises ``ValueError``."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        parts = [each.strip() for each in line.split(",")]
        if len(parts) != len(QUERY.split(",")):
            raise ValueError(f"nvidia-smi printed {line!r}; expected {QUERY}")
        number, uuid, model, memory = parts
        found.append(Card(int(number), uuid, model, int(memory)))
    return tuple(found)


def discovered(ours: Sequence[Card], theirs: Sequence[Card]) -> CheckRow:
    """Whether discovery finds the cards that ``nvidia-smi`` lists: index, UUID, model, and memory to the MiB."""
    differs = [
        f"{name} {one!r} instead of {other!r} on card {want.number}"
        for have, want in zip(ours, theirs, strict=False)
        for name, one, other in zip(Card._fields, have, want, strict=True)
        if one != other
    ]
    if len(ours) != len(theirs):
        differs.insert(0, f"{len(ours)} cards instead of {len(theirs)}")
    expected = ", ".join(f"{each.model} {each.memory} MiB" for each in theirs)
    return CheckRow("NVML discovery", expected, "; ".join(differs) or "the same", not differs)


def equal(check: str, expected: int, measured: int | None, *, within: int = 0, unit: str = "MiB") -> CheckRow:
    """Whether a number is as expected, ``within`` so much."""
    passed = measured is not None and abs(measured - expected) <= within
    margin = f" ± {within}" if within else ""
    return CheckRow(
        check, f"{expected}{margin} {unit}", "nothing" if measured is None else f"{measured} {unit}", passed
    )


def code(check: str, expected: int, measured: int) -> CheckRow:
    """Whether a call of CUDA ended as expected; 0 is success."""
    words: Mapping[int, str] = {0: "success", OUT_OF_MEMORY: "out of memory"}
    want, found = (words.get(each, f"CUDA error {each}") for each in (expected, measured))
    return CheckRow(check, want, found, measured == expected)


def share(check: str, limited: float, free: float, *, percent: int) -> CheckRow:
    """Whether work goes on at about a limit of ``percent``: HAMi-core's control is rough, so half to double passes."""
    measured = 100 * limited / free if free > 0 else 0.0
    low, high = percent / 2, min(percent * 2, 90)
    return CheckRow(check, f"{low:.0f} to {high:.0f} %", f"{measured:.0f} %", low <= measured <= high)


def table(rows: Iterable[CheckRow]) -> str:
    """The rows in columns."""
    cells = [COLUMNS, *((*row[:3], "ok" if row.passed else "FAILED") for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(COLUMNS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "".join(f"{line.rstrip()}\n" for line in lines)
