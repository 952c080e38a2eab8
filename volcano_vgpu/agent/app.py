"""The agent put together: everything that does IO is made, started and ended here."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog
from starlette.applications import Starlette

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.kube import paths
from hami_plugins.kube.events import EventRecorder
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.kube.store import Store
from hami_plugins.model.units import DeviceId, NodeName, PodUid
from hami_plugins.node.hami_core.library import install
from hami_plugins.node.kubelet.pod_resources import PodResources
from hami_plugins.web.probes import Check, first_trouble, probe_routes
from hami_plugins.web.server import WebServer
from hami_plugins.wire import allocator_mark, lenient
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import finished
from volcano_vgpu.agent import competing_plugins, node
from volcano_vgpu.agent.bookkeeper import Bookkeeper, bound_at, unneeded_lock
from volcano_vgpu.agent.cdi import CdiDirectory
from volcano_vgpu.agent.competing_plugins import NodeEnvironment
from volcano_vgpu.agent.containers import ContainerDirectories, GarbageCollector
from volcano_vgpu.agent.devices import CardKeeper, SlotSettings
from volcano_vgpu.agent.flexible_node import FlexibleNode
from volcano_vgpu.agent.kubelet import CheckpointReader
from volcano_vgpu.agent.metrics import AgentMetrics, MetricSources
from volcano_vgpu.agent.node import NodePublisher
from volcano_vgpu.agent.pods import NodePods
from volcano_vgpu.agent.reporter import Reporter
from volcano_vgpu.agent.scheduler import SchedulerWatch, WriteReason
from volcano_vgpu.agent.serving import KubeletServing, ServingParts, ports_of, without_library, without_mps
from volcano_vgpu.core import publication
from volcano_vgpu.core.assignments import allocated_cards
from volcano_vgpu.core.health import AffectedContainer
from volcano_vgpu.core.model import SharingMode
from volcano_vgpu.core.monitor.join import Known
from volcano_vgpu.core.publication import PublicationTiming
from volcano_vgpu.core.settings import AgentSettings
from volcano_vgpu.discovery.partitions import Partitioner
from volcano_vgpu.discovery.port import Discovery
from volcano_vgpu.monitor.monitor import NodeMonitor, known_of, resizes_of

COLLECT_SECONDS: Final = 60.0
"""Between two looks for what pods left behind; a pod's remains go at the second."""

RIVAL_SECONDS: Final = 10.0
"""Between two looks whether another owner of the cards has gone."""

_log = structlog.get_logger(__name__)


