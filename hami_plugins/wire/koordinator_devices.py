"""Koordinator's Device objects: the cards of one node, published under the node's name.

::

    {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device",
     "metadata": {"name": "node-1", "labels": {"node.koordinator.sh/gpu-vendor": "nvidia",
                                               "node.koordinator.sh/gpu-model": "NVIDIA-A10"}},
     "spec": {"devices": [{"type": "gpu", "id": "GPU-8c25a887", "minor": 0, "health": true,
       "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "24564Mi",
                     "koordinator.sh/gpu-memory-ratio": "100"},
       "topology": {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:00", "busID": "0000:00:09.0"}}]}}

Source: Koordinator 1.7.0 ``apis/scheduling/v1alpha1/device_types.go``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.model.pods import ResourceList
from hami_plugins.model.units import NodeName
from hami_plugins.wire import documents, fields, quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator import GPU_TYPE, current

API_VERSION: Final = "scheduling.koordinator.sh/v1alpha1"
KIND: Final = "Device"
VENDOR_LABEL: Final = "node.koordinator.sh/gpu-vendor"
MODEL_LABEL: Final = "node.koordinator.sh/gpu-model"
PARTITIONS_KEY: Final = "scheduling.koordinator.sh/gpu-partitions"
"""Annotation with the sets of linked cards."""

REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
"""What a condition's reason may be, as a whole (Koordinator 1.7.0 ``apis/scheduling/v1alpha1/device_types.go``)."""

LARGEST_MINOR: Final = 62
"""Koordinator keeps sets of cards as bits of one integer."""


class CardPlace(NamedTuple):
    """The card's socket, NUMA node and bus; -1 and empty where unknown."""

    socket: int = -1
    numa: int = -1
    pcie: str = ""
    bus: str = ""


