"""The locks of HAMi's device plugins, around the Binding of a pod."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hami_plugins.allocations.lock_demand import LockPod, demand_of
from hami_plugins.allocator.node_locking import NodeLocking
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.registry import Registry
from hami_plugins.kube.events import EventRecorder, ObjectRef
from hami_plugins.model.units import NodeName
from hami_plugins.wire.scheduler_extender import ToBind

WAIT_SECONDS: Final = 20.0
"""How long a call of a scheduler waits for its turn on a node; the scheduler tries the pod again after it."""


@dataclass(frozen=True, slots=True)
class PodLocks:
    """``vendors`` are all that pods may have devices of."""

    locking: NodeLocking
    vendors: Registry

    def acquire(self, call: ToBind, intake: PodInfo) -> str:
        """Why the pod does not have the locks that it needs on its node; empty where it has them."""
        demand = demand_of(self.vendors[name] for name in intake.demand.devices.vendors)
        pod = LockPod(call.uid, call.namespace, call.name)
        return self.locking.acquire(call.node, pod, demand, timeout=WAIT_SECONDS)

    def failed(self, call: ToBind) -> None:
        """The API server refused the Binding."""
        self.locking.failed(call.node, call.uid)


def tell_pod(events: EventRecorder, pod: LockPod, node: NodeName, text: str) -> None:
    """Emit an event of a pod whose device plugin went wrong."""
    regarding = ObjectRef("Pod", pod.name, pod.uid, pod.namespace)
    events.emit(regarding, "DevicePluginUnanswered", f"node {node}: {text}", now=datetime.now(UTC))
