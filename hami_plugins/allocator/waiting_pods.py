"""What is done for pods that wait under kube-scheduler: told why, made room for, and tried again when there is some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hami_plugins.allocations.answers import PodAllocation
from hami_plugins.allocator.evictor import Evictor
from hami_plugins.allocator.refusal_events import RefusalEvents
from hami_plugins.allocator.requeuer import Requeuer
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.units import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPods:
    """All of it exists while one replica has the lease, from ``start`` to ``stop``. No call waits for anything."""

    requeuer: Requeuer
    events: RefusalEvents
    evictor: Evictor | None = None

    def start(self) -> None:
        """Begins, when the whole cluster is known."""
        self.events.start()
        self.requeuer.start()
        if self.evictor is not None:
            self.evictor.start(self.requeuer.retry)

    def stop(self, timeout: float = 5.0) -> None:
        """Ends. May be called twice, and before ``start``."""
        if self.evictor is not None:
            self.evictor.stop(timeout)
        self.requeuer.stop(timeout)
        self.events.stop(timeout)

    def look(self) -> None:
        """More may be had than before, if the cache says so."""
        self.requeuer.look()

    def asked(self, intake: PodInfo, nodes: Sequence[NodeName], *, fits: bool, known: bool) -> None:
        """A scheduler has asked which of these nodes take the pod, which the API server is ``known`` to have."""
        if known:
            self.requeuer.asked(intake, nodes, fits=fits)
        if not fits:
            if known:
                self.events.refused(intake, nodes)
            if self.evictor is not None:
                self.evictor.refused(intake, nodes)

    def bound(self, intake: PodInfo, allocation: PodAllocation) -> None:
        """The API server has taken the pod's Binding."""
        self.events.allocated(intake, allocation)
