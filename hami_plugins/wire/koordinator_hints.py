"""What a pod in Koordinator's words wants of devices beyond amounts: hints by type of device, devices that are chosen
together, and partitions of linked cards with what a node publishes of them.

::

    scheduling.koordinator.sh/device-allocate-hint:
      {"gpu":{"selector":{"matchExpressions":[{"key":"gpu-uuid","operator":"In","values":["GPU-8c25a887"]}]},
      "requiredTopologyScope":"NUMANode"}}
    scheduling.koordinator.sh/device-joint-allocate: {"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}
    scheduling.koordinator.sh/gpu-partition-spec: {"allocatePolicy":"Restricted","ringBusBandwidth":"200Gi"}
    scheduling.koordinator.sh/gpu-partitions (of a Device object):
      {"2":[{"minors":[0,1],"gpuLinkType":"NVLink","ringBusBandwidth":"200Gi","allocationScore":10}]}

Source: Koordinator 1.7.0 ``apis/extension/device_share.go``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.pods import Requirement
from hami_plugins.model.quantity import Quantity
from hami_plugins.wire import documents, fields, quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator_devices import PARTITIONS_KEY
from hami_plugins.wire.neighbours import requirements

KEY: Final = "scheduling.koordinator.sh/device-allocate-hint"
JOINT_KEY: Final = "scheduling.koordinator.sh/device-joint-allocate"
PARTITION_KEY: Final = "scheduling.koordinator.sh/gpu-partition-spec"

HINT_KEYS: Final = (
    "internal.scheduling.koordinator.sh/scheduling-hint",
    "scheduling.koordinator.sh/scheduling-hint",
)
"""Annotations, the present one and the older, in which nodes and cards are designated for a pod."""

APPLY_FOR_ALL: Final = "ApplyForAll"
REQUESTS_AS_COUNT: Final = "RequestsAsCount"
WITHIN_ONE_NUMA_NODE: Final = frozenset({"Device", "PCIe", "NUMANode"})
"""Scopes within one NUMA node."""

_SCOPES: Final = frozenset({"", "Node", *WITHIN_ONE_NUMA_NODE})
_STRATEGIES: Final = frozenset({"", APPLY_FOR_ALL, REQUESTS_AS_COUNT})
_EXCLUSIVE: Final = frozenset({"", "DeviceLevel", "PCIeLevel"})
_POLICIES: Final = frozenset({"Restricted", "BestEffort"})
_JOINT_SCOPES: Final = frozenset({"", "SamePCIe"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """What is wanted of the devices of one type.

    ``selector`` applies to labels of devices, ``functions`` to those of virtual functions; ``strategy`` is the meaning
    of an amount, ``scope`` how near to each other devices must be, ``exclusive`` the level at which no other pod may
    be.
    """

    selector: tuple[Requirement, ...] = ()
    functions: tuple[Requirement, ...] = ()
    strategy: str = ""
    scope: str = ""
    exclusive: str = ""


@dataclass(frozen=True, slots=True)
class Joint:
    """Types of devices that are chosen together, the first one that is asked for first; ``scope`` has to hold."""

    types: tuple[str, ...]
    scope: str = ""


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """Cards of a partition are wanted: only such (``Restricted``), or rather such, with a bandwidth in bytes."""

    policy: str = "BestEffort"
    bandwidth: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """Cards that are linked, by number: how, with what bandwidth in bytes, and how good that is."""

    minors: tuple[int, ...]
    link: str = ""
    bandwidth: Quantity | None = None
    score: int = 0


def decode(text: str, *, key: str = KEY) -> Mapping[str, Hint]:
    """The hint by type of device; raises ``WireError`` naming the member that cannot be read."""
    body = fields.whole(documents.load(key, text), key)
    return {kind: _hint(fields.member(body, kind, key), f"{key}.{kind}") for kind in body}


def decode_joint(text: str) -> Joint:
    """Which devices are chosen together. Raises ``WireError``."""
    body = fields.whole(documents.load(JOINT_KEY, text), JOINT_KEY)
    types = tuple(fields.texts(body, "deviceTypes", JOINT_KEY))
    return Joint(types, _word(body, "requiredScope", JOINT_KEY, _JOINT_SCOPES))


def decode_partition(text: str) -> PartitionRequest:
    """The wish for a partition. Raises ``WireError``."""
    body = fields.whole(documents.load(PARTITION_KEY, text), PARTITION_KEY)
    policy = _word(body, "allocatePolicy", PARTITION_KEY, _POLICIES | {""}) or "BestEffort"
    return PartitionRequest(policy, _bandwidth(body, PARTITION_KEY))


def decode_partitions(text: str) -> Mapping[int, tuple[Partition, ...]]:
    """The partitions of a node by their number of cards. Raises ``WireError``; Koordinator then knows none at all."""
    body = fields.whole(documents.load(PARTITIONS_KEY, text), PARTITIONS_KEY)
    found: dict[int, tuple[Partition, ...]] = {}
    for size in body:
        if not (size.isascii() and size.isdigit()):
            raise WireError(PARTITIONS_KEY, size, "not a number of cards")
        found[int(size)] = tuple(
            _partition(raw, f"{PARTITIONS_KEY}.{size}[{at}]")
            for at, raw in enumerate(fields.items(body, size, PARTITIONS_KEY))
        )
    return found


def _partition(raw: object, place: str) -> Partition:
    body = fields.whole(raw, place)
    minors = []
    for at, each in enumerate(fields.items(body, "minors", place)):
        minors.append(fields.natural({"minor": each}, "minor", f"{place}.minors[{at}]"))
    return Partition(
        minors=tuple(minors),
        link=fields.text(body, "gpuLinkType", place),
        bandwidth=_bandwidth(body, place),
        score=fields.number(body, "allocationScore", place),
    )


def _bandwidth(body: Json, place: str) -> Quantity | None:
    found = body.get("ringBusBandwidth")
    return None if found is None else quantity.parse(found, key=f"{place}.ringBusBandwidth")


def _hint(body: Json, place: str) -> Hint:
    return Hint(
        selector=tuple(requirements(fields.member(body, "selector", place), f"{place}.selector")),
        functions=tuple(requirements(fields.member(body, "vfSelector", place), f"{place}.vfSelector")),
        strategy=_word(body, "allocateStrategy", place, _STRATEGIES),
        scope=_word(body, "requiredTopologyScope", place, _SCOPES),
        exclusive=_word(body, "exclusivePolicy", place, _EXCLUSIVE),
    )


def _word(body: Json, name: str, place: str, known: frozenset[str]) -> str:
    found = fields.text(body, name, place)
    if found not in known:
        raise WireError(f"{place}.{name}", found, f"expected one of {', '.join(sorted(known - {''}))}")
    return found


def designates(text: str) -> bool:
    """Whether a scheduling hint makes the scheduler take the cards of the pod's own record; unreadable ones do not."""
    try:
        body = documents.load(HINT_KEYS[0], text)
    except WireError:
        return False
    extensions = body.get("extensions") if isinstance(body, dict) else None
    return isinstance(extensions, dict) and "DeviceShare" in extensions
