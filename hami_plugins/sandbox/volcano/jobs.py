"""What Volcano's controllers make: pods and PodGroup of a Volcano Job, a PodGroup for a pod without. Values alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.workloads.gangs import DEFAULT_QUEUE
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import QUEUE_KEY

JOB_API: Final = "batch.volcano.sh/v1alpha1"
GROUP_API: Final = "scheduling.volcano.sh/v1beta1"


class Made(NamedTuple):
    """What a job becomes: its PodGroup first, then its pods."""

    group: dict[str, Any]
    pods: tuple[dict[str, Any], ...]


def of_job(job: Json) -> Made:
    """The objects of a Volcano Job, each owned by it. Raises ``ManifestError`` for a job that Volcano refuses."""
    metadata = job["metadata"]
    kept = {name: metadata[name] for name in ("name", "namespace", "uid", "labels", "annotations") if name in metadata}
    document = {"apiVersion": JOB_API, "kind": "Job", "metadata": kept, "spec": job["spec"]}
    submitted = workloads.read(manifests.read(json.dumps(document), source=f"job {metadata['name']}"))
    workload = submitted.workloads[0]
    owner = owned_by(JOB_API, "Job", metadata)
    least, by_task, queue = 1, {}, workload.queue
    if workload.gang is not None:
        least, by_task = workload.gang.min_member, dict(workload.gang.min_by_task)
    group = {
        "apiVersion": GROUP_API,
        "kind": "PodGroup",
        "metadata": {
            "name": f"{metadata['name']}-{metadata['uid']}",
            "namespace": metadata["namespace"],
            "ownerReferences": [owner],
        },
        "spec": {"minMember": least, "minTaskMember": by_task, "queue": queue or DEFAULT_QUEUE},
        "status": {"phase": "Inqueue"},
    }
    raws: list[dict[str, Any]] = [dict(copy.raw) for copy in workload.pods]
    pods = [{**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}} for raw in raws]
    return Made(group, tuple(pods))


def of_pod(pod: Json) -> dict[str, Any]:
    """The PodGroup of a pod that names none."""
    metadata = pod["metadata"]
    queue = (metadata.get("annotations") or {}).get(QUEUE_KEY, DEFAULT_QUEUE)
    return {
        "apiVersion": GROUP_API,
        "kind": "PodGroup",
        "metadata": {
            "name": f"podgroup-{metadata['uid']}",
            "namespace": metadata["namespace"],
            "ownerReferences": [owned_by("v1", "Pod", metadata)],
        },
        "spec": {"minMember": 1, "queue": queue},
        "status": {"phase": "Inqueue"},
    }


def owned_by(api: str, kind: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A reference to the controller of an object."""
    return {
        "apiVersion": api,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_of(item: Json) -> str:
    """The UID of an object's controller; empty without one."""
    references = item["metadata"].get("ownerReferences") or ()
    return next((str(each["uid"]) for each in references if each.get("controller")), "")


def job_status(pods: Iterable[Json], *, min_available: int) -> dict[str, Any]:
    """The status of a job with these pods."""
    counts = {"pending": 0, "running": 0, "succeeded": 0, "failed": 0}
    total = 0
    for pod in pods:
        total += 1
        phase = str((pod.get("status") or {}).get("phase") or "Pending").lower()
        counts[phase if phase in counts else "pending"] += 1
    return {"state": {"phase": _job_phase(counts, total, min_available)}, "minAvailable": min_available, **counts}


def _job_phase(counts: Mapping[str, int], total: int, least: int) -> str:
    if total and counts["succeeded"] == total:
        return "Completed"
    if total and counts["succeeded"] + counts["failed"] == total:
        return "Failed"
    going = counts["running"] + counts["succeeded"]
    return "Running" if going and going >= least else "Pending"
