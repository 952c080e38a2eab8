"""Machines that one can buy or rent: what a node of each shape says of its devices to schedulers.

Device facts are those that HAMi's node agents, Volcano's device plugin and AWS' Neuron plugin register with their stock
settings (split count 10, no scaling). Nothing here is random: ids come from the names of fleet and node.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName
from hami_plugins.vendors.koordinator import ISOLATION
from hami_plugins.wire import node_devices, quantity, volcano
from hami_plugins.wire.koordinator import CORE, GPU, GPU_TYPE, MEMORY, RATIO, SHARED
from hami_plugins.wire.koordinator_devices import MODEL_LABEL, VENDOR_LABEL, CardPlace, DeviceObject, PublishedDevice
from hami_plugins.wire.node_devices import RegisteredDevice

SPLIT: Final = 10
"""How many containers share an NVIDIA card by default (``deviceSplitCount``)."""

WHOLE: Final = CoreShare(100)


class HostShape(NamedTuple):
    """The machine around the devices."""

    instance: str
    cpus: int
    memory_gib: int
    arch: str = "amd64"


class Identity(NamedTuple):
    """Which node it is: ids are derived from ``seed``; ``unhealthy`` are the numbers of devices that have failed.

    ``agents`` are those that run on NVIDIA nodes: HAMi's and Volcano's register cards in annotations, Koordinator's
    publishes a Device object.
    """

    seed: str
    unhealthy: frozenset[int]
    agents: Collection[Dialect]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """What a node says of its devices.

    ``each`` are the extended resources that every device adds, ``once`` those of the node as a whole; ``published`` is
    what stands in an object of its own.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    published: DeviceObject | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    each: Mapping[str, int] = field(default_factory=dict)
    once: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """A kind of node: its machine, how many devices it has, and what it says of them."""

    name: str
    host: HostShape
    devices: int
    cards: Callable[[Identity], Cards]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """An NVIDIA product. ``nvlinks`` is how many links join each pair through the switch, 0 for PCIe cards.

    ``per_switch`` is how many cards share one PCIe switch. ``numa`` is the NUMA node of each card, empty for one half
    each.
    """

    product: str
    memory: MiB
    nvlinks: int = 0
    per_switch: int = 1
    profiles: tuple[Profile, ...] = ()
    slots: int = SPLIT
    cores: CoreShare = WHOLE
    numa: tuple[int, ...] = ()


_SAME_SWITCH, _SAME_CPU, _OTHER_CPU, _NVLINK = 50, 20, 10, 100
"""Pair scores of HAMi's NVIDIA agent (HAMi 2.10.0 ``pkg/device/nvidia/calculate_score.go``)."""


def _named(identity: Identity, kind: str, index: int) -> str:
    return f"{identity.seed}/{kind}/{index}"


def half_numa(index: int, count: int) -> int:
    """Boxes with several cards have two sockets, each with half of them."""
    return index * 2 // count


def _numa(gpu: Gpu, index: int, count: int) -> int:
    return gpu.numa[index] if gpu.numa else half_numa(index, count)


def nvidia(gpu: Gpu, count: int) -> Callable[[Identity], Cards]:
    def cards(identity: Identity) -> Cards:
        ids = [DeviceId(f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, _named(identity, 'gpu', at))}") for at in range(count)]
        annotations: dict[str, str] = {}
        each: dict[str, int] = {}
        if Dialect.KOORDINATOR in identity.agents:
            return _published(gpu, ids, identity.unhealthy)
        if Dialect.HAMI in identity.agents:
            annotations |= _hami_register(gpu, ids, identity.unhealthy)
            each["nvidia.com/gpu"] = _slots(gpu)
        if Dialect.VOLCANO in identity.agents:
            annotations |= _volcano_register(gpu, ids, identity.unhealthy)
            each["volcano.sh/vgpu-number"] = _slots(gpu)
            each["volcano.sh/vgpu-memory"] = gpu.memory
            each["volcano.sh/vgpu-cores"] = gpu.cores
        labels = {"gpu": "on", "nvidia.com/gpu.product": gpu.product.replace(" ", "-")}
        return Cards(annotations=dict(sorted(annotations.items())), labels=labels, each=each)

    return cards


def _published(gpu: Gpu, ids: list[DeviceId], unhealthy: frozenset[int]) -> Cards:
    """What koordlet publishes of cards, with their ids as labels, and what Koordinator's manager writes of it."""
    model = gpu.product.replace(" ", "-")
    each = {CORE: 100, RATIO: 100, SHARED: 100, GPU: 100, MEMORY: gpu.memory << 20}
    resources = {name: Quantity(each[name] * NANO, _spelled(name, each[name])) for name in (CORE, MEMORY, RATIO)}
    devices = tuple(
        PublishedDevice(
            kind=GPU_TYPE,
            minor=at,
            id=id_,
            healthy=at not in unhealthy,
            resources=resources,
            labels={"gpu-uuid": id_},
            place=CardPlace(numa=_numa(gpu, at, len(ids)), pcie=f"pci0000:{at // gpu.per_switch:02x}"),
        )
        for at, id_ in enumerate(ids)
    )
    labels = {VENDOR_LABEL: "nvidia", MODEL_LABEL: model}
    published = DeviceObject(node=NodeName(""), devices=devices, labels=labels)
    return Cards(labels={**labels, ISOLATION: "HAMi-core"}, each=each, published=published)


