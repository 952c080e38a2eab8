"""Objects besides nodes and pods on which it depends who may be evicted, as the watches show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hami_plugins.allocator.object_store import ObjectStore
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.cluster import ClusterSnapshot, DisruptionBudget, PodGroup
from hami_plugins.wire import objects
from hami_plugins.wire.fields import Json


class PreemptionObjects:
    """PodDisruptionBudgets and PodGroups. Safe to use from any thread.

    One that cannot be read keeps what it said before.
    """

    def __init__(self) -> None:
        self._budgets = ObjectStore(_budget, event="budget_unreadable")
        self._groups = ObjectStore(_group)
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
        return self._groups.get(name)

    def added_to(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with these objects."""
        budgets = tuple(self._budgets.by_name().values())
        return replace(snapshot, budgets=budgets, pod_groups=self._groups.by_name())


def _budget(raw: Json) -> tuple[str, DisruptionBudget] | None:
    found = objects.disruption_budget(raw)
    return None if found is None else (f"{found.namespace}/{found.name}", found)


def _group(raw: Json) -> tuple[str, PodGroup]:
    found, _ = objects.readable_pod_group(raw)
    return found.full_name, found
