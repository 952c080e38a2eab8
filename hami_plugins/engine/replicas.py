"""Replicas: pods that differ in nothing but their names, age and number within a task, so that answers are shared."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.pods import Pod
from hami_plugins.wire.gang_keys import TASK_INDEX_KEY


def key_of(pod: Pod) -> Hashable:
    """Equal for replicas of one template. It holds while the pod lives: parts that replicas share go by identity."""
    return (
        pod.namespace,
        id(pod.containers),
        id(pod.constraints),
        id(pod.neighbours),
        id(pod.of_group),
        _texts(pod.labels),
        _texts(pod.annotations),
        pod.scheduler,
        pod.node,
        pod.phase,
        pod.priority,
        pod.priority_class,
        pod.runtime_class,
        (pod.gates, pod.terminating, pod.init_finished, pod.preempts, pod.preemptable, bool(pod.uid)),
        pod.nominated,
        pod.disruption,
        pod.claims,
        pod.native_group,
        pod.template_requests,
    )


def _texts(texts: Mapping[str, str]) -> Hashable:
    return frozenset(item for item in texts.items() if item[0] != TASK_INDEX_KEY)


def intake_of(replica: Pod, known: PodInfo) -> PodInfo:
    """What ``take_in`` makes of a replica, from what it made of another one: only names differ.

    Not for a refused pod, whose refusal may name it.
    """
    before, admitted = known.submitted, known.pod
    added = {key: text for key, text in admitted.annotations.items() if before.annotations.get(key) != text}
    pod = replace(
        admitted,
        name=replica.name,
        uid=replica.uid,
        made_at=replica.made_at,
        owner=replica.owner,
        labels=replica.labels,
        annotations={**replica.annotations, **added} if added else replica.annotations,
    )
    return replace(known, submitted=replica, pod=pod, admission=replace(known.admission, pod=pod))


def later(pod: Pod, by: int) -> Pod:
    """The replica whose number is so much higher: its name ends in the number, as may a label and an annotation."""
    name, _, number = pod.name.rpartition("-")
    return replace(
        pod,
        name=f"{name}-{int(number) + by}",
        labels=_numbered(pod.labels, by),
        annotations=_numbered(pod.annotations, by),
    )


def _numbered(texts: Mapping[str, str], by: int) -> Mapping[str, str]:
    number = texts.get(TASK_INDEX_KEY)
    return texts if number is None else {**texts, TASK_INDEX_KEY: str(int(number) + by)}


def are_shared(known: PodInfo) -> bool:
    """Whether replicas of a pod can share what was made of it."""
    return known.admission.allowed and not known.refusal
