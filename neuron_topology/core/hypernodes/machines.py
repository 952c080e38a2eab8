"""Where a node stands in the network, as its labels tell."""

from __future__ import annotations

from typing import Final, NamedTuple

from hami_plugins.model.units import NodeName
from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json
from neuron_topology.core import names
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.hypernodes.tiers import TIERS

UNKNOWN_FAMILY: Final = "neuron"
"""The family of machines that have Neuron devices and do not say of which type they are."""

_FAMILIES: Final = ("inf", "trn")
_RESOURCES: Final = (names.DEVICES, names.CORES, names.LEGACY_DEVICES)


class TopologyNode(NamedTuple):
    """A node with Neuron devices: its family (``trn1``), and for each tier, nearest first, which part it is in.

    A part is empty where the node has no such label. ``place`` is the machine's number inside of its UltraServer.
    """

    name: NodeName
    family: str
    parts: tuple[str, ...]
    place: str = ""


def machine(raw: Json) -> TopologyNode | None:
    """The machine behind a Node object, ``None`` for one without Neuron. Raises ``WireError`` with what is wrong."""
    metadata = fields.member(raw, "metadata", "node:")
    name = fields.text(metadata, "name", "node: metadata")
    place = f"node {name or '?'}:"
    if not name:
        raise fields.wrong("node: metadata.name", metadata.get("name"), "a name")
    labels = fields.text_map(metadata, "labels", fields.path(place, "metadata"))
    kind = labels.get(names.INSTANCE_LABEL, "")
    if not (kind in INSTANCE_TYPES or kind.startswith(_FAMILIES) or _has_devices(raw, place)):
        return None
    return TopologyNode(
        name=NodeName(name),
        family=kind.partition(".")[0] or UNKNOWN_FAMILY,
        parts=tuple(labels.get(tier.label, "") for tier in TIERS),
        place=labels.get(names.ULTRASERVER_NODE_LABEL, ""),
    )


def _has_devices(raw: Json, place: str) -> bool:
    status = fields.member(raw, "status", place)
    capacity = fields.member(status, "capacity", fields.path(place, "status"))
    return any(capacity.get(name) not in (None, 0, "0") for name in _RESOURCES)
