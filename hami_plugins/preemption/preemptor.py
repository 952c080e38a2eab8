"""The pods for which others are evicted, as their cluster sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hami_plugins.engine.intake import PodInfo
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod
from hami_plugins.queueing.queues import DEFAULT, Amounts, summed
from hami_plugins.wire.gang_keys import GROUP_KEY, QUEUE_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """The pods that need places, all of one gang or one alone; ``queue`` is empty where Volcano does not schedule them.

    ``requests`` are what they ask of node sums together (nano units), ``group`` is ``namespace/name`` of their
    PodGroup, empty for none. ``never`` is why no pod may be evicted for them whatever it is, empty where some may.
    """

    infos: tuple[PodInfo, ...]
    priority: int
    group: str
    queue: str
    requests: Amounts
    never: str = ""

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, infos: Sequence[PodInfo]) -> Preemptor:
        """The preemptor as its cluster sees it. A gang's priority is its PodGroup's, as in Volcano."""
        pod = infos[0].pod
        name = pod.annotations.get(GROUP_KEY, "")
        group = f"{pod.namespace}/{name}" if name else ""
        known = snapshot.pod_groups.get(group)
        priority = max(info.pod.priority for info in infos)
        if known is not None and known.priority_class:
            priority = snapshot.priorities.get(known.priority_class, priority)
        queue = ""
        if pod.scheduler == VOLCANO:
            queue = known.queue if known is not None else pod.annotations.get(QUEUE_KEY, DEFAULT)
        requests = summed(dict(info.pod.constraints.requests) for info in infos)
        never = next(filter(None, (_never(info.pod, snapshot) for info in infos)), "")
        return cls(infos=tuple(infos), priority=priority, group=group, queue=queue, requests=requests, never=never)


def _never(pod: Pod, snapshot: ClusterSnapshot) -> str:
    """Why no pod is evicted for this one. The API server copies the policy of its class when it creates a pod."""
    if not pod.preempts:
        return "its preemptionPolicy is Never"
    if pod.priority_class in snapshot.never_preempting:
        return f"the preemptionPolicy of its PriorityClass {pod.priority_class} is Never"
    return ""
