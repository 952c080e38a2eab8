"""The amounts of a request in each dialect's names and units, in the places where the old ones stood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.koordinator import FULL, converted, normalised
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import AppendEdit, DropEdit, Edit, Path, PutEdit, RenameEdit
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import Absolute, ContainerKind, DeviceRequest
from hami_plugins.model.units import MEBIBYTE, VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.vendors import volcano
from hami_plugins.wire import quantity
from hami_plugins.wire.koordinator import CORE, GPU, MEMORY, RATIO, SHARED, WHOLE_CARDS, current, is_deprecated
from koordinator_adapter.core.translation.choices import NoCoreLimit
from koordinator_adapter.core.translation.koordinator_reader import NVIDIA, WHOLE_ONLY, amounts_of
from koordinator_adapter.core.translation.model import (
    Change,
    TranslationContext,
    TranslationFinding,
    TranslationOptions,
    at,
    kept,
    lost,
    refused,
)
from koordinator_adapter.core.translation.vocabulary import CORE_POLICY_ENV, NO_CORE_LIMIT, PRIORITY_ENV

_VENDORS: Final[Mapping[Dialect, VendorName]] = {Dialect.HAMI: NVIDIA, Dialect.VOLCANO: volcano.SPEC.name}
_KOORDINATOR: Final[Mapping[str, str]] = {
    **dict.fromkeys((SHARED, GPU, *WHOLE_CARDS), "count"),
    MEMORY: "memory",
    RATIO: "percentage",
    CORE: "cores",
}
DISABLED: Final = "disable"


class ResourceAmount(NamedTuple):
    """A resource and what is written for it."""

    name: str
    value: int | str


Amounts = Mapping[str, ResourceAmount]
"""By what they say: ``count``, ``memory``, ``percentage``, ``cores``. The same name says the same amount everywhere."""


def spec_of(case: TranslationContext, words: Dialect) -> VendorSpec:
    """The vendor that has NVIDIA's cards in HAMi's or Volcano's words."""
    return case.registry[_VENDORS[words]]


def is_known(vendor: VendorName) -> bool:
    """Whether the cards are those that all dialects have words for: NVIDIA's."""
    return vendor in _VENDORS.values()


def unknown(case: TranslationContext) -> Iterator[Change]:
    """The refusal of other cards; a pod that the scheduler of the target has already can stay there."""
    vendor = case.asked.request.vendor
    spec = case.registry.get(vendor)
    if case.pod.scheduler == case.settings.schedulers[case.target]:
        return
    words = f"{case.target} has no resource names for cards of {spec.title if spec else vendor}"
    if case.target is Dialect.KOORDINATOR and vendor in WHOLE_ONLY:
        words = f"Koordinator takes {WHOLE_ONLY[vendor]} for whole cards of {vendor}, and reports no such cards itself"
    yield refused(
        spec.resources.count if spec else "nodeSelector",
        words,
        f"leave the pod as it is, or change schedulerName alone if {case.target}'s knows the resource",
        path=case.path,
    )


def amounts(case: TranslationContext) -> Iterator[Change]:
    """What the container asks for, in the other words."""
    written = _written(case)
    if isinstance(written, TranslationFinding):
        yield written
        return
    limits, requests = _names(case, "limits"), _names(case, "requests")
    yield from _replaced(case, "limits", limits, written)
    if requests:
        yield from _replaced(case, "requests", requests, written)


def precision(case: TranslationContext) -> Iterator[Change]:
    """What the amounts do not say any more, or say otherwise."""
    request, spec = case.asked.request, case.target
    if case.source is Dialect.KOORDINATOR:
        yield from _koordinator_remarks(case)
    partial = request.memory != WHOLE
    if spec is Dialect.KOORDINATOR and case.source is not Dialect.KOORDINATOR:
        if partial and request.cores == FULL:
            yield lost(
                CORE,
                "all cores of a card with part of its memory mean a card of one's own; in Koordinator only pods that "
                "name cores keep off such a card, one that names memory alone may still land on it",
            )
        if not partial and request.cores < FULL:
            cores = f"{request.cores} %" if request.cores else "no limit"
            yield lost(
                CORE,
                f"all memory with {cores} of cores becomes the whole card: Koordinator limits nothing on whole cards, "
                "and no other pod gets the other cores",
            )
        yield from _both_memories(case)
        yield from _as_large_as_a_card(case)
    if spec is Dialect.VOLCANO and partial and not isinstance(request.memory, Absolute):
        yield lost(
            volcano.RESOURCES.memory_percentage,
            "Volcano gives percentages out only where its configuration names the resource and nodes advertise it; "
            "elsewhere Volcano does not enqueue the pod",
            remedy="ask in MiB, or add the resource to Volcano's device configuration",
        )


