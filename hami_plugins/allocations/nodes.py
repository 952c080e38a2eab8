"""One node of the cache: what it says of its devices, who holds something there, and the two together."""

from __future__ import annotations

from collections.abc import Iterator

from hami_plugins.engine.apply import with_pod, without_pods
from hami_plugins.engine.inventory import settled, with_pods
from hami_plugins.model.devices import Device
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import DeviceId, PodUid


class CacheNode:
    """The entry is updated when it is read, one pod after another where that is cheaper."""

    __slots__ = ("_bare", "_entry", "_holders")

    def __init__(self) -> None:
        self._bare: NodeEntry | None = None
        self._entry: NodeEntry | None = None
        self._holders: dict[PodUid, PodRecord] = {}

    def __iter__(self) -> Iterator[PodRecord]:
        """Everybody who holds something there."""
        return iter(self._holders.values())

    @property
    def idle(self) -> bool:
        """Whether there is nothing to be known about it."""
        return self._bare is None and not self._holders

    @property
    def bare(self) -> NodeEntry | None:
        """The node with all its devices free; ``None`` for an unknown node."""
        return self._bare

    @property
    def known(self) -> bool:
        """Whether the node has said anything of its devices."""
        return self._bare is not None

    def device(self, name: DeviceId) -> Device | None:
        """One of its devices."""
        return None if self._bare is None else self._bare.device(name)

    def see(self, bare: NodeEntry | None) -> bool:
        """The node says this of itself now (``None``: it is gone); who holds something stays. Whether that is new."""
        before = self._bare
        if (
            bare is not None
            and before is not None
            and bare.state == before.state
            and bare.ids == before.ids
            and bare.problems == before.problems
            and bare.notes == before.notes
        ):
            return False
        self._bare, self._entry = bare, None
        return True

    def put(self, record: PodRecord) -> bool:
        """A pod holds this here from now on, instead of what it held before. Whether that is new."""
        before = self._holders.get(record.uid)
        if before is not None:
            if alike(before, record):
                return False
            self.take(record.uid)
        self._holders[record.uid] = record
        if self._entry is not None:
            self._entry = with_pod(self._entry, settled(record, self._entry))
        return True

    def take(self, uid: PodUid) -> None:
        """A pod that held something here holds nothing any more."""
        del self._holders[uid]
        self._entry = None

    def holds(self, uid: PodUid) -> bool:
        """Whether a pod holds something here."""
        return uid in self._holders

    def record(self, uid: PodUid) -> PodRecord:
        """The usage of a pod on this node."""
        return self._holders[uid]

    def entry(self) -> NodeEntry | None:
        """The node with everybody who holds something there; ``None`` for one that is not known."""
        if self._entry is None and self._bare is not None:
            bare = self._bare
            self._entry = with_pods(bare, (settled(record, bare) for record in self._holders.values()))
        return self._entry

    def entry_without(self, uid: PodUid) -> NodeEntry | None:
        """The same as if one pod held nothing there."""
        entry = self.entry()
        if entry is None or uid not in self._holders:
            return entry
        return without_pods(entry, lambda record: record.uid == uid)


def alike(one: PodRecord, other: PodRecord) -> bool:
    """Whether two records of a pod are alike in all that anybody asks a cache for."""
    return _asked_for(one) == _asked_for(other)


def _asked_for(record: PodRecord) -> tuple[object, ...]:
    return (
        record.allocations,
        record.unlocated,
        record.init_finished,
        record.terminating,
        record.requests,
        record.preemptable,
        record.labels,
        record.group,
    )
