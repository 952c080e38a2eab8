"""Who holds and who waits in a cluster, by group and by queue; worked out once, for clusters have many of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from hami_plugins.inputs.workloads.gangs import DEFAULT_QUEUE
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.wire.gang_keys import GROUP_KEY, QUEUE_KEY


@dataclass(frozen=True, slots=True, eq=False)
class PodsByQueue:
    """Groups go by their full names. ``waiting`` are pods without a node, ``placed`` how many have one.

    ``by_queue`` are the pods with a node, ``waiting_by_queue`` those without.
    """

    waiting: Mapping[str, list[Pod]] = field(default_factory=dict)
    placed: Mapping[str, int] = field(default_factory=dict)
    by_queue: Mapping[str, list[PodRecord]] = field(default_factory=dict)
    waiting_by_queue: Mapping[str, list[Pod]] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> PodsByQueue:
        """The pods of a cluster. A pod is in the queue of its PodGroup, else in the one that it names."""
        waiting: dict[str, list[Pod]] = defaultdict(list)
        placed: dict[str, int] = defaultdict(int)
        by_queue: dict[str, list[PodRecord]] = defaultdict(list)
        waiting_by_queue: dict[str, list[Pod]] = defaultdict(list)

        def queue_of(group: str, named: str) -> str:
            known = snapshot.pod_groups.get(group)
            return named or DEFAULT_QUEUE if known is None else known.queue

        for entry in snapshot.nodes:
            for record in entry.pods:
                group = f"{record.namespace}/{record.group}"
                placed[group] += 1
                by_queue[queue_of(group, record.queue)].append(record)
        for pod in snapshot.pending:
            group = f"{pod.namespace}/{pod.annotations.get(GROUP_KEY, '')}"
            waiting[group].append(pod)
            waiting_by_queue[queue_of(group, pod.annotations.get(QUEUE_KEY, ""))].append(pod)
        return cls(dict(waiting), dict(placed), dict(by_queue), dict(waiting_by_queue))


NOBODY = PodsByQueue()
"""The pods of no cluster."""
