"""How likely a set is free on a machine on which so many devices are in use, each choice of them as likely as another.

It is exact: every mask of free devices is counted.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import compress
from math import comb

from neuron_topology.core.hardware.fabric import FabricShape
from neuron_topology.core.sets.families import LARGEST
from neuron_topology.core.sets.tables import Tables


@lru_cache(maxsize=1024)
def chances(tables: Tables, count: int) -> tuple[float, ...]:
    """The chance of a set of ``count`` devices with 0, 1, 2 ... devices in use.

    Empty where the machine has too many devices for a table of its masks, and where any devices may go together.
    """
    devices = tables.topology.fabric.devices
    if devices > LARGEST or tables.topology.fabric.shape is FabricShape.SWITCH:
        return ()
    choices = tables.choices(count)
    size = 1 << devices
    free = Counter(map(int.bit_count, compress(range(size), map(choices.__getitem__, range(size)))))
    return tuple(free[devices - busy] / comb(devices, busy) for busy in range(devices + 1))
