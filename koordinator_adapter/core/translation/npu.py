"""Ascend NPUs: HAMi names the chip and cuts it by memory, Koordinator names the numbers of a template.

Source: Koordinator 1.7.0 ``pkg/scheduler/plugins/deviceshare/gpu_shared_resource_templates_cache.go`` and
``pkg/webhook/pod/mutating/device_resource_spec.go``; HAMi 2.10.0 ``pkg/device/ascend/device.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from hami_plugins.engine import koordinator
from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.koordinator import FULL, CardRequest
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import DropEdit, PutEdit, RenameEdit
from hami_plugins.model.pods import Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import Absolute, DeviceRequest
from hami_plugins.model.units import VendorName
from hami_plugins.vendors.ascend import CHIPS, POD_MODE_KEY, SOFT, Chip
from hami_plugins.wire import quantity
from hami_plugins.wire.koordinator import MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP, RATIO, SHARED
from koordinator_adapter.core.translation.model import (
    Change,
    RequestedDevices,
    TranslationContext,
    TranslationFinding,
    at,
    kept,
    lost,
    refused,
)
from koordinator_adapter.core.translation.vocabulary import MODEL_LABEL, VENDOR_LABEL

MEBIBYTE: Final = 1 << 20
_HUAWEI: Final = "huawei"
_NAMES: Final = (NPU_CORE, NPU_CPU, NPU_DVPP, MEMORY, RATIO, SHARED)


class Numbers(NamedTuple):
    """What a template gives: AI cores, AI CPUs, percent of the media processor (0 where it is not said), and MiB."""

    cores: int
    cpus: int
    dvpp: int
    memory: int


_TEMPLATES: Final[Mapping[str, Mapping[str, Numbers]]] = {
    "Ascend310P": {
        "vir01": Numbers(1, 1, 12, 3072),
        "vir02": Numbers(2, 2, 25, 6144),
        "vir04": Numbers(4, 4, 50, 12288),
    },
    "Ascend910A": {
        "vir02": Numbers(2, 1, 0, 2048),
        "vir04": Numbers(4, 1, 0, 4096),
        "vir08": Numbers(8, 3, 0, 8192),
        "vir16": Numbers(16, 7, 0, 16384),
    },
    "Ascend910B4": {
        "vir05_1c_8g": Numbers(5, 1, 25, 8192),
        "vir10_3c_16g": Numbers(10, 3, 50, 16384),
    },
}
"""Where Koordinator's templates have other numbers than HAMi's of the same name."""

MODELS: Final[Mapping[str, str]] = {
    "Ascend310P": "Ascend-310P3",
    "Ascend910A": "Ascend-910",
    "Ascend910B2": "Ascend-910B2",
    "Ascend910B3": "Ascend-910B3",
    "Ascend910B4": "Ascend-910B4",
}
"""What Koordinator calls the chips for which it has templates."""

_CHIPS: Final[Mapping[VendorName, Chip]] = {VendorName(each.word): each for each in CHIPS}


def is_npu(vendor: VendorName) -> bool:
    """Whether a request is for an Ascend chip."""
    return vendor in _CHIPS


def templates_of(chip: Chip) -> Mapping[str, Numbers]:
    """Koordinator's templates of a chip by name."""
    known = _TEMPLATES.get(chip.word)
    if known is not None:
        return known
    return {each.name: Numbers(each.ai_cores, each.ai_cpus, 0, each.memory) for each in chip.card.templates}


def asked_of(pod: Pod, container: int, amounts: Mapping[str, int]) -> RequestedDevices | TranslationFinding:
    """The request of a pod that names Koordinator's numbers of an NPU; a nodeSelector or the numbers say which chip."""
    found = koordinator.request_of(amounts)
    if not isinstance(found, CardRequest):
        return refused("resources", f"Koordinator refuses the pod: {found.words}", "take the numbers of one template")
    model = dict(pod.constraints.selector).get(MODEL_LABEL)
    chips = [chip for chip in _CHIPS.values() if chip.word in MODELS and model in {None, MODELS[chip.word]}]
    requests = [request for chip in chips if (request := _request(chip, found)) is not None]
    if len(requests) == 1:
        return RequestedDevices(container=container, request=requests[0])
    meant = ", ".join(each.vendor for each in requests) or "none that is known"
    return refused(
        NPU_CORE,
        f"Koordinator names slices by their numbers, HAMi by the chip; these numbers fit {meant}",
        f"name the chip by the nodeSelector {MODEL_LABEL}, one of {', '.join(MODELS.values())}",
    )