class Agent:
    """One node's agent. ``settings`` are those for this node, its labels considered; ``hasty`` is the API for those who
    keep the kubelet, or the end, waiting (its calls give up early).

    It can be started once. ``trouble`` says why it does not serve yet, or not any more; ``collect_seconds`` and
    ``rival_seconds`` are for tests. Without ``serving`` it speaks with the API server alone: kubelets and scrapers are
    not answered, so that many can run in one process.
    """

    def __init__(  # noqa: PLR0913 - what it is made of, and what tests choose
        self,
        settings: AgentSettings,
        api: KubeApi,
        discovery: Discovery,
        *,
        metrics: AgentMetrics,
        hasty: KubeApi | None = None,
        own_pod: str = "",
        partitioner: Partitioner | None = None,
        serving: bool = True,
        collect_seconds: float = COLLECT_SECONDS,
        rival_seconds: float = RIVAL_SECONDS,
    ) -> None:
        self._settings = settings
        self._hasty = hasty or api
        self._own_pod = own_pod
        self._serves = serving
        self._collect_seconds = collect_seconds
        self._rival_seconds = rival_seconds
        self._metrics = metrics
        self._stop = threading.Event()
        self._rivals = ""
        self._without_mps = ""
        self._thread = threading.Thread(target=self._run, name="agent", daemon=True)
        spec = settings.spec
        self.pods = NodePods(api, settings.node, hasty=self._hasty)
        name = f"metadata.name={settings.node}"
        self._own = Store(
            api, Selection(paths.NODES, "Node", fields=name, cached=True), name="own-node", trim=node.trimmed
        )
        sharing = SlotSettings(node=NodeName(settings.node), split_count=settings.device_split_count, spec=spec)
        self._mig = FlexibleNode(settings, discovery, partitioner)
        self.cards = CardKeeper(
            self._mig.discovery,
            sharing,
            on_change=lambda changes: self._reporter.cards_changed(changes),  # noqa: PLW0108 - the reporter comes later
        )
        self._discovery = discovery
        timing = PublicationTiming(interval=timedelta(seconds=settings.scheduler.touch_interval))
        self.publisher = NodePublisher(api, self._own, settings, on_offer=self.cards.offered, timing=timing)
        self._scheduler = SchedulerWatch(
            self._hasty, settings.scheduler, on_needs=self.publisher.adapt, on_leader=self.publisher.led_by
        )
        self._events = EventRecorder(api, "volcano-vgpu", settings.node)
        self._record = CheckpointReader(Path(settings.kubelet_directory))
        self._resources = PodResources(Path(settings.pod_resources_socket))
        self._specifications = CdiDirectory(
            Path(settings.cdi_directory), dialect=settings.dialect, factor=settings.gpu_memory_factor
        )
        self._directories = ContainerDirectories(Path(settings.hook_path), Path(settings.lock_path))
        self._bookkeeper = Bookkeeper(
            api,
            self.pods,
            held=lambda uid: [each.container for each in self._specifications.served_to(uid)],
            known=lambda: self._specifications.pods,
            release_lock=self.publisher.release_lock,
            clock=time.monotonic,
            luck=random.Random(),  # noqa: S311 - spreads load, guards nothing
            spec=spec,
        )
        self._reporter = Reporter(
            node=settings.node,
            events=self._events,
            metrics=metrics,
            bookkeeping=self._bookkeeper,
            touch=self.publisher.touch,
            pod=self.pods.get,
            holders=self._holders,
        )
        self._leftovers = GarbageCollector(
            self._specifications, self._directories, recorded=self._record.pods, live=self._live_pods
        )
        self._monitor = NodeMonitor(settings, metrics.metrics, known=self._known, pods=self.pods.all)
        self._resizes = resizes_of(
            settings, self._hasty, pods=self.pods.all, allocations=lambda: self._specifications.allocations
        )
        self._kubelet = self._serving(settings)
        self._web = WebServer(
            Starlette(routes=probe_routes(alive=self._alive(), ready=self._ready(), metrics=metrics.metrics)),
            host=settings.listen.host,
            port=settings.listen.port,
        )

    @property
    def trouble(self) -> str:
        """Why containers are not served; empty where they are."""
        return first_trouble(self._ready())

    @property
    def address(self) -> tuple[str, int]:
        """Where probes and metrics are served."""
        return self._web.address

    def start(self) -> None:
        """Begins; what is not there yet (a driver, the API server, a kubelet) is waited for in the background."""
        if self._serves:
            self._web.start()
        self._events.start()
        self._own.start()
        self.pods.store.start()
        self._thread.start()

    def stop(self) -> None:
        """Ends, and leaves node and containers as they are for the next process."""
        self._stop.set()
        self._thread.join()
        self._kubelet.stop()
        self._mig.stop()
        self._resizes.stop()
        self._monitor.stop()
        self.cards.stop()
        self._scheduler.stop()
        self.publisher.stop()
        self._bookkeeper.stop()
        self._events.stop()
        self.pods.store.stop()
        self._own.stop()
        self._resources.close()
        self._web.stop()

    def _run(self) -> None:
        """The start in its order, then the tidying up, and the library again where it is not there (a full disk)."""
        if not self._synced() or not self._alone():
            return
        self._prepare()
        if not self._settings.speaks_hami:
            self._scheduler.start()
        self.publisher.start()
        self.cards.start(self.publisher)
        self._bookkeeper.start()
        self._mig.start(self.pods, self._specifications, self._reporter)
        self.pods.subscribe(self._pod_changed)
        self._metrics.read_from(self._sources())
        self._monitor.start()
        self._resizes.start()
        if self._serves:
            self._kubelet.start()
        failed = ""
        self._look_at_mps()
        while not self._stop.wait(self._collect_seconds):
            try:
                self._look_at_mps()
                if without_library(self._settings):
                    self._install()
                if self._serves:
                    self._kubelet.look()
                self._leftovers.collect()
                self.publisher.report_leftovers(self._leftovers.kept)
                failed = ""
            except Exception as error:  # noqa: BLE001 - the outermost loop: whatever cannot be removed, the agent goes on
                if failed != repr(error):
                    failed = repr(error)
                    _log.exception("leftovers_not_removed")

    def _serving(self, settings: AgentSettings) -> KubeletServing:
        ports = ports_of(
            settings,
            cards=self.cards,
            pods=self.pods,
            record=self._record,
            resources=self._resources,
            specifications=self._specifications,
            directories=self._directories,
            outcomes=self._reporter,
        )
        parts = ServingParts(
            api=self._hasty,
            cards=self.cards,
            ports=ports,
            record=self._record,
            publisher=self.publisher,
            metrics=self._metrics,
            stopping=self._stop,
        )
        return KubeletServing(settings, parts)

    def _synced(self) -> bool:
        """Waits for node and pods; whether they came before the end."""
        for store in (self._own, self.pods.store):
            while not store.synced.wait(0.2):
                if self._stop.is_set():
                    return False
        return not self._stop.is_set()

    def _alone(self) -> bool:
        """Waits until no other plugin owns the cards; whether that was before the end."""
        told = ""
        while not self._stop.is_set():
            found = self._others() if self._settings.exclusive == "refuse" else ""
            self._rivals = found
            if not found:
                return True
            if found != told:
                _log.error("another_owner", reason=found)
                self._reporter.refused_to_start(found)
                told = found
            self._stop.wait(self._rival_seconds)
        return False

    def _others(self) -> str:
        directory = self._settings.kubelet_directory
        registered = {}
        try:
            registered = dict(self._record.read().registered or {})
        except Exception as error:  # noqa: BLE001 - a record that cannot be read says nothing of others
            _log.warning("checkpoint_unreadable", error=str(error))
        count = self._settings.names.count
        around = NodeEnvironment(
            sockets=competing_plugins.live_sockets(Path(directory)),
            node=self._own.by_name("", self._settings.node) or {},
            pods=self.pods.all(),
            remembered=registered,
            own_pod=self._own_pod,
        )
        return "; ".join(map(str, competing_plugins.rivals(around, resource=count, directory=directory)))

    def _prepare(self) -> None:
        """Library and CDI directory. Without them containers are refused with the reason, but the agent goes on."""
        self._install()
        refusal = self._specifications.open()
        if refusal is not None:
            _log.error("cdi_directory_unusable", error=refusal.text)

    def _install(self) -> None:
        source = self._settings.library_source
        hook, expected = Path(self._settings.hook_path), self._settings.library_sha256
        found = install(None if source is None else Path(source), hook, sha256=expected)
        if found.problem and self._settings.mode is not SharingMode.MIG:
            _log.warning("library_missing", reason=found.problem)

    def _look_at_mps(self) -> None:
        """Logs once that MPS's control daemon is missing: no container is served until it runs."""
        refusal = without_mps(self._settings)
        found = "" if refusal is None else refusal.text
        if found and found != self._without_mps:
            _log.error("mps_daemon_missing", reason=found)
            self._reporter.without_mps(found)
        self._without_mps = found

    def _pod_changed(self, change: ObjectChange) -> None:
        """A pod that Volcano has bound is counted twice by some schedulers until they hear of the node again.

        In a cluster whose allocations come from the cache Volcano counts no cards.
        """
        raw = change.object
        self._mig.wake()
        if self._settings.speaks_hami:
            lock = None if raw is None else unneeded_lock(raw, self.cards.sight.offer.spec, datetime.now(UTC))
            if lock is not None:
                self.publisher.release_lock(*lock)
            return
        if change.kind != "added" or raw is None or not self._cards_of(raw):
            return
        notes = lenient.inside(raw, "metadata", "annotations")
        if notes.get(allocator_mark.KEY) == AllocatorMode.EXTENDER:
            return
        if lenient.inside(raw, "status").get("phase") == "Pending" or self._bound_unheard(raw):
            self.publisher.touch(WriteReason.BIND)

    def _bound_unheard(self, raw: Json) -> bool:
        """Whether the node was not written since the pod was bound: an agent before this one was ended in between."""
        bound = bound_at(lenient.inside(raw, "metadata", "annotations"), datetime.now(UTC))
        touched = publication.touched_at(self._own.by_name("", self._settings.node) or {})
        return bound is not None and (touched is None or touched < bound)

    def _cards_of(self, raw: Json) -> Mapping[str, tuple[DeviceId, ...]]:
        return allocated_cards(raw, self.cards.sight.offer)

    def _holders(self, card: DeviceId) -> list[AffectedContainer]:
        """The containers that have a slice of a card, by what Volcano allocated."""
        found: list[AffectedContainer] = []
        for raw in self.pods.all():
            metadata = raw.get("metadata") or {}
            if finished(raw):
                continue
            found.extend(
                AffectedContainer(
                    str(metadata.get("namespace")), str(metadata.get("name")), str(metadata.get("uid")), container
                )
                for container, cards in self._cards_of(raw).items()
                if card in cards
            )
        return found

    def _live_pods(self) -> frozenset[PodUid] | None:
        """The pods of the node by the watch; ``None`` while it may lag behind."""
        if not self.pods.store.healthy:
            return None
        return frozenset(PodUid(str(raw["metadata"]["uid"])) for raw in self.pods.all())

    def _sources(self) -> MetricSources:
        return MetricSources(
            sight=lambda: self.cards.sight,
            pods=self.pods.all,
            allocations=lambda: self._specifications.allocations,
            use=self._discovery.use,
            registered=lambda: self._kubelet.registered,
            offered=lambda: len(self.publisher.offered),
            unwritten=lambda: self._bookkeeper.waiting,
            directories=lambda: self._leftovers.totals,
            factor=self._settings.memory_unit,
        )

    def _known(self) -> Known:
        offer, factor = self.cards.sight.offer, self._settings.memory_unit
        served = self._specifications.allocations
        pods, cards = self.pods.all(), offer.inventory.cards
        return known_of(pods, served, offer.entry, spec=offer.spec, factor=factor, cards=cards)

    def _alive(self) -> dict[str, Check]:
        return {"agent": lambda: "" if self._thread.is_alive() else "its main thread has ended"}

    def _ready(self) -> dict[str, Check]:
        return {
            "node": lambda: "" if self._own.synced.is_set() else "this node is not read from the API server yet",
            "pods": lambda: (
                "" if self.pods.store.synced.is_set() else "the node's pods are not read from the API server yet"
            ),
            "rivals": lambda: self._rivals,
            "mps": lambda: self._without_mps,
            "cards": lambda: self.cards.trouble,
            "register": lambda: "" if self.publisher.valid else "the node has no valid register of healthy cards",
            "kubelet": lambda: "" if self._kubelet.registered else "the plugin is not registered with the kubelet yet",
        }
