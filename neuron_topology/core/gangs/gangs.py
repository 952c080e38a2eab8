"""Jobs whose pods start together, planned as one: all of them find a set or none does, and all get the same devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.allocations.planner import AllocationPlanner
from hami_plugins.engine.decide import PodDemand
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.node_filters import Notes
from hami_plugins.model.cluster import PodGroup
from hami_plugins.model.nodes import NodeEntry, NodeState
from hami_plugins.model.pods import ContainerAllocation, Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import DeviceDemand
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.vendors.awsneuron import CAPACITY_BLOCK_MARGIN
from neuron_topology.core.gangs.capacity import MemberRequest, free_of, lacking
from neuron_topology.core.gangs.members import GangKey, GangMember, GangMembers, gang_key
from neuron_topology.core.gangs.shared_sets import shared_set
from neuron_topology.core.hardware.fabric import devices_of
from neuron_topology.core.names import CORES, DEVICES
from neuron_topology.core.node_filters import objection
from neuron_topology.core.nodes import VENDOR

SAME_SET: Final = 5.0
"""What a node's score gains where a set is free that members have on other nodes; how full it is counts up to 10."""


class _Room(NamedTuple):
    """Why a gang cannot be complete (empty: it can), as the cache was after so many changes, in that minute."""

    changes: int
    minute: int
    least: int
    words: str


class _Asked(NamedTuple):
    """A pod that nodes are asked about one after another in the same second, and what those with these notes said.

    ``described`` is the pod with what its group says.
    """

    pod: Pod
    group: PodGroup | None
    now: int
    described: Pod
    answers: dict[Notes, str]


