"""Objects besides nodes and pods on which it depends who may be evicted, as the watches show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hami_plugins.allocator.object_store import ObjectStore
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.wire import objects


class PreemptionObjects:
    """PodDisruptionBudgets and PodGroups. Safe to use from any thread.

    One that cannot be read keeps what it said before.
    """

    def __init__(self) -> None:
        self._budgets = ObjectStore(objects.disruption_budget, event="budget_unreadable")
        self._groups = ObjectStore(lambda raw: objects.readable_pod_group(raw)[0])
        self._unlisted: Callable[[], bool] = lambda: False

    def budget_changed(self, change: ObjectChange) -> None:
        """A PodDisruptionBudget came, changed or went."""
        self._budgets.changed(change)

    def group_changed(self, change: ObjectChange) -> None:
        """A PodGroup came, changed or went."""
        self._groups.changed(change)

    def groups_from(self, unlisted: Callable[[], bool]) -> None:
        """``unlisted`` is whether the cluster may have PodGroups that were not listed yet."""
        self._unlisted = unlisted

    @property
    def lacks_groups(self) -> bool:
        """Whether the cluster may have PodGroups that were not listed yet."""
        return self._unlisted()

    def group(self, name: str) -> PodGroup | None:
        """A PodGroup (``namespace/name``)."""
        return next((each for each in self._groups.values() if each.full_name == name), None)

    def added_to(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with these objects."""
        groups = {each.full_name: each for each in self._groups.values()}
        return replace(snapshot, budgets=self._budgets.values(), pod_groups=groups)
