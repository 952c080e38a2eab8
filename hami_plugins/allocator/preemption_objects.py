"""Objects besides nodes and pods on which it depends who may be evicted, as the watches show them."""

from __future__ import annotations

from dataclasses import replace

from hami_plugins.allocator.object_store import ObjectStore
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.wire import objects


class PreemptionObjects:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        self._budgets = ObjectStore(objects.disruption_budget, event="budget_unreadable")

    def budget_changed(self, change: ObjectChange) -> None:
        """A PodDisruptionBudget came, changed or went. One that cannot be read keeps what it said before."""
        self._budgets.changed(change)

    def added_to(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with these objects."""
        return replace(snapshot, budgets=self._budgets.values())
