"""Whether a new pod in Koordinator's words can be scheduled, and whether its limits hold.

Who writes what a scheduler records on a pod, and who takes the label of limits off, is decided by the admission policy
(``hami_plugins.granting.allocation_policy``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.engine import koordinator as rules
from hami_plugins.errors import WireError
from hami_plugins.model.pods import Container, Pod
from hami_plugins.wire import pods
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer, Refused
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator import current
from koordinator_adapter import injection
from koordinator_adapter.admission import completeness, overrides
from koordinator_adapter.admission.policy import Policy
from koordinator_adapter.translation import koordinator_reading, leftovers
from koordinator_adapter.translation.model import Asked, Finding, Words
from koordinator_adapter.translation.vocabulary import (
    HAMI_CORE,
    IGNORE,
    ISOLATION,
    KNOWN,
    OPT_IN,
)

FORBIDDEN: Final = 403
SENSELESS: Final = 400
UNREADABLE: Final = 422

_CARD_NAMES: Final = KNOWN & rules.CARD_NAMES


def validate(request: AdmissionRequest, policy: Policy) -> Answer:
    """The answer to the creation of a pod."""
    if request.object is None:
        return Allowed()
    try:
        return _of_creation(request.object, pods.pod(request.object), policy)
    except WireError as error:
        return Refused(str(error), UNREADABLE)


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
    if pod.labels.get(ISOLATION) == HAMI_CORE and (why := overrides.first(raw, pod, asked.request)):
        return Refused(why, FORBIDDEN)
    return _without_limits(pod, asked, policy)


def _never_scheduled(pod: Pod) -> Refused | None:
    """The refusal of amounts that Koordinator's webhook or scheduler would refuse."""
    for container in pod.containers:
        if words := completeness.objection(_requests(container)):
            return Refused(f"container {container.name}: Koordinator refuses the pod: {words}", SENSELESS)
    finding = next(leftovers.other_devices(pod, Words.KOORDINATOR), None)
    return None if finding is None else Refused(_reason(finding), SENSELESS)


def _without_limits(pod: Pod, asked: Asked, policy: Policy) -> Answer:
    if asked.limited or policy.without_limits == "allow" or pod.labels.get(OPT_IN) == IGNORE:
        return Allowed()
    words = f"{ISOLATION}: without the label {HAMI_CORE} the pod shares a card without limits"
    if policy.without_limits == "refuse":
        return Refused(f"{words}; add it, or ask for whole cards", SENSELESS)
    return Allowed((), (words,))


def _requests(container: Container) -> Mapping[str, int]:
    """What a container asks of cards in Koordinator's words, zeros included."""
    listed = {current(name): amount for name, amount in {**container.limits, **container.requests}.items()}
    return {name: amount.ceiling for name, amount in listed.items() if name in _CARD_NAMES}


def _reason(finding: Finding) -> str:
    return f"{finding.about}: {finding.words}{f'; {finding.remedy}' if finding.remedy else ''}"
