"""Which pods belong to which gang, as the watches of pods and PodGroups show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from hami_plugins.model.cluster import PodGroup
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import PodUid
from hami_plugins.wire.gang_keys import GROUP_KEY
from neuron_topology.core.gangs.capacity import MemberRequest

GangKey = tuple[str, str]
"""Namespace and name of a PodGroup."""

_NO_MEMBERS: Final[Mapping[PodUid, GangMember]] = {}


class GangMember(NamedTuple):
    """A pod of a gang. ``part`` is what it asks for, ``None`` where that is not planned; ``waits``: it has no node."""

    pod: Pod
    part: MemberRequest | None
    waits: bool


def gang_key(pod: Pod) -> GangKey | None:
    """The gang that a pod names."""
    name = pod.annotations.get(GROUP_KEY)
    return (pod.namespace, name) if name else None


class GangMembers:
    """Holds the pods that ask for devices and name a PodGroup, and the PodGroups. One thread at a time changes it."""

    def __init__(self) -> None:
        self._gangs: dict[GangKey, dict[PodUid, GangMember]] = {}
        self._groups: dict[GangKey, PodGroup] = {}
        self._key_of: dict[PodUid, GangKey] = {}
        self._waiting: Counter[GangKey] = Counter()

    def key_of(self, uid: PodUid) -> GangKey | None:
        """The gang of a pod."""
        return self._key_of.get(uid)

    def of(self, key: GangKey | None) -> Mapping[PodUid, GangMember]:
        """The pods of a gang; empty for one that is not known."""
        return _NO_MEMBERS if key is None else self._gangs.get(key, _NO_MEMBERS)

    def waiting(self, key: GangKey) -> int:
        """How many pods of a gang have no node."""
        return self._waiting[key]

    def group(self, key: GangKey | None) -> PodGroup | None:
        """The PodGroup of a gang."""
        return None if key is None else self._groups.get(key)

    def pod_seen(self, pod: Pod, part: MemberRequest | None, *, waits: bool) -> None:
        """A pod is there, or has changed."""
        key = gang_key(pod)
        if key is None:
            return
        if self._key_of.get(pod.uid, key) != key:
            self.pod_gone(pod.uid)
        self._key_of[pod.uid] = key
        members = self._gangs.setdefault(key, {})
        known = members.get(pod.uid)
        self._waiting[key] += waits - (known is not None and known.waits)
        members[pod.uid] = GangMember(pod, part, waits)

    def pod_gone(self, uid: PodUid) -> None:
        """A pod is deleted, or has finished."""
        key = self._key_of.pop(uid, None)
        if key is not None:
            members = self._gangs[key]
            self._waiting[key] -= members.pop(uid).waits
            if not members:
                del self._gangs[key], self._waiting[key]

    def group_seen(self, group: PodGroup) -> None:
        """A PodGroup is there, or has changed."""
        self._groups[group.namespace, group.name] = group

    def group_gone(self, namespace: str, name: str) -> None:
        """A PodGroup is deleted."""
        self._groups.pop((namespace, name), None)
