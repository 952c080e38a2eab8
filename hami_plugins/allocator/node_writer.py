"""Writes nodes, so that Volcano counts their cards anew: after each answer that its own cache has wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import structlog

from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import Writing
from hami_plugins.model.units import NodeName
from hami_plugins.vendors.volcano import TOUCHED_KEY

SPARED: Final = 1.0
"""Seconds between two writes of one node: each has Volcano count the whole node anew, while its sessions wait."""

LEAST: Final = 0.001
"""Seconds between two looks at what is due."""

_WHY: Final = "allocated"

_log = structlog.get_logger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class Toucher:
    """Writes the nodes that it is given, from a thread of its own.

    It writes ``interval`` seconds after the first request, with all that arrive in between, and each node at most once
    a second.
    """

    def __init__(
        self,
        api: Writing,
        *,
        interval: float,
        metrics: AllocatorMetrics,
        now: Callable[[], datetime] = _now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._interval = max(interval, LEAST)
        self._touches = metrics.metrics.counter(
            "node_touches_total", "Node writes that make Volcano recount the node, by outcome", ("outcome",)
        )
        self._now = now
        self._clock = clock
        self._tried: dict[NodeName, float] = {}
        self._due: set[NodeName] = set()
        self._noted: int | None = 0
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
            # Requests that arrive in the meantime are written together with it.
            if self._stop.wait(self._interval):
                return
            for node in self._ready():
                if self._stop.is_set():
                    return
                if not self._written(node):
                    self.touch(node)

    def _ready(self) -> list[NodeName]:
        """Those of the nodes that are due that have not been written for a second."""
        now = self._clock()
        self._tried = {node: tried for node, tried in self._tried.items() if now - tried < SPARED}
        with self._changed:
            ready = sorted(self._due - self._tried.keys())
            self._due.difference_update(ready)
        self._tried |= dict.fromkeys(ready, now)
        return ready

    def _written(self, node: NodeName) -> bool:
        """Whether there is nothing left to do for a node."""
        stamp = self._now().isoformat(timespec="microseconds")
        try:
            self._api.merge_patch(paths.node(node), {"metadata": {"annotations": {TOUCHED_KEY: f"{stamp} {_WHY}"}}})
        except KubeError as error:
            self._touches.labels("failed").inc()
            self._note(node, error)
            return not error.may_retry
        except Exception:  # noqa: BLE001 - without this loop no node would be counted anew any more
            self._touches.labels("failed").inc()
            _log.exception("node_not_touched", node=node)
            return True
        self._touches.labels("written").inc()
        self._noted = 0
        return True

    def _note(self, node: NodeName, error: KubeError) -> None:
        """Into the log, once for each status until a node is written: all that are due fail alike, every second."""
        if error.status != self._noted:
            self._noted = error.status
            _log.warning("node_not_touched", node=node, error=str(error))
