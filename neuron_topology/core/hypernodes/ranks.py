"""The order of machines by their place in the network: who is next in it is next to each other.

Volcano's hosts are in the order of tasks, whatever nodes they got, so that neighbours of a ring may be a spine apart.
Source: cloud-provider-aws' node labels.
"""

from __future__ import annotations

from collections.abc import Iterable

from neuron_topology.core.hypernodes.machines import TopologyNode


def ranked(machines: Iterable[TopologyNode]) -> tuple[TopologyNode, ...]:
    """The machines, by zone, network layers from the top, UltraServer, and their place inside of it."""
    return tuple(sorted(machines, key=_place))


def _place(machine: TopologyNode) -> tuple[object, ...]:
    pair, ultraserver, *above = machine.parts
    return (
        *(_comparable(part) for part in reversed(above)),
        _comparable(ultraserver),
        _comparable(machine.place),
        _comparable(pair),
        machine.name,
    )


def _comparable(text: str) -> tuple[int, int, str]:
    """Numbers by their size, then words, then nothing at all."""
    if text.isascii() and text.isdigit():
        return (0, int(text), text)
    return (1, 0, text) if text else (2, 0, "")
