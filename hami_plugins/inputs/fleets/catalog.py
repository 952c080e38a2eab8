"""What is shipped: the fleets by name, and the shapes of nodes that a fleet file can name."""

from __future__ import annotations

from typing import NamedTuple

from hami_plugins import examples
from hami_plugins.inputs.fleets import declared
from hami_plugins.inputs.fleets.shapes import SHAPES
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.vendors import builtin


class ShippedFleet(NamedTuple):
    """A fleet that ``--fleet NAME`` takes, with its number of nodes and devices."""

    name: str
    nodes: int
    devices: int


class ShippedShape(NamedTuple):
    """A shape of nodes; ``memory`` is that of one device (MiB), 0 where the vendor registers none."""

    name: str
    instance_type: str
    devices: int
    vendor: str
    model: str
    memory: int


def shipped_fleets() -> tuple[ShippedFleet, ...]:
    """Every shipped fleet by name."""
    found = []
    for name in examples.fleet_names():
        fleet = declared.parse(examples.fleet_text(name), source=name)
        devices = sum(group.count * declared.shape_of(group).devices for group in fleet.groups)
        found.append(ShippedFleet(name, sum(group.count for group in fleet.groups), devices))
    return tuple(found)


def shipped_shapes() -> tuple[ShippedShape, ...]:
    """Every shape, as its nodes register their devices."""
    found = []
    for name, shape in SHAPES.items():
        (entry,) = snapshot_of(declared.nodes_of(declared.add_nodes(name)), builtin()).nodes
        device = entry.state.shape.devices[0]
        model = device.model.removeprefix("NVIDIA-")
        found.append(ShippedShape(name, shape.host.instance, shape.devices, device.vendor, model, device.memory))
    return tuple(found)
