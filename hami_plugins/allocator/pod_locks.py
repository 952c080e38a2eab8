"""The locks of HAMi's device plugins, around the Binding of a pod."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from hami_plugins.allocations.lock_demand import LockDemand, LockPod, Notes, demand_of, plugin_vendors
from hami_plugins.allocations.manifests.webhooks import FAIL_SECONDS, IGNORE_SECONDS
from hami_plugins.allocator.node_lock_calls import NodeLocking
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.registry import Registry
from hami_plugins.kube.events import EventRecorder, ObjectRef
from hami_plugins.model.units import NodeName
from hami_plugins.wire.scheduler_extender import ToBind

WAIT_SECONDS: Final = 20.0
"""How long a call of a scheduler waits for its turn on a node; the scheduler tries the pod again after it."""

MARKED_SECONDS: Final = FAIL_SECONDS - 3.0
"""How long the API server waits for it with the Binding of a marked pod, which fails if the webhook does not answer."""

UNMARKED_SECONDS: Final = IGNORE_SECONDS - 0.8
"""The same for any other Binding, which passes without an allocation if the webhook does not answer."""

MOST_BINDINGS: Final = 64
"""Bindings that wait inside the API server at a time: each keeps one of the seats that it has for schedulers."""

MOST_BINDINGS_OF_A_NODE: Final = 16
"""The same for one node, so that a plugin that does not answer leaves seats to others."""


class BindingSeats:
    """How many Bindings wait inside the API server. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[NodeName] = Counter()

    @contextmanager
    def taken(self, node: NodeName) -> Iterator[str]:
        """A seat for as long as the statement lasts; the value is why there is none, or empty."""
        with self._lock:
            why = self._full(node)
            if not why:
                self._taken[node] += 1
        try:
            yield why
        finally:
            if not why:
                with self._lock:
                    self._taken[node] -= 1

    def _full(self, node: NodeName) -> str:
        if self._taken[node] >= MOST_BINDINGS_OF_A_NODE:
            return f"{MOST_BINDINGS_OF_A_NODE} Bindings wait for the lock of the node already; try again"
        if self._taken.total() >= MOST_BINDINGS:
            return f"{MOST_BINDINGS} Bindings wait for locks of nodes already; try again"
        return ""


@dataclass(frozen=True, slots=True)
class PodLocks:
    """``vendors`` are all that pods may have devices of, ``notes`` those of a node."""

    locking: NodeLocking
    vendors: Registry
    notes: Callable[[NodeName], Notes]
    _seats: BindingSeats = field(default_factory=BindingSeats)

    def acquire(self, call: ToBind, intake: PodInfo) -> str:
        """Why the pod does not have the locks that it needs on its node; empty where it has them."""
        pod = LockPod(call.uid, call.namespace, call.name)
        return self.locking.acquire(call.node, pod, self._demand(call.node, intake), timeout=WAIT_SECONDS)

    def missing(self, node: NodeName, intake: PodInfo) -> bool:
        """Whether the pod needs locks there and has none, so that ``admit`` may wait."""
        return bool(self._demand(node, intake).keys) and not self.locking.holds(node, intake.pod.uid)

    def admit(self, node: NodeName, intake: PodInfo, *, marked: bool) -> str:
        """The same as ``acquire`` for a scheduler that binds itself: the API server waits for the answer."""
        pod = LockPod(intake.pod.uid, intake.pod.namespace, intake.pod.name)
        with self._seats.taken(node) as full:
            if full:
                return f"node {node}: {full}"
            timeout = MARKED_SECONDS if marked else UNMARKED_SECONDS
            return self.locking.acquire(node, pod, self._demand(node, intake), timeout=timeout)

    def failed(self, call: ToBind) -> None:
        """The API server refused the Binding."""
        self.locking.failed(call.node, call.uid)

    def _demand(self, node: NodeName, intake: PodInfo) -> LockDemand:
        asked = (self.vendors[name] for name in intake.demand.devices.vendors)
        return demand_of(plugin_vendors(asked, self.notes(node)))


def tell_pod(events: EventRecorder, pod: LockPod, node: NodeName, text: str) -> None:
    """Emit an event of a pod whose device plugin went wrong."""
    regarding = ObjectRef("Pod", pod.name, pod.uid, pod.namespace)
    events.emit(regarding, "DevicePluginUnanswered", f"node {node}: {text}", now=datetime.now(UTC))
