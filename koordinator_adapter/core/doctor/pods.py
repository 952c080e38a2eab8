"""Checks of pods: what they ask for, whether anybody counts what they hold, and whether their limits are enforced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.pods import Pod
from hami_plugins.vendors import nvidia, volcano
from hami_plugins.wire import koordinator as wire
from koordinator_adapter.core import injection
from koordinator_adapter.core.doctor.evidence import (
    DoctorFinding,
    DoctorSeverity,
    Evidence,
    UnfinishedPod,
    merge_patch,
    several,
)
from koordinator_adapter.core.refusals import cause_of
from koordinator_adapter.core.translation import koordinator_reader
from koordinator_adapter.core.translation.model import RequestedDevices
from koordinator_adapter.core.translation.model import TranslationFinding as Objection
from koordinator_adapter.core.translation.vocabulary import HAMI_CORE, ISOLATION, PREFIX

_FOREIGN: Final = (nvidia.SPEC.keys.allocated, volcano.SPEC.keys.allocated)
"""Records of other schedulers, of the same cards."""

_DEVICE_PLUGIN_CARDS: Final = wire.WHOLE_CARDS


def requests(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Pods' requests have a meaning, and a webhook completes them."""
    for each in _koordinators(evidence):
        asked = koordinator_reader.asked_of(each.pod)
        if isinstance(asked, Objection):
            words = f"{asked.about}: {asked.words}"
            yield _of(each, "request", DoctorSeverity.ERROR, words, f"{_edit(each)}   # {asked.remedy}")
        if each.pod.namespace in evidence.unserved:
            words = f"Koordinator's webhook leaves namespace {each.pod.namespace} out (label control-plane)"
            yield _of(
                each,
                "request",
                DoctorSeverity.WARNING,
                words,
                f"kubectl label namespace {each.pod.namespace} control-plane-",
            )


def limits(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Pods that share cards are limited only where their label says so, and need a nodeSelector to be placed well."""
    for each in _koordinators(evidence):
        asked = koordinator_reader.asked_of(each.pod)
        if not isinstance(asked, RequestedDevices) or not injection.is_shared(asked.request):
            continue
        provider = each.pod.labels.get(ISOLATION)
        if provider is None:
            words = f"shares a card without the label {ISOLATION}: nothing limits it there"
            yield _of(each, "no-limits", DoctorSeverity.WARNING, words, _promised(each, HAMI_CORE))
            continue
        others = [machine.name for machine, _ in evidence.card_nodes() if machine.labels.get(ISOLATION) != provider]
        if dict(each.pod.constraints.selector).get(ISOLATION) is None and others and each.pod.node is None:
            words = f"has no nodeSelector of {ISOLATION}, so that {several(others)} end the search for a node"
            yield _of(each, "no-selector", DoctorSeverity.WARNING, words, _promised(each, provider))


def records(evidence: Evidence) -> Iterator[DoctorFinding]:
    """A pod with a card that Koordinator allocates is counted there."""
    for each in evidence.pods:
        pod = each.pod
        published = evidence.devices.get(pod.node) if pod.node is not None else None
        text = pod.annotations.get(wire.ALLOCATED_KEY)
        if published is None or not published.cards:
            if text is None and pod.node is not None:
                yield from _uncounted(each)
            continue
        if text is None:
            yield from _unrecorded(each)
            continue
        try:
            held = wire.decode(text).get(wire.GPU_TYPE, ())
        except WireError as error:
            yield _of(each, "record", DoctorSeverity.ERROR, f"its record is invalid: {error.why}", _again(pod))
            continue
        known = {card.minor for card in published.cards}
        gone = [str(device.minor) for device in held if device.minor not in known]
        if gone:
            words = f"holds cards that node {pod.node} does not report: {several(gone)}"
            yield _of(each, "record", DoctorSeverity.ERROR, words, _again(pod))


def waiting(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Why pods wait, behind the scheduler's texts."""
    for each in evidence.pods:
        cause = cause_of(each.waits) if each.waits and each.pod.node is None else None
        if cause is not None:
            yield _of(
                each, "waiting", DoctorSeverity.WARNING, f"waits: {cause.words}", f"{_edit(each)}   # {cause.remedy}"
            )


CHECKS: Final = (requests, limits, records, waiting)


def _koordinators(evidence: Evidence) -> Iterator[UnfinishedPod]:
    for each in evidence.pods:
        if any(_is_koordinators(name) for one in each.pod.containers for name in (*one.requests, *one.limits)):
            yield each


def _is_koordinators(name: str) -> bool:
    return wire.current(name).startswith(PREFIX)


def _uncounted(each: UnfinishedPod) -> Iterator[DoctorFinding]:
    """On a node without cards of a Device object Koordinator's scheduler records nothing, and binds all the same."""
    pod = each.pod
    if any(map(_is_koordinators, _names(pod))):
        words = f"was bound to {pod.node}, whose cards are not published: its usage is neither counted nor limited"
        fix = (
            f"kubectl get devices.scheduling.koordinator.sh {pod.node}   # have its cards published; then {_again(pod)}"
        )
        yield _of(each, "record", DoctorSeverity.ERROR, words, fix)


def _names(pod: Pod) -> set[str]:
    return {name for one in pod.containers for name, amount in {**one.requests, **one.limits}.items() if amount.nano}


def _unrecorded(each: UnfinishedPod) -> Iterator[DoctorFinding]:
    pod = each.pod
    names = _names(pod)
    if any(map(_is_koordinators, names)):
        words = (
            f"was bound to {pod.node} without a record of its cards: they are not counted, and other pods also get them"
        )
        yield _of(each, "record", DoctorSeverity.ERROR, words, _again(pod))
        return
    foreign = next((key for key in _FOREIGN if pod.annotations.get(key)), None)
    if foreign is None and names.isdisjoint(_DEVICE_PLUGIN_CARDS):
        return
    whose = f"by {foreign}" if foreign else "from a device plugin"
    words = f"holds cards of {pod.node} {whose}, which Koordinator does not see and allocates again"
    again = f"hami-plugins koordinator migrate --records -n {pod.namespace} --apply" if foreign else _again(pod)
    yield _of(each, "foreign-record", DoctorSeverity.ERROR, words, again)


def _of(each: UnfinishedPod, check: str, severity: DoctorSeverity, words: str, fix: str) -> DoctorFinding:
    return DoctorFinding(check=check, severity=severity, about=f"pod/{each.pod.full_name}", words=words, fix=fix)


def _again(pod: Pod) -> str:
    return f"kubectl -n {pod.namespace} delete pod {pod.name}   # its owner recreates it"


def _edit(each: UnfinishedPod) -> str:
    return f"kubectl -n {each.pod.namespace} edit {each.owner or f'pod/{each.pod.name}'}"


def _promised(each: UnfinishedPod, provider: str) -> str:
    """The command that gives a pod's owner the label and the nodeSelector."""
    if not each.owner or each.owner.startswith("job/"):
        return "hami-plugins koordinator translate -f MANIFEST --to koordinator --in-place"
    pair = {ISOLATION: provider}
    return merge_patch(each.pod.namespace, each.owner, {"nodeSelector": pair}, {"labels": pair})