def _spelled(name: str, amount: int) -> str:
    return quantity.canonical(amount * NANO, binary=name == MEMORY)


def _slots(gpu: Gpu) -> int:
    """In MIG mode, as many as the smallest profile fits."""
    return max((len(profile.placements) for profile in gpu.profiles), default=gpu.slots)


def _hami_register(gpu: Gpu, ids: list[DeviceId], unhealthy: frozenset[int]) -> Mapping[str, str]:
    model = gpu.product if gpu.product.startswith("NVIDIA") else f"NVIDIA-{gpu.product}"
    register = node_devices.encode_json(
        RegisteredDevice(
            id=id_,
            index=at,
            slots=_slots(gpu),
            memory=gpu.memory,
            cores=gpu.cores,
            model=model,
            numa=_numa(gpu, at, len(ids)),
            mode="mig" if gpu.profiles else "hami-core",
            profiles=gpu.profiles,
            healthy=at not in unhealthy,
        )
        for at, id_ in enumerate(ids)
    )
    annotations = {
        "hami.io/node-nvidia-register": register,
        "hami.io/node-handshake": "Requesting_2026-01-01 00:00:00",
    }
    if len(ids) > 1:
        scores = {
            one: {other: _pair_score(gpu, at, to, len(ids)) for to, other in enumerate(ids) if to != at}
            for at, one in enumerate(ids)
        }
        annotations["hami.io/node-nvidia-score"] = node_devices.encode_pair_scores(scores)
    return annotations


def _pair_score(gpu: Gpu, one: int, other: int, count: int) -> int:
    if one // gpu.per_switch == other // gpu.per_switch:
        pcie = _SAME_SWITCH
    else:
        pcie = _SAME_CPU if _numa(gpu, one, count) == _numa(gpu, other, count) else _OTHER_CPU
    return pcie + _NVLINK * gpu.nvlinks


def _volcano_register(gpu: Gpu, ids: list[DeviceId], unhealthy: frozenset[int]) -> Mapping[str, str]:
    """Memory is in MiB (factor 1): capacity is patched into the node's status, so the 4 MB limit does not apply."""
    register = volcano.encode_register(
        RegisteredDevice(
            id=id_,
            index=at,
            slots=_slots(gpu),
            memory=gpu.memory,
            model=f"NVIDIA-{gpu.product}",
            mode="mig" if gpu.profiles else "hami-core",
            healthy=at not in unhealthy,
        )
        for at, id_ in enumerate(ids)
    )
    handshake = "Reported 2026-01-01 00:00:00 +0000 UTC"
    return {"volcano.sh/node-vgpu-register": register, "volcano.sh/node-vgpu-handshake": handshake}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Npu:
    """An Ascend chip; ``slots`` is how many of its smallest template it can be cut into."""

    word: str
    memory: MiB
    cores: CoreShare
    slots: int
    ring: int = 0


