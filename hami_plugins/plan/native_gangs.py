"""Which scheduler honours a gang of Kubernetes (``scheduling.k8s.io``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.inputs.workloads.gangs import known_group
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.queueing.stages import PodPlan
from hami_plugins.wire import kubernetes_gangs
from hami_plugins.wire.gang_keys import GROUP_KEY

HONOURED: Final = (
    "kube-scheduler 1.35 and later starts its pods together where the feature gates GenericWorkload and GangScheduling "
    "are on; otherwise, and under other schedulers, they start one by one"
)


def notes(plan: PodPlan, snapshot: ClusterSnapshot) -> Iterator[str]:
    """What is to be known of the gang that a pod names in its spec; nothing for pods that name none."""
    pod = plan.pod
    if not pod.native_group:
        return
    name = kubernetes_gangs.plain_name(pod.native_group)
    if pod.scheduler == VOLCANO:
        yield f"Volcano does not read the gang {name} of its spec; it takes a PodGroup that {GROUP_KEY} names"
        return
    group = known_group(f"{pod.namespace}/{pod.native_group}", snapshot.pod_groups)
    if group is None or group.min_member > 0:
        yield f"gang {name} of {kubernetes_gangs.API_GROUP}: {HONOURED}"
