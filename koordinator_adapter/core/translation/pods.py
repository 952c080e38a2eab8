"""One pod, or the template of many, from one dialect to another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import DropEdit, Edit
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import ContainerKind, DeviceRequest
from hami_plugins.model.units import CoreShare, VendorName
from hami_plugins.wire import pods
from koordinator_adapter.core.translation import (
    groups,
    koordinator_reader,
    npu,
    placement,
    plugin_resources,
    resources,
    selection,
    unmapped,
)
from koordinator_adapter.core.translation.koordinator_reader import NVIDIA
from koordinator_adapter.core.translation.model import (
    Change,
    Fidelity,
    RequestedDevices,
    Rule,
    Translation,
    TranslationContext,
    TranslationFinding,
    TranslationOptions,
    at,
    container_path,
    refused,
)
from koordinator_adapter.core.translation.reader import asked_of, words_of
from koordinator_adapter.core.translation.resources import DISABLED
from koordinator_adapter.core.translation.vocabulary import CORE_POLICY_ENV, NO_CORE_LIMIT

CONTAINER_RULES: Final[tuple[Rule, ...]] = (
    resources.amounts,
    resources.precision,
    resources.beside_applications,
    resources.priority,
    resources.unlimited_cores,
    unmapped.variables,
)
POD_RULES: Final[tuple[Rule, ...]] = (
    resources.of_several_containers,
    placement.namespace,
    placement.node,
    placement.scheduler,
    placement.isolation,
    placement.vendor,
    placement.labels_of_nodes,
    placement.runtime,
    placement.policies,
    selection.cards,
    selection.models,
    selection.mode,
    groups.gang,
    groups.gang_details,
    groups.queue,
    groups.importance,
    unmapped.only_koordinators,
    unmapped.readable,
    unmapped.only_volcanos,
    unmapped.records,
)
"""In the order in which their findings are reported."""

NPU_RULES: Final[tuple[Rule, ...]] = (
    npu.amounts,
    npu.nodes,
    placement.namespace,
    placement.node,
    placement.scheduler,
    placement.stray_label,
    placement.policies,
    selection.no_hint,
    groups.gang,
    groups.gang_details,
    groups.queue,
    groups.importance,
    unmapped.only_koordinators,
    unmapped.readable,
    unmapped.only_volcanos,
    unmapped.records,
)
"""Those for Ascend's NPUs, which no library in the container divides."""

MEMBER_RULES: Final[tuple[Rule, ...]] = (
    placement.namespace,
    placement.node,
    placement.scheduler,
    groups.gang,
    groups.gang_details,
    groups.queue,
    groups.importance,
)
"""Those for members of a gang that ask for no cards: none of them looks at what is asked."""

PLUGIN_RULES: Final[tuple[Rule, ...]] = (
    plugin_resources.amounts,
    plugin_resources.nodes,
    placement.namespace,
    placement.node,
    placement.scheduler,
    placement.stray_label,
    placement.labels_of_nodes,
    placement.policies,
    selection.no_hint,
    groups.gang,
    groups.gang_details,
    groups.queue,
    groups.importance,
    unmapped.only_koordinators,
    unmapped.readable,
    unmapped.records,
)
"""Those for cards that Koordinator divides with the device plugin of their vendor."""

OTHER_RULES: Final[tuple[Rule, ...]] = (resources.unknown,)
"""Annotations for cards of all other vendors."""


def translate(
    raw: Mapping[str, object], target: Dialect, registry: Registry, settings: TranslationOptions
) -> Translation:
    """What has to change in a pod (or template) so that it means the same in the words of ``target``.

    ``registry`` is one of ``reading.complete``. A pod that asks for no cards is left alone, unless it is of a gang that
    moves, and so is one that is refused. Never raises for what is in the pod.
    """
    try:
        pod = pods.pod(raw)
    except WireError as error:
        return Translation(source=None, target=target, findings=(refused(error.key, error.why, "correct it"),))
    found = words_of(pod, registry, settings)
    if len(found) != 1:
        mixed = Translation(source=None, target=target, findings=(_mixed(found),))
        return mixed if found else _of_gang(raw, pod, target, registry, settings)
    (source,) = found
    asked = _asked(pod, source, target, registry)
    if isinstance(asked, tuple) and NO_CORE_LIMIT in pod.annotations:
        asked = tuple(_as_enforced(each, pod, raw) for each in asked)
    if isinstance(asked, TranslationFinding):
        return Translation(source=source, target=target, findings=(asked,))
    strange = (*unmapped.other_devices(pod, target), *unmapped.other_sharing(pod, source, target))
    if strange:
        return Translation(source=source, target=target, findings=strange)
    if not asked or (source is target and not _is_normalised(asked, target)):
        return Translation(
            source=source, target=target, findings=tuple(_of_another(pod, asked, target, registry, settings))
        )
    cases = [
        TranslationContext(
            raw=raw,
            pod=pod,
            source=source,
            target=target,
            asked=each,
            path=container_path(pod, each.container),
            registry=registry,
            settings=settings,
        )
        for each in asked
    ]
    told = _told(source, target, list(_changes(cases)))
    return replace(told, unknown=all(_rules_of(each.request.vendor) is OTHER_RULES for each in asked))


def _of_gang(
    raw: Mapping[str, object], pod: Pod, target: Dialect, registry: Registry, settings: TranslationOptions
) -> Translation:
    """A pod without cards; one of a gang that moves goes along, or the others wait for ever or start without it."""
    for source in Dialect:
        named = groups.named_group(pod, source)
        own = pod.scheduler == settings.schedulers[source]
        if source is target or named is None or not own or f"{pod.namespace}/{named[2]}" not in settings.moved:
            continue
        case = TranslationContext(
            raw=raw,
            pod=pod,
            source=source,
            target=target,
            asked=RequestedDevices(container=0, request=DeviceRequest(vendor=NVIDIA, count=0, memory=WHOLE)),
            path=container_path(pod, 0),
            registry=registry,
            settings=settings,
        )
        return _told(source, target, [change for rule in MEMBER_RULES for change in rule(case)])
    return Translation(source=None, target=target)


