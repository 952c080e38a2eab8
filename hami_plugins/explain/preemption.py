"""Our words for evictions: who would be evicted for a pod and by which rule, or why no pod may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hami_plugins.explain.messages import counted
from hami_plugins.plan.preemption import PlanEvictions, PlannedVictim
from hami_plugins.preemption.values import EvictedPod, NoVictims

MOST_NAMED: Final = 6
"""Victims of one node and rule that are named; the others are counted."""

GIVEN_UP: Final = "the search was given up after its number of steps; fewer pods may be enough"
NOT_ALL_TRIED: Final = "the search was given up after its number of steps; there may be pods to evict"


def lines(evictions: PlanEvictions | None, in_vain: NoVictims | None) -> Iterator[str]:
    """Result lines of the search for victims; none if preemption was not requested."""
    if evictions is not None:
        yield words(evictions)
        if evictions.cut:
            yield GIVEN_UP
    if in_vain is not None:
        yield f"would preempt no pod: {in_vain.why}"
        for spared, count in in_vain.spared:
            more = f" and {counted(count - 1, 'more pod')}" if count > 1 else ""
            yield f"may not evict {spared.pod.full_name}{more}: {spared.why}"
        if in_vain.cut:
            yield NOT_ALL_TRIED


def words(evictions: PlanEvictions) -> str:
    """Who would be evicted, or who leaves anyway: ``would preempt lab/a (priority 10 < 100) on n1``."""
    parts: dict[tuple[str, str], list[str]] = {}
    for victim in evictions.victims:
        parts.setdefault((victim.node, victim.grounds[0].words), []).append(victim.pod.full_name)
    told = [f"{_named(names)} ({why}) on {node}" for (node, why), names in parts.items()]
    ending = ending_words(evictions.ending)
    if not told:
        return f"needs no eviction: {ending}"
    return f"would preempt {', '.join(told)}{f'; {ending}' if ending else ''}"


def ending_words(ending: Iterable[EvictedPod]) -> str:
    """The pods on the chosen nodes that are being deleted already; empty for none."""
    names = [victim.pod.full_name for victim in ending]
    if not names:
        return ""
    return f"{_named(names)} {'is' if len(names) == 1 else 'are'} terminating already, and that is waited for"


def grounds_words(victim: PlannedVictim) -> str:
    """All rules by which a pod is evicted."""
    return "; ".join(ground.words for ground in victim.grounds)


def afterwards_words(victim: PlannedVictim) -> str:
    """What becomes of a victim that its controller creates again."""
    if not victim.followed:
        return "-"
    return "waits" if victim.again is None else f"fits on {victim.again}"


def _named(names: list[str]) -> str:
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return ", ".join(names[:MOST_NAMED] + more)
