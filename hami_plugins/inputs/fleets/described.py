"""Nodes of a fleet file that are described by their devices, of any vendor, instead of by the name of a shape."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from hami_plugins.engine.inventories import colon_register
from hami_plugins.inputs.fleets.shapes import SPLIT, Cards, FleetShape, Gpu, HostShape, Identity, half_numa, nvidia
from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import builtin, cambricon, kunlun, mthreads
from hami_plugins.vendors.ascend import CHIPS
from hami_plugins.wire import drs, metax, node_devices
from hami_plugins.wire.node_devices import RegisteredDevice

MAX_DEVICES: Final = 64
"""Most devices of one node."""

MAX_MEMORY: Final = 16 << 20
"""Most memory of one device (MiB): 16 TiB."""

NVIDIA: Final = "NVIDIA"
FIELDS: Final[Mapping[str, str]] = {
    "devices": "Number of devices of each node, up to 64. This member makes the group a described one. Required.",
    "vendor": "A name that `hami-plugins vendors` lists, such as `NVIDIA`, `Ascend910B4`, `DCU`, `MR-V100`. "
    "Default: `NVIDIA`.",
    "model": "The device's model as its node agent registers it, such as `NVIDIA A40`. Required for NVIDIA.",
    "memoryMiB": "Memory of one device in MiB, as `nvidia-smi` prints it. Required where the vendor registers memory, "
    "except for Ascend chips and Kunlun XPUs, whose memory is known.",
    "cores": "Compute of one device in the vendor's unit: 100 for 100 %, AI cores of an Ascend chip, NeuronCores.",
    "slots": "How many containers may share one device. Default: 10 for NVIDIA, the smallest template for Ascend.",
    "numa": "NUMA node of each device, such as `[0, 0, 1, 1]`. Default: one half each.",
    "nvlinks": "NVLink links between each pair of NVIDIA devices. Default: 0 (PCIe).",
    "linkGroup": "How many neighbouring devices are linked directly (HCCS ring of Ascend, MetaLink zone of MetaX). "
    "Default: 4 for Ascend 910, none otherwise.",
    "cpus": "CPUs of each node. Default: 64.",
    "memoryGiB": "Memory of each node in GiB. Default: 512.",
    "arch": "`amd64` or `arm64`. Default: `amd64`.",
    "instanceType": "Label `node.kubernetes.io/instance-type` of each node. Default: made from the model.",
}
"""Members of a described group, and what each means: the reference page prints this table."""

_BY_AGENTS: Final = {"Volcano-vGPU": "volcano", "Koordinator": "koordinator"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDevices:
    """What a group says of the devices of each of its nodes; ``link_group`` is 0 where devices are not linked."""

    spec: VendorSpec
    count: int
    model: str
    memory: MiB
    cores: CoreShare
    slots: int
    numa: tuple[int, ...]
    nvlinks: int = 0
    link_group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Defaults:
    """What is known of a vendor's devices; ``None`` where the file has to say it."""

    memory: int | None = None
    cores: int = 100
    slots: int = SPLIT
    fixed: frozenset[str] = frozenset()
    """Members that no node of this vendor can change."""


def shape_of(entry: Field) -> FleetShape:
    """The shape that a described group comes to. Raises ``ManifestError`` with the place of what is wrong."""
    devices = _devices(entry)
    default_type = dns(devices.model)
    host = HostShape(
        instance=entry.text("instanceType") or default_type,
        cpus=_positive(entry, "cpus", 64, most=4096),
        memory_gib=_positive(entry, "memoryGiB", 512, most=1 << 16),
        arch=_choice(entry, "arch", ("amd64", "arm64")),
    )
    return FleetShape(name=default_type, host=host, devices=devices.count, cards=_cards_of(devices))


def dns(model: str) -> str:
    """A model's name as part of a node's name."""
    return re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:40].rstrip("-") or "node"


