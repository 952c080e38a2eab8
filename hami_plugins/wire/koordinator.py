"""Koordinator's names on the wire, and its record of what a pod was given.

::

    scheduling.koordinator.sh/device-allocated:
      {"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"16Gi",
      "koordinator.sh/gpu-memory-ratio":"50"},"id":"GPU-8c25a887-0000-0000-0000-000000000000"}]}

Amounts are of one card each; memory is in bytes. Source: Koordinator 1.7.0 ``apis/extension/device_share.go``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.model.pods import ResourceList
from hami_plugins.wire import documents, fields, hami_core, quantity
from hami_plugins.wire.fields import Json

GPU: Final = "koordinator.sh/gpu"
"""Percent of compute and of memory alike; 100 is a card."""

SHARED: Final = "koordinator.sh/gpu.shared"
"""How many cards are used, each in part."""

CORE: Final = "koordinator.sh/gpu-core"
"""Percent of a card's compute, summed over the cards."""

MEMORY: Final = "koordinator.sh/gpu-memory"
"""Bytes, summed over the cards."""

RATIO: Final = "koordinator.sh/gpu-memory-ratio"
"""Percent of a card's memory, summed over the cards."""

RDMA: Final = "koordinator.sh/rdma"
FPGA: Final = "koordinator.sh/fpga"
NPU_CORE: Final = "huawei.com/npu-core"
NPU_CPU: Final = "huawei.com/npu-cpu"
NPU_DVPP: Final = "huawei.com/npu-dvpp"
WHOLE_CARDS: Final = ("nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu")
"""Names of vendors' own device plugins, which Koordinator takes for whole cards."""

ALLOCATED_KEY: Final = "scheduling.koordinator.sh/device-allocated"
RECORDS: Final = (
    ALLOCATED_KEY,
    "scheduling.koordinator.sh/bind-timestamp",
    "scheduling.koordinator.sh/gpu-minors",
    "scheduling.koordinator.sh/reservation-allocated",
)
"""What Koordinator's scheduler writes on a pod that it has placed."""

FOR_DEVICE_PLUGINS: Final = (
    "predicate-time",
    NPU_CORE,
    "huawei.com/Ascend310P",
    "CAMBRICON_DSMLU_ASSIGHED",
    "CAMBRICON_DSMLU_PROFILE",
    "metax-tech.com/gpu-devices-allocated",
)
"""The same for vendors' device plugins (Koordinator 1.7.0
``pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go``), with the feature gate DevicePluginAdaption; the
spelling is Koordinator's."""

ISOLATION: Final = "koordinator.sh/gpu-isolation-provider"
"""Label of pods whose limits are to be enforced, and of nodes that can."""

HAMI_CORE: Final = "HAMi-core"
"""The only value of the label that Koordinator acts upon; case counts."""

INJECTED: Final = "hami-plugins.io/limits"
"""Ours: how many cards' limits the containers take from annotations of the pod."""

VISIBLE: Final = "hami-plugins.io/visible-devices"
"""Ours: the cards that the containers see, by id."""

MEMORY_LIMIT: Final = "hami-plugins.io/memory-limit-"
"""Ours, with the place of a card after it: the bytes that the containers may use there."""

LIMITS: Final = (VISIBLE, *(f"{MEMORY_LIMIT}{place}" for place in range(hami_core.MOST_CARDS)))
"""The annotations that the containers of an injected pod read their limits from."""

GPU_TYPE: Final = "gpu"

_PREFIX: Final = "koordinator.sh/"
COLOCATED: Final = ("kubernetes.io/batch-", "kubernetes.io/mid-", f"{_PREFIX}batch-")
"""Beginnings of the names of reclaimed CPUs and memory; the last is Koordinator's old one (``apis/extension``)."""

_OLD_PREFIX: Final = "kubernetes.io/"
RENAMED: Final[Mapping[str, str]] = {
    name.replace(_PREFIX, _OLD_PREFIX): name for name in (GPU, CORE, MEMORY, RATIO, RDMA, FPGA)
}
"""Present names by the deprecated ones."""


class VirtualFunction(NamedTuple):
    """A part of a network card; ``minor`` is -1 and ``bus`` its PCI address on real nodes."""

    minor: int = 0
    bus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedDevice:
    """One card of a pod: its number on the node, what the pod has of it, and its id where the Device object had one.

    ``template`` names the slice of an NPU.
    """

    minor: int
    resources: ResourceList
    id: str = ""
    functions: tuple[VirtualFunction, ...] = ()
    template: str = ""


Allocations = Mapping[str, tuple[AllocatedDevice, ...]]
"""By type: ``gpu``, ``rdma``, ``fpga`` or an unknown type."""


def current(name: str) -> str:
    """The present name of a resource that may have been written under a deprecated one."""
    return RENAMED.get(name, name)


def is_deprecated(name: str) -> bool:
    """Whether only Koordinator's scheduler still understands the name."""
    return name in RENAMED


def misspells_hami_core(provider: str) -> bool:
    """Whether an isolation provider is meant to be HAMi-core and spelled otherwise, or empty: nothing acts upon it.

    Any other value names a component of the cluster's own, whose limits are not known here.
    """
    letters = "".join(filter(str.isalpha, provider)).lower()
    return provider != HAMI_CORE and (not letters or letters.startswith("hami"))


def decode(text: str, *, key: str = ALLOCATED_KEY) -> Allocations:
    """What a pod was given; raises ``WireError`` naming the member that cannot be read.

    Tolerates what old releases wrote: no id, amounts as numbers, deprecated names, unknown types.
    """
    body = fields.whole(documents.load(key, text), key)
    return {
        kind: tuple(_device(raw, f"{key}.{kind}[{at}]") for at, raw in enumerate(fields.items(body, kind, key)))
        for kind in body
    }


def encode(allocations: Allocations) -> str:
    """The text as Koordinator's scheduler writes it: types and resources by name, amounts as texts."""
    return documents.dump({kind: [_written(each) for each in allocations[kind]] for kind in sorted(allocations)})


def _device(raw: object, place: str) -> AllocatedDevice:
    body = documents.folded(raw, place)
    extension = documents.folded(fields.member(body, "extension", place), f"{place}.extension")
    resources = quantity.amounts(fields.member(body, "resources", place), key=f"{place}.resources")
    for name, amount in resources.items():
        if amount.nano < 0:
            raise fields.wrong(f"{place}.resources[{name}]", str(amount), "0 or more")
    return AllocatedDevice(
        minor=fields.natural(body, "minor", place),
        resources={current(name): amount for name, amount in resources.items()},
        id=fields.text(body, "id", place),
        functions=tuple(
            _function(raw, f"{place}.extension.vfs[{at}]")
            for at, raw in enumerate(fields.items(extension, "vfs", f"{place}.extension"))
        ),
        template=fields.text(extension, "gpusharedresourcetemplate", f"{place}.extension"),
    )


def _function(raw: object, place: str) -> VirtualFunction:
    body = documents.folded(raw, place)
    return VirtualFunction(fields.number(body, "minor", place), fields.text(body, "busid", place))


def _written(device: AllocatedDevice) -> Json:
    functions = [documents.filled({"minor": each.minor, "busID": each.bus}) for each in device.functions]
    extension = documents.filled({"vfs": functions, "gpuSharedResourceTemplate": device.template})
    resources = {name: str(device.resources[name]) for name in sorted(device.resources)}
    return {
        "minor": device.minor,
        "resources": resources,
        **documents.filled({"id": device.id, "extension": extension}),
    }
