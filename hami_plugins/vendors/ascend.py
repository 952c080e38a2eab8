"""Huawei Ascend NPUs under HAMi: one vendor per chip, cut by fixed templates (vNPU) or shared softly (hami-core).

The cards of a 910 box form rings (``NetworkID``), so several cards of a container come from as few rings as possible; a
910C module has two dies that go together, so several dies are whole modules.

Source: HAMi 2.10.0 ``pkg/device/ascend/device.go``. Deviations from HAMi 2.10, on purpose: a request sees only the
cards that are registered for its own chip (HAMi matches substrings, so a 910B4 request may land on a 910B4-1),
``ASCEND_VISIBLE_DEVICES`` is emptied only in containers that ask for no Ascend chip at all (each of HAMi's chips
empties it in the others'), equal rings and equal modules are taken in order of their numbers (in HAMi by chance), and
negative or overflowing amounts are refused (HAMi takes the container for one without NPUs, or rounds up to a template).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from hami_plugins.engine.demand import standard_request
from hami_plugins.engine.fit import spelled
from hami_plugins.engine.inventories import json_register
from hami_plugins.engine.templates import CutCard, SliceTemplate
from hami_plugins.errors import AdmissionDeniedError
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import (
    AdmissionChange,
    AllocationRecords,
    AllocationView,
    Candidate,
    ContainerAdmission,
    ContainerRequest,
    FittingRules,
    RequestRules,
    Scoring,
    ScoringRules,
    Shortfall,
    Unselectable,
    VendorOptions,
    VendorSpec,
)
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import facts
from hami_plugins.wire import ascend, quantity

PREFIX: Final = "huawei.com/Ascend"
POD_MODE_KEY: Final = "huawei.com/vnpu-mode"
NODE_MODE_KEY: Final = "hami-vnpu-core"
TIME_KEY: Final = "predicate-time"
VISIBLE: Final = "ASCEND_VISIBLE_DEVICES"
SOFT: Final = "hami-core"
"""The mode of pods that share a card softly, and here of the cards that allow it."""

SOFT_FLAG: Final = "hamiVnpuCore"
RING_WEIGHT: Final = 10
DIES: Final = 2
"""Dies of one 910C module."""

_SOFT_CORES: Final = CoreShare(100)
_NS: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One kind of NPU. ``word`` is HAMi's name, ``driver_name`` what the driver calls it.

    ``pairs`` says that two dies make a module that is not shared out singly to several-die requests, ``super_pod`` that
    even a single die means its module.
    """

    word: str
    driver_name: str
    card: CutCard
    ai_cores: int
    ai_cpus: int = 0
    super_pod: bool = False
    options: VendorOptions = field(default_factory=VendorOptions)

    @property
    def has_rings(self) -> bool:
        """Whether the interconnect of this chip matters for several cards."""
        return self.word.startswith("Ascend910")

    @property
    def has_modules(self) -> bool:
        """Whether two dies make a module."""
        return self.word == "Ascend910C"


def spec_of(chip: Chip) -> VendorSpec:
    """The vendor of one chip."""
    resources = ResourceNames(
        count=f"huawei.com/{chip.word}",
        memory=f"huawei.com/{chip.word}-memory",
        cores=f"huawei.com/{chip.word}-core",
    )
    return VendorSpec(
        name=VendorName(chip.word),
        title=f"Ascend {chip.word.removeprefix('Ascend')}",
        vendor="Huawei",
        resources=resources,
        keys=AnnotationKeys(
            allocated=f"hami.io/{chip.word}-devices-allocated",
            to_allocate=f"hami.io/{chip.word}-devices-to-allocate",
            register=f"hami.io/node-register-{chip.word}",
            handshake=f"hami.io/node-handshake-{chip.word}",
            use_ids=(f"hami.io/use-{chip.word}-uuid",),
            avoid_ids=(f"hami.io/no-use-{chip.word}-uuid",),
            inputs=(POD_MODE_KEY, NODE_MODE_KEY),
            extra=(f"huawei.com/{chip.word}", TIME_KEY),
        ),
        inventory=inventory,
        options=chip.options,
        requests=RequestRules(read=request, options_of=options_of),
        admit=partial(admit, chip),
        fitting=FittingRules(early_checks=(mode_fits,), select=partial(together, chip), message=partial(words, chip)),
        scoring=ScoringRules(score_node=score_rings if chip.has_rings else None),
        records=AllocationRecords(annotate=partial(annotate, chip)),
        schedulers=("volcano",),
        memory_step="templates of the chip (soft split: 1 MiB)",
        core_step="set by the template (soft split: 1 %)",
        several="whole cards (soft split: each may be a slice)",
        facts=facts.ascend(chip.word),
    )


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """Cards from the JSON register, with their rings; a node that shares softly says so in an annotation of its own."""
    found = json_register(spec, node, group="NetworkID")
    word = node.annotations.get(NODE_MODE_KEY)
    if not (spec.options.flags.get(SOFT_FLAG, False) if word is None else word == "true"):
        return found
    soft = tuple(replace(device, mode=SOFT, cores=_SOFT_CORES) for device in found.devices)
    return replace(found, devices=soft)