def _devices(entry: Field) -> DeclaredDevices:
    spec = _vendor(entry)
    known = _known_of(spec)
    for key in sorted(known.fixed):
        if entry.has(key):
            raise entry.fault(f"is the same for every node of {spec.name}; leave it out", key)
    count = _positive(entry, "devices", 1, most=MAX_DEVICES)
    model = entry.text("model") or ("" if spec.name == NVIDIA else str(spec.name))
    if not model:
        raise entry.fault("model is missing; write it as nvidia-smi prints it, such as NVIDIA A40")
    if any(sign in model for sign in ",:;"):
        raise entry.fault(f"{model[:60]!r} has a comma, colon or semicolon, which registers cannot carry", "model")
    memory = known.memory if known.memory is not None else 0
    if entry.has("memoryMiB"):
        memory = _positive(entry, "memoryMiB", 0, most=MAX_MEMORY)
    elif known.memory is None:
        raise entry.fault(f"memoryMiB is missing: the memory of one {spec.title}, such as 46068")
    return DeclaredDevices(
        spec=spec,
        count=count,
        model=model,
        memory=MiB(memory),
        cores=CoreShare(_positive(entry, "cores", known.cores, most=1024)),
        slots=_positive(entry, "slots", known.slots, most=1024),
        numa=_numa(entry, count),
        nvlinks=entry.count("nvlinks", 0, most=64),
        link_group=entry.count("linkGroup", 4 if spec.name.startswith("Ascend910") else 0, most=MAX_DEVICES),
    )


def _vendor(entry: Field) -> VendorSpec:
    named = entry.text("vendor") or NVIDIA
    if named in _BY_AGENTS:
        raise entry.fault(f"write vendor: {NVIDIA} and agents: {_BY_AGENTS[named]}", "vendor")
    specs = {spec.name: spec for spec in builtin() if spec.name not in _BY_AGENTS}
    for name, spec in specs.items():
        if named.lower() == name.lower():
            return spec
    near = get_close_matches(named, map(str, specs), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(specs)}"
    raise entry.fault(f"no vendor {named[:60]!r}; {hint} (hami-plugins vendors lists them)", "vendor")


_KNOWN: Final[Mapping[str, _Defaults]] = {
    "MLU": _Defaults(fixed=frozenset({"cores", "slots", "numa", "model"})),
    "DCU": _Defaults(slots=4),
    "GCU": _Defaults(memory=0, slots=1, fixed=frozenset({"memoryMiB", "cores", "slots", "numa", "model"})),
    "Enflame": _Defaults(slots=6, fixed=frozenset({"cores", "numa", "model"})),
    "Mthreads": _Defaults(fixed=frozenset({"cores", "slots", "numa", "model"})),
    "Metax-GPU": _Defaults(memory=0, slots=1, fixed=frozenset({"memoryMiB", "cores", "slots", "numa", "model"})),
    "kunlun": _Defaults(memory=0, slots=1, fixed=frozenset({"memoryMiB", "cores", "slots", "numa", "model"})),
    "XPU": _Defaults(memory=kunlun.CARD_MEMORY, slots=4),
    "AWSNeuron": _Defaults(memory=0, cores=2, slots=1, fixed=frozenset({"memoryMiB", "slots", "numa", "model"})),
    "Vastai": _Defaults(memory=0, slots=1),
    "Biren": _Defaults(memory=0, slots=1),
    **{chip.word: _Defaults(memory=chip.card.capacity, cores=chip.ai_cores, slots=chip.card.slots) for chip in CHIPS},
}


def _known_of(spec: VendorSpec) -> _Defaults:
    return _KNOWN.get(spec.name, _Defaults())


def _positive(entry: Field, key: str, default: int, *, most: int) -> int:
    found = entry.count(key, default, most=most)
    if entry.has(key) and not found:
        raise entry.fault("has to be 1 or more", key)
    return found


def _choice(entry: Field, key: str, allowed: tuple[str, ...]) -> str:
    found = entry.text(key, allowed[0])
    if found not in allowed:
        raise entry.fault(f"{found[:40]!r} is none of {', '.join(allowed)}", key)
    return found


def _numa(entry: Field, count: int) -> tuple[int, ...]:
    found = entry.members.get("numa")
    if found is None:
        return tuple(half_numa(at, count) for at in range(count))
    whole = isinstance(found, list) and all(isinstance(each, int) and not isinstance(each, bool) for each in found)
    if not isinstance(found, list) or not whole or len(found) != count or not all(0 <= each < 64 for each in found):
        raise entry.fault(f"has to be a list of {count} NUMA nodes, one for each device", "numa")
    return tuple(found)