def _ascend(npu: _Npu, count: int) -> Callable[[Identity], Cards]:
    def cards(identity: Identity) -> Cards:
        register = node_devices.encode_json(
            RegisteredDevice(
                id=_vdie(_named(identity, "npu", at)),
                index=at,
                slots=npu.slots,
                memory=npu.memory,
                cores=npu.cores,
                model=npu.word,
                healthy=at not in identity.unhealthy,
                custom={"NetworkID": at // npu.ring} if npu.ring else {},
            )
            for at in range(count)
        )
        annotations = {
            "hami-vnpu-core": "false",
            f"hami.io/node-handshake-{npu.word}": "Reported_2026.01.01 00:00:00",
            f"hami.io/node-register-{npu.word}": register,
        }
        return Cards(annotations=annotations, labels={"ascend": "on"}, each={f"huawei.com/{npu.word}": npu.slots})

    return cards


def _vdie(seed: str) -> DeviceId:
    digits = hashlib.sha256(seed.encode()).hexdigest()[:40].upper()
    return DeviceId("-".join(digits[at : at + 8] for at in range(0, 40, 8)))


def _mlu(memory: MiB) -> Callable[[Identity], Cards]:
    """Cards in dynamic sMLU mode: the plugin advertises percent of compute, and memory in units of 256 MiB."""
    each = {"cambricon.com/mlu.smlu.vcore": 100, "cambricon.com/mlu.smlu.vmemory": memory // 256}
    return lambda _: Cards(labels={"mlu": "on"}, each=each)


def _dcu(model: str, memory: MiB, count: int, slots: int) -> Callable[[Identity], Cards]:
    def cards(identity: Identity) -> Cards:
        register = node_devices.encode_csv(
            RegisteredDevice(
                id=_serial(_named(identity, "dcu", at)),
                index=at,
                slots=slots,
                memory=memory,
                cores=WHOLE,
                model=model,
                numa=half_numa(at, count),
                mode="hami-core",
                healthy=at not in identity.unhealthy,
            )
            for at in range(count)
        )
        annotations = {
            "hami.io/node-dcu-register": register,
            "hami.io/node-handshake-dcu": "Requesting_2026-01-01 00:00:00",
        }
        return Cards(annotations=annotations, labels={"dcu": "on"}, each={"hygon.com/dcunum": slots})

    return cards


def _serial(seed: str) -> DeviceId:
    digits = int(hashlib.sha256(seed.encode()).hexdigest(), 16) % 10**12
    return DeviceId(f"DCU-TZ1S{digits:012d}")


def neuron(cores: int, *, efa: int) -> Callable[[Identity], Cards]:
    """AWS' plugin advertises devices and, for each, its logical cores; its old ``neurondevice`` ended with SDK 2.22."""
    each = {"aws.amazon.com/neuron": 1, "aws.amazon.com/neuroncore": cores}
    return lambda _: Cards(each=each, once={"vpc.amazonaws.com/efa": efa} if efa else {})


def _profile(name: str, memory: int, cores: int, starts: tuple[int, ...], size: int) -> Profile:
    """A MIG profile; the number before the ``g`` in its name is how many compute slices it has."""
    slices = int(name.partition("g")[0])
    placements = tuple(SlicePlacement(start, size) for start in starts)
    return Profile(name=name, memory=MiB(memory), cores=CoreShare(cores), slices=slices, placements=placements)


_H100_PROFILES: Final = (
    _profile("1g.10gb", 9856, 13, (0, 1, 2, 3, 4, 5, 6), 1),
    _profile("2g.20gb", 20096, 25, (0, 2, 4), 2),
    _profile("3g.40gb", 40448, 46, (0, 4), 4),
    _profile("7g.80gb", 80896, 100, (0,), 8),
)
"""HAMi's allow list for an H100 with 80 GB; cores are the profile's 16, 32, 60 and 132 of 132 multiprocessors."""

_T4: Final = Gpu(product="Tesla T4", memory=MiB(15360))
_A100: Final = Gpu(product="NVIDIA A100-SXM4-80GB", memory=MiB(81920), nvlinks=12, per_switch=2)
_H100: Final = Gpu(product="NVIDIA H100 80GB HBM3", memory=MiB(81559), nvlinks=18)
_H100_MIG: Final = Gpu(product=_H100.product, memory=_H100.memory, nvlinks=18, profiles=_H100_PROFILES)
_L40S: Final = Gpu(product="NVIDIA L40S", memory=MiB(46068))
_910B3: Final = _Npu(word="Ascend910B3", memory=MiB(65536), cores=CoreShare(20), slots=4, ring=4)
_310P: Final = _Npu(word="Ascend310P", memory=MiB(21527), cores=CoreShare(8), slots=7)


def _shape(name: str, host: HostShape, devices: int, cards: Callable[[Identity], Cards]) -> FleetShape:
    return FleetShape(name=name, host=host, devices=devices, cards=cards)


SHAPES: Final[Mapping[str, FleetShape]] = {
    shape.name: shape
    for shape in (
        _shape("t4x1", HostShape("g4dn.2xlarge", 8, 32), 1, nvidia(_T4, 1)),
        _shape("a100-80x8", HostShape("p4de.24xlarge", 96, 1152), 8, nvidia(_A100, 8)),
        _shape("h100x8", HostShape("p5.48xlarge", 192, 2048), 8, nvidia(_H100, 8)),
        _shape("h100x8-mig", HostShape("p5.48xlarge", 192, 2048), 8, nvidia(_H100_MIG, 8)),
        _shape("l40sx4", HostShape("g6e.24xlarge", 96, 768), 4, nvidia(_L40S, 4)),
        _shape("910bx8", HostShape("atlas-800t-a2", 192, 1536, "arm64"), 8, _ascend(_910B3, 8)),
        _shape("310px4", HostShape("atlas-800-3010", 64, 512), 4, _ascend(_310P, 4)),
        _shape("mlu370x8", HostShape("mlu-x1000", 128, 1024), 8, _mlu(MiB(49152))),
        _shape("dcu-z100x4", HostShape("sugon-x7840", 64, 512), 4, _dcu("DCU-Z100", MiB(16384), 4, 4)),
        _shape("trn1.32xlarge", HostShape("trn1.32xlarge", 128, 512), 16, neuron(2, efa=8)),
        _shape("trn1n.32xlarge", HostShape("trn1n.32xlarge", 128, 512), 16, neuron(2, efa=16)),
        # Eight physical cores per device, two of which make one logical core (LNC 2, the default).
        _shape("trn2.48xlarge", HostShape("trn2.48xlarge", 192, 2048), 16, neuron(4, efa=16)),
        _shape("inf2.48xlarge", HostShape("inf2.48xlarge", 192, 768), 12, neuron(2, efa=0)),
    )
}
"""Every shape by name."""
