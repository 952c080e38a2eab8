"""Reports the outcome of kubelet calls and changes of cards: to metrics, events, Volcano, and the node's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

from hami_plugins.kube.events import EventRecorder, ObjectRef
from hami_plugins.model.units import DeviceId, PodUid
from hami_plugins.wire.fields import Json
from volcano_vgpu.agent.metrics import AgentMetrics
from volcano_vgpu.agent.scheduler import WriteReason
from volcano_vgpu.core.flexible_mig import BlockedPromise
from volcano_vgpu.core.health import AffectedContainer, Transition, sayings
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import AllocatedContainer

REFUSED: Final = "VgpuRefused"
"""The reason of the event on a pod whose container is not served."""

MIG_WAITS: Final = "MIGInstanceNotMade"
"""The reason of the event on a pod whose MIG instance cannot be made now."""

_QUIET: Final = frozenset({RefusalCode.UNRECORDED, RefusalCode.POD_GONE})
"""Refusals that pass by themselves within a moment: counted and logged, but no event."""


class Bookkeeping(Protocol):
    """Reports the outcome of a pod's allocation to Volcano, without blocking callers."""

    def served(self, uid: PodUid, containers: Mapping[str, AllocatedContainer]) -> None:
        """See ``serving.Outcomes``."""

    def refused(self, uid: PodUid, container: str, refusal: ContainerRefusal) -> None:
        """See ``serving.Outcomes``."""


class Reporter:
    """``serving.Outcomes``, and the listener of ``CardKeeper``."""

    def __init__(  # noqa: PLR0913 - all receivers of reports
        self,
        *,
        node: str,
        events: EventRecorder,
        metrics: AgentMetrics,
        bookkeeping: Bookkeeping,
        touch: Callable[[WriteReason], None],
        pod: Callable[[str], Json | None],
        holders: Callable[[DeviceId], Iterable[AffectedContainer]],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        # The kubelet gives a node's name as its UID in events, so that describe finds them together.
        self._node = ObjectRef("Node", node, node)
        self._events = events
        self._metrics = metrics
        self._bookkeeping = bookkeeping
        self._touch = touch
        self._pod = pod
        self._holders = holders
        self._now = now
        self._unallocated: frozenset[PodUid] = frozenset()

    def served(self, uid: PodUid, containers: Mapping[str, AllocatedContainer]) -> None:
        """See ``serving.Outcomes``."""
        self._bookkeeping.served(uid, containers)

    def refused(self, uid: PodUid, container: str, refusal: ContainerRefusal) -> None:
        """See ``serving.Outcomes``. A pod that was bound without cards also means that Volcano's cache is wrong.

        The kubelet asks for such a pod until it is deleted; the node is touched for the first time only.
        """
        self._metrics.refused(refusal)
        if refusal.code is RefusalCode.NO_ALLOCATION and uid not in self._unallocated:
            self._unallocated = frozenset(each for each in self._unallocated if self._pod(each) is not None) | {uid}
            self._touch(WriteReason.UNALLOCATED)
        raw = self._pod(uid)
        if raw is not None and refusal.code not in _QUIET:
            message = refusal.text if container in refusal.text else f"container {container}: {refusal.text}"
            self._events.emit(ObjectRef.of({"kind": "Pod", **raw}), REFUSED, message, now=self._now())
        self._bookkeeping.refused(uid, container, refusal)

    def cards_changed(self, changes: tuple[Transition, ...]) -> None:
        """Events for the node and for the pods on a card that failed, recovered, went or came."""
        for saying in sayings(changes, self._holders):
            holder = saying.holder
            regarding = self._node
            if holder is not None:
                regarding = ObjectRef("Pod", holder.pod, holder.uid, holder.namespace)
            self._events.emit(regarding, saying.reason, saying.message, type=saying.type, now=self._now())

    def refused_to_start(self, why: str) -> None:
        """An event on the node: another plugin owns the cards."""
        self._events.emit(self._node, "VgpuAgentWaiting", why, now=self._now())

    def mig_blocked(self, found: Iterable[BlockedPromise], pod: Callable[[str, str], Json | None]) -> None:
        """Events on pods whose MIG instance cannot be made now; ``pod`` finds one by namespace and name."""
        for each in found:
            text = (
                f"MIG instance {each.place} is not made: {each.why}; it is tried again, delete the pod to place it anew"
            )
            for name in each.pods:
                raw = pod(*name.split("/", 1))
                if raw is not None:
                    self._events.emit(ObjectRef.of({"kind": "Pod", **raw}), MIG_WAITS, text, now=self._now())

    def without_mps(self, why: str) -> None:
        """An event on the node: cards are to be shared through MPS, and its control daemon is not there."""
        self._events.emit(self._node, "MPSDaemonMissing", why, now=self._now())
