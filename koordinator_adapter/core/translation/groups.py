"""Which pods start together, which queue or quota they count in, and how much they matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import DropEdit, Path, PutEdit
from hami_plugins.model.pods import Pod
from hami_plugins.wire.gang_keys import COSCHEDULING_LABEL, GROUP_KEY, JOB_QUEUE_KEY, MIN_MEMBER_KEY, QUEUE_KEY
from koordinator_adapter.core.translation.model import (
    Change,
    TranslationContext,
    TranslationFinding,
    TranslationOptions,
    kept,
    lost,
)
from koordinator_adapter.core.translation.objects import KOORDINATOR_GROUP, VOLCANO_GROUP
from koordinator_adapter.core.translation.vocabulary import (
    CLASS_LABELS,
    GANG_NAME,
    GANG_PREFIX,
    GROUP,
    MIN_AVAILABLE,
    MODE,
    OLD_GROUP,
    QUOTA,
    WAITING,
)

_WHAT_IS_LOST: Final = {
    WAITING: "Volcano waits for a gang without end",
    MODE: "Volcano lets no part of a gang go ahead",
}
_POD_PRIORITY: Final = "koord-"
_TRANSLATE_IT: Final = "also translate it (kubectl get -o yaml ... | hami-plugins koordinator translate --submission)"


def named_group(pod: Pod, words: Dialect) -> tuple[str, str, str] | None:
    """Where a pod says to a scheduler what gang it is of (labels or annotations, and the key), and the name."""
    labels, annotations = pod.labels, pod.annotations
    places = {
        Dialect.HAMI: (("labels", labels, COSCHEDULING_LABEL),),
        Dialect.VOLCANO: (("annotations", annotations, GROUP_KEY),),
        Dialect.KOORDINATOR: (
            ("labels", labels, GROUP),
            ("labels", labels, OLD_GROUP),
            ("annotations", annotations, GANG_NAME),
        ),
    }[words]
    return next(((holder, key, texts[key]) for holder, texts, key in places if texts.get(key)), None)


def gang(case: TranslationContext) -> Iterator[Change]:
    """The group of a pod: a label for Koordinator and for HAMi's coscheduling, an annotation for Volcano."""
    named = named_group(case.pod, case.source)
    if named is None or case.source is case.target:
        return
    holder, key, name = named
    where = ("metadata", holder, key)
    yield DropEdit(where)
    if case.target is not Dialect.HAMI and f"{case.pod.namespace}/{name}" not in case.settings.groups:
        yield from _missing_group(case, name, where)
    if case.target is Dialect.KOORDINATOR:
        yield PutEdit(("metadata", "labels", GROUP), name)
    elif case.target is Dialect.VOLCANO:
        yield PutEdit(("metadata", "annotations", GROUP_KEY), name)
    else:
        yield PutEdit(("metadata", "labels", COSCHEDULING_LABEL), name)
        words = f"the group {name} starts together only where HAMi's scheduler runs the coscheduling plugin"
        yield lost(key, words, path=where)


def _missing_group(case: TranslationContext, name: str, where: Path) -> Iterator[Change]:
    """A pod that names a group waits for the object; Volcano's is created if the pods have its size."""
    if case.target is Dialect.VOLCANO and _is_described(case, name):
        return
    version = KOORDINATOR_GROUP if case.target is Dialect.KOORDINATOR else VOLCANO_GROUP
    yield lost(
        "PodGroup",
        f"the pod waits until there is a PodGroup {name} of {version.partition('/')[0]}; the one of {case.source} is "
        f"none to {case.target}",
        path=where,
        remedy="also translate the PodGroup, or create one",
    )


def gang_details(case: TranslationContext) -> Iterator[Change]:
    """Gang annotations of Koordinator's pods besides the name."""
    if case.source is not Dialect.KOORDINATOR or case.target is case.source:
        return
    for key, value in case.pod.annotations.items():
        if not key.startswith(GANG_PREFIX) or key == GANG_NAME:
            continue
        path = ("metadata", "annotations", key)
        yield DropEdit(path)
        if key == MIN_AVAILABLE:
            yield lost(
                key, f"{value} pods start together if a PodGroup says so", path=path, remedy=_remedy(case, value)
            )
        else:
            yield lost(key, f"{value}: {_WHAT_IS_LOST.get(key, 'no other scheduler reads it')}", path=path)