def request(spec: VendorSpec, container: Container, pod: Pod) -> DeviceRequest | None:
    """Cards, and per card memory in MiB and (soft split) cores in percent; a fraction of a percent counts as one."""
    asked = standard_request(spec, container, pod)
    cores = container.amount(spec.resources.cores)
    if asked is None or cores is None or cores.nano < 0:
        return asked
    return replace(asked, cores=CoreShare(cores.ceiling))


def options_of(spec: VendorSpec, annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Whether the pod shares softly."""
    return ((POD_MODE_KEY, SOFT),) if annotations.get(POD_MODE_KEY) == SOFT else ()


def admit(chip: Chip, spec: VendorSpec, container: Container, pod: Pod) -> ContainerAdmission:
    """HAMi's webhook for one container, in its order (HAMi 2.10.0 ``pkg/device/ascend/device.go``)."""
    names = spec.resources
    count = container.limits.get(names.count)
    if count is None:
        asks_another = any(name.startswith(PREFIX) for name in container.limits)
        hides = spec.options.overwrite_env and not asks_another
        return ContainerAdmission(False, (AdmissionChange("env", VISIBLE, ""),) if hides else ())
    changes: list[AdmissionChange] = []
    if chip.has_modules and chip.super_pod:
        changes += _whole_modules(names, container, count.ceiling)
    soft = pod.annotations.get(POD_MODE_KEY) == SOFT
    cores = container.amount(names.cores)
    if not soft and cores is not None and cores.ceiling > 0:
        raise AdmissionDeniedError(
            f"{names.cores} is only supported in hami-core (soft split) mode",
            500,
            remedy=f"drop {names.cores}, or set the annotation {POD_MODE_KEY}: {SOFT} where nodes split cards in "
            "software",
        )
    memory = _admitted_memory(chip, spec, container, soft=soft)
    if memory is not None:
        if count.ceiling > 1 and not soft and memory != chip.card.usable:
            remedy = f"ask for 1 device, or drop {names.memory} and get {count.ceiling} whole ones"
            raise AdmissionDeniedError("vNPU not supported for multiple devices", 500, remedy=remedy)
        changes += _written(names.memory, container, memory // max(spec.options.memory_factor, 1))
    if spec.options.runtime_class and pod.runtime_class is None:
        changes.append(AdmissionChange("runtimeClassName", "runtimeClassName", spec.options.runtime_class))
    return ContainerAdmission(True, tuple(changes))


def _whole_modules(names: ResourceNames, container: Container, count: int) -> list[AdmissionChange]:
    if count == 1:
        kinds = ("limit", "request") if names.count in container.requests else ("limit",)
        return [AdmissionChange(kind, names.count, str(DIES)) for kind in kinds]
    if count % DIES:
        raise AdmissionDeniedError(f"Ascend910C device request must be 1 or 2*n, got {count}", 500)
    return []


def _admitted_memory(chip: Chip, spec: VendorSpec, container: Container, *, soft: bool) -> MiB | None:
    """The memory in MiB that the webhook writes; ``None`` for a negative amount, which is refused later."""
    name = spec.resources.memory
    asked = container.limits.get(name)
    if asked is None:
        return chip.card.usable
    if asked.nano < 0:
        return None
    memory = MiB(asked.ceiling * max(spec.options.memory_factor, 1))
    if soft:
        return memory
    cut = chip.card.cut(memory)
    if cut is None:
        most = chip.card.usable // max(spec.options.memory_factor, 1)
        remedy = f"ask for at most {most}, or drop {name} and get a whole card"
        raise AdmissionDeniedError(f"{name} {asked.ceiling} is invalid", 500, remedy=remedy)
    return cut.memory


def _written(name: str, container: Container, amount: int) -> list[AdmissionChange]:
    text = quantity.parse(str(amount), key=name).text
    return [
        AdmissionChange(kind, name, text)
        for kind, amounts in (("limit", container.limits), ("request", container.requests))
        if (known := amounts.get(name)) is None or known.text != text
    ]


def mode_fits(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """A pod with soft sharing needs a card that allows it; the reverse is allowed."""
    if ask.request.option(POD_MODE_KEY) == SOFT and candidate.device.mode != SOFT:
        return Reason.MODE
    return None


def together(chip: Chip, candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate] | Unselectable:
    """Whole modules of a 910C, cards of as few rings as possible on other 910s, else simply the first cards."""
    count = ask.request.count
    if chip.has_modules and count > 1:
        chosen = modules(candidates, count)
        return chosen if len(chosen) == count else Unselectable(Reason.TOPOLOGY, len(candidates))
    if count == 1 or len(candidates) == count or not (chip.has_rings and _all_have_rings(chip, ask)):
        return candidates[:count]
    rings: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        rings.setdefault(candidate.device.group or "", []).append(candidate)
    fullest_first = sorted(rings.items(), key=lambda ring: (-len(ring[1]), ring[0]))
    return [candidate for _, ring in fullest_first for candidate in ring][:count]


def modules(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """The dies of free modules, module by module, until at least ``count`` are together or no module is left."""
    by_module: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        by_module.setdefault(candidate.device.index // DIES, []).append(candidate)
    whole = [dies for _, dies in sorted(by_module.items()) if len(dies) == DIES]
    return [die for dies in whole[: -(-count // DIES)] for die in dies]


def _all_have_rings(chip: Chip, ask: ContainerRequest) -> bool:
    devices = ask.shape.devices
    return all(devices[at].group is not None for at in ask.shape.positions[VendorName(chip.word)])


def words(chip: Chip, shortfall: Shortfall, ask: ContainerRequest) -> str | None:
    """HAMi's words: one for a node that does not share softly; modules are counted against the dies asked for."""
    devices, count = shortfall.devices, ask.request.count
    if ask.request.option(POD_MODE_KEY) == SOFT and all(each.device.mode != SOFT for each in devices):
        return f"1/{len(devices)} {Reason.MODE}"
    if not (chip.has_modules and count > 1):
        return None
    tally: dict[Reason, int] = {why: cards for why, cards in shortfall.tally.items() if why is not Reason.TOPOLOGY}
    tally[Reason.TOO_FEW] = len(modules(shortfall.passed, count))
    return spelled(tally, count)


def score_rings(scoring: Scoring) -> float:
    """How well each container keeps to one ring, 10 each at best; 0 when a card's ring is unknown."""
    devices = scoring.state.shape.devices
    score = 0.0
    for shares in scoring.containers:
        rings = [devices[share.position].group for share in shares]
        if None in rings:
            return 0.0
        if rings:
            score += max(map(rings.count, rings)) / len(rings)
    return score * RING_WEIGHT


def annotate(chip: Chip, view: AllocationView) -> Mapping[str, str]:
    """What the device plugin starts the containers with."""
    soft = view.pod.annotations.get(POD_MODE_KEY) == SOFT
    allocated = [
        ascend.AllocatedNpu(share.device, "" if soft else _template(chip, share.memory), share.memory, share.cores)
        for shares in view.containers
        for share in shares
    ]
    return {TIME_KEY: str(view.now_ns // _NS), f"huawei.com/{chip.word}": ascend.encode(allocated)}


def _template(chip: Chip, memory: MiB) -> str:
    cut = chip.card.cut(memory)
    return "" if cut is None else cut.template


def _cut(name: str, memory: int, ai_cores: int, ai_cpus: int = 0) -> SliceTemplate:
    return SliceTemplate(name, MiB(memory), ai_cores, ai_cpus)


_B3_TEMPLATES: Final = (_cut("vir05_1c_16g", 16384, 5, 1), _cut("vir10_3c_32g", 32768, 10, 3))

CHIPS: Final = (
    Chip(
        word="Ascend910A",
        driver_name="910A",
        card=CutCard.of(
            32768,
            32768,
            (
                _cut("vir02", 2184, 2),
                _cut("vir04", 4369, 4),
                _cut("vir08", 8738, 8),
                _cut("vir16", 17476, 16),
            ),
        ),
        ai_cores=30,
    ),
    Chip(
        word="Ascend910B2",
        driver_name="910B2",
        card=CutCard.of(
            65536,
            65536,
            (
                _cut("vir03_1c_8g", 8192, 3, 1),
                _cut("vir06_1c_16g", 16384, 6, 1),
                _cut("vir12_3c_32g", 32768, 12, 3),
            ),
        ),
        ai_cores=24,
        ai_cpus=6,
    ),
    Chip(
        word="Ascend910B3",
        driver_name="910B3",
        card=CutCard.of(65536, 65536, _B3_TEMPLATES),
        ai_cores=20,
        ai_cpus=7,
    ),
    Chip(
        word="Ascend910B4-1",
        driver_name="910B4-1",
        card=CutCard.of(65536, 65536, _B3_TEMPLATES),
        ai_cores=20,
        ai_cpus=7,
    ),
    Chip(
        word="Ascend910B4",
        driver_name="910B4",
        card=CutCard.of(32768, 32768, (_cut("vir05_1c_8g", 8192, 5, 1), _cut("vir10_3c_16g", 16384, 10, 3))),
        ai_cores=20,
        ai_cpus=7,
    ),
    Chip(
        word="Ascend310P",
        driver_name="310P3",
        card=CutCard.of(
            21527,
            24576,
            (_cut("vir01", 3072, 1, 1), _cut("vir02", 6144, 2, 2), _cut("vir04", 12288, 4, 4)),
        ),
        ai_cores=8,
        ai_cpus=7,
    ),
    Chip(
        word="Ascend910C",
        driver_name="Ascend910",
        card=CutCard.of(65536, 65536, _B3_TEMPLATES),
        ai_cores=20,
        ai_cpus=7,
        super_pod=True,
    ),
)
"""The chips of HAMi's chart, in its order."""

SPECS: Final = tuple(spec_of(chip) for chip in CHIPS)