def amounts(case: TranslationContext) -> Iterator[Change]:
    """What the container asks for, in the other words."""
    chip = _CHIPS[case.asked.request.vendor]
    if case.target is Dialect.KOORDINATOR:
        yield from _to_koordinator(case, chip)
    elif case.target is Dialect.HAMI:
        yield from _to_hami(case, chip)
    else:
        yield refused(NPU_CORE, "Volcano's cards are NVIDIA's", "leave the pod to HAMi's or Koordinator's scheduler")


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
    for label in (VENDOR_LABEL, MODEL_LABEL):
        if label in selector:
            yield DropEdit(("spec", "nodeSelector", label))


def _request(chip: Chip, found: CardRequest) -> DeviceRequest | None:
    """The request for a chip that these numbers are, if they are one."""
    per_card = found.per_card
    if RATIO in per_card:
        whole = per_card[RATIO] == FULL and per_card[NPU_CORE] == chip.ai_cores
        return DeviceRequest(vendor=VendorName(chip.word), count=found.count, memory=WHOLE) if whole else None
    asked = Numbers(per_card[NPU_CORE], per_card[NPU_CPU], per_card.get(NPU_DVPP, 0), per_card[MEMORY] // MEBIBYTE)
    names = {name for name, numbers in templates_of(chip).items() if numbers == asked}
    for template in chip.card.templates:
        if template.name in names:
            return DeviceRequest(vendor=VendorName(chip.word), count=1, memory=Absolute(template.memory))
    return None


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
        yield from _replaced(case, {NPU_CORE: chip.ai_cores * request.count, RATIO: FULL * request.count})
        yield kept(
            NPU_CORE,
            "Koordinator's webhook adds gpu.shared to whole cards, which its scheduler then refuses: start "
            "koord-manager with --feature-gates=DisableDeviceResourceSpec=true",
        )
        return
    numbers = templates_of(chip)[template]
    size = quantity.canonical(numbers.memory * MEBIBYTE * NANO, binary=True)
    written: dict[str, int | str] = {SHARED: 1, NPU_CORE: numbers.cores, NPU_CPU: numbers.cpus, MEMORY: size}
    if numbers.dvpp:
        written[NPU_DVPP] = numbers.dvpp
    yield from _replaced(case, written)
    if cut is not None and cut.memory != numbers.memory:
        words = (
            f"the template {template} has {numbers.memory} MiB in Koordinator's configuration, {cut.memory} in HAMi's"
        )
        yield lost(MEMORY, words)


def _to_hami(case: TranslationContext, chip: Chip) -> Iterator[Change]:
    request = case.asked.request
    written: dict[str, int | str] = {f"huawei.com/{chip.word}": request.count}
    if isinstance(request.memory, Absolute):
        written[f"huawei.com/{chip.word}-memory"] = request.memory.mib
    yield from _replaced(case, written)


def _replaced(case: TranslationContext, written: Mapping[str, int | str]) -> Iterator[Change]:
    """The first old name becomes the first new one; the other old ones go, the other new ones follow."""
    chip = f"huawei.com/{case.asked.request.vendor}"
    old_names = {chip, f"{chip}-memory", f"{chip}-core", *_NAMES}
    for part in ("limits", "requests"):
        listed = at(case.raw, (*case.path, "resources", part))
        old = [name for name in listed if name in old_names] if isinstance(listed, dict) else []
        here = (*case.path, "resources", part)
        waiting = dict(written) if old or part == "limits" else {}
        for name in old:
            if waiting:
                new = next(iter(waiting))
                yield RenameEdit((*here, name), new, waiting.pop(new))
            else:
                yield DropEdit((*here, name))
        for new, value in waiting.items():
            yield PutEdit((*here, new), value)