def beside_applications(case: TranslationContext) -> Iterator[Change]:
    """Containers to which Volcano assigns no card, whatever they ask for: init containers and sidecars."""
    kind = case.container.kind
    if case.target is not Dialect.VOLCANO or case.source is Dialect.VOLCANO or kind is ContainerKind.APP:
        return
    what = "an init container" if kind is ContainerKind.INIT else "a sidecar container"
    yield lost(
        volcano.RESOURCES.count,
        f"container {case.container.name} is {what}: Volcano counts its amounts in the sums of the node, and assigns a "
        "card to application containers only",
        remedy="use the card in an application container, or run volcano-vgpu's server in mode webhook or extender",
    )


def of_several_containers(case: TranslationContext) -> Iterator[Change]:
    """Cards in several containers, which Volcano's scheduler knows and its usual node agent does not."""
    if case.target is not Dialect.VOLCANO:
        return
    running = [each for each in case.pod.containers if each.kind is ContainerKind.APP]
    asking = [each.name for each in running if spec_of(case, Dialect.HAMI).asked_of(each.limits)]
    if len(asking) > 1:
        yield lost(
            "containers",
            f"containers {' and '.join(asking)} ask for cards: volcano-vgpu-device-plugin up to 1.12 matches no such "
            "pod, "
            "and kubelet fails it",
            remedy="put the cards into one container, or use volcano-vgpu's agent",
        )


def unlimited_cores(case: TranslationContext) -> Iterator[Change]:
    """A request without a limit of cores, into Koordinator's words, and back (Koordinator 1.7.0
    ``pkg/scheduler/plugins/deviceshare/utils.go``)."""
    if case.target is Dialect.KOORDINATOR and case.source is not Dialect.KOORDINATOR:
        yield from _without_core_limit(case)
    elif case.target is not Dialect.KOORDINATOR and NO_CORE_LIMIT in case.pod.annotations:
        yield DropEdit(("metadata", "annotations", NO_CORE_LIMIT))
        index, value = case.env.get(CORE_POLICY_ENV, (0, None))
        if case.asked.request.cores == 0 and value == DISABLED:
            yield DropEdit((*case.path, "env", index))
    elif case.source is Dialect.KOORDINATOR and case.target is not Dialect.KOORDINATOR and not case.asked.request.cores:
        yield lost(
            CORE,
            f"without {CORE} Koordinator counts no cores for the pod; {case.target} refuses it a card whose cores "
            "are fully allocated",
        )


def priority(case: TranslationContext) -> Iterator[Change]:
    """The priority of a container among those of its card: a resource for HAMi, a variable for everybody else."""
    name = spec_of(case, Dialect.HAMI).resources.priority
    given = case.container.limits.get(name)
    if case.source is Dialect.HAMI and given is not None:
        for part in ("limits", "requests"):
            if name in _part(case, part):
                yield DropEdit((*case.path, "resources", part, name))
        variable = {"name": PRIORITY_ENV, "value": str(given.ceiling)}
        words = f"becomes the variable {PRIORITY_ENV}={given.ceiling}; a component on the node must act on it"
        index, value = case.env.get(PRIORITY_ENV, (None, None))
        if index is None:
            yield AppendEdit((*case.path, "env"), variable)
            yield kept(name, words)
        elif value != variable["value"]:
            # HAMi's webhook adds the variable behind the container's own, and the later one counts.
            yield PutEdit((*case.path, "env", index), variable)
            yield kept(name, f"{words}; the container's own has not counted next to the resource")
    elif case.target is Dialect.HAMI and PRIORITY_ENV in case.env:
        index, value = case.env[PRIORITY_ENV]
        if value is not None and value.isdecimal() and value.isascii() and len(value) < 4:
            yield DropEdit((*case.path, "env", index))
            yield PutEdit((*case.path, "resources", "limits", name), int(value))