def queue(case: TranslationContext) -> Iterator[Change]:
    """Volcano's queue and Koordinator's quota: both say who pays."""
    labels, annotations = case.pod.labels, case.pod.annotations
    if case.source is Dialect.VOLCANO and case.target is not case.source:
        named = [key for key in (QUEUE_KEY, JOB_QUEUE_KEY) if key in annotations]
        yield from (DropEdit(("metadata", "annotations", key)) for key in named)
        for key in named[:1]:
            name, path = annotations[key], ("metadata", "annotations", key)
            if case.target is Dialect.KOORDINATOR:
                yield PutEdit(("metadata", "labels", QUOTA), name)
                yield from missing_quota(name, case.target, case.settings, path)
            else:
                yield lost(key, f"HAMi has no queues; {name} no longer limits the pod", path=path)
    if QUOTA in labels and case.source is Dialect.KOORDINATOR and case.target is not case.source:
        name, path = labels[QUOTA], ("metadata", "labels", QUOTA)
        yield DropEdit(path)
        if case.target is Dialect.VOLCANO:
            yield PutEdit(("metadata", "annotations", QUEUE_KEY), name)
            yield from missing_quota(name, case.target, case.settings, path)
            yield from _queue_of_group(case, name, path)
        else:
            yield lost(QUOTA, f"HAMi has no quotas of its own; {name} no longer limits the pod", path=path)


def _queue_of_group(case: TranslationContext, queue_name: str, path: Path) -> Iterator[TranslationFinding]:
    """Volcano looks at a pod's own queue only where it makes the group itself (Volcano 1.14.1
    ``pkg/controllers/podgroup/pg_controller_handler.go``)."""
    named = named_group(case.pod, case.source)
    if named is None or _is_described(case, named[2]):
        return
    yield lost(
        QUOTA,
        f"Volcano counts the pod in the queue of its PodGroup {named[2]}, whatever the pod says",
        path=path,
        remedy=f"write queue: {queue_name} into the spec of that PodGroup",
    )


def _is_described(case: TranslationContext, group: str) -> bool:
    """Whether the pod says enough of its gang for a PodGroup to be made from it, and there is none."""
    full_name = f"{case.pod.namespace}/{group}"
    return case.pod.annotations.get(MIN_AVAILABLE, "").isdecimal() and full_name not in case.settings.groups


def missing_quota(name: str, target: Dialect, settings: TranslationOptions, path: Path) -> Iterator[TranslationFinding]:
    """What happens to pods that name a queue or quota which is not there."""
    if name in settings.quotas:
        return
    if target is Dialect.KOORDINATOR:
        words = f"names the ElasticQuota {name}: until there is one nothing limits its pods, or their team, together"
    else:
        words = f"names the queue {name}: until there is one its pods wait"
    yield lost("ElasticQuota" if target is Dialect.KOORDINATOR else "Queue", words, path=path, remedy=_TRANSLATE_IT)


def importance(case: TranslationContext) -> Iterator[Change]:
    """Koordinator's classes of service; priority classes are Kubernetes' own and stay."""
    if case.source is Dialect.KOORDINATOR and case.target is not case.source:
        for key in CLASS_LABELS:
            if key in case.pod.labels:
                yield DropEdit(("metadata", "labels", key))
                yield lost(key, f"{case.pod.labels[key]} means nothing outside Koordinator")
    if case.pod.priority_class.startswith(_POD_PRIORITY) and case.target is not Dialect.KOORDINATOR:
        yield kept("priorityClassName", f"{case.pod.priority_class} is made by Koordinator, and has to exist")


def of_owner(
    annotations: Mapping[str, str], name: str, template: Path, target: Dialect, settings: TranslationOptions
) -> Iterator[Change]:
    """What a Deployment or the like says of all its pods to Volcano; ``template`` leads from it to their template."""
    for key, label in ((MIN_MEMBER_KEY, MIN_AVAILABLE), (QUEUE_KEY, QUOTA)):
        value = annotations.get(key)
        if value is None:
            continue
        path = ("metadata", "annotations", key)
        yield DropEdit(path)
        if target is not Dialect.KOORDINATOR:
            yield lost(key, f"{value}: Volcano gives it to all pods of {name}; HAMi has no equivalent", path=path)
        elif key == QUEUE_KEY:
            yield PutEdit((*template, "metadata", "labels", label), value)
            yield from missing_quota(value, target, settings, path)
        else:
            yield PutEdit((*template, "metadata", "annotations", GANG_NAME), name)
            yield PutEdit((*template, "metadata", "annotations", label), value)


def _remedy(case: TranslationContext, value: str) -> str:
    if case.target is Dialect.VOLCANO:
        return f"make a PodGroup of scheduling.volcano.sh with minMember {value}"
    return f"make a PodGroup of scheduling.x-k8s.io with minMember {value}"
