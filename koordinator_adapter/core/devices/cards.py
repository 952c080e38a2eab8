"""The cards of a node as Koordinator is to know them, out of what the node's own agents tell.

Koordinator supports one vendor per node, needs the memory of every card, and shares cards through HAMi-core or not at
all: a card in another mode is left out, and reported.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.devices import Device
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.units import DeviceId, MiB, NodeName, VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors.ascend import CHIPS
from hami_plugins.wire.koordinator import NPU_CORE, NPU_CPU, NPU_DVPP
from koordinator_adapter.core.translation.npu_templates import MODELS

NVIDIA: Final = "nvidia"
"""NVIDIA, as Koordinator spells it."""

_MAKERS: Final[Mapping[VendorName, str]] = {
    VendorName("NVIDIA"): NVIDIA,
    VendorName("Volcano-vGPU"): NVIDIA,
    VendorName("AMD"): "amd",
    VendorName("MLU"): "cambricon",
    VendorName("Metax-GPU"): "metax",
    VendorName("Metax-SGPU"): "metax",
    VendorName("XPU"): "kunlun",
    **{VendorName(chip.word): "huawei" for chip in CHIPS},
}
"""Makers as Koordinator spells them; all others by their own name."""

_CHIPS: Final = {VendorName(chip.word): chip for chip in CHIPS}
_AI_CPUS: Final = {VendorName("Ascend910A"): 14}
"""AI CPUs of a chip for which HAMi's configuration names none. Without them no template of Koordinator's fits a node,
because each asks for some."""

_SHARED_MODES: Final = frozenset({"", "hami-core"})
_SPELLED_BEFORE: Final = "NVIDIA-"
_FULL: Final = 100
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)
_LONGEST: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredCard:
    """One card: its id, its place in the list of the node's agent, its memory, and what only NPUs have."""

    id: DeviceId
    index: int
    model: str
    memory: MiB
    numa: int = 0
    healthy: bool = True
    npu: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCards:
    """What is known of a node's cards. ``remarks`` are what is left out, and why.

    ``certain`` is whether a card that is not here is not there: false where some register could not be read.
    """

    node: NodeName
    vendor: str = ""
    cards: tuple[RegisteredCard, ...] = ()
    remarks: tuple[str, ...] = ()
    certain: bool = True

    @property
    def places(self) -> Mapping[DeviceId, int]:
        """The place of each card in the list of the node's agent; nothing where a register gives all the same."""
        found = {card.id: card.index for card in self.cards}
        return found if len(set(found.values())) == len(found) else {}


def cards_of(node: NodeObject, registry: Registry, only: Collection[str] = ()) -> NodeCards:
    """The cards that a node's annotations and capacity tell of; with ``only`` those of some vendors."""
    found: dict[DeviceId, tuple[str, RegisteredCard]] = {}
    remarks: list[str] = []
    certain = True
    for spec in registry:
        if spec.dialect is Dialect.KOORDINATOR or (only and spec.name not in only):
            continue
        try:
            told = spec.inventory(spec, node)
        except WireError as error:
            remarks.append(str(error))
            certain = False
            continue
        for device, name in zip(told.devices, told.ids, strict=True):
            if why := _unusable(device):
                remarks.append(f"node {node.name}: card {name}: {why}")
            elif name not in found:
                found[name] = (_maker(spec), _card(device, name))
    vendors = sorted({vendor for vendor, _ in found.values()})
    if len(vendors) > 1:
        words = f"node {node.name}: cards of {' and '.join(vendors)}; Koordinator knows one vendor for each node. Name "
        return NodeCards(node=node.name, remarks=(*remarks, f"{words}the vendors in devices.vendors"), certain=False)
    return NodeCards(
        node=node.name,
        vendor=vendors[0] if vendors else "",
        cards=tuple(card for _, card in found.values()),
        remarks=tuple(remarks),
        certain=certain,
    )


def label_value(text: str) -> str:
    """The text as the value of a label: what that does not allow becomes a dash, the ends are cut off."""
    return _ILLEGAL.sub("-", text)[:_LONGEST].strip("-_.")


def _unusable(device: Device) -> str:
    if device.mode not in _SHARED_MODES:
        return f"it is in mode {device.mode}, which Koordinator does not know"
    if device.memory <= 0:
        return "its memory is unknown, and Koordinator allocates no share of such a card"
    return ""


def _maker(spec: VendorSpec) -> str:
    return _MAKERS.get(spec.name) or label_value(spec.name).lower()


def _card(device: Device, name: DeviceId) -> RegisteredCard:
    return RegisteredCard(
        id=name,
        index=device.index,
        model=_model(device),
        memory=device.memory,
        numa=device.numa,
        healthy=device.healthy and not device.cordoned,
        npu=dict(_npu(device)),
    )


def _model(device: Device) -> str:
    """The model as koordlet spells it: without the vendor that HAMi puts before NVIDIA's, dashes for spaces."""
    known = MODELS.get(device.vendor)
    return known or label_value(device.model.removeprefix(_SPELLED_BEFORE) or device.model)


def _npu(device: Device) -> Iterator[tuple[str, int]]:
    chip = _CHIPS.get(device.vendor)
    if chip is not None:
        yield NPU_CORE, chip.ai_cores
        yield NPU_CPU, chip.ai_cpus or _AI_CPUS[device.vendor]
        yield NPU_DVPP, _FULL
