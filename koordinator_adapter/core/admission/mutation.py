"""New pods in Koordinator's words, already complete, with their limits where those are ours to give.

Koordinator's own webhook finds nothing to do with what comes out, whichever of the two is asked first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import made
from hami_plugins.wire import admission, fields, pods
from hami_plugins.wire.admission_review import SENSELESS, UNREADABLE, AdmissionRequest, Allowed, Answer, Denied
from hami_plugins.wire.fields import Json
from koordinator_adapter.core import injection
from koordinator_adapter.core.admission.policy import AdmissionPolicy, ClusterFacts
from koordinator_adapter.core.translation.model import Fidelity, TranslationFinding
from koordinator_adapter.core.translation.pods import translate
from koordinator_adapter.core.translation.vocabulary import IGNORE, OPT_IN

_LONGEST_WARNING: Final = 256
"""Characters; of a longer warning an API server may show no more."""


def mutate(request: AdmissionRequest, registry: Registry, policy: AdmissionPolicy, facts: ClusterFacts) -> Answer:
    """The answer to the creation of a pod. ``registry`` is one of ``reading.complete``.

    Pods that request no cards, that have a node already or that do not want it are left alone, and so are those for
    cards that Koordinator does not divide, with a warning.
    """
    if request.object is None:
        return Allowed()
    try:
        raw = _placed(request.object, request.namespace)
        if _is_left_alone(raw):
            return Allowed()
        return _answer(raw, registry, policy, facts)
    except WireError as error:
        return Denied(str(error), UNREADABLE)


def warnings_of(findings: Iterable[TranslationFinding]) -> tuple[str, ...]:
    """Lost settings, as warnings for the creator of the pod."""
    return tuple(_shortened(f"{each.about}: {each.words}") for each in findings if each.fidelity is Fidelity.LOSSY)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_WARNING else f"{text[: _LONGEST_WARNING - 3]}..."


def _answer(raw: Json, registry: Registry, policy: AdmissionPolicy, facts: ClusterFacts) -> Answer:
    found = translate(raw, Dialect.KOORDINATOR, registry, policy.settings(facts))
    if found.unknown:
        return Allowed((), tuple(_shortened(f"{each.about}: {each.words}") for each in found.findings))
    if found.fidelity is Fidelity.REFUSED:
        return Denied(_reasons(found.findings), SENSELESS)
    after = made(raw, found.edits)
    warnings = warnings_of(found.findings)
    if found.source is not None and policy.injects_now(facts):
        injected = injection.edits_of(after, pods.pod(after), policy.hook_path, policy.lock_path)
        if isinstance(injected, TranslationFinding):
            return Denied(_reasons((injected,)), SENSELESS)
        after = made(after, injected)
    return Allowed(tuple(admission.patch(raw, after)), warnings)


def _placed(raw: Json, namespace: str) -> Json:
    """The pod with its namespace, which the object of a request may lack."""
    metadata = fields.member(raw, "metadata", "pod ?:")
    return {**raw, "metadata": {**metadata, "namespace": metadata.get("namespace") or namespace or "default"}}


def _is_left_alone(raw: Json) -> bool:
    labels = fields.text_map(fields.member(raw, "metadata", "pod ?:"), "labels", "pod ?: metadata")
    return labels.get(OPT_IN) == IGNORE or bool(pods.node_of(raw))


def _reasons(findings: Iterable[TranslationFinding]) -> str:
    said = [
        f"{each.about}: {each.words}{f'; {each.remedy}' if each.remedy else ''}"
        for each in findings
        if each.fidelity is Fidelity.REFUSED
    ]
    return f"{'. '.join(said)}. A pod with the label {OPT_IN}: {IGNORE} is left as it is"
