"""The device plugins of the node: that of its dialect, and that of the other one while pods still need it.

A kubelet asks a plugin each time a container starts, also again. A node whose dialect was changed still runs pods that
hold the other dialect's resource: for those a second plugin goes on serving what they were allocated, and offers no
slot to any other pod.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog

from hami_plugins.errors import KubeError, WireError
from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.units import NodeName
from hami_plugins.node.kubelet.pod_resources import ContainerDevices, PodResources
from hami_plugins.wire.pods import finished
from volcano_vgpu.agent import library
from volcano_vgpu.agent.cdi import CdiDirectory
from volcano_vgpu.agent.containers import ContainerDirectories, device_files
from volcano_vgpu.agent.devices import CardKeeper, CurrentView
from volcano_vgpu.agent.kubelet import OTHER_SOCKET, CheckpointReader, DevicePluginServer
from volcano_vgpu.agent.metrics import AgentMetrics
from volcano_vgpu.agent.node import NodePublisher
from volcano_vgpu.agent.ports import Outcomes, Pods, Ports
from volcano_vgpu.agent.server import VolcanoDevicePlugin
from volcano_vgpu.core import identity, register
from volcano_vgpu.core.edits import MPS_ROOT, EditSettings
from volcano_vgpu.core.model import SharingMode
from volcano_vgpu.core.refusals import ContainerRefusal
from volcano_vgpu.core.runtime import cdi_support
from volcano_vgpu.core.settings import AgentSettings
from volcano_vgpu.core.shares import NodeOffer
from volcano_vgpu.core.slots import Slots

LIST_SECONDS: Final = 2.0
"""How long pod-resources may take."""

FORGET_SECONDS: Final = 360.0
"""After so long without a plugin a kubelet has forgotten its resource; it takes five minutes."""

_NO_SLOTS: Final = Slots.of((), 0)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingParts:
    """What serving needs of the rest of the agent."""

    api: KubeApi
    cards: CardKeeper
    ports: Ports
    record: CheckpointReader
    publisher: NodePublisher
    metrics: AgentMetrics
    stopping: threading.Event


class KubeletServing:
    """Both plugins. ``clock`` gives seconds; ``forget`` is for tests."""

    def __init__(
        self,
        settings: AgentSettings,
        parts: ServingParts,
        *,
        clock: Callable[[], float] = time.monotonic,
        forget: float = FORGET_SECONDS,
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._clock = clock
        self._forget = forget
        self._cdi = True
        self._endpoint: DevicePluginServer | None = None
        self._other = settings.speaking(Dialect.VOLCANO if settings.speaks_hami else Dialect.HAMI)
        self._other_endpoint: DevicePluginServer | None = None
        self._unneeded_since: float | None = None
        self._view: tuple[CurrentView, NodeOffer] | None = None

    @property
    def registered(self) -> bool:
        """Whether a kubelet knows the plugin of the node's dialect."""
        return self._endpoint is not None and self._endpoint.registered.is_set()

    def start(self) -> None:
        """Begins to serve; waits for the API server where the node has to say what its runtime can do."""
        self._cdi = self._uses_cdi()
        plugin = self.plugin(self._parts.ports, lambda: self._parts.cards.sight.slots)
        resource = self._settings.names.count
        directory = Path(self._settings.kubelet_directory)
        self._endpoint = DevicePluginServer(plugin, directory=directory, resource=resource)
        self._parts.cards.tell(plugin.offer)
        self.look()
        self._endpoint.start()

    def look(self) -> None:
        """Begins or ends to serve the other dialect's pods. Called again and again."""
        held = self._holders()
        if held and self._other_endpoint is None:
            _log.info("other_dialect_served", dialect=self._other.dialect.value, pods=sorted(held))
            self._other_endpoint = self._serving_other()
            self._other_endpoint.start()
        elif held == frozenset() and self._other_endpoint is not None:
            _log.info("other_dialect_ended", dialect=self._other.dialect.value)
            self._other_endpoint.stop()
            self._other_endpoint = None
        if held != frozenset():
            self._unneeded_since = None
        elif self._unneeded_since is None:
            self._unneeded_since = self._clock()
        elif self._clock() - self._unneeded_since >= self._forget:
            self._parts.publisher.forget_other()

    def stop(self) -> None:
        """Ends both."""
        for endpoint in (self._endpoint, self._other_endpoint):
            if endpoint is not None:
                endpoint.stop()

    def _holders(self) -> frozenset[str] | None:
        """The pods that this agent served under the other dialect's resource; ``None`` where that cannot be told."""
        try:
            recorded = identity.allocations(self._parts.record.read(), self._other.names.count)
        except (OSError, WireError) as error:
            _log.warning("checkpoint_unreadable", error=str(error))
            return None
        found = {each.pod_uid for each in recorded if each.nonce}
        pods = {uid: self._parts.ports.pods.get(uid) for uid in found}
        return frozenset(uid for uid, raw in pods.items() if raw is not None and not finished(raw))

    def _serving_other(self) -> DevicePluginServer:
        other = self._other
        ports = replace(
            self._parts.ports,
            resource=other.names.count,
            offer=self._other_offer,
            settings=lambda: edit_settings(other),
        )
        plugin = self.plugin(ports, lambda: _NO_SLOTS)
        directory = Path(other.kubelet_directory)
        return DevicePluginServer(plugin, directory=directory, resource=other.names.count, socket=OTHER_SOCKET)

    def _other_offer(self) -> NodeOffer:
        """The cards as they would be registered in the other dialect."""
        sight = self._parts.cards.sight
        if self._view is None or self._view[0] is not sight:
            words = register.desired(sight.inventory, self._other)
            text = words.annotations[register.register_key(self._other.dialect)]
            offer = NodeOffer.of(
                NodeName(self._other.node),
                text,
                sight.inventory,
                spec=self._other.spec,
                passed_over=words.passed_over,
            )
            self._view = (sight, offer)
        return self._view[1]

    def plugin(self, ports: Ports, slots: Callable[[], Slots]) -> VolcanoDevicePlugin:
        """A plugin that serves containers through these ports; ``slots`` are those of each card."""
        return VolcanoDevicePlugin(
            ports,
            cards=slots,
            nonce=lambda: secrets.token_hex(6),
            clock=time.monotonic,
            watcher=self._parts.metrics,
            cdi=self._cdi,
        )

    def _uses_cdi(self) -> bool:
        if self._settings.cdi != "auto":
            return self._settings.cdi == "always"
        while not self._parts.stopping.is_set():
            try:
                support = cdi_support(self._parts.api.get(paths.node(self._settings.node)))
            except KubeError as error:
                _log.warning("runtime_unknown", error=str(error))
                self._parts.stopping.wait(1.0)
                continue
            _log.info("cdi_decided", used=support.works, reason=support.why)
            return support.works
        return True


