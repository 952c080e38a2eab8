"""The annotations of a node as its agent wants them, and the changes that lead there.

``HEALTH_KEY`` may also be written by people. The agent keeps its own entries in ``OWN_KEY``, so that it removes only
those, and other entries stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName
from hami_plugins.wire import node_devices
from hami_plugins.wire.node_devices import RegisteredDevice
from neuron_topology.core.hardware import neuron_ls
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.hardware.machines import (
    MachineHealth,
    decode_health,
    encode_health,
    machine_of,
    with_health,
)
from neuron_topology.core.hardware.neuron_ls import Observation
from neuron_topology.core.nodes import HEALTH_KEY, LINKS_KEY, VENDOR

OWN_KEY: Final = "hami-plugins.io/neuron-agent-health"
"""Node annotation: the entries of ``HEALTH_KEY`` that the node's agent wrote, in the same form."""

REGISTER_KEY: Final = "hami.io/node-register-aws-neuron"
"""Node annotation where HAMi's pages look for device ids; HAMi's scheduler reads the node's capacity instead."""

KEYS: Final = (LINKS_KEY, HEALTH_KEY, OWN_KEY, REGISTER_KEY)
"""All annotations that the agent writes."""


def changes(
    node: NodeName, annotations: Mapping[str, str], instance_type: str, *, observed: Observation, health: MachineHealth
) -> dict[str, str | None]:
    """Annotations to write on a node with these annotations, ``None`` for those to remove; empty if all is written
    already.
    """
    there = _read(annotations.get(HEALTH_KEY))
    others = _without(there, _read(annotations.get(OWN_KEY)))
    own = _without(health, others)
    whole = _joined(others, own)
    wanted: dict[str, str | None] = {
        LINKS_KEY: neuron_ls.encode(observed),
        OWN_KEY: encode_health(own) if own != MachineHealth() else None,
        REGISTER_KEY: register_of(node, instance_type, observed, whole),
    }
    # A user's spelling of the same health stays as it is.
    if there != whole:
        wanted[HEALTH_KEY] = encode_health(whole) if whole != MachineHealth() else None
    return {key: text for key, text in wanted.items() if annotations.get(key) != text}


def withdrawal(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """Annotations to write on a node whose agent has ended, ``None`` for those to remove; empty if no agent has been
    there.

    Only an agent writes ``REGISTER_KEY``. Entries that others have in ``HEALTH_KEY`` stay.
    """
    if REGISTER_KEY not in annotations:
        return {}
    there = _read(annotations.get(HEALTH_KEY))
    others = _without(there, _read(annotations.get(OWN_KEY)))
    wanted: dict[str, str | None] = {key: None for key in KEYS if key in annotations and key != HEALTH_KEY}
    if others != there:
        wanted[HEALTH_KEY] = encode_health(others) if others != MachineHealth() else None
    return wanted


def register_of(node: NodeName, instance_type: str, observed: Observation, health: MachineHealth) -> str:
    """All devices of the machine with their HAMi ids, broken and absent ones as not healthy.

    Cores are the bit mask that HAMi's inventory has; memory is the device's, in MiB.
    """
    machine = with_health(machine_of(instance_type, len(observed.devices), observed), health)
    seen = {device.index: device for device in observed.devices}
    known = INSTANCE_TYPES.get(instance_type)
    memory = known.device_memory if known is not None else max(device.memory for device in observed.devices)
    custom = {"AWSNodeType": instance_type} if instance_type else {}
    return node_devices.encode_json(
        RegisteredDevice(
            id=DeviceId(f"{node}-{VENDOR}-{at}"),
            index=at,
            slots=machine.cores,
            memory=seen[at].memory if at in seen else MiB(memory),
            cores=CoreShare((1 << machine.cores) - 1),
            model=VENDOR,
            numa=machine.numa[at] if machine.numa else 0,
            healthy=at not in machine.sick,
            custom=custom,
        )
        for at in range(machine.fabric.devices)
    )


def _without(health: MachineHealth, taken: MachineHealth) -> MachineHealth:
    return MachineHealth(
        devices=health.devices - taken.devices,
        links=tuple(sorted(set(health.links) - set(taken.links))),
        repaired=health.repaired - taken.repaired,
    )


def _joined(one: MachineHealth, other: MachineHealth) -> MachineHealth:
    return MachineHealth(
        devices=one.devices | other.devices,
        links=tuple(sorted({*one.links, *other.links})),
        repaired=one.repaired | other.repaired,
    )


def _read(written: str | None) -> MachineHealth:
    """What can be read of it; the allocator reports the rest of it, and uses as much."""
    if written is None:
        return MachineHealth()
    try:
        return decode_health(HEALTH_KEY, written)[0]
    except WireError:
        return MachineHealth()
