"""Limits of devices that ResourceQuotas set for namespaces, and who holds devices in those namespaces.

HAMi's scheduler holds pods to ``limits.<resource>`` of devices, which the API server does not look at (HAMi 2.10.0
``pkg/device/quota.go``). Limits and sums are those of ``engine.quota``, as in plans; what is kept here is which holders
count, so that a question about one pod does not go through all pods of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from typing import NamedTuple

from hami_plugins.engine import quota
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import NamespaceQuota
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import NodeName, PodUid, VendorName
from hami_plugins.model.vendor import Left


class QuotaHolder(NamedTuple):
    """A pod that holds something, or is assumed to, on a node."""

    node: NodeName
    uid: PodUid


Lookup = Callable[[QuotaHolder], tuple[NodeEntry | None, PodRecord]]
"""The node of a holder (``None``: it is not known) and what the holder has there."""


Amounts = Mapping[VendorName, tuple[int, int]]
"""Memory (MiB) and cores (as a quota counts them) per vendor."""


class NamespaceUsage:
    """What the pods of one namespace hold, added up. Only what changed is counted again."""

    __slots__ = ("_count", "_parts", "_stale", "_total")

    def __init__(self, count: Callable[[QuotaHolder], Amounts], holders: Iterable[QuotaHolder]) -> None:
        self._count = count
        self._stale = set(holders)
        self._parts: dict[QuotaHolder, Amounts] = {}
        self._total: dict[VendorName, tuple[int, int]] = {}

    def put(self, holder: QuotaHolder) -> None:
        """A pod holds something else than before."""
        self.take(holder)
        self._stale.add(holder)

    def take(self, holder: QuotaHolder) -> None:
        """A pod holds nothing any more."""
        self._stale.discard(holder)
        self._add(self._parts.pop(holder, {}), -1)

    def node_changed(self) -> None:
        """Devices count for something else now."""
        self._stale.update(self._parts)
        self._parts.clear()
        self._total.clear()

    def total(self, but: PodUid, nodes: Iterable[NodeName]) -> Amounts:
        """The sum without what one pod has on these nodes."""
        while self._stale:
            holder = self._stale.pop()
            self._parts[holder] = self._count(holder)
            self._add(self._parts[holder], 1)
        own = [self._parts.get(QuotaHolder(node, but), {}) for node in nodes]
        return {
            vendor: (
                memory - sum(each.get(vendor, (0, 0))[0] for each in own),
                cores - sum(each.get(vendor, (0, 0))[1] for each in own),
            )
            for vendor, (memory, cores) in self._total.items()
        }

    def _add(self, part: Amounts, sign: int) -> None:
        for vendor, (memory, cores) in part.items():
            before = self._total.get(vendor, (0, 0))
            self._total[vendor] = (before[0] + sign * memory, before[1] + sign * cores)


class NamespaceQuotas:
    """``lookup`` finds what a holder has now."""

    __slots__ = ("_count", "_limits", "_quotas", "_registry", "_usage")

    def __init__(self, registry: Registry, lookup: Lookup) -> None:
        self._registry = registry
        self._count = partial(_counted, lookup, registry)
        self._quotas: dict[str, NamespaceQuota] = {}
        self._limits: dict[str, NamespaceQuota] = {}
        self._usage: dict[str, NamespaceUsage] = {}

    @property
    def limits(self) -> Mapping[str, NamespaceQuota]:
        """The limits of each namespace that has some."""
        return dict(self._limits)

    def see(self, uid: str, found: NamespaceQuota, holders: Iterable[tuple[str, QuotaHolder]]) -> bool:
        """A quota as it is now; whether that is new. ``holders`` are all that hold devices, with their namespaces."""
        devices = found.of_devices()
        before = self._quotas.get(uid)
        if (before.hard if before is not None else {}) == devices.hard:
            return False
        self._quotas[uid] = devices
        if devices.namespace not in self._usage:
            own = (each for namespace, each in holders if namespace == devices.namespace)
            self._usage[devices.namespace] = NamespaceUsage(self._count, own)
        self._combine(devices.namespace)
        return True

    def forget(self, uid: str) -> bool:
        """A quota is gone; whether it limited anything."""
        before = self._quotas.pop(uid, None)
        if before is None:
            return False
        self._combine(before.namespace)
        return True

    def put(self, namespace: str, holder: QuotaHolder) -> None:
        """A pod holds something else than before."""
        if (usage := self._usage.get(namespace)) is not None:
            usage.put(holder)

    def take(self, namespace: str, holder: QuotaHolder) -> None:
        """A pod holds nothing any more."""
        if (usage := self._usage.get(namespace)) is not None:
            usage.take(holder)

    def node_changed(self) -> None:
        """Devices count for something else now."""
        for usage in self._usage.values():
            usage.node_changed()

    def left(self, namespace: str, but: PodUid, nodes: Iterable[NodeName]) -> Left:
        """What a namespace's quotas leave, without what one pod has on these nodes; empty where there are none."""
        limits = self._limits.get(namespace)
        if limits is None:
            return ()
        return quota.headroom(limits, self._usage[namespace].total(but, nodes), self._registry)

    def _combine(self, namespace: str) -> None:
        """All quotas of a namespace hold at once."""
        found = [each for each in self._quotas.values() if each.namespace == namespace]
        if not found:
            del self._limits[namespace], self._usage[namespace]
            return
        self._limits[namespace] = reduce(NamespaceQuota.together_with, found)


def _counted(lookup: Lookup, registry: Registry, holder: QuotaHolder) -> Amounts:
    return quota.used((lookup(holder),), registry)
