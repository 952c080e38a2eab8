"""Members of a gang with devices of the same numbers on every node, for vendors whose collectives want that.

A request carries the sets that its likes in the gang were given. The vendor's own hooks prefer them; nothing depends on
them but which of several sets that would do is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.requests import ContainerDemand, DeviceDemand, DeviceRequest

Sets: TypeAlias = Mapping[DeviceRequest, tuple[tuple[int, ...], ...]]
"""The different sets of device indexes that equal requests of a gang were given, in the order in which they came."""


def wishing(demand: DeviceDemand, sets: Sets) -> DeviceDemand:
    """The demand with what its likes were given; the same one where there is nothing of that."""
    if not any(request in sets for container in demand.containers for request in container.requests):
        return demand
    return DeviceDemand(
        tuple(
            ContainerDemand(
                container.kind,
                tuple(replace(request, alike=sets.get(request, ())) for request in container.requests),
            )
            for container in demand.containers
        )
    )


def with_given(sets: Sets, demand: DeviceDemand, placed: Placed, entry: NodeEntry, registry: Registry) -> Sets:
    """The sets with what one more member was given on a node; the same where no vendor looks at them."""
    if not any(_matters(request, registry) for container in demand.containers for request in container.requests):
        return sets
    found = dict(sets)
    index = {name: device.index for name, device in zip(entry.ids, entry.state.shape.devices, strict=True)}
    for container, allocation in zip(demand.containers, placed.containers, strict=True):
        for request in container.requests:
            if not _matters(request, registry):
                continue
            given = tuple(sorted(index[share.device] for share in allocation.shares if share.vendor == request.vendor))
            plain = replace(request, alike=())
            known = found.get(plain, ())
            if given not in known:
                found[plain] = (*known, given)
    return found


def _matters(request: DeviceRequest, registry: Registry) -> bool:
    return request.count > 1 and registry[request.vendor].fitting.alike


def turned(sets: Sets) -> Sets:
    """The same sets, the last ones first: what the last node had left may be had on all of them."""
    return {request: given[::-1] for request, given in sets.items()}


def spread_of(sets: Sets) -> int:
    """How many different sets there are."""
    return sum(map(len, sets.values()))