class DeviceCondition(NamedTuple):
    """Something about a device that is so or not: why, in a word and in a sentence, and since when (RFC 3339).

    The API server takes the word only as ``REASON`` has it, and refuses the whole object otherwise.
    """

    kind: str
    holds: bool
    reason: str
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDevice:
    """One device of a node: what it is (``gpu``, ``rdma``, ``fpga``), its number there, its id and what it has.

    ``minor`` is unique among devices of one kind. ``resources`` are of the whole device, memory in bytes; ``labels``
    are what a pod's hint can select by.
    """

    kind: str
    minor: int
    id: str = ""
    healthy: bool = True
    resources: ResourceList = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    place: CardPlace | None = None
    conditions: tuple[DeviceCondition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceObject:
    """What is published of one node. ``wrong`` are devices that cannot be read: the others count."""

    node: NodeName
    devices: tuple[PublishedDevice, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    wrong: tuple[WireError, ...] = ()

    @property
    def vendor(self) -> str:
        """The cards' vendor, as Koordinator spells it; empty where unknown."""
        return self.labels.get(VENDOR_LABEL, "")

    @property
    def model(self) -> str:
        """The model of the cards; empty where unknown."""
        return self.labels.get(MODEL_LABEL, "")

    @property
    def cards(self) -> tuple[PublishedDevice, ...]:
        """The devices that are cards."""
        return tuple(each for each in self.devices if each.kind == GPU_TYPE)


def is_one(raw: object) -> bool:
    """Whether an object of the kind ``Device`` is Koordinator's."""
    return isinstance(raw, dict) and str(raw.get("apiVersion", "")).partition("/")[0] == API_VERSION.partition("/")[0]


def name_of(raw: object) -> NodeName:
    """The node that a Device object is about; raises ``WireError`` where it names none."""
    metadata = fields.member(fields.whole(raw, "device ?:"), "metadata", "device ?:")
    name = fields.text(metadata, "name", "device ?: metadata")
    if not name:
        raise fields.wrong("device ?: metadata.name", metadata.get("name"), "the name of a node")
    return NodeName(name)


def decode(raw: object) -> DeviceObject:
    """A Device object; raises ``WireError`` where not even its name and its list can be read."""
    body = fields.whole(raw, "device ?:")
    metadata = fields.member(body, "metadata", "device ?:")
    name = name_of(raw)
    place = f"device {name}:"
    devices: list[PublishedDevice] = []
    wrong: list[WireError] = []
    taken: set[tuple[str, int]] = set()
    spec = fields.member(body, "spec", place)
    for at, each in enumerate(fields.items(spec, "devices", f"{place} spec")):
        where = f"{place} spec.devices[{at}]"
        try:
            found = _device(each, where)
        except WireError as error:
            wrong.append(error)
            continue
        if (found.kind, found.minor) in taken:
            wrong.append(WireError(f"{where}.minor", str(found.minor), "two devices of one kind have this number"))
            continue
        taken.add((found.kind, found.minor))
        devices.append(found)
    return DeviceObject(
        node=name,
        devices=tuple(devices),
        labels=fields.text_map(metadata, "labels", f"{place} metadata"),
        annotations=fields.text_map(metadata, "annotations", f"{place} metadata"),
        wrong=tuple(wrong),
    )


def encode(published: DeviceObject) -> dict[str, Any]:
    """The object, without what the API server adds."""
    metadata = documents.filled(
        {"labels": dict(published.labels), "annotations": dict(published.annotations)},
    )
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": published.node, **metadata},
        "spec": {"devices": [_written(each) for each in published.devices]},
    }


def _device(raw: object, place: str) -> PublishedDevice:
    body = fields.whole(raw, place)
    kind = fields.text(body, "type", place)
    if not kind:
        raise fields.wrong(f"{place}.type", body.get("type"), "gpu, rdma or fpga")
    if body.get("minor") is None:
        raise fields.wrong(f"{place}.minor", None, "a number: without one Koordinator's scheduler ends")
    resources = quantity.amounts(fields.member(body, "resources", place), key=f"{place}.resources")
    for name, amount in resources.items():
        if amount.nano < 0:
            raise fields.wrong(f"{place}.resources[{name}]", str(amount), "0 or more")
    return PublishedDevice(
        kind=kind,
        minor=fields.natural(body, "minor", place),
        id=fields.text(body, "id", place),
        healthy=fields.flag(body, "health", place),
        resources={current(name): amount for name, amount in resources.items()},
        labels=fields.text_map(body, "labels", place),
        place=_place(fields.member(body, "topology", place), f"{place}.topology"),
        conditions=tuple(
            _condition(each, f"{place}.conditions[{at}]")
            for at, each in enumerate(fields.items(body, "conditions", place))
        ),
    )


def _condition(raw: object, place: str) -> DeviceCondition:
    body = fields.whole(raw, place)
    return DeviceCondition(
        kind=fields.text(body, "type", place),
        holds=fields.text(body, "status", place) == "True",
        reason=fields.text(body, "reason", place),
        message=fields.text(body, "message", place),
        since=fields.text(body, "lastTransitionTime", place),
    )


def _place(body: Json, place: str) -> CardPlace | None:
    if not body:
        return None
    return CardPlace(
        socket=fields.number(body, "socketID", place, default=-1),
        numa=fields.number(body, "nodeID", place, default=-1),
        pcie=fields.text(body, "pcieID", place),
        bus=fields.text(body, "busID", place),
    )


def _written(device: PublishedDevice) -> Json:
    place = device.place
    topology = {}
    if place is not None:
        topology = {"socketID": place.socket, "nodeID": place.numa, "pcieID": place.pcie}
        topology |= documents.filled({"busID": place.bus})
    return {
        "type": device.kind,
        **documents.filled({"id": device.id}),
        "minor": device.minor,
        "health": device.healthy,
        "resources": {name: str(device.resources[name]) for name in sorted(device.resources)},
        **documents.filled({"labels": dict(device.labels), "topology": topology}),
        **documents.filled({"conditions": [_said(each) for each in device.conditions]}),
    }


def _said(condition: DeviceCondition) -> Json:
    return {
        "type": condition.kind,
        "status": "True" if condition.holds else "False",
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.since,
    }
