"""The agent put together: everything that does IO is made, started and ended here."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson
import structlog
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hami_plugins.kube import paths
from hami_plugins.kube.events import EventRecorder
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.kube.store import Store
from hami_plugins.model.units import NodeName
from hami_plugins.runnable import Runnable
from hami_plugins.web.probes import Check, first_trouble, probe_routes
from hami_plugins.web.server import WebServer
from hami_plugins.wire import usage
from hami_plugins.wire.usage import NodeUsage
from neuron_topology.agent import node, users
from neuron_topology.agent.lister import Lister, MachineListing
from neuron_topology.agent.machine import Machine, MachineError
from neuron_topology.agent.metrics import Findings, NeuronAgentMetrics
from neuron_topology.agent.monitor import MonitorStream
from neuron_topology.agent.node import NeuronNodeWriter
from neuron_topology.agent.use import UseMeter
from neuron_topology.agent.users import UserCheck
from neuron_topology.core.agent.sensors import Sensors, health_of
from neuron_topology.core.agent.settings import NeuronAgentSettings
from neuron_topology.core.hardware.machines import MachineHealth

COMPONENT: Final = "neuron-agent"

_log = structlog.get_logger(__name__)


class NeuronAgent(Runnable):
    """One node's agent. It can be started once; ``trouble`` says why it is not ready."""

    def __init__(
        self, settings: NeuronAgentSettings, api: KubeApi, machine: Machine, *, metrics: NeuronAgentMetrics
    ) -> None:
        self._node = NodeName(settings.node)
        self._machine = machine
        self._seconds = settings.health_seconds
        self._metrics = metrics
        self._stop = threading.Event()
        self._sensors: Sensors | None = None
        self._health = MachineHealth()
        self._wrong = "the driver's counters have not been read yet"
        by_name, by_node = f"metadata.name={settings.node}", f"spec.nodeName={settings.node}"
        self._own = Store(
            api, Selection(paths.NODES, "Node", fields=by_name, cached=True), name="own-node", trim=node.trimmed
        )
        self._pods = Store(
            api, Selection(paths.PODS, "Pod", fields=by_node, cached=True), name="pods", trim=users.trimmed
        )
        self.writer = NeuronNodeWriter(api, self._own, NodeName(settings.node), wrote=metrics.wrote)
        self._events = EventRecorder(api, COMPONENT, settings.node)
        self._users = UserCheck(
            machine, self._pods, self._events, node=settings.node, kubelet=Path(settings.kubelet_directory)
        )
        self._use = UseMeter(NodeName(settings.node), machine, self._users, lambda: self._lister.latest)
        self._monitor = (
            MonitorStream(settings.neuron_monitor, heard=self._use.heard, refused=metrics.refused)
            if settings.neuron_monitor.enabled and settings.machine_file is None
            else None
        )
        self._lister = Lister(
            machine, interval=settings.neuron_ls.interval_seconds, heard=self._listed, ran=metrics.ran
        )
        self._thread = threading.Thread(target=self._run, name="agent", daemon=True)
        metrics.read_from(self._findings, self._use.findings)
        self._web = WebServer(
            Starlette(
                routes=[
                    *probe_routes(alive=self._alive(), ready=self._ready(), metrics=metrics.metrics),
                    Route("/usage", self._answer_usage),
                ]
            ),
            host=settings.listen.host,
            port=settings.listen.port,
        )

    @property
    def trouble(self) -> str:
        """Why the node is not described; empty where it is."""
        return first_trouble(self._ready())

    @property
    def address(self) -> tuple[str, int]:
        """Where probes and metrics are served."""
        return self._web.address

    def start(self) -> None:
        """Begins; the driver and the API server are waited for in the background."""
        self._web.start()
        self._events.start()
        self._own.start()
        self._pods.start()
        self._lister.start()
        if self._monitor is not None:
            self._monitor.start()
        self._thread.start()

    def stop(self) -> None:
        """Ends, and leaves the node as it is described: the devices do not change by that."""
        self._stop.set()
        self._thread.join()
        self._lister.stop()
        if self._monitor is not None:
            self._monitor.stop()
        self._events.stop()
        self._pods.stop()
        self._own.stop()
        self._web.stop()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
            except Exception:  # noqa: BLE001 - the outermost loop: whatever goes wrong, the agent goes on
                _log.exception("look_failed")
            self._stop.wait(self._seconds)

    def _look(self) -> None:
        """Reads the counters, and writes the node where something has changed."""
        try:
            found = self._machine.sensors()
        except MachineError as error:
            self._metrics.failed()
            if str(error) != self._wrong:
                _log.error("counters_not_read", error=str(error))
            self._wrong = str(error)
            return
        self._wrong = ""
        changed = self._sensors is not None and found != self._sensors
        self._sensors = found
        if changed:
            self._lister.ask()
        listing = self._lister.latest
        if listing is None:
            return
        joined = found.joined(self._use.devices)
        self._health = health_of(joined, (device.index for device in listing.observed.devices))
        self.writer.publish(listing.observed, self._health)

    def _listed(self, found: MachineListing) -> None:
        if self._pods.synced.is_set():
            self._users.compare(found, with_plugin=self.writer.has_plugin)

    def _findings(self) -> Findings:
        return Findings(
            sensors=(self._sensors or Sensors()).joined(self._use.devices),
            health=self._health,
            strangers=self._users.strangers,
            differing=self._users.differing,
            without_plugin=self._lister.latest is not None and not self.writer.has_plugin,
            checks={name: not check() for name, check in self._ready().items()},
        )

    async def _answer_usage(self, _request: Request) -> Response:
        """What containers use, as ``hami-plugins neuron usage`` prints it."""
        found = await run_in_threadpool(self._use.findings)
        if self._monitor is not None and self._monitor.trouble:
            return PlainTextResponse(f"{self._monitor.trouble}\n", status_code=503)
        stamp = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        node = NodeUsage(node=self._node, time=stamp, containers=found.containers)
        return Response(orjson.dumps(usage.encode(node)), media_type="application/json")

    def _alive(self) -> dict[str, Check]:
        return {"agent": lambda: "" if self._thread.is_alive() else "its main thread has ended"}

    def _ready(self) -> dict[str, Check]:
        return {
            "node": lambda: "" if self._own.synced.is_set() else "this node is not read from the API server yet",
            "counters": lambda: self._wrong,
            "neuron-ls": lambda: self._lister.trouble,
            "annotations": lambda: self.writer.trouble,
        }
