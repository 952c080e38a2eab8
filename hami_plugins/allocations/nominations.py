"""Room that is kept for waiting pods while victims leave: other pods find it taken, the pod itself does not.

A nomination outlives what a scheduler reserves for the pod and gives up again. It ends when the pod is bound, is gone
or asks for something else, when its node is gone, when no victim is deleted for a while, when no scheduler asks for
the pod for a while after the last of them has left, and at the latest at its own ``until``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from hami_plugins.allocations.answers import Nomination, Statistics
from hami_plugins.allocations.findings import AuditSnapshot
from hami_plugins.allocations.state import CacheState
from hami_plugins.engine.apply import without_pods
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry, Problem
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire.gang_keys import GROUP_KEY

UNCLAIMED: Final = 60.0
"""Seconds after the last victim has left, or after the scheduler asked last, for which the room is kept."""

UNSTARTED: Final = 30.0
"""Seconds in which at least one of the victims has to be deleted: a scheduler that was to evict them may have died."""


class _NodeView(NamedTuple):
    """A node as it was ``seen`` without the pods that are ``asked`` about, when those of ``ending`` are leaving."""

    entry: NodeEntry
    asked: frozenset[PodUid]
    ending: frozenset[PodUid]
    seen: NodeEntry


class NominatingState(CacheState):
    """A cache that keeps room. ``changes``, ``freed`` and ``log`` count nominations as what a pod holds."""

    def __init__(self, registry: Registry, *, keep: float) -> None:
        super().__init__(registry, keep=keep)
        self._nominations: dict[PodUid, Nomination] = {}
        self._claimable: dict[PodUid, float] = {}
        self._groups: dict[PodUid, str] = {}
        self._views: dict[NodeName, _NodeView] = {}

    # What is kept

    def nominate(self, nomination: Nomination) -> None:
        """Reserves the room, replacing any earlier nomination of the pod. The pod may not be evicted from it."""
        uid = nomination.record.uid
        self.withdraw(uid)
        nomination = replace(nomination, record=replace(nomination.record, preemptable=False))
        self._nominations[uid] = nomination
        if nomination.node not in self._assumed.get(uid, ()):
            self._put(nomination.node, nomination.record)

    def withdraw(self, uid: PodUid) -> Nomination | None:
        """Keeps nothing for the pod any longer; what was kept, if anything."""
        found = self._nominations.pop(uid, None)
        self._claimable.pop(uid, None)
        if found is not None and not self._holds(uid, found.node) and self._nodes[found.node].holds(uid):
            self._take(found.node, uid)
        return found

    def share(self, uids: Iterable[PodUid]) -> None:
        """Room reserved for these pods is available to all of their PodGroups."""
        for uid in uids:
            if (found := self._nominations.get(uid)) is not None:
                self._nominations[uid] = replace(found, shared=True)

    def shared_with(self, uid: PodUid) -> tuple[Nomination, ...]:
        """What is kept for others of a pod's PodGroup and is there for the pod as well."""
        group = self._groups.get(uid)
        return tuple(
            each
            for other, each in self._nominations.items()
            if other != uid and each.shared and each.record.full_group == group
        )

    def lacks_room(self, uid: PodUid) -> bool:
        """Whether another waiting pod of a pod's PodGroup has no room kept for it."""
        group = self._groups.get(uid)
        return group is not None and any(
            each == group and other not in self._nominations for other, each in self._groups.items() if other != uid
        )

    def nomination(self, uid: PodUid) -> Nomination | None:
        """What is kept for a pod."""
        return self._nominations.get(uid)

    @property
    def nominations(self) -> tuple[Nomination, ...]:
        """All that is kept, in the order in which it was."""
        return tuple(self._nominations.values())

    def claim(self, uid: PodUid, now: float) -> None:
        """The scheduler asks for the pod: it has not forgotten it."""
        if uid in self._claimable:
            self._claimable[uid] = now

    def leaving(self, uids: Iterable[PodUid]) -> frozenset[PodUid]:
        """Those of these pods that still hold devices."""
        return frozenset(uid for uid in uids if self.bound_to(uid) is not None)

    def departing(self, uids: Iterable[PodUid]) -> frozenset[PodUid]:
        """Those of these pods that are being deleted, or are gone."""
        return frozenset(uid for uid in uids if self.bound_to(uid) is None or self._is_ending(uid))

    def expire_nominations(self, now: float) -> tuple[Nomination, ...]:
        """Ends the nominations whose time is up, and those that no scheduler claims."""
        ended: list[Nomination] = []
        for uid, each in tuple(self._nominations.items()):
            left = self.leaving(each.victims)
            if not left:
                self._claimable.setdefault(uid, now)
            unstarted = each.victims == left and not any(map(self._is_ending, left)) and each.made + UNSTARTED <= now
            unclaimed = self._claimable.get(uid, now) + UNCLAIMED <= now
            if each.until <= now or unclaimed or (left and unstarted):
                self.withdraw(uid)
                ended.append(each)
        return tuple(ended)

    def confirm(self, intake: PodInfo) -> None:
        """A pod that waits asks for this now: room for something else is not kept for it."""
        if group := intake.pod.annotations.get(GROUP_KEY):
            self._groups[intake.pod.uid] = f"{intake.pod.namespace}/{group}"
        found = self._nominations.get(intake.pod.uid)
        if found is not None and (intake.pod.gated or intake.refusal or intake.demand.devices != found.devices):
            self.withdraw(intake.pod.uid)

    # What a watch shows

    def see_pod(self, pod: Pod, now: float, *, fault: str = "", edited: str = "") -> tuple[Problem, ...]:
        """See ``CacheState``; a pod that is bound has what it was nominated for, or something else."""
        problems = super().see_pod(pod, now, fault=fault, edited=edited)
        if pod.node is not None:
            self.withdraw(pod.uid)
            self._groups.pop(pod.uid, None)
        return problems

    def forget_pod(self, uid: PodUid, now: float) -> None:
        """See ``CacheState``."""
        super().forget_pod(uid, now)
        self.withdraw(uid)
        self._groups.pop(uid, None)

    def forget_node(self, name: NodeName) -> None:
        """See ``CacheState``."""
        for each in self.nominations:
            if each.node == name:
                self.withdraw(each.record.uid)
        super().forget_node(name)

    # What it knows

    def entry_without(self, name: NodeName, uid: PodUid) -> NodeEntry | None:
        """The node as if the pod held nothing there, and as if no room was shared with it."""
        entry = self.strict_entry(name, uid)
        shared = {
            other
            for each in self.shared_with(uid)
            if each.node == name and not self._holds(other := each.record.uid, name)
        }
        return entry if entry is None or not shared else without_pods(entry, lambda record: record.uid in shared)

    def strict_entry(self, name: NodeName, uid: PodUid) -> NodeEntry | None:
        """The node as if the pod held nothing there."""
        return super().entry_without(name, uid)

    def held_entry(self, name: NodeName) -> NodeEntry | None:
        """The node with those who hold something there, and without room that is only kept."""
        entry = self.entry(name)
        kept = {uid for uid, each in self._nominations.items() if each.node == name and not self._holds(uid, name)}
        return entry if entry is None or not kept else without_pods(entry, lambda record: record.uid in kept)

    def search_view(
        self,
        names: Iterable[NodeName],
        uids: Collection[PodUid],
        gone: Collection[PodUid] = (),
        *,
        tentative: Collection[PodUid] = (),
    ) -> ClusterSnapshot:
        """These nodes as a search for victims for some waiting pods sees them.

        The pods' own usage and reservations do not count; the victims of all other nominations are leaving, as are
        ``gone``. Reservations for ``tentative`` pods count only if they are reserved for those pods as well.
        """
        others = (each for each in self._nominations.values() if each.record.uid not in uids)
        leaving = frozenset(gone).union(victim for each in others for victim in each.victims)
        changed = {node for uid in (*uids, *leaving, *tentative) for node in self.nodes_of(uid)}

        for name in self._views.keys() - changed:
            del self._views[name]

        def seen(name: NodeName) -> NodeEntry | None:
            entry = self.entry(name)
            if entry is None or name not in changed:
                return entry
            held = [each.uid for each in entry.pods]
            tried = frozenset(uid for uid in held if uid in tentative and self._is_only_reserved(uid, name))
            asked, ending = (frozenset(filter(of.__contains__, held)) for of in (tried.union(uids), leaving))
            view = self._views.get(name)
            if view is None or view.entry is not entry or (view.asked, view.ending) != (asked, ending):
                staying = (record for record in entry.pods if record.uid not in asked)
                records = (replace(each, terminating=True) if each.uid in ending else each for each in staying)
                view = self._views[name] = _NodeView(entry, asked, ending, with_pods(entry, records))
            return view.seen

        nodes = tuple(entry for name in names if (entry := seen(name)) is not None)
        return ClusterSnapshot(nodes=nodes, quotas=self._quotas.limits)

    def sheet(self) -> AuditSnapshot:
        """See ``CacheState``. Room that is kept while victims still hold it is not a finding."""
        sheet = super().sheet()
        if not self._nominations:
            return sheet
        entries = (self.held_entry(entry.name) for entry in sheet.entries)
        return sheet._replace(entries=tuple(entry for entry in entries if entry is not None))

    def statistics(self) -> Statistics:
        """See ``CacheState``."""
        return replace(super().statistics(), nominated=len(self._nominations))

    def nodes_of(self, uid: PodUid) -> tuple[NodeName, ...]:
        nodes = super().nodes_of(uid)
        kept = self._nominations.get(uid)
        return nodes if kept is None or kept.node in nodes else (*nodes, kept.node)

    def _is_ending(self, uid: PodUid) -> bool:
        """Whether a pod that holds devices is being deleted."""
        bound = self._bound.get(uid)
        return bound is not None and self._nodes[bound.node].record(uid).terminating

    def _is_kept(self, uid: PodUid, name: NodeName) -> bool:
        """Whether room is kept for a pod on the node."""
        kept = self._nominations.get(uid)
        return kept is not None and kept.node == name

    def _is_only_reserved(self, uid: PodUid, name: NodeName) -> bool:
        """Whether a pod has a reservation on the node, without a Binding, and no room that is kept."""
        assumed = self._assumed.get(uid, {}).get(name)
        return assumed is not None and assumed.state == "reserved" and not self._is_kept(uid, name)

    def _holds(self, uid: PodUid, name: NodeName) -> bool:
        """Whether a pod is bound to the node or assumed there."""
        return name in super().nodes_of(uid)

    def _end(self, uid: PodUid, name: NodeName) -> None:
        super()._end(uid, name)
        if self._is_kept(uid, name):
            self._put(name, self._nominations[uid].record)
