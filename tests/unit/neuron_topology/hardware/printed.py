"""What ``neuron-ls`` prints on machines, in both of its forms."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from neuron_topology.core.hardware.instances import INSTANCE_TYPES

TRN1 = "trn1.32xlarge"

TRN1_TABLE = """\
instance-type: trn1.32xlarge
instance-id: i-04b476a6a0e686980
+--------+--------+--------+---------------+---------+--------+------------------------------------------+---------+
| NEURON | NEURON | NEURON | CONNECTED | PCI | PID | COMMAND | RUNTIME |
| DEVICE | CORES | MEMORY | DEVICES | BDF | | | VERSION |
+--------+--------+--------+---------------+---------+--------+------------------------------------------+---------+
| 0 | 2 | 32 GB | 12, 3, 4, 1 | 10:1c.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 1 | 2 | 32 GB | 13, 0, 5, 2 | 10:1d.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 2 | 2 | 32 GB | 14, 1, 6, 3 | a0:1c.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 3 | 2 | 32 GB | 15, 2, 7, 0 | a0:1d.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 4 | 2 | 32 GB | 0, 7, 8, 5 | 20:1b.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 5 | 2 | 32 GB | 1, 4, 9, 6 | 20:1c.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 6 | 2 | 32 GB | 2, 5, 10, 7 | 90:1b.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 7 | 2 | 32 GB | 3, 6, 11, 4 | 90:1c.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 8 | 2 | 32 GB | 4, 11, 12, 9 | 20:1d.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 9 | 2 | 32 GB | 5, 8, 13, 10 | 20:1e.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 10 | 2 | 32 GB | 6, 9, 14, 11 | 90:1d.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 11 | 2 | 32 GB | 7, 10, 15, 8 | 90:1e.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 12 | 2 | 32 GB | 8, 15, 0, 13 | 10:1e.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 13 | 2 | 32 GB | 9, 12, 1, 14 | 10:1b.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 14 | 2 | 32 GB | 10, 13, 2, 15 | a0:1e.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
| 15 | 2 | 32 GB | 11, 14, 3, 12 | a0:1b.0 | 109459 | python3 -m torch_neuronx.distributed.... | 2.15.11 |
+--------+--------+--------+---------------+---------+--------+------------------------------------------+---------+
"""
"""A real machine under load, as a user's guide shows it."""

INF1_TABLE = """\
+--------+--------+--------+-----------+--------------+-------+------------------------------------------+---------+
| NEURON | NEURON | NEURON | CONNECTED |     PCI      |  PID  |                 COMMAND                  | RUNTIME |
| DEVICE | CORES  | MEMORY |  DEVICES  |     BDF      |       |                                          | VERSION |
+--------+--------+--------+-----------+--------------+-------+------------------------------------------+---------+
| 0      | 4      | 8 GB   | 1         | 0000:00:1c.0 | 23518 | neuron-app01 infer --input-data-direc... | 2.0.0   |
|        |        |        |           |              | 23531 | neuron-app02 infer --input-data-direc... | 2.0.0   |
+--------+--------+--------+-----------+--------------+-------+------------------------------------------+---------+
| 1      | 4      | 8 GB   | 0         | 0000:00:1d.0 | 23595 | neuron-app01 infer --input-data-direc... | 2.0.0   |
+--------+--------+--------+-----------+--------------+-------+------------------------------------------+---------+
"""
"""An older release: processes have rows of their own, and the PCI domain is printed."""

TRN2_TABLE = """\
instance-type: trn2.3xlarge
logical-neuroncore-config: 2
+--------+--------+----------+--------+---------------+--------------+---------------+------+
| NEURON | NEURON |  NEURON  | NEURON |   CONNECTED   |     PCI      |      CPU      | NUMA |
| DEVICE | CORES  | CORE IDS | MEMORY |    DEVICES    |     BDF      |   AFFINITY    | NODE |
+--------+--------+----------+--------+---------------+--------------+---------------+------+
| 0      | 8      | 0-3      | 96 GB  |               | 0000:cc:00.0 | 0-47,96-143   | 1    |
+--------+--------+----------+--------+---------------+--------------+---------------+------+
"""
"""A newer release, with NUMA nodes and the LNC setting."""


def as_json(
    instance_type: str = TRN1,
    *,
    without: Iterable[int] = (),
    cut: Iterable[tuple[int, int]] = (),
    more: Mapping[int, Iterable[int]] | None = None,
    **fields: object,
) -> str:
    """``neuron-ls -j`` on a machine of a type; some devices missing, some links cut, some links too many."""
    machine = INSTANCE_TYPES[instance_type]
    gone, broken = set(without), {*cut, *((b, a) for a, b in cut)}
    devices = []
    for at, neighbours in enumerate(machine.fabric.neighbours):
        if at in gone:
            continue
        linked = [to for to in neighbours if (at, to) not in broken and to not in gone]
        device: dict[str, object] = {
            "neuron_device": at,
            "bdf": f"{at // 4:02x}:{at:02x}.0",
            "connected_to": [*linked, *(more or {}).get(at, ())],
            "nc_count": machine.cores_per_device,
            "memory_size": machine.device_memory << 20,
            "neuron_processes": [],
        }
        if machine.numa:
            device["numa_node"] = str(machine.numa[at])
        devices.append(device | fields)
    return json.dumps(devices)
