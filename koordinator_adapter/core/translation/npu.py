"""Ascend NPUs: HAMi and Volcano name the chip and cut it by memory, Koordinator names the numbers of a template.

Source: Koordinator 1.7.0 and 1.8.0 ``pkg/scheduler/plugins/deviceshare/gpu_shared_resource_templates_cache.go`` and
``pkg/webhook/pod/mutating/device_resource_spec.go``; HAMi 2.10.0 ``pkg/device/ascend/device.go``; Volcano 1.14
``pkg/scheduler/api/devices/ascend/hami/device_info.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hami_plugins.engine import koordinator
from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.koordinator import FULL, CardRequest
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import DropEdit, PutEdit
from hami_plugins.model.pods import Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import Absolute, DeviceRequest, MemoryDemand
from hami_plugins.model.units import MEBIBYTE, MiB, VendorName
from hami_plugins.vendors.ascend import CHIPS, POD_MODE_KEY, SOFT, Chip
from hami_plugins.wire import quantity
from hami_plugins.wire.koordinator import MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP, RATIO, SHARED
from koordinator_adapter.core.translation.model import (
    Change,
    RequestedDevices,
    TranslationContext,
    TranslationFinding,
    lost,
    refused,
)
from koordinator_adapter.core.translation.npu_templates import MODELS, TEMPLATES, NpuTemplate, known_models
from koordinator_adapter.core.translation.rewriting import replaced
from koordinator_adapter.core.translation.vocabulary import MODEL_LABEL, VENDOR_LABEL

_HUAWEI: Final = "huawei"
_NAMES: Final = (NPU_CORE, NPU_CPU, NPU_DVPP, MEMORY, RATIO, SHARED)
_CHIPS: Final[Mapping[VendorName, Chip]] = {VendorName(each.word): each for each in CHIPS}

SOME_NPU: Final = VendorName("Ascend")
"""The vendor of a request whose numbers do not say which chip is meant."""


def is_npu(vendor: VendorName) -> bool:
    """Whether a request is for an Ascend chip."""
    return vendor in _CHIPS or vendor == SOME_NPU


def asked_of(pod: Pod, container: int, amounts: Mapping[str, int]) -> RequestedDevices | TranslationFinding:
    """The request of a pod that names Koordinator's numbers of an NPU; a nodeSelector or the numbers say which chip.

    Koordinator needs no chip, so a request that fits several, or none that HAMi knows, is one for ``SOME_NPU``.
    """
    found = koordinator.request_of(amounts)
    if not isinstance(found, CardRequest):
        return refused("resources", f"Koordinator refuses the pod: {found.words}", "take the numbers of one template")
    requests = _readings(pod, found)
    if len(requests) == 1:
        return RequestedDevices(container=container, request=requests[0])
    size = found.per_card.get(MEMORY, 0) // MEBIBYTE
    memory: MemoryDemand = WHOLE if RATIO in found.per_card else Absolute(MiB(max(size, 1)))
    request = DeviceRequest(vendor=SOME_NPU, count=found.count, memory=memory)
    return RequestedDevices(container=container, request=request)


def amounts(case: TranslationContext) -> Iterator[Change]:
    """What the container asks for, in the other words."""
    vendor = case.asked.request.vendor
    if vendor == SOME_NPU:
        yield _unnamed(case)
    elif case.target is Dialect.KOORDINATOR:
        yield from _to_koordinator(case, _CHIPS[vendor])
    elif case.source is Dialect.KOORDINATOR:
        yield from _by_chip(case, _CHIPS[vendor])
    if case.target is Dialect.VOLCANO and vendor != SOME_NPU:
        yield from _under_volcano(case)


def nodes(case: TranslationContext) -> Iterator[Change]:
    """The chip, which Koordinator's resources do not say: labels of nodes do."""
    selector = dict(case.pod.constraints.selector)
    if case.target is Dialect.KOORDINATOR:
        model = MODELS.get(case.asked.request.vendor, "")
        yield PutEdit(("spec", "nodeSelector", VENDOR_LABEL), _HUAWEI)
        yield PutEdit(("spec", "nodeSelector", MODEL_LABEL), model)
        yield lost(
            MODEL_LABEL,
            f"the chip becomes a label of nodes ({model}), which has to be spelled as koordlet reports it",
        )
        return
    for label in (VENDOR_LABEL, MODEL_LABEL) if case.source is Dialect.KOORDINATOR else ():
        if label in selector:
            yield DropEdit(("spec", "nodeSelector", label))


