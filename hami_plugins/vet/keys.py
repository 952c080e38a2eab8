"""HP40x: annotations without a reader: misspelt, dead, for another vendor, or in the wrong place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from hami_plugins.engine.policies import NUMA_BIND_KEY
from hami_plugins.inputs import typos
from hami_plugins.inputs.manifests import Path
from hami_plugins.vendors import volcano_releases
from hami_plugins.vet import facts, suppression
from hami_plugins.vet.context import Context, each_pod
from hami_plugins.vet.excerpts import excerpt
from hami_plugins.vet.findings import RenameFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.queues import JOB
from hami_plugins.vet.resources import PodView, Subject
from hami_plugins.vet.vocabulary import HAMI_DOMAIN, POLICY_KEYS, domain

_WISH: Final = re.compile(r"(^(no-?)?use-)|uuid|gpu|npu|policy|-mode$|bind|type$|weights", re.IGNORECASE)
"""Keys that look like a wish to a scheduler."""


def misspelt(pod: PodView, context: Context) -> Iterator[Violation]:
    """Keys near one that is read."""
    for key in _strangers(pod, context):
        matches = _meant(key, pod, context)
        if matches:
            yield Violation(
                pod.annotation(key),
                f"{_said(pod, key)}: nothing reads this key",
                f"did you mean {' or '.join(matches)}?",
                RenameFix(pod.annotation(key), matches[0]) if len(matches) == 1 else None,
            )


def unknown(pod: PodView, context: Context) -> Iterator[Violation]:
    """Keys in a vendor's domain that are near nothing."""
    for key in _strangers(pod, context):
        home = domain(key)
        preferred = home == HAMI_DOMAIN or (home in context.vocabulary.domains and _WISH.search(key.rpartition("/")[2]))
        if preferred and not _meant(key, pod, context):
            yield Violation(
                pod.annotation(key),
                f"{_said(pod, key)}: nothing reads this key",
                "drop it, or write a key that `hami-plugins vendors` lists",
            )


def dead(pod: PodView, context: Context) -> Iterator[Violation]:
    """Keys that a vendor defines and never reads."""
    for key in pod.annotations:
        if key in facts.DEAD_KEYS and key not in context.vocabulary.readers:
            yield Violation(
                pod.annotation(key),
                f"{_said(pod, key)}: the vendor defines this key, and nothing reads it",
                f"select nodes by their labels, or cards by {facts.DEAD_KEYS[key]}",
            )


def of_another_vendor(pod: PodView, context: Context) -> Iterator[Violation]:
    """Keys of vendors that the pod does not ask."""
    asked = context.asked_by(pod)
    if not asked and any(context.is_vendors(name) for container in pod.containers for name in container.amounts):
        return
    for key in pod.annotations:
        readers = context.vocabulary.readers.get(key)
        if readers is None:
            continue
        if key == NUMA_BIND_KEY:
            readers = tuple(spec for spec in context.registry if spec.fitting.binds_numa)
        names = {spec.name for spec in readers}
        if any(spec.name in names for spec in asked):
            continue
        whose = " or ".join(dict.fromkeys(spec.title for spec in readers))
        own = [each for spec in asked for each in (*spec.keys.use_ids, spec.keys.use_models) if each]
        yield Violation(
            pod.annotation(key),
            f"{_said(pod, key)} is for {whose}, which no container of the pod asks for",
            f"use {' or '.join(own)}, or drop it" if own and key in context.vocabulary.selectors else "drop it",
        )


def policy_unread(pod: PodView, context: Context) -> Iterator[Violation]:
    """HAMi's preferences on pods that HAMi's scheduler does not place."""
    if context.in_hami_words(pod):
        return
    in_volcano_words = context.in_volcano_words(pod)
    if not in_volcano_words and any(
        context.is_vendors(name) for container in pod.containers for name in container.amounts
    ):
        return
    for key in POLICY_KEYS:
        if key not in pod.annotations:
            continue
        if in_volcano_words:
            why = "Volcano orders cards by the argument deviceshare.SchedulePolicy, not by the pod"
            fix = "set the policy in the scheduler's configuration"
        else:
            why, fix = "no container of the pod asks for devices", "drop it"
        yield Violation(pod.annotation(key), f"{_said(pod, key)} is ignored: {why}", fix)


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


def of_nodes(pod: PodView, context: Context) -> Iterator[Violation]:
    """Keys for nodes on pods."""
    for key in pod.annotations:
        if key in context.vocabulary.of_nodes:
            yield Violation(pod.annotation(key), f"{_said(pod, key)} is read on nodes, not on pods", "drop it")


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


def _strangers(pod: PodView, context: Context) -> Iterator[str]:
    """The keys of an annotation that mean nothing to anybody known here."""
    words = context.vocabulary
    for key in pod.annotations:
        known = key in words.readers or key in POLICY_KEYS or key in words.written or key in words.of_nodes
        other = key in facts.DEAD_KEYS or key in facts.WRONG_VOLCANO_KEYS or key in words.resources
        if "/" in key and not known and not other and key != suppression.KEY:
            yield key


def _meant(key: str, pod: PodView, context: Context) -> tuple[str, ...]:
    """The keys that a strange one is likely to mean."""
    for specs in (context.asked_by(pod), tuple(context.registry)):
        own = context.vocabulary.own_selector(key, specs)
        if own:
            return own[:3]
    return typos.closest(key, context.vocabulary.inputs)[:3]


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
        check=each_pod(misspelt),
    ),
    VetRule(
        id="HP402",
        name="unknown-annotation",
        severity=VetSeverity.WARNING,
        summary="An annotation in HAMi's or a vendor's domain has no reader.",
        why="The annotation has no effect.",
        fix="Drop it.",
        check=each_pod(unknown),
    ),
    VetRule(
        id="HP403",
        name="dead-annotation",
        severity=VetSeverity.WARNING,
        summary="An annotation that documents describe and no code reads.",
        why="cambricon.com/use-mlutype and its like select nothing.",
        fix="Select nodes by labels, or cards by id.",
        check=each_pod(dead),
    ),
    VetRule(
        id="HP404",
        name="annotation-of-another-vendor",
        severity=VetSeverity.WARNING,
        summary="A selector or option is for a vendor that the pod does not ask.",
        why="Only the vendor that it belongs to reads it.",
        fix="Write the key of the vendor that is asked, or drop it.",
        check=each_pod(of_another_vendor),
    ),
    VetRule(
        id="HP405",
        name="policy-unread",
        severity=VetSeverity.WARNING,
        summary="A pod has HAMi's scheduling policies, and HAMi's scheduler does not place its devices.",
        why="Volcano reads its policy from its own configuration.",
        fix="Set the policy where it is read.",
        check=each_pod(policy_unread),
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
        check=each_pod(of_nodes),
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
