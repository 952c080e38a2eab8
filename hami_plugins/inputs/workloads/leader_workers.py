"""LeaderWorkerSets (``leaderworkerset.x-k8s.io/v1``): ``replicas`` groups of one leader and ``size`` - 1 workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hami_plugins.inputs.workloads import pods
from hami_plugins.inputs.workloads.gangs import DEFAULT_QUEUE, Gang
from hami_plugins.inputs.workloads.pods import MAX_PODS, VOLCANO
from hami_plugins.inputs.workloads.runs import Expand, Run, SubmittedObject, numbered
from hami_plugins.wire.gang_keys import QUEUE_KEY

_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def _leader_worker_set(it: SubmittedObject) -> Iterator[Run]:
    """All pods, or under Volcano a gang for every group.

    The controller makes a PodGroup for each group with ``minMember`` of its size, and of 1 with ``startupPolicy:
    LeaderReady`` (LWS ``pkg/schedulerprovider/volcano_provider.go``). It does so for Volcano alone.
    """
    template = it.spec.needed("leaderWorkerTemplate")
    groups, size = it.spec.count("replicas", 1, most=MAX_PODS), template.count("size", 1, most=MAX_PODS)
    pods.product(it.spec, groups, size)
    worker = pods.template(template.needed("workerTemplate"), it.namespace)
    own = template.has("leaderTemplate")
    leader = pods.template(template.inner("leaderTemplate"), it.namespace) if own else worker
    workers = max(size - 1, 0) if own else size
    topology = it.annotations.get(_EXCLUSIVE, "")
    notes = (f"{_EXCLUSIVE}: {topology} keeps each group in one domain of its own; not looked at",) if topology else ()
    if VOLCANO not in {leader.scheduler, worker.scheduler}:
        made = [numbered(it, leader, "leader", groups)] if own else []
        made.append(numbered(it, worker, "worker", groups * workers))
        yield from (run._replace(notes=notes) for run in made if run.pods)
        return
    least = 1 if it.spec.text("startupPolicy") == "LeaderReady" else size
    queue = it.annotations.get(QUEUE_KEY, "") or DEFAULT_QUEUE
    for at in range(pods.gangs(it.spec, groups)):
        gang = Gang(group=f"{it.namespace}/{it.name}-{at}", min_member=least, queue=queue)
        parts = [numbered(it, leader, "leader", 1, first=at)] if own else []
        parts.append(numbered(it, worker, "worker", workers, first=at * workers))
        for run in parts:
            yield run._replace(gang=gang, queue=queue, group="", notes=notes)


KINDS: Final[Mapping[tuple[str, str], Expand]] = {
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
}