def _written(case: TranslationContext) -> Amounts | TranslationFinding:
    request, settings = case.asked.request, case.settings
    if case.source is case.target:
        return _normalised(case)
    if case.target is Dialect.KOORDINATOR:
        return _in_koordinator(request, settings)
    spec = spec_of(case, case.target)
    return _in_slices(request, spec, whole_cores=case.target is Dialect.VOLCANO)


def _normalised(case: TranslationContext) -> Amounts:
    """Koordinator's own amounts as its webhook would leave them, so that it finds nothing to do."""
    found = normalised(amounts_of(case.pod, case.asked.container))
    cards = next((found[name] for name in WHOLE_CARDS if name in found), 0)
    if cards:
        found = {SHARED: cards, **converted(found)}
    return {_KOORDINATOR[name]: ResourceAmount(name, _spelled(name, amount)) for name, amount in found.items()}


def _spelled(name: str, amount: int) -> int | str:
    return quantity.canonical(amount * NANO, binary=True) if name == MEMORY else amount


def _in_koordinator(request: DeviceRequest, settings: TranslationOptions) -> Amounts | TranslationFinding:
    count, memory = request.count, request.memory
    if isinstance(memory, Absolute) and settings.card_memory is not None and memory.mib > settings.card_memory:
        return refused(
            MEMORY, f"{memory.mib} MiB are more than the largest card has ({settings.card_memory} MiB)", "ask for less"
        )
    found = {"count": ResourceAmount(SHARED, count)}
    if memory == WHOLE or (not request.cores and settings.no_core_limit is NoCoreLimit.WHOLE):
        return found | {"cores": ResourceAmount(CORE, FULL * count), "percentage": ResourceAmount(RATIO, FULL * count)}
    if isinstance(memory, Absolute):
        found["memory"] = ResourceAmount(MEMORY, _spelled(MEMORY, count * memory.mib * MEBIBYTE))
    else:
        found["percentage"] = ResourceAmount(RATIO, count * memory.of_device)
    cores = request.cores or booked_cores(settings)
    return found | ({"cores": ResourceAmount(CORE, count * cores)} if cores else {})


