"""Writes nodes, so that Volcano counts their cards anew: after each answer that its own ledger has wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import structlog

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import Writing
from hami_plugins.model.units import NodeName
from volcano_vgpu.granting.metrics import GrantMetrics
from volcano_vgpu.register import TOUCHED_KEY

AGAIN: Final = 1.0
"""Seconds until a write that failed is tried again."""

_WHY: Final = "granted"

_log = structlog.get_logger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class Toucher:
    """Writes the nodes that it is told of, each at most once in ``interval`` seconds, from a thread of its own."""

    def __init__(
        self, api: Writing, *, interval: float, metrics: GrantMetrics, now: Callable[[], datetime] = _now
    ) -> None:
        self._api = api
        self._interval = interval
        self._metrics = metrics
        self._now = now
        self._due: set[NodeName] = set()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-toucher", daemon=True)

    def touch(self, node: NodeName) -> None:
        """Has a node written soon, and returns at once."""
        with self._changed:
            self._due.add(node)
            self._changed.notify()

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends; what was due is left, for it heals nothing but another's count. May be called twice."""
        self._stop.set()
        with self._changed:
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._due or self._stop.is_set())
            # What comes in the meantime is written at once with it.
            if self._stop.wait(self._interval):
                return
            with self._changed:
                due, self._due = self._due, set()
            left = {node for node in sorted(due) if not self._written(node)}
            if left and not self._stop.wait(AGAIN):
                with self._changed:
                    self._due |= left

    def _written(self, node: NodeName) -> bool:
        """Whether there is nothing left to do for a node."""
        stamp = self._now().isoformat(timespec="microseconds")
        try:
            self._api.merge_patch(paths.node(node), {"metadata": {"annotations": {TOUCHED_KEY: f"{stamp} {_WHY}"}}})
        except KubeError as error:
            self._metrics.touched("failed")
            _log.warning("node_not_touched", node=node, error=str(error))
            return not error.may_retry
        self._metrics.touched("written")
        return True