def _of_another(
    pod: Pod, asked: Sequence[RequestedDevices], target: Dialect, registry: Registry, settings: TranslationOptions
) -> Iterator[TranslationFinding]:
    """The refusal of a pod that has the words of the target and names the scheduler of another dialect, which does not
    read them; Koordinator's own pods are left alone."""
    others = {name for words, name in settings.schedulers.items() if words is not target}
    if target is Dialect.KOORDINATOR or pod.scheduler not in others:
        return
    if any(pod.scheduler not in registry[each.request.vendor].schedulers for each in asked):
        yield placement.not_its_own(pod.scheduler, target)


def _is_normalised(asked: Sequence[RequestedDevices], target: Dialect) -> bool:
    """Whether pods that are in these words already are completed: Koordinator's webhook does it with NVIDIA's cards."""
    return target is Dialect.KOORDINATOR and asked[0].request.vendor == NVIDIA


def _changes(cases: Sequence[TranslationContext]) -> Iterator[Change]:
    """The findings of each rule; containers are checked one by one, the pod once."""
    others = [case for case in cases if not resources.is_known(case.asked.request.vendor)]
    if others:
        for rule in _rules_of(others[0].asked.request.vendor):
            yield from rule(others[0])
        if len(others) < len(cases):
            yield refused("containers", "cards of several vendors in one pod", "make a pod for each vendor")
        return
    for case in cases:
        for rule in CONTAINER_RULES:
            yield from (_at_container(case, change) for change in rule(case))
    for rule in POD_RULES:
        yield from rule(cases[0])


def _rules_of(vendor: VendorName) -> tuple[Rule, ...]:
    """The rules for a pod, by the vendor of its cards."""
    if resources.is_known(vendor):
        return POD_RULES
    if npu.is_npu(vendor):
        return NPU_RULES
    return PLUGIN_RULES if plugin_resources.wants_resources(vendor) else OTHER_RULES


def _at_container(case: TranslationContext, change: Change) -> Change:
    """The change, or the finding with the container as its place where it names no other."""
    return replace(change, path=case.path) if isinstance(change, TranslationFinding) and not change.path else change


def _asked(
    pod: Pod, source: Dialect, target: Dialect, registry: Registry
) -> tuple[RequestedDevices, ...] | TranslationFinding:
    asked = asked_of(pod, source, registry)
    if isinstance(asked, TranslationFinding) or not asked:
        return asked
    if source is Dialect.KOORDINATOR and len(koordinator_reader.asking_of(pod)) > 1:
        return _of_several(pod, asked[0], target)
    return _several(pod, asked) if target is Dialect.KOORDINATOR and len(asked) > 1 else asked


def _of_several(
    pod: Pod, asked: RequestedDevices, target: Dialect
) -> tuple[RequestedDevices, ...] | TranslationFinding:
    """One request of several containers of Koordinator's: each is completed there, and no other scheduler has such."""
    if target is not Dialect.KOORDINATOR:
        return koordinator_reader.several(pod, f"{target} assigns cards to each container")
    running = [at for at in koordinator_reader.asking_of(pod) if pod.containers[at].kind is ContainerKind.APP]
    return tuple(replace(asked, container=at) for at in running)


def _as_enforced(asked: RequestedDevices, pod: Pod, raw: Mapping[str, object]) -> RequestedDevices:
    """Cores that were only booked, once the container is to be limited to them."""
    booked = pod.annotations[NO_CORE_LIMIT]
    items = at(raw, (*container_path(pod, asked.container), "env"))
    policy = {"name": CORE_POLICY_ENV, "value": DISABLED}
    if asked.request.cores or not booked.isdecimal() or (isinstance(items, list) and policy in items):
        return asked
    return replace(asked, request=replace(asked.request, cores=CoreShare(int(booked))))


def _told(source: Dialect, target: Dialect, changes: Sequence[Change]) -> Translation:
    findings = tuple(each for each in changes if isinstance(each, TranslationFinding))
    reasons = tuple(each for each in findings if each.fidelity is Fidelity.REFUSED)
    if reasons:
        return Translation(source=source, target=target, findings=reasons)
    edits = tuple(each for each in changes if not isinstance(each, TranslationFinding))
    return Translation(source=source, target=target, edits=_ordered(edits), findings=findings)


def _several(pod: Pod, found: Sequence[RequestedDevices]) -> TranslationFinding:
    asking = ", ".join(f"{pod.containers[each.container].name} ({each.request.vendor})" for each in found)
    return refused(
        "containers",
        f"{len(found)} requests for cards in one pod: {asking}; Koordinator makes one request of them (the sum of the "
        "applications, or the largest init container), and each container would see all of its cards",
        "put the cards into one container, or make several pods",
    )


def _ordered(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Items of lists that are taken away come last, the later ones first, so that every path stays true."""
    drops = [each for each in edits if isinstance(each, DropEdit) and isinstance(each.path[-1], int)]
    rest = [each for each in edits if each not in drops]
    return (*rest, *sorted(drops, key=lambda each: int(each.path[-1]), reverse=True))


def _mixed(found: frozenset[Dialect]) -> TranslationFinding:
    names = " and ".join(sorted(found))
    return refused(
        "resources",
        f"the pod mixes resources of {names}; no scheduler gives it all of them",
        "keep the resources of one scheduler",
    )