def _readings(pod: Pod, found: CardRequest) -> list[DeviceRequest]:
    """The requests for a chip of HAMi's that a pod's numbers and nodeSelector can mean."""
    model = dict(pod.constraints.selector).get(MODEL_LABEL)
    chips = [_CHIPS[VendorName(word)] for word in MODELS if model is None or model in known_models(word)]
    return [request for chip in chips if (request := _request(chip, found)) is not None]


def _request(chip: Chip, found: CardRequest) -> DeviceRequest | None:
    """The request for a chip that these numbers are, if they are one."""
    vendor, per_card = VendorName(chip.word), found.per_card
    if RATIO in per_card:
        whole = per_card[RATIO] == FULL and per_card[NPU_CORE] == chip.ai_cores
        return DeviceRequest(vendor=vendor, count=found.count, memory=WHOLE) if whole else None
    asked = _numbers(per_card)
    name = next((name for name, numbers in TEMPLATES[MODELS[chip.word]].items() if numbers == asked), "")
    memory = next((each.memory for each in chip.card.templates if each.name == name), None)
    if memory is None and name:
        alike = (each for each in chip.card.templates if (each.ai_cores, each.memory) == (asked.cores, asked.memory))
        memory = next((each.memory for each in alike), None)
    return None if memory is None else DeviceRequest(vendor=vendor, count=1, memory=Absolute(memory))


def _numbers(per_card: Mapping[str, int]) -> NpuTemplate:
    size = per_card[MEMORY] // MEBIBYTE
    return NpuTemplate(per_card[NPU_CORE], per_card.get(NPU_CPU, 0), per_card.get(NPU_DVPP, 0), size)


def _unnamed(case: TranslationContext) -> TranslationFinding:
    """The refusal of numbers that name no chip, or several."""
    found = koordinator.request_of(_amounts_of(case))
    meant = _readings(case.pod, found) if isinstance(found, CardRequest) else []
    names = ", ".join(each.vendor for each in meant) or "none that is known"
    return refused(
        NPU_CORE,
        f"Koordinator names slices by their numbers, HAMi by the chip; these numbers fit {names}",
        f"name the chip by the nodeSelector {MODEL_LABEL}, one of {', '.join(MODELS.values())}",
    )


def _amounts_of(case: TranslationContext) -> Mapping[str, int]:
    named = {**case.container.requests, **case.container.limits}
    return {name: named[name].ceiling for name in _NAMES if name in named and named[name].nano}


def _to_koordinator(case: TranslationContext, chip: Chip) -> Iterator[Change]:
    request = case.asked.request
    if chip.word not in MODELS or request.option(POD_MODE_KEY) == SOFT or request.selector.names_ids:
        yield refused(
            f"huawei.com/{chip.word}",
            "Koordinator has no templates for this chip, no soft split and no choice of cards by id",
            "ask for a template of a chip that it knows, or for whole cards, without lists of ids",
        )
        return
    memory = request.memory
    cut = chip.card.cut(memory.mib) if isinstance(memory, Absolute) else None
    template = cut.template if cut is not None else ""
    if not template:
        yield from replaced(
            case, _old_names(chip), {NPU_CORE: chip.ai_cores * request.count, RATIO: FULL * request.count}
        )
        yield lost(
            NPU_CORE,
            "Koordinator's webhook adds gpu.shared to whole cards, which its scheduler then refuses: start "
            "koord-manager with --feature-gates=DisableDeviceResourceSpec=true",
        )
        return
    numbers = TEMPLATES[MODELS[chip.word]][template]
    size = quantity.canonical(numbers.memory * MEBIBYTE * NANO, binary=True)
    written: dict[str, int | str] = {SHARED: 1, NPU_CORE: numbers.cores, NPU_CPU: numbers.cpus, MEMORY: size}
    if numbers.dvpp:
        written[NPU_DVPP] = numbers.dvpp
    yield from replaced(case, _old_names(chip), written)
    if cut is not None and cut.memory != numbers.memory:
        yield _other_memory(template, numbers, cut.memory)


