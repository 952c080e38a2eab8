"""Which pods start together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads.pods import VOLCANO, PodTemplate
from hami_plugins.model.cluster import PodGroup
from hami_plugins.wire import kubernetes_gangs
from hami_plugins.wire.gang_keys import (
    COSCHEDULING_LABEL,
    GROUP_KEY,
    KOORDINATOR_GANG_KEY,
    KOORDINATOR_GROUP_LABEL,
    KOORDINATOR_LEAST_KEY,
    KOORDINATOR_MODE_KEY,
    KOORDINATOR_OLD_GROUP_LABEL,
    MIN_MEMBER_KEY,
    QUEUE_KEY,
)

DEFAULT_QUEUE: Final = "default"

_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gang:
    """``min_member`` pods of the group start together or none does.

    ``group`` is the PodGroup's full name (``namespace/name``), ``min_by_task`` how many of each task have to be among
    them (a pod's task is its annotation ``volcano.sh/task-spec``). ``exists`` is false for a group that the pods name
    but that has not been created: such pods wait for ever. ``annotations`` are those of the PodGroup; Volcano's
    controller copies them from the job.
    """

    group: str
    min_member: int
    min_by_task: Mapping[str, int] = field(default_factory=dict)
    queue: str = DEFAULT_QUEUE
    exists: bool = True
    annotations: Mapping[str, str] = field(default_factory=dict)


def gang(
    group: str,
    *,
    min_member: int,
    min_by_task: Mapping[str, int],
    queue: str,
    annotations: Mapping[str, str] = _NOTHING,
) -> Gang:
    """A gang as Volcano's scheduler holds it together.

    It looks at tasks only when the whole asks for at least as many pods as they do (``JobInfo.CheckTaskReady``).
    """
    held = min_by_task if min_member >= sum(min_by_task.values()) else {}
    return Gang(group=group, min_member=min_member, min_by_task=held, queue=queue, annotations=annotations)


def of_group(full_name: str, group: PodGroup | None) -> Gang:
    """The gang of pods that name a PodGroup; ``None`` is one that does not exist."""
    if group is None:
        return Gang(group=full_name, min_member=1, exists=False)
    return gang(
        full_name,
        min_member=group.min_member,
        min_by_task=group.min_by_task,
        queue=group.queue,
        annotations=group.annotations,
    )


def known_group(full_name: str, groups: Mapping[str, PodGroup]) -> PodGroup | None:
    """A group by its full name; a copy of a group of a Workload (by its replica key) is what the Workload describes."""
    found = groups.get(full_name)
    if found is None and kubernetes_gangs.of_record(full_name.partition("/")[2]):
        found = groups.get(kubernetes_gangs.group_of_replica(full_name))
    return found


def named_group(of: PodTemplate) -> str:
    """The name of the PodGroup that a pod says it belongs to, empty for none."""
    known = of.annotations.get(GROUP_KEY) or of.labels.get(COSCHEDULING_LABEL, "")
    return known or named_for_koordinator(of) or ("" if of.scheduler == VOLCANO else of.native_group)


def named_for_koordinator(of: PodTemplate) -> str:
    """The name of a gang that Koordinator's scheduler holds together, empty for none (Koordinator 1.7.0
    ``apis/extension/coscheduling.go``)."""
    if of.annotations.get(KOORDINATOR_MODE_KEY) == "NonStrict":
        return ""
    label = of.labels.get(KOORDINATOR_GROUP_LABEL) or of.labels.get(KOORDINATOR_OLD_GROUP_LABEL)
    return label or of.annotations.get(KOORDINATOR_GANG_KEY, "")


def of_annotations(owner: Field, of: PodTemplate) -> Gang | None:
    """The gang of Koordinator's that only the annotations of its pods describe."""
    name, text = named_for_koordinator(of), of.annotations.get(KOORDINATOR_LEAST_KEY, "")
    if not name or not text:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise owner.fault(f"{KOORDINATOR_LEAST_KEY} of its pods has to be a whole number")
    return Gang(group=f"{of.namespace}/{name}", min_member=int(text))


def of_controller(owner: Field, of: PodTemplate, name: str) -> Gang | None:
    """The gang that Volcano's PodGroup controller makes of the pods of a Deployment, Job or the like.

    They share one PodGroup, which has no minimum unless the owner is annotated with one; a minimum of one does not make
    a gang.
    """
    if of.scheduler != VOLCANO:
        return None
    annotations = owner.inner("metadata").texts("annotations")
    text = annotations.get(MIN_MEMBER_KEY, "")
    if not text:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise owner.fault("has to be a whole number", "metadata", "annotations", MIN_MEMBER_KEY)
    queue = queue_of(of, annotations)
    return Gang(group=f"{of.namespace}/podgroup-{name}", min_member=int(text), queue=queue) if int(text) > 1 else None


def queue_of(of: PodTemplate, inherited: Mapping[str, str]) -> str:
    """The Volcano queue of pods outside a Volcano Job; empty when another scheduler places them."""
    named = of.annotations.get(QUEUE_KEY) or inherited.get(QUEUE_KEY, "")
    return named or (DEFAULT_QUEUE if of.scheduler == VOLCANO else "")
