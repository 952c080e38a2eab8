"""Trn2 UltraServers as the reference has them: four trn2u machines whose devices of equal index form rings.

Nothing is decided by it: no node says which places its UltraServer has in the ring. Source: AWS Neuron SDK 2.32
``src/k8/k8s-ultraserver-init-script.sh``. Machines are numbered in the order of that ring; a chip is ``machine * 16 +
device``.
"""

from __future__ import annotations

from typing import Final

from neuron_topology.core.hardware.fabric import torus

MACHINES: Final = 4
"""Machines of a whole UltraServer."""


def chips() -> tuple[tuple[int, ...], ...]:
    """The neighbours of all 64 chips: those in the machine, then the same device in the machines before and after."""
    inside = torus()
    count = inside.devices
    return tuple(
        (
            *(machine * count + other for other in inside.neighbours[device]),
            (machine - 1) % MACHINES * count + device,
            (machine + 1) % MACHINES * count + device,
        )
        for machine in range(MACHINES)
        for device in range(count)
    )


def may_pair(one: int, other: int) -> bool:
    """Whether two machines can be a server of two: they have to be neighbours in the ring."""
    return (one - other) % MACHINES in {1, MACHINES - 1}
