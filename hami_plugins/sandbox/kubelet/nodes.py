"""The node's object: registered if need be, and its status kept in step with the devices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from hami_plugins.errors import AlreadyExistsError, KubeError, WireError
from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi
from hami_plugins.sandbox.fleet import bare_node
from hami_plugins.sandbox.kubelet.devices import Counts, DeviceRecords
from hami_plugins.sandbox.kubelet.specs import is_extended
from hami_plugins.sandbox.kubelet.times import Times
from hami_plugins.wire import quantity
from hami_plugins.wire.fields import Json

_log = structlog.get_logger(__name__)


class NodeStatus:
    """Owns a thread that compares and writes; nothing is written while nothing differs.

    Capacity written by other clients stays and is copied to allocatable; a separately written allocatable is
    overwritten (``trials.md`` K6). The resources of plugins follow their devices. Nothing is written before
    ``complete``: the pods present at the start are measured against the node as it was left.
    """

    def __init__(  # noqa: PLR0913 - wiring
        self,
        api: KubeApi,
        node: str,
        book: DeviceRecords,
        *,
        times: Times,
        clock: Callable[[], float],
        complete: threading.Event,
    ) -> None:
        self._api = api
        self._node = node
        self._book = book
        self._times = times
        self._clock = clock
        self._complete = complete
        self._lock = threading.Lock()
        self._allocatable: Mapping[str, int] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kubelet-node-{node}")

    def start(self) -> None:
        """Registers the node or finds it, and begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; the status stays as it is."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """The devices have changed."""
        self._wake.set()

    def allocatable(self) -> Mapping[str, int]:
        """Extended resources as the node's status last had them."""
        with self._lock:
            return self._allocatable

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                self._sync()
            except (KubeError, WireError) as error:
                _log.warning("node_status_not_written", node=self._node, error=str(error))
            self._wake.wait(self._times.status)

    def _sync(self) -> None:
        status: Mapping[str, Any] = self._read().get("status") or {}
        if self._complete.is_set():
            status = self._corrected(status)
        amounts = quantity.amounts(status.get("allocatable") or {}, key=f"node {self._node}: allocatable")
        with self._lock:
            self._allocatable = {name: amount.ceiling for name, amount in amounts.items() if is_extended(name)}

    def _corrected(self, status: Mapping[str, Any]) -> Mapping[str, Any]:
        """The status as it is once it says what it should."""
        counts = self._book.counts(self._clock(), grace=self._times.stop_grace)
        found = quantity.amounts(status.get("capacity") or {}, key=f"node {self._node}: capacity")
        before = {name: amount.text for name, amount in found.items()}
        shown = quantity.amounts(status.get("allocatable") or {}, key=f"node {self._node}: allocatable")
        changes = status_changes(before, {name: amount.text for name, amount in shown.items()}, counts)
        if not changes:
            return status
        patched: Mapping[str, Any] = self._api.merge_patch(paths.node_status(self._node), {"status": changes})
        return patched.get("status") or {}

    def _read(self) -> Json:
        try:
            return self._api.get(paths.node(self._node))
        except KubeError as error:
            if error.status != 404:
                raise
        try:
            return self._api.create(paths.NODES, bare_node(self._node))
        except AlreadyExistsError:
            return self._api.get(paths.node(self._node))


def status_changes(
    capacity: Mapping[str, str], allocatable: Mapping[str, str], counts: Mapping[str, Counts]
) -> dict[str, dict[str, str | None]]:
    """The merge patch of the status; empty when it is up to date. Amounts in canonical spelling."""
    wanted = {**capacity, **{name: quantity.parse(str(c.capacity), key=name).text for name, c in counts.items()}}
    left = {**wanted, **{name: quantity.parse(str(c.allocatable), key=name).text for name, c in counts.items()}}
    changes: dict[str, dict[str, str | None]] = {
        "capacity": {name: text for name, text in wanted.items() if capacity.get(name) != text},
        "allocatable": {
            **{name: text for name, text in left.items() if allocatable.get(name) != text},
            **{name: None for name in allocatable if name not in left and is_extended(name)},
        },
    }
    return {member: entries for member, entries in changes.items() if entries}
