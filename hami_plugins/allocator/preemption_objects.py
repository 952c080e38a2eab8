"""Objects besides nodes and pods on which it depends who may be evicted, as the watches show them."""

from __future__ import annotations

import threading
from dataclasses import replace

import structlog

from hami_plugins.errors import WireError
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.cluster import ClusterSnapshot, DisruptionBudget
from hami_plugins.wire import objects

_log = structlog.get_logger(__name__)


class PreemptionObjects:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._budgets: dict[str, DisruptionBudget] = {}

    def budget_changed(self, change: ObjectChange) -> None:
        """A PodDisruptionBudget came, changed or went. One that cannot be read keeps what it said before."""
        try:
            budget = None if change.object is None else objects.disruption_budget(change.object)
        except WireError as error:
            _log.warning("budget_unreadable", reason=str(error))
            return
        with self._lock:
            if budget is None or change.kind == "deleted":
                self._budgets.pop(change.uid, None)
            else:
                self._budgets[change.uid] = budget

    def added_to(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with these objects."""
        with self._lock:
            return replace(snapshot, budgets=tuple(self._budgets.values()))
