"""Preemption under Volcano as one replica has it while it holds the lease: what it watches, and who answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.preemption import Preemption
from hami_plugins.allocator.volcano_objects import VolcanoObjects
from hami_plugins.allocator.volcano_planner import VolcanoPlanner
from hami_plugins.allocator.volcano_preemption import VolcanoPreemption
from hami_plugins.kube.port import Selection, Watching
from hami_plugins.kube.reflector import Backoff, ObjectChange, Reflector, ReflectorOptions

QUEUES: Final = "/apis/scheduling.volcano.sh/v1beta1/queues"
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"

LONGEST_PAUSE: Final = 30.0
"""Seconds between two tries to reach the API server; no pod is evicted before everything is known."""


class VolcanoEvictions:
    """From ``start`` to ``stop``. ``preemption`` answers; it plans nothing before all that counts is listed."""

    def __init__(
        self,
        api: Watching,
        cache: LockedAllocationCache,
        preemption: Preemption,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects = VolcanoObjects()
        self._common = preemption.objects
        options = ReflectorOptions(backoff=Backoff(most=LONGEST_PAUSE), clock=clock)
        self._reflectors = [
            Reflector(api, Selection(path, kind), on_change=change, name=f"allocator-{name}", **options)
            for path, kind, change, name in (
                (QUEUES, "Queue", self._objects.queue_changed, "queues"),
                (PRIORITY_CLASSES, "PriorityClass", self._objects.class_changed, "classes"),
            )
        ]
        planner = VolcanoPlanner(cache, preemption.objects, self._objects, unknown=self.unknown)
        self.preemption = VolcanoPreemption(
            cache, planner, preemption.settings, evictor=preemption.evictor, clock=clock
        )

    def start(self) -> None:
        """Begins to follow the objects."""
        for reflector in self._reflectors:
            reflector.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Ends. May be called twice, and before ``start``."""
        for reflector in self._reflectors:
            reflector.stop(timeout)

    def unknown(self) -> str:
        """What has not been listed yet; empty where all has."""
        missing = [
            reflector.name.removeprefix("allocator-") for reflector in self._reflectors if not reflector.synced.is_set()
        ]
        return ", ".join([*missing, "groups"] if self._common.lacks_groups else missing)

    def node_changed(self, change: ObjectChange) -> None:
        """A node came, changed or went."""
        self._objects.node_changed(change)
