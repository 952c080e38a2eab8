"""Event texts about evictions: for victims, which pod takes their place; for waiting pods, which pods leave, or why
none does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hami_plugins.allocations.answers import Nomination
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.preemption.values import EvictedPod, NoVictims

REST_OF_GANG: Final = "evicted with the rest of its gang, which leaves as a whole for a pod of a higher priority"
"""Why a pod is evicted after the waiting pods have started."""

MOST_PODS: Final = 5
"""Pods that a text names."""


def for_victim(victim: PodRecord, pod: Pod, kept: Nomination) -> str:
    """Why a pod is evicted."""
    return (
        f"evicted for pod {pod.full_name} (priority {pod.priority}, this pod {victim.priority}), "
        f"which gets {_devices(kept)} on node {kept.node}"
    )


def for_preemptor(victims: Sequence[EvictedPod], kept: Nomination) -> str:
    """Who is evicted for a waiting pod, and what it gets."""
    return f"evicts {_names(victims)}; {_devices(kept)} on node {kept.node} is kept for this pod until they have ended"


def in_dry_run(victims: Sequence[EvictedPod]) -> str:
    """The candidates for eviction, where none is evicted."""
    return f"would evict {_names(victims)} (preemption.dryRun is set)"


def without_victims(found: NoVictims) -> str:
    """Why no pod is evicted for a pod."""
    spared = "; ".join(f"{each}{f' (and {count - 1} more)' if count > 1 else ''}" for each, count in found.spared)
    return f"no pods can be evicted for this pod: {found.why}{f'; {spared}' if spared else ''}"


def refused(victim: PodRecord, why: str) -> str:
    """An eviction that the API server refuses."""
    return f"no pods are evicted for this pod now: the API server refuses to evict {victim.full_name}: {why}"


def _names(victims: Sequence[EvictedPod]) -> str:
    named = [f"{each.pod.full_name} (priority {each.pod.priority}, node {each.node})" for each in victims[:MOST_PODS]]
    return _listed(named, len(victims))


def _devices(kept: Nomination) -> str:
    shares = [share for container in kept.record.allocations for share in container.shares]
    named = [f"{each.device} ({each.memory:,} MiB)" if each.memory else str(each.device) for each in shares[:MOST_PODS]]
    return _listed(named, len(shares))


def _listed(named: Iterable[str], count: int) -> str:
    more = count - MOST_PODS
    return f"{', '.join(named)}{f' and {more} more' if more > 0 else ''}"