def _by_chip(case: TranslationContext, chip: Chip) -> Iterator[Change]:
    """Koordinator's numbers as the chip and its memory, which HAMi and Volcano read alike."""
    request = case.asked.request
    written: dict[str, int | str] = {f"huawei.com/{chip.word}": request.count}
    if isinstance(request.memory, Absolute):
        written[f"huawei.com/{chip.word}-memory"] = request.memory.mib
        yield from _other_template(case, chip, request.memory.mib)
    yield from replaced(case, _old_names(chip), written)
    model, named = MODELS[chip.word], dict(case.pod.constraints.selector).get(MODEL_LABEL)
    if named is not None and named != model:
        yield lost(MODEL_LABEL, f"{named} becomes huawei.com/{chip.word}, which HAMi's plugin gives to {model} alone")


def _other_template(case: TranslationContext, chip: Chip, memory: MiB) -> Iterator[Change]:
    """The parts of the slice that HAMi's template of the same memory lacks, and models that have the same numbers."""
    asked, templates = _numbers(_amounts_of(case)), TEMPLATES[MODELS[chip.word]]  # of one card: a template has no more
    name = next(name for name, numbers in templates.items() if numbers == asked)
    given = next(each.name for each in chip.card.templates if each.memory == memory)
    if name != given:
        becomes = templates[given]
        yield lost(
            NPU_CPU,
            f"HAMi has no template {name}: the pod gets {given}, with {becomes.cpus} AI CPUs instead of {asked.cpus} "
            f"and {becomes.dvpp} % of the media processor instead of {asked.dvpp} %",
        )
    elif asked.memory != memory:
        yield _other_memory(given, asked, memory)
    alike = [model for model, each in TEMPLATES.items() if asked in each.values() and model != MODELS[chip.word]]
    if alike and MODEL_LABEL not in dict(case.pod.constraints.selector):
        words = f"the numbers are also those of {' and '.join(alike)}; HAMi gives the pod a {MODELS[chip.word]}"
        yield lost(MODEL_LABEL, words)


def _other_memory(template: str, numbers: NpuTemplate, memory: MiB) -> TranslationFinding:
    words = f"the template {template} has {numbers.memory} MiB in Koordinator's configuration, {memory} in HAMi's"
    return lost(MEMORY, words)


def _under_volcano(case: TranslationContext) -> Iterator[Change]:
    """Under what conditions Volcano divides NPUs, and what it does not read."""
    name, request = f"huawei.com/{case.asked.request.vendor}", case.asked.request
    yield lost(
        name,
        "Volcano reads it from 1.14 on, with deviceshare.AscendHAMiVNPUEnable: true in its scheduler's configuration",
        remedy="set it, and install HAMi's ascend-device-plugin",
    )
    if request.option(POD_MODE_KEY) == SOFT:
        yield lost(POD_MODE_KEY, f"Volcano shares NPUs as {SOFT} from 1.16 on")
    if request.selector.names_ids:
        yield lost(name, "Volcano builds a list of ids from the annotations, and does not keep to it")


def _old_names(chip: Chip) -> frozenset[str]:
    name = f"huawei.com/{chip.word}"
    return frozenset({name, f"{name}-memory", f"{name}-core", *_NAMES})
