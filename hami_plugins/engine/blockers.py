"""Who holds the devices that a pod would need together: the set of a node that the fewest pods keep from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from hami_plugins.engine.bounds import RequestBounds
from hami_plugins.model.nodes import NodeEntry, NodeState
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.policy import Policy
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.vendor import VendorSpec

MOST_NODES: Final = 64
"""Nodes in different states of which the sets are looked at."""


class Holding(NamedTuple):
    """A pod, and the positions of a set that it holds some of."""

    pod: PodRecord
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """The nearest set of a node: the devices by position, those of the node that are free, and who holds the others.

    Where devices never go together in the number that is asked for, ``members`` is empty and ``nearest`` has the
    numbers next to it.
    """

    entry: NodeEntry
    free: tuple[int, ...]
    members: tuple[int, ...] = ()
    holders: tuple[Holding, ...] = ()
    nearest: tuple[int, ...] = ()

    @property
    def rank(self) -> tuple[bool, int, int, str]:
        """The sort key: how much would have to go."""
        staying = [each.pod for each in self.holders if not each.pod.terminating]
        return not self.members, len(staying), sum(map(_devices_of, staying)), self.entry.name


def blocked_on(spec: VendorSpec, request: DeviceRequest, policy: Policy, entry: NodeEntry) -> Iterator[Blocked]:
    """Every set of usable devices of a node, with the pods that hold its devices; one without members if there are no
    sets.

    Nothing where the vendor allocates any devices together.
    """
    if spec.topology.together is None:
        return
    request = request if spec.requests.on_node is None else spec.requests.on_node(request, entry.state.shape)
    found = spec.topology.together(request, entry.state.shape)
    if found is None:
        return
    gauge = RequestBounds(spec, request, policy)
    taken = frozenset(at for at, _ in gauge.lacking(entry))
    usable = frozenset(limit.at for limit in gauge.limits(entry))
    free = tuple(sorted(usable - taken))
    if not found.sets:
        yield Blocked(entry=entry, free=free, nearest=found.nearest)
        return
    holders = _holders(entry, taken)
    for members in found.sets:
        wanted = taken.intersection(members)
        if usable.issuperset(members) and holders.keys() >= wanted:
            yield Blocked(entry=entry, free=free, members=tuple(sorted(members)), holders=_by_pod(holders, wanted))


def nearest(spec: VendorSpec, request: DeviceRequest, policy: Policy, entries: Iterable[NodeEntry]) -> Blocked | None:
    """The set, of all these nodes, that the least keeps from the pod; ``None`` where there is none at all."""
    distinct: dict[NodeState, NodeEntry] = {}
    for entry in entries:
        distinct.setdefault(entry.state, entry)
    found = (
        each for entry in islice(distinct.values(), MOST_NODES) for each in blocked_on(spec, request, policy, entry)
    )
    return min(found, key=lambda each: (each.rank, each.members), default=None)


def _holders(entry: NodeEntry, taken: Collection[int]) -> Mapping[int, Sequence[PodRecord]]:
    """Who holds something of each of these devices."""
    found: dict[int, list[PodRecord]] = {}
    position = {device: at for at, device in enumerate(entry.ids)}
    for pod in entry.pods:
        held = {position.get(share.device, -1) for allocation in pod.allocations for share in allocation.shares}
        for at in held.intersection(taken):
            found.setdefault(at, []).append(pod)
    return found


def _by_pod(holders: Mapping[int, Sequence[PodRecord]], wanted: Collection[int]) -> tuple[Holding, ...]:
    positions: dict[str, tuple[PodRecord, list[int]]] = {}
    for at in sorted(wanted):
        for pod in holders[at]:
            positions.setdefault(pod.full_name, (pod, []))[1].append(at)
    return tuple(Holding(pod, tuple(held)) for pod, held in positions.values())


def _devices_of(pod: PodRecord) -> int:
    return len({share.device for allocation in pod.allocations for share in allocation.shares})
