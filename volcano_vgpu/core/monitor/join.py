"""Whose region is whose, and what it adds up to. Pure: what was read goes in, usage by container and card comes out.

Counters of processes that have exited or were killed do not count. A counter that was taken below zero, that is larger
than both the card and the limit, or than any card, is not usage: it is left out and reported as doubtful.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hami_plugins.model.units import DeviceId, PodUid
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pod_devices import AssignedDevice
from hami_plugins.wire.pods import finished
from hami_plugins.wire.shared_region import DeviceUse, NotReady, RegionProcess, UnreadableRegion
from hami_plugins.wire.usage import CardUsage, ContainerUsage, MemoryUse, UsageDoubt
from volcano_vgpu.core.monitor.regions import ContainerRegion, Presence, Region, reading_of

Allocations = Mapping[tuple[PodUid, str], tuple[AssignedDevice, ...]]
"""What containers were given, by pod UID and container name."""

MIB: Final = 1 << 20
MOST_MEMORY: Final = 1 << 50
"""Bytes. No card has more memory, and sums of more would fit into no document."""

_WHOLE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The state of the node: its pods, their allocations, its cards.

    ``sizes`` is the memory of the cards in bytes, as it can be allocated. ``factor`` is the MiB in a unit of the
    allocations. ``cards`` are all cards of the node; ``None`` where they are not known, and then every name in a region
    counts.
    """

    pods: tuple[Json, ...] = ()
    allocations: Allocations = field(default_factory=dict)
    sizes: Mapping[DeviceId, int] = field(default_factory=dict)
    factor: int = 1
    cards: frozenset[DeviceId] | None = None


def usage_of(seen: Iterable[ContainerRegion], known: Known, *, now: float) -> tuple[ContainerUsage, ...]:
    """The usage of every container that was seen or has an allocation, but for those of pods that have ended.

    ``now`` is in Unix seconds.
    """
    pods = {PodUid(lenient.uid(raw)): raw for raw in known.pods}
    found: dict[tuple[PodUid, str], ContainerRegion] = {}
    for each in seen:
        uid, _, name = each.directory.partition("_")
        found[PodUid(uid), name] = each
    for key in known.allocations:
        if key[0] in pods:
            found.setdefault(key, ContainerRegion("_".join(key), None))
    usages = [
        _container(key, each, known, pod=pods.get(key[0], {}), now=now)
        for key, each in found.items()
        if not finished(pods.get(key[0], {}))
    ]
    return tuple(sorted(usages, key=lambda usage: (usage.namespace, usage.pod, usage.pod_uid, usage.container)))


def _container(
    key: tuple[PodUid, str], seen: ContainerRegion, known: Known, *, pod: Json, now: float
) -> ContainerUsage:
    metadata, content = pod.get("metadata") or {}, seen.content
    allocated = {each.device: _allocated(each, known) for each in known.allocations.get(key, ())}
    plain = ContainerUsage(
        pod_uid=key[0],
        container=key[1],
        namespace=str(metadata.get("namespace") or ""),
        pod=str(metadata.get("name") or ""),
        reading=reading_of(content),
        problem=content.text if isinstance(content, NotReady | UnreadableRegion) else "",
        cards=tuple(allocated.values()),
    )
    return _counted(plain, content, seen.presence, known, now=now) if isinstance(content, Region) else plain


def _allocated(assigned: AssignedDevice, known: Known) -> CardUsage:
    """A card of which only the allocation is known. A MIG slot stays as it is named: the library has no part in it."""
    return CardUsage(
        card=assigned.device,
        allocated=assigned.memory * known.factor * MIB,
        cores_allocated=assigned.cores / _WHOLE,
    )


def _counted(
    plain: ContainerUsage, region: Region, presence: Iterable[Presence], known: Known, *, now: float
) -> ContainerUsage:
    """The content of a container's region, and its allocation."""
    booked = [
        (at, process, there)
        for at, (process, there) in enumerate(zip(region.processes, presence, strict=True))
        if process.counts
    ]
    live = [(at, process) for at, process, there in booked if there is not Presence.GONE]
    unconfirmed = sum(there is Presence.UNKNOWN for _, _, there in booked)
    counting = _Counting(region, [process for _, process in live], known)
    cards = counting.cards({card.card: card for card in plain.cards})
    doubts = {
        UsageDoubt.STALE: unconfirmed > 0,
        UsageDoubt.UNSETTLED: any(at in region.unsettled for at, _ in live),
        UsageDoubt.INVALID: counting.invalid,
        UsageDoubt.UNNAMED: None in region.header.uuids or counting.foreign > 0,
    }
    last = region.tail.last_kernel_time
    return ContainerUsage(
        pod_uid=plain.pod_uid,
        container=plain.container,
        namespace=plain.namespace,
        pod=plain.pod,
        cards=cards,
        processes=len(live),
        unconfirmed=unconfirmed,
        gone=len(booked) - len(live),
        last_kernel_age=None if last is None else max(now - last, 0.0),
        doubts=frozenset(doubt for doubt, there in doubts.items() if there),
        foreign=counting.foreign,
    )


class _Counting:
    """Adds up what the live processes of a region book. ``invalid`` says whether some of it had to be left out.

    ``foreign`` counts names of cards that the node does not have: a workload writes them, so they are left out.
    """

    def __init__(self, region: Region, live: list[RegionProcess], known: Known) -> None:
        self._header = region.header
        self._live = live
        self._sizes = known.sizes
        self._cards = known.cards
        self.invalid = False
        self.foreign = 0

    def cards(self, allocated: Mapping[DeviceId, CardUsage]) -> tuple[CardUsage, ...]:
        """The cards of the region, then those of the allocation that it does not have."""
        named = [(at, DeviceId(name)) for at, name in enumerate(self._header.uuids) if name is not None]
        own = [(at, name) for at, name in named if self._cards is None or name in self._cards]
        self.foreign = len(named) - len(own)
        used = {name: self._card(at, allocated.get(name) or CardUsage(card=name)) for at, name in own}
        return (*used.values(), *(card for name, card in allocated.items() if name not in used))

    def _card(self, at: int, known: CardUsage) -> CardUsage:
        limit = self._header.memory_limits[at]
        size = self._sizes.get(known.card, MOST_MEMORY)
        most = min(max(size, limit), MOST_MEMORY)
        booked = [process.devices[at] for process in self._live]
        valid = [use for use in booked if max(use.booked) <= most]
        self.invalid |= len(valid) < len(booked) or limit > MOST_MEMORY
        watched = self._header.layout.utilization is not None
        return CardUsage(
            card=known.card,
            allocated=known.allocated,
            cores_allocated=known.cores_allocated,
            limit=limit if 0 < limit <= MOST_MEMORY else None,
            used=_memory(valid),
            utilization=sum(min(use.utilization or 0, _WHOLE) for use in booked) / _WHOLE if watched else None,
        )


def _memory(uses: Iterable[DeviceUse]) -> MemoryUse:
    context = module = data = total = 0
    for use in uses:
        context += use.context
        module += use.module
        data += use.data
        total += use.total
    return MemoryUse(context, module, data, max(total - context - module - data, 0))
