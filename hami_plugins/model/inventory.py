"""The devices of one vendor on one node, and the Node object that they are read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.model.devices import Device
from hami_plugins.model.pods import ResourceList
from hami_plugins.model.units import DeviceId, NodeName


class NodeCondition(NamedTuple):
    """A condition that a component reports on a node, as the API server has it; ``reason`` is one word."""

    kind: str
    status: str
    reason: str = ""


class NodeObject(NamedTuple):
    """The parts of a Node object that an inventory is made from.

    ``published`` is the separate object that publishes the node's devices, as it was read.
    """

    name: NodeName
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    capacity: ResourceList
    allocatable: ResourceList
    published: object = None
    conditions: tuple[NodeCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceInventory:
    """The devices of one vendor on one node: ``ids[i]`` names ``devices[i]``, ``links[i][j]`` scores the pair.

    ``remarks`` say what was left out of account, and what an operator should know of the node's devices. ``notes`` are
    facts on which no choice of devices depends, but whether a pod may come at all: the vendor's ``filter_reason``
    reads them.
    """

    devices: tuple[Device, ...] = ()
    ids: tuple[DeviceId, ...] = ()
    links: tuple[tuple[int, ...], ...] = ()
    traits: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


OWN_AGENT: Final = "own-agent"
"""A note about the vendor that is its value: an agent of ours gives the devices to containers, and needs no lock."""

NO_DEVICES: Final = DeviceInventory()
"""The inventory of a node that has none of a vendor's devices."""
