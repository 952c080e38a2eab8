"""Writes Device objects and the sums in nodes, from a few threads, for as long as this replica is the one to do it.

``publishing`` and ``sums`` decide the writes; this module executes them, handles failures, and sets how long
Koordinator's own controller is waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import structlog

from hami_plugins.errors import ContentionError, KubeError, WireError
from hami_plugins.kube import paths
from hami_plugins.kube.port import Writing
from hami_plugins.kube.work_queue import WorkQueue
from hami_plugins.model.units import NodeName
from hami_plugins.wire import koordinator_devices
from hami_plugins.wire.fields import Json
from koordinator_adapter.core.devices import sums
from koordinator_adapter.core.devices.publication import (
    CreateObject,
    KeepObject,
    UpdateObject,
    contested,
    is_ours,
    plan_of,
)
from koordinator_adapter.server.cluster import WatchedCluster
from koordinator_adapter.server.metrics import AdapterMetrics
from koordinator_adapter.server.settings import DeviceSettings

AGAIN_SECONDS: Final = 0.5
"""After a write that lost a race: by then the watch has shown what won."""

LONGEST_PAUSE: Final = 60.0
"""Seconds between two tries of a write that fails."""

MOST_WRITES: Final = 3
VAIN_SECONDS: Final = 600.0
"""Number of equal writes in so many seconds; beyond that another client must be overwriting them."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Writes:
    """When the same thing was written again and again."""

    what: object = None
    at: list[float] = field(default_factory=list)

    def in_vain(self, what: object, now: float) -> bool:
        """Whether it has been written so often of late that once more would change nothing."""
        return self.what == what and sum(at > now - VAIN_SECONDS for at in self.at) >= MOST_WRITES

    def note(self, what: object, now: float) -> None:
        """It has been written."""
        self.at = [*(at for at in self.at if at > now - VAIN_SECONDS), now] if self.what == what else [now]
        self.what = what


@dataclass(slots=True)
class _Past:
    """What has been done about a node: failures in a row, since when its sums are wrong, what was written when."""

    failures: int = 0
    wrong_since: float | None = None
    objects: _Writes = field(default_factory=_Writes)
    sums: _Writes = field(default_factory=_Writes)


def _utc() -> datetime:
    return datetime.now(UTC)


