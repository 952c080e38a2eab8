"""The parts of preemption that one leader owns: the objects it depends on, the search, the evictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hami_plugins.allocations.mode import PreemptionMode
from hami_plugins.allocator.evictor import Evictor
from hami_plugins.allocator.kube_preemption import KubePreemption
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import EvictionMetrics
from hami_plugins.allocator.preemption_objects import PreemptionObjects
from hami_plugins.allocator.reader import ReadPod
from hami_plugins.allocator.settings import PreemptionSettings
from hami_plugins.allocator.victim_planner import VictimPlanner
from hami_plugins.kube.events import EventRecorder
from hami_plugins.kube.port import Writing


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """``evictor`` is only there in mode ``full``."""

    settings: PreemptionSettings
    objects: PreemptionObjects
    planner: VictimPlanner
    scheduler: KubePreemption
    evictor: Evictor | None


def preemption(  # noqa: PLR0913 - what it is made of
    settings: PreemptionSettings,
    api: Writing,
    cache: LockedAllocationCache,
    *,
    read: ReadPod,
    events: EventRecorder,
    metrics: EvictionMetrics,
) -> Preemption | None:
    """All parts that the configured mode needs; ``None`` with evictions off."""
    if settings.mode is PreemptionMode.OFF:
        return None
    objects = PreemptionObjects()
    planner = VictimPlanner(cache, objects)
    evictor = None
    if settings.mode is PreemptionMode.FULL:
        evictor = Evictor(api, cache, planner, settings, read=read, events=events, metrics=metrics)
    return Preemption(
        settings=settings,
        objects=objects,
        planner=planner,
        scheduler=KubePreemption(cache=cache, planner=planner),
        evictor=evictor,
    )


PreemptionOf = Callable[[LockedAllocationCache], Preemption | None]
"""What makes that for the cache of a leader."""
