"""HP40x: annotations without a reader: misspelt, dead, for another vendor, or in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hami_plugins.inputs import unread_keys
from hami_plugins.inputs.excerpts import excerpt
from hami_plugins.inputs.manifests import Path
from hami_plugins.inputs.unread_keys import AnnotatedPod, UnreadRule
from hami_plugins.inputs.vocabulary import POLICY_KEYS, domain
from hami_plugins.vendors import volcano_releases
from hami_plugins.vet.context import Context, each_pod
from hami_plugins.vet.findings import Check, RenameFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.queues import JOB
from hami_plugins.vet.resources import PodView, Subject


def _each(rule: UnreadRule) -> Check:
    """A rule about annotations that nothing reads as a check of objects."""

    def over_pods(pod: PodView, context: Context) -> Iterator[Violation]:
        resources = tuple(name for container in pod.containers for name in container.amounts)
        for key, words, remedy, meant in rule(AnnotatedPod(pod.annotations, resources, context.vocabulary)):
            path = pod.annotation(key)
            fix = RenameFix(path, meant[0]) if len(meant) == 1 else None
            yield Violation(path, f"{pod.label}, {words}" if pod.label else words, remedy, fix)

    return each_pod(over_pods)


def misplaced(subject: Subject, context: Context) -> Iterator[Violation]:
    """Keys for pods on the object that makes the pods, or among the labels."""
    wanted = {*context.vocabulary.readers, *POLICY_KEYS}
    if (subject.group, subject.kind) == JOB:
        wanted -= {key for spec in context.registry for key in spec.keys.of_jobs}
    if subject.owns_templates:
        for key in subject.annotations:
            if key in wanted and not all(key in pod.annotations for pod in subject.pods):
                yield Violation(
                    ("metadata", "annotations", key),
                    f"annotation {key}={excerpt(subject.annotations[key])} is the {subject.kind}'s own, and its pods "
                    "do not get it",
                    "move it to metadata.annotations of the pod template",
                )
        yield from _among_labels(("metadata", "labels"), subject.labels, wanted)
    for pod in subject.pods:
        yield from _among_labels(pod.of("metadata", "labels"), pod.labels, wanted)


def ids_unread(pod: PodView, context: Context) -> Iterator[Violation]:
    """Lists of cards that Volcano does not read."""
    if context.in_hami_words(pod):
        return
    for spec in context.in_volcano_words(pod):
        for key in (*spec.keys.use_ids, *spec.keys.avoid_ids):
            if key not in pod.annotations or not pod.annotations[key].strip():
                continue
            own = domain(key) == domain(spec.resources.count)
            yield Violation(
                pod.annotation(key),
                f"{_said(pod, key)}: Volcano does not read it, and gives any card",
                f"select models by {spec.keys.use_models}, or have volcano-vgpu allocate the cards",
                quirk=volcano_releases.ID_LISTS if own else volcano_releases.FOREIGN_ID_LISTS,
            )


def _among_labels(path: Path, labels: Mapping[str, str], wanted: set[str]) -> Iterator[Violation]:
    for key, value in labels.items():
        if key in wanted:
            yield Violation(
                (*path, key),
                f"label {key}={value}: this is read as an annotation only",
                "move it to metadata.annotations of the pod",
            )


def _said(pod: PodView, key: str) -> str:
    prefix = f"{pod.label}, " if pod.label else ""
    return f"{prefix}annotation {key}={excerpt(pod.annotations[key])}"


RULES: Final = (
    VetRule(
        id="HP401",
        name="misspelt-annotation",
        severity=VetSeverity.WARNING,
        summary="An annotation is spelled almost like one that is read, or like another vendor's.",
        why="It is ignored silently: the pod gets any card, under any policy.",
        fix="Write the key as it is read; `hami-plugins vendors NAME` shows a vendor's keys.",
        check=_each(unread_keys.misspelt),
    ),
    VetRule(
        id="HP402",
        name="unknown-annotation",
        severity=VetSeverity.WARNING,
        summary="An annotation in HAMi's or a vendor's domain has no reader.",
        why="The annotation has no effect.",
        fix="Drop it.",
        check=_each(unread_keys.unknown),
    ),
    VetRule(
        id="HP403",
        name="dead-annotation",
        severity=VetSeverity.WARNING,
        summary="An annotation that documents describe and no code reads.",
        why="cambricon.com/use-mlutype and its like select nothing.",
        fix="Select nodes by labels, or cards by id.",
        check=_each(unread_keys.dead),
    ),
    VetRule(
        id="HP404",
        name="annotation-of-another-vendor",
        severity=VetSeverity.WARNING,
        summary="A selector or option is for a vendor that the pod does not ask.",
        why="Only the vendor that it belongs to reads it.",
        fix="Write the key of the vendor that is asked, or drop it.",
        check=_each(unread_keys.of_another_vendor),
    ),
    VetRule(
        id="HP405",
        name="policy-unread",
        severity=VetSeverity.WARNING,
        summary="A pod has HAMi's scheduling policies, and HAMi's scheduler does not place its devices.",
        why="Volcano reads its policy from its own configuration.",
        fix="Set the policy where it is read.",
        check=_each(unread_keys.policies),
    ),
    VetRule(
        id="HP406",
        name="misplaced-annotation",
        severity=VetSeverity.WARNING,
        summary="An annotation for pods is set on their Deployment, Job or the like, or as a label.",
        why="Schedulers look at the pod's own annotations alone.",
        fix="Move it to the pod template's annotations.",
        check=misplaced,
    ),
    VetRule(
        id="HP407",
        name="node-annotation-on-pod",
        severity=VetSeverity.WARNING,
        summary="An annotation that is read on nodes is set on a pod.",
        why="It has no effect there.",
        fix="Drop it.",
        check=_each(unread_keys.of_nodes),
    ),
    VetRule(
        id="HP408",
        name="ids-unread",
        severity=VetSeverity.WARNING,
        summary="A pod selects cards by id, and the cluster's Volcano does not read that.",
        why="It gives the pod any card. volcano.sh/vgpu-use-gpuuuid and its opposite are read from 1.16 on, those of "
        "nvidia.com by no release.",
        fix="Select models, or have volcano-vgpu allocate the cards.",
        check=each_pod(ids_unread),
        quirk=volcano_releases.ID_LISTS,
    ),
)