class Publisher:
    """``active`` is whether this replica writes; nothing is written while it is false."""

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        api: Writing,
        cluster: WatchedCluster,
        settings: DeviceSettings,
        *,
        metrics: AdapterMetrics,
        active: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = _utc,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._settings = settings
        self._metrics = metrics
        self._active = active
        self._clock = clock
        self._now = now
        self._queue = WorkQueue(clock=clock)
        self._past: dict[NodeName, _Past] = {}
        self._remarks: dict[NodeName, tuple[str, ...]] = {}
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, name=f"publisher-{number}", daemon=True)
            for number in range(settings.workers)
        ]

    @property
    def remarks(self) -> Mapping[NodeName, tuple[str, ...]]:
        """What an operator should know of nodes' cards, for nodes of which there is something."""
        with self._lock:
            return dict(sorted(self._remarks.items()))

    @property
    def waiting(self) -> int:
        """How many nodes are to be looked at, now or later."""
        return len(self._queue)

    def start(self) -> None:
        """Begins to write."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends; writes that are on their way are finished. May be called twice."""
        self._queue.end()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def look_at(self, node: NodeName) -> None:
        """Something has changed on a node."""
        self._queue.put(node)

    def look_at_all(self) -> None:
        """This replica is the one that writes, from now on."""
        for name in self._cluster.names():
            self._queue.put(name)

    def _run(self) -> None:
        while (name := self._queue.take()) is not None:
            node = NodeName(name)
            try:
                if self._active():
                    self.look(node)
            except Exception:  # noqa: BLE001 - the outermost loop: one node must not keep the others from being seen
                _log.exception("publisher_failed", node=node)
                self._fail(node)
            finally:
                self._queue.done(name)

    def look(self, node: NodeName) -> None:
        """Look at one node and write what has to be written."""
        found = self._cluster.site(node)
        if found is None:
            self._forget(node)
            return
        site, raw, live = found
        plan = plan_of(site, live, now=self._now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        why = plan.step.why if isinstance(plan.step, KeepObject) else ""
        remarks = (*plan.remarks, why) if why else plan.remarks
        try:
            live, vain = self._publish(node, plan.step, live)
            remarks = (*remarks, *vain, *self._sum_up(node, raw, live))
        except ContentionError:
            self._metrics.wrote("conflict")
            self._queue.put(node, after=AGAIN_SECONDS)
        except KubeError as error:
            self._metrics.wrote("failed")
            _log.warning("publishing_failed", node=node, error=str(error))
            self._fail(node)
        else:
            self._past.setdefault(node, _Past()).failures = 0
        self._note(node, remarks)

    def _publish(
        self, node: NodeName, step: CreateObject | UpdateObject | KeepObject, live: Json | None
    ) -> tuple[Json | None, tuple[str, ...]]:
        """The Device object as it is now, and what keeps it from being as it should."""
        if isinstance(step, KeepObject):
            return live, ()
        past, said = self._past.setdefault(node, _Past()), _said(step.body)
        if past.objects.in_vain(said, self._clock()):
            return live, (contested(node, live),)
        if isinstance(step, CreateObject):
            made = self._api.create(paths.DEVICES, step.body)
        else:
            made = self._api.replace(paths.device(node), step.body)
        past.objects.note(said, self._clock())
        self._metrics.wrote("created" if isinstance(step, CreateObject) else "changed")
        _log.info(
            "device_published", node=node, cards=len(step.body["spec"]["devices"]), new=isinstance(step, CreateObject)
        )
        self._cluster.published(node, made)
        return made, ()

    def _sum_up(self, node: NodeName, raw: Json, live: Json | None) -> tuple[str, ...]:
        """Write the sums into the node, unless another component does; returns the obstacle."""
        if self._settings.node_resources == "never" or live is None or not is_ours(live):
            return ()
        past = self._past.setdefault(node, _Past())
        try:
            published = koordinator_devices.decode(live)
            status, labels = sums.change_of(raw, published), sums.labels_of(raw, published)
        except WireError as error:
            return (f"node {node}: {error}",)
        if status is None and labels is None:
            past.wrong_since = None
            return ()
        if self._settings.node_resources == "auto" and not self._waited(node, past):
            return ()
        wanted = sums.sums_of(published)
        if past.sums.in_vain(wanted, self._clock()):
            return (
                f"node {node}: another client writes other amounts of Koordinator's resources into it; let only one "
                "of the two do it: devices.nodeResources never, or no colocation in slo-controller-config",
            )
        if status is not None:
            raw = self._api.merge_patch(paths.node_status(node), status)
            past.sums.note(wanted, self._clock())
            self._metrics.wrote("sums")
        if labels is not None:
            # Where the sums have just been written, the version that the labels were found missing in is gone.
            changes = {"metadata": {"labels": labels["metadata"]["labels"]}}
            raw = self._api.merge_patch(paths.node(node), labels if status is None else changes)
            self._metrics.wrote("labels")
        self._cluster.written(raw)
        past.wrong_since = None
        return ()

    def _waited(self, node: NodeName, past: _Past) -> bool:
        """Whether Koordinator's controller has had its time to write them."""
        now = self._clock()
        if past.wrong_since is None:
            past.wrong_since = now
        left = past.wrong_since + self._settings.grace - now
        if left > 0:
            self._queue.put(node, after=left)
        return left <= 0

    def _fail(self, node: NodeName) -> None:
        past = self._past.setdefault(node, _Past())
        past.failures += 1
        self._queue.put(node, after=min(LONGEST_PAUSE, AGAIN_SECONDS * 2.0 ** min(past.failures - 1, 10)))

    def _note(self, node: NodeName, remarks: tuple[str, ...]) -> None:
        """What is to be known, into the log once."""
        with self._lock:
            before = self._remarks.pop(node, ())
            if remarks:
                self._remarks[node] = remarks
        for remark in remarks:
            if remark not in before:
                _log.warning("node_remark", node=node, remark=remark)

    def _forget(self, node: NodeName) -> None:
        self._past.pop(node, None)
        self._note(node, ())


def _said(body: Json) -> object:
    """What an object says, but why a card is out of service: since when is the time of the write."""
    devices = [{key: value for key, value in each.items() if key != "conditions"} for each in body["spec"]["devices"]]
    return devices, body["metadata"].get("labels"), body["metadata"].get("annotations")