def _cards_of(devices: DeclaredDevices) -> Callable[[Identity], Cards]:
    if devices.spec.name == NVIDIA:
        gpu = Gpu(
            product=devices.model,
            memory=devices.memory,
            nvlinks=devices.nvlinks,
            slots=devices.slots,
            cores=devices.cores,
            numa=devices.numa,
        )
        return nvidia(gpu, devices.count)
    published = _PUBLISHED.get(devices.spec.name, _registered)
    return lambda identity: published(devices, identity)


def _registered(devices: DeclaredDevices, identity: Identity) -> Cards:
    """HAMi's register annotation of the vendor, in the form that its node agent writes, and a handshake with it."""
    spec = devices.spec
    written = tuple(_register_entries(devices, identity))
    encode = node_devices.encode_csv if spec.inventory is colon_register else node_devices.encode_json
    annotations = {spec.keys.register: encode(written)}
    if spec.keys.handshake:
        annotations[spec.keys.handshake] = "Reported_2026.01.01 00:00:00"
    return Cards(annotations=annotations, each={spec.resources.count: devices.slots})


def _register_entries(devices: DeclaredDevices, identity: Identity) -> Iterator[RegisteredDevice]:
    for at in range(devices.count):
        yield RegisteredDevice(
            id=_id(identity, at),
            index=at,
            slots=devices.slots,
            memory=devices.memory,
            cores=devices.cores,
            model=devices.model,
            numa=devices.numa[at],
            mode="hami-core",
            healthy=at not in identity.unhealthy,
            custom={"NetworkID": at // devices.link_group} if devices.link_group else {},
        )


def _counted(devices: DeclaredDevices, identity: Identity) -> Cards:  # noqa: ARG001 - as every way to publish
    """Nothing but the number of devices in the node's status."""
    return Cards(each={devices.spec.resources.count: 1})


def _summed(unit: MiB, cores: CoreShare) -> Callable[[DeclaredDevices, Identity], Cards]:
    """Sums of cores and of memory (in units of so many MiB) in the node's status."""

    def published(devices: DeclaredDevices, identity: Identity) -> Cards:  # noqa: ARG001 - as every way to publish
        names = devices.spec.resources
        return Cards(each={names.count: 1, names.cores: cores, names.memory: devices.memory // unit})

    return published


def _neuron(devices: DeclaredDevices, identity: Identity) -> Cards:  # noqa: ARG001 - as every way to publish
    names = devices.spec.resources
    return Cards(each={names.count: 1, names.cores: devices.cores})


def _drs(devices: DeclaredDevices, identity: Identity) -> Cards:  # noqa: ARG001 - as every way to publish
    """Enflame's annotation: a card can be cut into one slice, half of its slices, or all of them."""
    slices, gigabytes = devices.slots, devices.memory // drs.GB
    cuts = sorted({1, max(slices // 2, 1), slices})
    profiles = {f"{cut}g.{max(gigabytes * cut // slices, 1)}gb": str(at) for at, cut in enumerate(cuts)}
    node = drs.DrsNode(tuple(drs.DrsCard(at, str(at), slices) for at in range(devices.count)), profiles)
    return Cards(annotations={drs.CAPACITY_KEY: drs.encode_node(node)}, each={devices.spec.resources.count: slices})


def _metax(devices: DeclaredDevices, identity: Identity) -> Cards:
    cards = (
        metax.SharedCard(
            id=_id(identity, at),
            model=devices.model,
            slots=devices.slots,
            cores=devices.cores,
            memory=devices.memory,
            numa=devices.numa[at],
            healthy=at not in identity.unhealthy,
            link_zone=at // devices.link_group + 1 if devices.link_group else 0,
        )
        for at in range(devices.count)
    )
    spec = devices.spec
    return Cards(
        annotations={spec.keys.register: metax.encode_cards(cards)}, each={spec.resources.count: devices.slots}
    )


def _id(identity: Identity, at: int) -> DeviceId:
    return DeviceId(f"DEV-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{identity.seed}/device/{at}')}")


_PUBLISHED: Final[Mapping[str, Callable[[DeclaredDevices, Identity], Cards]]] = {
    "MLU": _summed(cambricon.MEMORY_UNIT, cambricon.CARD_CORES),
    "Mthreads": _summed(mthreads.MEMORY_UNIT, mthreads.CARD_CORES),
    "GCU": _counted,
    "Metax-GPU": _counted,
    "kunlun": _counted,
    "Enflame": _drs,
    "Metax-SGPU": _metax,
    "AWSNeuron": _neuron,
}
"""How the node agents of vendors without HAMi's register annotation publish devices."""
