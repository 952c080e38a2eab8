"""How the devices of a node are drawn: a torus as its square, a ring as two rows, a line folded, others in rows."""

from __future__ import annotations

from typing import Final

from hami_plugins.model.device_links import GridPosition, WiringLayout, WiringLink
from hami_plugins.model.nodes import NodeShape
from neuron_topology.core.hardware.fabric import TORUS_SIDE, Fabric, FabricShape
from neuron_topology.core.nodes import VENDOR, wiring_of

LONGEST_ROW: Final = 8
"""A longer line is folded, so that its drawing stays narrow."""


def layout(shape: NodeShape) -> WiringLayout | None:
    """The drawing of a shape; ``None`` for one device, for devices of which no links are known, and behind switches."""
    if VENDOR not in shape.positions:
        return None
    wiring = wiring_of(shape)
    fabric = wiring.topology.fabric
    if not fabric.links or fabric.shape is FabricShape.SWITCH:
        return None
    places = _places(fabric)
    at = wiring.positions
    return WiringLayout(
        title=_title(fabric),
        spots=tuple(GridPosition(at[device], row, column) for device, (row, column) in enumerate(places)),
        links=tuple(
            WiringLink(
                at[one], at[other], (one, other) not in wiring.topology.dead, not _near(places[one], places[other])
            )
            for one, other in sorted(fabric.links)
        ),
    )


def _title(fabric: Fabric) -> str:
    match fabric.shape:
        case FabricShape.TORUS:
            return f"{TORUS_SIDE}x{TORUS_SIDE} torus"
        case FabricShape.IRREGULAR:
            return f"{fabric.devices} devices"
        case _:
            return f"{fabric.shape} of {fabric.devices}"


def _places(fabric: Fabric) -> tuple[tuple[int, int], ...]:
    """Row and column of each device."""
    count = fabric.devices
    match fabric.shape:
        case FabricShape.RING:
            half = (count + 1) // 2
            return tuple((0, device) if device < half else (1, count - 1 - device) for device in range(count))
        case FabricShape.LINE:
            rows = -(-count // LONGEST_ROW)
            width = -(-count // rows)
            return tuple(
                (row, column if row % 2 == 0 else width - 1 - column)
                for row, column in (divmod(device, width) for device in range(count))
            )
        case _:
            return tuple(divmod(device, TORUS_SIDE) for device in range(count))


def _near(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two places stand side by side or one above the other."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1]) == 1
