"""How many pods of each kind run at the same time, where steps wait for each other.

A moment is what may run together: a count by shape (pods that ask for the same are of one shape). Of several moments,
each shape counts as often as in the moment that has most of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

Moments: TypeAlias = list[Counter[Hashable]]

MOST_MOMENTS: Final = 256
"""More of them count as one in which everything runs that runs in any."""

_DEPTH: Final = 3
_MOST_PARTS: Final = 12
"""The largest number of further parts, and of combinations, for which concurrency is computed."""


def largest(moments: Iterable[Counter[Hashable]]) -> Counter[Hashable]:
    """The most of each shape that any moment has."""
    found: Counter[Hashable] = Counter()
    for moment in moments:
        found |= moment
    return found


def one_after_another(parts: Iterable[Moments]) -> Moments:
    """The moments of parts that wait for each other."""
    return _bounded([moment for part in parts for moment in part])


def side_by_side(parts: Iterable[Moments]) -> Moments:
    """The moments of parts that run at the same time: any of one may meet any of the others."""
    found: Moments = [Counter()]
    for part in parts:
        if part:
            found = _bounded([one + other for one in found for other in part])
    return found


def by_dependencies(parts: Mapping[str, Moments], needs: Mapping[str, Sequence[str]]) -> Moments:
    """The moments of parts of which some wait for others to end: each with what neither waits for it nor it for.

    That is never too few, and too many only where very many of those wait for each other.
    """
    before = {name: _all_before(name, needs) for name in parts}
    return _bounded(_with_others(parts, before, _DEPTH))


def _with_others(parts: Mapping[str, Moments], before: Mapping[str, set[str]], depth: int) -> Moments:
    found: Moments = []
    for name, moments in parts.items():
        others = {
            other: parts[other]
            for other in parts
            if other != name and other not in before[name] and name not in before[other]
        }
        free: Counter[Hashable] = Counter()
        if depth and len(others) <= _MOST_PARTS:
            free = largest(_with_others(others, before, depth - 1))
        else:
            for each in others.values():
                free.update(largest(each))
        found += [moment + free for moment in moments]
    return found


def _all_before(name: str, needs: Mapping[str, Sequence[str]]) -> set[str]:
    found, waiting = set[str](), list(needs.get(name, ()))
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(needs.get(one, ()))
    return found


def capped(moments: Moments, most: int) -> Moments:
    """The moments where no more than so many pods run at once: of each shape at most that number."""
    return [Counter({shape: min(count, most) for shape, count in moment.items()}) for moment in moments]


def times(moments: Moments, copies: int) -> Moments:
    """The moments of equal parts side by side."""
    return [Counter({shape: count * copies for shape, count in moment.items()}) for moment in moments]


def _bounded(moments: Moments) -> Moments:
    return moments if len(moments) <= MOST_MOMENTS else [largest(moments)]
