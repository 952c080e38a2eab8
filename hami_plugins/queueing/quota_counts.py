"""What quotas of the API server leave while the pods and jobs of a plan are created one after another."""

from __future__ import annotations

from typing import Final

from hami_plugins.engine import resource_quota
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.queueing.stages import PlanUnit, Stage, Stop

JOBS: Final = "count/jobs.batch.volcano.sh"
"""A quota's key for the number of Volcano Jobs."""


class QuotaCounts:
    """Counts what is created on top of what a cluster has."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._taken: dict[str, dict[str, int]] = {}
        self._taken_of_jobs: dict[str, dict[str, int]] = {}

    def count_pod(self, pod: Pod) -> Stop | None:
        """Why the API server does not create one more pod; it counts where it does."""
        quota = self._snapshot.quotas.get(pod.namespace)
        if quota is None:
            return None
        missing = resource_quota.unnamed(quota, pod)
        if missing:
            why = f"quota: every container has to name {', '.join(missing)}"
            words = f'pods "{pod.name}" is forbidden: failed quota: must specify {",".join(missing)}'
            return Stop(Stage.QUOTA, why, words)
        taken = self._taken.get(pod.namespace)
        if taken is None:
            taken = self._taken[pod.namespace] = resource_quota.taken(self._snapshot, pod.namespace)
        counts = resource_quota.counted(pod)
        broken = resource_quota.excesses(quota, taken, counts)
        if broken:
            return Stop(Stage.QUOTA, "; ".join(map(str, broken)), resource_quota.words(pod, broken))
        resource_quota.add(taken, counts)
        return None

    def count_job(self, unit: PlanUnit) -> Stop | None:
        """Why the API server does not take one more Volcano Job: a quota on their number is used up."""
        namespace = unit.group.partition("/")[0]
        quota = self._snapshot.quotas.get(namespace)
        if quota is None or JOBS not in quota.hard:
            return None
        taken = self._taken_of_jobs.setdefault(namespace, {JOBS: quota.used.get(JOBS, 0)})
        broken = resource_quota.excesses(quota, taken, {JOBS: NANO})
        resource_quota.add(taken, {} if broken else {JOBS: NANO})
        return Stop(Stage.ADMISSION, "; ".join(map(str, broken))) if broken else None
