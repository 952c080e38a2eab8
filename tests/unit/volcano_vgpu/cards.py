"""Cards and settings for the tests of the node side, each with what a test is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hami_plugins.model.units import DeviceId, MiB
from volcano_vgpu.core.model import NodeInventory, PhysicalDevice
from volcano_vgpu.core.settings import AgentSettings

MODEL = "NVIDIA A100-SXM4-40GB"


def uuid(number: int) -> DeviceId:
    """The UUID of the card of that number, as NVIDIA writes them."""
    return DeviceId(f"GPU-{number:08x}-5bb1-4c3e-9d2a-{number:012x}")


def card(number: int = 0, **facts: Any) -> PhysicalDevice:
    """A healthy card."""
    plain: dict[str, Any] = {
        "uuid": uuid(number),
        "index": number,
        "minor": number,
        "model": MODEL,
        "memory": MiB(40960),
    }
    return PhysicalDevice(**{**plain, **facts})


def inventory(*cards: PhysicalDevice, **facts: Any) -> NodeInventory:
    """The cards of a node."""
    return NodeInventory(driver="550.54.15", cards=cards, **facts)


def sick(*numbers: int) -> Iterable[PhysicalDevice]:
    """Cards that cannot be used."""
    return tuple(card(number, problems=("XID 79: fallen off the bus; reboot the node",)) for number in numbers)


def settings(**changes: Any) -> AgentSettings:
    """The settings of node n1."""
    return AgentSettings(node="n1", **changes)


GEOMETRIES = (
    {
        "models": ["A100-SXM4-40GB"],
        "allowedGeometries": [
            {"group": "group1", "geometries": [{"name": "1g.5gb", "memory": 5120, "count": 7}]},
            {"group": "group4", "geometries": [{"name": "7g.40gb", "memory": 40960, "count": 1}]},
        ],
    },
)
