"""Whether a new pod in Koordinator's words can be scheduled, and whether its limits hold.

Who writes what a scheduler records on a pod, and who takes the label of limits off, is decided by the admission policy
(``hami_plugins.allocations.manifests.allocation_policy``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.engine import koordinator as rules
from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container, Pod
from hami_plugins.wire import pods
from hami_plugins.wire.admission_review import (
    FORBIDDEN,
    SENSELESS,
    UNREADABLE,
    AdmissionRequest,
    Allowed,
    Answer,
    Denied,
)
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator import current
from koordinator_adapter.core import injection
from koordinator_adapter.core.admission import completeness, overrides
from koordinator_adapter.core.admission.policy import AdmissionPolicy
from koordinator_adapter.core.translation import koordinator_reader, unmapped
from koordinator_adapter.core.translation.model import TranslationFinding
from koordinator_adapter.core.translation.vocabulary import (
    HAMI_CORE,
    IGNORE,
    ISOLATION,
    KNOWN,
    OPT_IN,
)

_CARD_NAMES: Final = KNOWN & rules.CARD_NAMES


def validate(request: AdmissionRequest, policy: AdmissionPolicy) -> Answer:
    """The answer to the creation of a pod."""
    if request.object is None:
        return Allowed()
    try:
        return _of_creation(request.object, pods.pod(request.object), policy)
    except WireError as error:
        return Denied(str(error), UNREADABLE)


def _of_creation(raw: Json, pod: Pod, policy: AdmissionPolicy) -> Answer:
    ignored = pod.labels.get(OPT_IN) == IGNORE
    if not ignored and (refusal := _never_scheduled(pod)):
        return refusal
    if not any(_requests(container) for container in pod.containers):
        return Allowed()
    asked = koordinator_reader.asked_of(pod)
    if isinstance(asked, TranslationFinding):
        return Allowed() if ignored else Denied(_reason(asked), SENSELESS)
    if asked is None or not injection.is_shared(asked.request):
        return Allowed()
    if pod.labels.get(ISOLATION) == HAMI_CORE and (why := overrides.first(raw, pod, asked.request)):
        return Denied(why, FORBIDDEN)
    return _without_limits(pod, policy)


def _never_scheduled(pod: Pod) -> Denied | None:
    """The refusal of amounts that Koordinator's webhook or scheduler would refuse."""
    for container in pod.containers:
        if words := completeness.objection(_requests(container)):
            return Denied(f"container {container.name}: Koordinator refuses the pod: {words}", SENSELESS)
    finding = next(unmapped.other_devices(pod, Dialect.KOORDINATOR), None)
    return None if finding is None else Denied(_reason(finding), SENSELESS)


def _without_limits(pod: Pod, policy: AdmissionPolicy) -> Answer:
    """The answer to a pod that shares a card; one with the label has limits, HAMi-core's or another component's."""
    if ISOLATION in pod.labels or policy.without_limits == "allow" or pod.labels.get(OPT_IN) == IGNORE:
        return Allowed()
    words = f"{ISOLATION}: without the label {HAMI_CORE} the pod shares a card without limits"
    if policy.without_limits == "refuse":
        return Denied(f"{words}; add it, or ask for whole cards", SENSELESS)
    return Allowed((), (words,))


def _requests(container: Container) -> Mapping[str, int]:
    """What a container asks of cards in Koordinator's words, zeros included."""
    listed = {current(name): amount for name, amount in {**container.limits, **container.requests}.items()}
    return {name: amount.ceiling for name, amount in listed.items() if name in _CARD_NAMES}


def _reason(finding: TranslationFinding) -> str:
    return f"{finding.about}: {finding.words}{f'; {finding.remedy}' if finding.remedy else ''}"