class Gangs(AllocationPlanner):
    """``now`` gives Unix seconds; ``margin`` is how long before the end of a Capacity Block its machines go.

    ``members`` are filled by what the watches show.
    """

    def __init__(
        self, *, now: Callable[[], float], margin: float = CAPACITY_BLOCK_MARGIN, members: GangMembers | None = None
    ) -> None:
        self._now = now
        self._margin = margin
        self._members = GangMembers() if members is None else members
        self._rooms: dict[GangKey, _Room] = {}
        self._reach: dict[GangKey, tuple[NodeName, ...]] = {}
        """The nodes that are left to the pod of a gang that was asked about last."""
        self._asked: _Asked | None = None

    # What the watches show

    def pod_seen(self, pod: Pod, intake: PodInfo | None) -> None:
        """See ``AllocationPlanner``."""
        key = self._members.key_of(pod.uid)
        known = self._members.of(key).get(pod.uid)
        part = part_of(intake) if intake is not None else known.part if known is not None else None
        self._members.pod_seen(pod, part, waits=intake is not None)
        self._changed(key)
        self._changed(self._members.key_of(pod.uid))

    def pod_gone(self, uid: PodUid) -> None:
        """See ``AllocationPlanner``."""
        key = self._members.key_of(uid)
        self._members.pod_gone(uid)
        self._changed(key)

    def group_seen(self, group: PodGroup) -> None:
        """See ``AllocationPlanner``."""
        self._members.group_seen(group)

    def group_gone(self, namespace: str, name: str) -> None:
        """See ``AllocationPlanner``."""
        self._members.group_gone(namespace, name)

    def _changed(self, key: GangKey | None) -> None:
        if key is not None:
            self._rooms.pop(key, None)
            if not self._members.of(key):
                self._reach.pop(key, None)

    # What is asked

    def reads_notes(self, intake: PodInfo) -> bool:
        """See ``AllocationPlanner``: nodes without Neuron devices have nothing to object to other pods."""
        return VENDOR in intake.demand.devices.vendors

    def objection(self, node: NodeName, intake: PodInfo, cache: AllocationCache) -> str:
        """See ``AllocationPlanner``: what the vendor objects to, now and in the light of what the pod's job says."""
        entry = cache.entry(node)
        return self._objects(entry.notes, intake.pod) if entry is not None and entry.notes else ""

    def blocking_reason(self, intake: PodInfo, cache: AllocationCache) -> str:
        """See ``AllocationPlanner``: members of a gang that cannot be complete are not placed, so they hold nothing."""
        key = self._members.key_of(intake.pod.uid)
        group = self._members.group(key)
        if key is None or group is None:
            return ""
        members = self._members.of(key)
        least = _least(members.values(), group)
        if least < 2:
            return ""
        asked = cache.changes, int(self._now() // 60), least
        room = self._rooms.get(key)
        if room is None or room[:3] != asked:
            room = self._rooms[key] = _Room(*asked, self._lacking(members, least, cache))
        return room.words

    def _lacking(self, members: Mapping[PodUid, GangMember], least: int, cache: AllocationCache) -> str:
        """Why the gang cannot be complete now; empty if it can, or if that is unknown."""
        waiting = [member for uid, member in members.items() if not cache.holdings(uid)]
        missing = least - (len(members) - len(waiting))
        asked = Counter(member.part for member in waiting if member.part is not None)
        # Some may still have to be made, and what several containers ask for is not planned.
        if missing <= 0 or len(waiting) < missing or asked.total() < len(waiting):
            return ""
        left = lacking(asked, missing, self._open_to(waiting, cache))
        if not left:
            return ""
        requests = " and ".join(f"{number} x {part}" for part, number in sorted(asked.items()))
        return (
            f"the job has to start together: {missing} of its pods have no devices yet (they ask for {requests}), and "
            f"{left}; wait until pods end, or ask for fewer pods or devices"
        )

    def _open_to(self, members: Sequence[GangMember], cache: AllocationCache) -> Iterator[NodeState]:
        """The nodes with Neuron devices on which any of these may begin."""
        known: dict[Notes, bool] = {(): True}
        for entry in cache.entries():
            if VENDOR in entry.state.shape.positions:
                if entry.notes not in known:
                    known[entry.notes] = not all(self._objects(entry.notes, member.pod) for member in members)
                if known[entry.notes]:
                    yield entry.state

    def preferred(self, node: NodeName, intake: PodInfo, cache: AllocationCache) -> PodDemand | None:
        """See ``AllocationPlanner``: the set that members have on other nodes, or else one that most of these have."""
        key = self._members.key_of(intake.pod.uid)
        gang, part = self._members.of(key), part_of(intake)
        if key is None or part is None or len(gang) < 2:
            return None
        entry = cache.entry_without(node, intake.pod.uid)
        if entry is None or VENDOR not in entry.state.shape.positions:
            return None
        own = free_of(entry.state)
        tables, count = own.wiring.tables, own.kind.several(part)
        if not count:
            return None
        elsewhere: Counter[int] = Counter()
        for each in self._reach.get(key, ()):
            found = cache.entry(each) if each != node else None
            if found is not None and VENDOR in found.state.shape.positions:
                free = free_of(found.state)
                if free.wiring.tables is tables:
                    elsewhere[free.mask] += 1
        taken = Counter(
            members
            for uid in gang
            if uid != intake.pod.uid
            for where, members in _sets_of(uid, cache)
            if where != node and members.bit_count() == count
        )
        run = bool(part.cores)
        members = shared_set(tables, own.mask, count, taken, elsewhere, own.wiring.repaired, run=run)
        return _wishing(intake, members) if members else None

    def _objects(self, notes: Notes, pod: Pod) -> str:
        """Why the pod must not begin on a node with these notes now."""
        group = self._members.group(gang_key(pod))
        now = int(self._now())
        asked = self._asked
        if asked is None or asked.pod is not pod or asked.group is not group or asked.now != now:
            described = pod if group is None else replace(pod, of_group=group.annotations)
            asked = self._asked = _Asked(pod, group, now, described, {})
        found = asked.answers.get(notes)
        if found is None:
            found = asked.answers[notes] = objection(dict(notes), asked.described, now, margin=self._margin)
        return found

    def bonus(self, nodes: Iterable[NodeName], intake: PodInfo, cache: AllocationCache) -> Mapping[NodeName, float]:
        """See ``AllocationPlanner``: nodes that have the set of the others come before equal ones."""
        uid = intake.pod.uid
        key = self._members.key_of(uid)
        gang, part = self._members.of(key), part_of(intake)
        if key is None or part is None or len(gang) < 2:
            return {}
        reach = self._reach[key] = tuple(nodes)
        taken = {members for each in gang if each != uid for _, members in _sets_of(each, cache)}
        if not taken:
            return {}
        has_one: dict[NodeState, bool] = {}
        found: dict[NodeName, float] = {}
        for node in reach:
            entry = cache.entry_without(node, uid)
            if entry is None or VENDOR not in entry.state.shape.positions:
                continue
            state = entry.state
            if state not in has_one:
                free = free_of(state)
                count = free.kind.several(part)
                has_one[state] = any(members & ~free.mask == 0 and members.bit_count() == count for members in taken)
            if has_one[state]:
                found[node] = SAME_SET
        return found


def _least(members: Collection[GangMember], group: PodGroup) -> int:
    """How many of the members that are known here have to start together.

    The group counts pods without devices as well. If some pods are unknown and all others have equal requests, the
    group's minimum of that resource gives their number.
    """
    parts = {member.part for member in members}
    part = next(iter(parts))
    if group.min_member <= len(members) or len(parts) > 1 or part is None:
        return group.min_member
    name, each = (CORES, part.cores) if part.cores else (DEVICES, part.devices)
    needed, rest = divmod((group.min_resources or {}).get(name, 0), each * NANO)
    return group.min_member if rest or not needed else min(needed, group.min_member)


def part_of(intake: PodInfo) -> MemberRequest | None:
    """What a pod asks for in one container and nowhere else; ``None`` for every other pod."""
    requests = [request for each in intake.demand.devices.containers for request in each.requests]
    if len(requests) != 1 or requests[0].vendor != VENDOR:
        return None
    (asked,) = requests
    return MemberRequest(cores=asked.cores) if asked.cores else MemberRequest(devices=asked.count)


def _wishing(intake: PodInfo, members: int) -> PodDemand:
    """The same demand, of just these devices."""

    preferred = (devices_of(members),)
    containers = tuple(
        replace(each, requests=tuple(replace(request, alike=preferred) for request in each.requests))
        for each in intake.demand.devices.containers
    )
    return PodDemand(DeviceDemand(containers))


def _sets_of(uid: PodUid, cache: AllocationCache) -> Iterable[tuple[NodeName, int]]:
    """The sets that a pod holds, with their nodes."""
    for node, allocations in cache.holdings(uid):
        entry = cache.entry(node)
        if entry is not None:
            yield node, _mask_of(entry, allocations)


def _mask_of(entry: NodeEntry, allocations: Iterable[ContainerAllocation]) -> int:
    mask = 0
    for allocation in allocations:
        for share in allocation.shares:
            at = entry.position(share.device)
            if at is not None:
                mask |= 1 << entry.state.shape.devices[at].index
    return mask
