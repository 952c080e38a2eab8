"""Room that an earlier leader kept for waiting pods while others leave: a new leader keeps it again.

Pods name their nodes (``Pod.nominated``). A leader may have been killed before that was written; so the room
of pods that are being deleted on other nodes is kept for the pods of the highest priority, until their schedulers have
looked at them again. Pods of lower priority are left out: room that is kept for one is in the way of a pod for which
more have to leave.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import structlog

from hami_plugins.allocations.answers import Nomination
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.units import NodeName
from hami_plugins.wire.gang_keys import GROUP_KEY

LASTING: Final = 4 * 3600.0
"""Seconds for which room is kept at most: victims may have an hour and more to end."""

RECENT: Final = 60.0
"""Seconds for which room is kept that may have been for another pod, or from which all have left, maybe long ago."""

GUESSED: Final = 50
"""Pods, and nodes with ending pods, for which no name was written: a new leader must not begin late."""

_log = structlog.get_logger(__name__)


def keep_again(cache: LockedAllocationCache, *, volcano: bool) -> None:
    """Keeps the room for the pods that wait, the highest priority first, then the oldest.

    ``volcano`` is whether room is kept for Volcano's pods as well.
    """
    schedulers = frozenset[str]() if volcano else cache.product.schedulers
    waiting = [each for each in cache.unplaced() if each.pod.scheduler not in schedulers and not each.pod.gated]
    waiting = sorted((each for each in waiting if not cache.blocking_reason(each)), key=turn)
    ending = cache.ending_nodes()
    for intake in waiting:
        if intake.pod.nominated is not None:
            _keep(cache, intake, (intake.pod.nominated,), ending, LASTING)
    for intake in waiting:  # the node was not written on all of a gang: then it is one of the others'
        nodes = sorted({each.node for each in cache.gang_nominations(intake.pod.uid)})
        _keep(cache, intake, nodes, ending, LASTING)
    named = {each.pod.nominated for each in waiting}
    unnamed = [node for node in ending if node not in named][:GUESSED]
    preempting = [each for each in waiting if each.pod.preempts]
    first = [each for each in preempting if each.pod.priority == preempting[0].pod.priority]
    for intake in first[:GUESSED]:
        _keep(cache, intake, unnamed, ending, RECENT)


def turn(intake: PodInfo) -> tuple[int, int, str]:
    """Sorts waiting pods as schedulers take their turns: the highest priority first, then the oldest."""
    return -intake.pod.priority, intake.pod.made_at or 0, intake.pod.name


def _keep(
    cache: LockedAllocationCache,
    intake: PodInfo,
    nodes: Sequence[NodeName],
    ending: Collection[NodeName],
    longest: float,
) -> None:
    pod = intake.pod
    for node in nodes if cache.nomination(pod.uid) is None else ():
        lasting = longest if node in ending else RECENT
        found = cache.nominate_without(node, intake, (), lasting=lasting)
        if isinstance(found, Nomination):
            if pod.annotations.get(GROUP_KEY):
                cache.share([pod.uid])
            _log.info("room_kept_again", pod=pod.full_name, node=node)
            return
