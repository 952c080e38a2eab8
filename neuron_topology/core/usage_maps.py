"""What AWS's scheduler extension holds for used on a node, held against the pods that are there.

It keeps a word (``true``: in use) for each device and each core in annotations of the node. Pods that end while it is
away, or are bound by another scheduler, leave them stale. It makes both anew where they are missing
(AWS Neuron SDK 2.32 device plugin and scheduler extension), so that removing them is the repair, whatever is wrong with
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.units import NodeName
from hami_plugins.plan.slices import runs
from hami_plugins.vendors.awsneuron import held_cores
from neuron_topology.core.nodes import USAGE_KEYS, VENDOR, usage_map, wiring_of


@dataclass(frozen=True, slots=True)
class Stale:
    """A map of a node that says something else than the pods there, or nothing that can be read."""

    node: NodeName
    key: str
    what: str


def stale(entry: NodeEntry, annotations: Mapping[str, str]) -> tuple[Stale, ...]:
    """The maps of a node that are wrong, with what is wrong; empty where none is."""
    if not any(key in annotations for key in USAGE_KEYS):
        return ()
    devices, cores = _held(entry)
    found = []
    for key, held, what in zip(USAGE_KEYS, (devices, cores), ("device", "core"), strict=True):
        if key in annotations and (why := _wrong(annotations[key], held, what)):
            found.append(Stale(entry.name, key, why))
    return tuple(found)


def without(version: str) -> Mapping[str, object]:
    """The patch that removes both maps of a node, where it is still what was read."""
    return {"metadata": {"resourceVersion": version, "annotations": dict.fromkeys(USAGE_KEYS)}}


def _held(entry: NodeEntry) -> tuple[list[bool], list[bool]]:
    """What pods hold: devices, and cores of all devices one after another."""
    shape = entry.state.shape
    if VENDOR not in shape.positions:
        return [], []
    each = wiring_of(shape).cores
    positions = sorted(shape.positions[VENDOR], key=lambda at: shape.devices[at].index)
    devices, cores = [], []
    for at in positions:
        used = entry.state.usage[at]
        devices.append(bool(used.slots))
        bits = held_cores(used.marks)
        cores += [bool(bits >> core & 1) for core in range(each)]
    return devices, cores


def _wrong(text: str, held: Sequence[bool], what: str) -> str:
    """What is wrong with a map; empty where nothing is."""
    said, why = usage_map(text, len(held), what)
    if why:
        return why
    idle = [at for at, (claimed, real) in enumerate(zip(said, held, strict=True)) if claimed and not real]
    busy = [at for at, (claimed, real) in enumerate(zip(said, held, strict=True)) if real and not claimed]
    parts = []
    if idle:
        parts.append(f"{what}s {runs(idle)} are in use by no pod")
    if busy:
        parts.append(f"{what}s {runs(busy)} are free, which pods hold")
    return f"says that {' and that '.join(parts)}" if parts else ""