def ports_of(  # noqa: PLR0913 - what containers are served from
    settings: AgentSettings,
    *,
    cards: CardKeeper,
    pods: Pods,
    record: CheckpointReader,
    resources: PodResources,
    specifications: CdiDirectory,
    directories: ContainerDirectories,
    outcomes: Outcomes,
) -> Ports:
    """Everything that the serving of containers needs, in the node's dialect."""
    return Ports(
        resource=settings.names.count,
        offer=lambda: cards.sight.offer,
        settings=lambda: edit_settings(settings),
        pods=pods,
        checkpoint=record.read,
        listed=lambda: _listed(resources),
        specifications=specifications,
        directories=directories,
        outcomes=outcomes,
        unlimited=lambda: unlimited(settings),
    )


def edit_settings(settings: AgentSettings) -> EditSettings:
    """What containers get, by the files that the node has now."""
    nodes = device_files() if settings.container.pass_device_specs else ()
    return EditSettings.of(settings, nodes, licensed=library.licensed(Path(settings.hook_path)))


def unlimited(settings: AgentSettings) -> ContainerRefusal | None:
    """Why no limit would hold on this node."""
    return without_library(settings) or without_mps(settings)


def without_mps(settings: AgentSettings) -> ContainerRefusal | None:
    """Why cards cannot be shared through MPS, where they are to be."""
    return library.without_mps(Path(MPS_ROOT)) if settings.mode is SharingMode.MPS else None


def without_library(settings: AgentSettings) -> ContainerRefusal | None:
    """Why HAMi-core's library cannot be mounted."""
    return library.missing(Path(settings.hook_path), sha256=settings.library_sha256)


def _listed(resources: PodResources) -> Iterable[ContainerDevices]:
    return resources.list(timeout=LIST_SECONDS)
