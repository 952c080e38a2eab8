"""Equal replicas together: names that differ in their last number as one, pods that follow each other as one row."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby

from hami_plugins.plan import PodPlan
from hami_plugins.plan.slices import runs

_NUMBERED = re.compile(r"(.*-)(0|[1-9][0-9]{0,8})", re.DOTALL)
_MOST_RUNS = 8
"""Runs of numbers that are written out in one name."""


def ranged(names: Iterable[str]) -> tuple[str, ...]:
    """The names in their order, those of replicas as one: ``team/web-[0-3,7]``."""
    return _ranged((name, 1) for name in names)


def ranged_plans(plans: Iterable[PodPlan]) -> tuple[str, ...]:
    """The same of planned pods, each of which may stand for the replicas after it."""
    return _ranged((plan.pod.full_name, plan.count) for plan in plans)


def _ranged(counted: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    numbers: dict[str, list[int]] = {}
    for name, count in counted:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            numbers.setdefault(name, [])
        else:
            numbers.setdefault(match[1], []).extend(range(int(match[2]), int(match[2]) + count))
    return tuple(_written(prefix, found) for prefix, found in numbers.items())


def size(plans: Iterable[PodPlan]) -> int:
    """How many pods some plans are about."""
    return sum(plan.count for plan in plans)


def _written(prefix: str, numbers: list[int]) -> str:
    if len(numbers) < 2:
        return f"{prefix}{numbers[0]}" if numbers else prefix
    parts = runs(numbers).split(",")
    more = [*parts[:_MOST_RUNS], "..."] if len(parts) > _MOST_RUNS else parts
    return f"{prefix}[{','.join(more)}]"


def is_among(name: str, shown: str) -> bool:
    """Whether a name is one of those that ``ranged`` has written as one."""
    match = _NUMBERED.fullmatch(name)
    return name == shown or (match is not None and shown.startswith(f"{match[1]}["))


def grouped(
    plans: Iterable[PodPlan], answer: Callable[[PodPlan], Hashable]
) -> Iterator[tuple[str, tuple[PodPlan, ...]]]:
    """Pods of one workload that follow each other with the same answer, under one name."""
    for _, group in groupby(plans, key=lambda plan: (plan.unit, _base(plan.pod.full_name), answer(plan))):
        together = tuple(group)
        (name,) = ranged_plans(together)
        yield name, together


def _base(name: str) -> str:
    match = _NUMBERED.fullmatch(name)
    return name if match is None else match[1]