def booked_cores(settings: TranslationOptions) -> int:
    """The cores per card that stand for a container without a limit of cores, 0 for none."""
    return -(-FULL // settings.slices_per_card) if settings.no_core_limit is NoCoreLimit.SHARE else 0


def _in_slices(request: DeviceRequest, spec: VendorSpec, *, whole_cores: bool) -> Amounts | TranslationFinding:
    """Per card, as HAMi and Volcano write it. HAMi adds all cores to a whole card itself."""
    names: ResourceNames = spec.resources
    found = {"count": ResourceAmount(names.count, request.count)}
    cores: int | None = request.cores or None
    if request.memory == WHOLE:
        cores = request.cores if whole_cores or request.cores != FULL else None
    elif isinstance(request.memory, Absolute):
        factor = spec.memory_factor()
        if request.memory.mib % factor:
            return refused(
                names.memory, f"{request.memory.mib} MiB are not a multiple of the unit of {factor} MiB", "ask for more"
            )
        found["memory"] = ResourceAmount(names.memory, request.memory.mib // factor)
    else:
        found["percentage"] = ResourceAmount(names.memory_percentage, request.memory.of_device)
    if whole_cores and not cores:
        cores = None
    return found | ({} if cores is None else {"cores": ResourceAmount(names.cores, cores)})


def _part(case: TranslationContext, part: str) -> Mapping[str, object]:
    found = at(case.raw, (*case.path, "resources", part))
    return found if isinstance(found, dict) else {}


def _roles(case: TranslationContext) -> Mapping[str, str]:
    """Notes on the dialect of the pod."""
    if case.source is Dialect.KOORDINATOR:
        return _KOORDINATOR
    names = case.registry[case.asked.request.vendor].resources
    return {
        names.count: "count",
        names.memory: "memory",
        names.memory_percentage: "percentage",
        names.cores: "cores",
    }


def _names(case: TranslationContext, part: str) -> Mapping[str, str]:
    """The names in one list that are replaced, as they are written, with what they say."""
    listed = _part(case, part)
    if not listed:
        return {}
    roles = _roles(case)
    return {name: role for name in listed if (role := roles.get(current(name))) is not None}


def _replaced(case: TranslationContext, part: str, names: Mapping[str, str], written: Amounts) -> Iterator[Edit]:
    """Every new name where the old one of the same meaning stood, the rest after the others."""
    here: Path = (*case.path, "resources", part)
    listed = _part(case, part)
    waiting = dict(written)
    for name, role in names.items():
        amount = waiting.get(role)
        if amount is not None and name == amount.name:
            del waiting[role]
        elif amount is not None and amount.name not in listed:
            del waiting[role]
            yield RenameEdit((*here, name), amount.name, amount.value)
        else:
            yield DropEdit((*here, name))
    for amount in waiting.values():
        yield PutEdit((*here, amount.name), amount.value)


def _koordinator_remarks(case: TranslationContext) -> Iterator[Change]:
    amounts_now = amounts_of(case.pod, case.asked.container)
    request, target = case.asked.request, case.target
    count = request.count
    size = amounts_now.get(MEMORY, 0)
    if size % (count * MEBIBYTE):
        yield lost(MEMORY, f"{size} bytes are not whole MiB on each of {count} cards; what is left over is cut off")
    if target is not Dialect.KOORDINATOR and request.memory != WHOLE and request.cores == FULL:
        yield lost(
            CORE,
            f"all cores of a card with part of its memory: {target} gives the pod an empty card and no other pod "
            "the rest, Koordinator also places pods on it that name no cores",
        )
    if request.memory == WHOLE and amounts_now.get(CORE, FULL * count) < FULL * count:
        yield lost(CORE, "Koordinator limits no cores on whole cards, and counts those that were not asked for as free")
    for name in {**case.container.requests, **case.container.limits}:
        if target is Dialect.KOORDINATOR and name in WHOLE_CARDS:
            yield kept(name, "becomes Koordinator's names, by which no device plugin chooses other cards")
        if is_deprecated(name):
            yield kept(
                name, f"is the deprecated name of {current(name)}, which only Koordinator's scheduler still reads"
            )


def _as_large_as_a_card(case: TranslationContext) -> Iterator[Change]:
    """koordlet's hook limits nothing in a container that has all memory of a card (Koordinator 1.7.0
    ``pkg/koordlet/runtimehooks/hooks/gpu/gpu.go``)."""
    request, settings = case.asked.request, case.settings
    known = settings.card_sizes | ({settings.card_memory} if settings.card_memory else frozenset())
    if isinstance(request.memory, Absolute) and request.memory.mib in known and 0 < request.cores < FULL:
        yield lost(
            CORE,
            f"{request.memory.mib} MiB are all memory of some cards: on one of these koordlet's hook limits nothing, "
            f"not to {request.cores} % of cores either",
            remedy="ask for 1 MiB less",
        )


def _both_memories(case: TranslationContext) -> Iterator[Change]:
    names = spec_of(case, case.source).resources
    if all((found := case.container.amount(name)) and found.nano for name in (names.memory, names.memory_percentage)):
        used, unused = (
            (names.memory_percentage, names.memory)
            if case.source is Dialect.VOLCANO
            else (names.memory, names.memory_percentage)
        )
        yield kept(unused, f"{case.source} does not read it besides {used}")


def _without_core_limit(case: TranslationContext) -> Iterator[Change]:
    request, settings = case.asked.request, case.settings
    if request.cores or request.memory == WHOLE:
        return
    if settings.no_core_limit is NoCoreLimit.WHOLE:
        yield lost(CORE, f"a container without a limit of cores takes {request.count} whole cards, by your setting")
        return
    if settings.no_core_limit is NoCoreLimit.ABSENT:
        yield lost(
            CORE,
            "no cores are booked, so Koordinator also allocates the card's cores to other pods, even to a request "
            "for a whole card",
        )
        return
    booked = booked_cores(settings)
    yield lost(
        CORE,
        f"no limit of cores becomes {booked} % booked on each card, which counts in quotas and lets {FULL // booked} "
        f"such slices onto a card; {CORE_POLICY_ENV}={DISABLED} keeps the container from being limited",
    )
    yield PutEdit(("metadata", "annotations", NO_CORE_LIMIT), str(booked))
    index, value = case.env.get(CORE_POLICY_ENV, (None, None))
    if index is None:
        yield AppendEdit((*case.path, "env"), {"name": CORE_POLICY_ENV, "value": DISABLED})
    elif value != DISABLED:
        yield PutEdit((*case.path, "env", index), {"name": CORE_POLICY_ENV, "value": DISABLED})
        yield lost(CORE_POLICY_ENV, f"is set to {DISABLED}, or the share that is only booked would be enforced")
