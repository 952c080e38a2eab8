"""What nobody but a scheduler may write on a pod, and what would switch its limits off.

Koordinator takes ``device-allocated`` for true whoever wrote it, and koordlet looks at the pod's label each time that a
container starts, so both are guarded for as long as the pod lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.engine import koordinator as rules
from hami_plugins.errors import WireError
from hami_plugins.model.pods import Container, Pod
from hami_plugins.wire import fields, pods
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer, Refused
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator import current
from koordinator_adapter import injection
from koordinator_adapter.admission import completeness
from koordinator_adapter.admission.policy import Policy
from koordinator_adapter.translation import koordinator_reading, leftovers
from koordinator_adapter.translation.model import Asked, Finding, Words, at, container_path
from koordinator_adapter.translation.vocabulary import (
    HAMI_CORE,
    IGNORE,
    ISOLATION,
    KNOWN,
    MEMORY_LIMIT,
    OPT_IN,
    RECORDS,
    VISIBLE,
)

FORBIDDEN: Final = 403
SENSELESS: Final = 400
UNREADABLE: Final = 422

_OWN_LIMITS: Final = ("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT")
_CARD_NAMES: Final = KNOWN & rules.CARD_NAMES


def validate(request: AdmissionRequest, policy: Policy) -> Answer:
    """The answer to the creation or change of a pod."""
    if request.object is None:
        return Allowed()
    try:
        if refusal := forged(request, policy):
            return refusal
        pod = pods.pod(request.object)
        if request.operation == "UPDATE":
            return _of_change(request, pod, policy)
        return _of_creation(request.object, pod, policy)
    except WireError as error:
        return Refused(str(error), UNREADABLE)


def forged(request: AdmissionRequest, policy: Policy) -> Refused | None:
    """The refusal where somebody writes, changes or removes what only a scheduler records."""
    if policy.trusts(request.user):
        return None
    before, after = _records(request.old_object), _records(request.object)
    key = next((key for key in sorted({*before, *after}) if before.get(key) != after.get(key)), None)
    if key is None:
        return None
    return Refused(
        f"{key}: Koordinator's scheduler records there what a pod was given, and {request.user.name or 'this user'} "
        "is not a scheduler. Leave the annotation as it is; who may write it is set by admission.users and "
        "admission.groups of the koordinator-adapter",
        FORBIDDEN,
    )


def _of_creation(raw: Json, pod: Pod, policy: Policy) -> Answer:
    if refusal := _never_scheduled(pod):
        return refusal
    if not any(_requests(container) for container in pod.containers):
        return Allowed()
    asked = koordinator_reading.asked_of(pod)
    if isinstance(asked, Finding):
        return Refused(_reason(asked), SENSELESS)
    if asked is None or not injection.is_shared(asked.request):
        return Allowed()
    if refusal := _overridden(raw, pod):
        return refusal
    return _without_limits(pod, asked, policy)


def _never_scheduled(pod: Pod) -> Refused | None:
    """The refusal of amounts that Koordinator's webhook or scheduler would refuse."""
    for container in pod.containers:
        if words := completeness.objection(_requests(container)):
            return Refused(f"container {container.name}: Koordinator refuses the pod: {words}", SENSELESS)
    finding = next(leftovers.other_devices(pod, Words.KOORDINATOR), None)
    return None if finding is None else Refused(_reason(finding), SENSELESS)


def _of_change(request: AdmissionRequest, pod: Pod, policy: Policy) -> Answer:
    """A pod that has limits keeps them: the label is read again whenever a container starts anew."""
    before = _labels(request.old_object or {})
    if before.get(ISOLATION) != HAMI_CORE or pod.labels.get(ISOLATION) == HAMI_CORE or policy.trusts(request.user):
        return Allowed()
    asked = injection.request_of(injection.with_label(pod))
    if asked is None or not injection.is_shared(asked):
        return Allowed()
    return Refused(
        f"{ISOLATION}: the pod shares a card, and without {HAMI_CORE} there its containers would run without limits "
        "from their next start on. Leave the label as it is, or make the pod anew",
        FORBIDDEN,
    )


def _without_limits(pod: Pod, asked: Asked, policy: Policy) -> Answer:
    if asked.limited or policy.without_limits == "allow" or pod.labels.get(OPT_IN) == IGNORE:
        return Allowed()
    words = f"{ISOLATION}: without the label {HAMI_CORE} the pod shares a card without limits"
    if policy.without_limits == "refuse":
        return Refused(f"{words}; add it, or ask for whole cards", SENSELESS)
    return Allowed((), (words,))


def _overridden(raw: Json, pod: Pod) -> Refused | None:
    """A limit of the container's own wins over every other; those that come from our annotations are ours."""
    if pod.labels.get(ISOLATION) != HAMI_CORE:
        return None
    for index, container in enumerate(pod.containers):
        items = at(raw, (*container_path(pod, index), "env"))
        for each in items if isinstance(items, list) else ():
            name = str(each.get("name", "")) if isinstance(each, Mapping) else ""
            if name.startswith(_OWN_LIMITS) and not injection.is_ours(each, pod):
                return Refused(
                    f"container {container.name}: the variable {name} would win over the limit that the pod asks for. "
                    "Take it out of the container",
                    FORBIDDEN,
                )
    return None


def _records(raw: Json | None) -> Mapping[str, str]:
    """What a pod carries that only schedulers (and we, in their wake) write."""
    if raw is None:
        return {}
    metadata = fields.member(raw, "metadata", "pod ?:")
    annotations = fields.text_map(metadata, "annotations", "pod ?: metadata")
    return {key: value for key, value in annotations.items() if _is_record(key)}


def _is_record(key: str) -> bool:
    return key in RECORDS or key == VISIBLE or key.startswith(MEMORY_LIMIT)


def _labels(raw: Json) -> Mapping[str, str]:
    return fields.text_map(fields.member(raw, "metadata", "pod ?:"), "labels", "pod ?: metadata")


def _requests(container: Container) -> Mapping[str, int]:
    """What a container asks of cards in Koordinator's words, zeros included."""
    listed = {current(name): amount for name, amount in {**container.limits, **container.requests}.items()}
    return {name: amount.ceiling for name, amount in listed.items() if name in _CARD_NAMES}


def _reason(finding: Finding) -> str:
    return f"{finding.about}: {finding.words}{f'; {finding.remedy}' if finding.remedy else ''}"
