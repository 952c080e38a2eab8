"""The monitor put together for a node: for the agent, which runs it, and for the command that looks once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog

from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.units import DeviceId, PodUid
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.observe.metrics import Metrics
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from volcano_vgpu.agent.bookkeeper import Patching
from volcano_vgpu.agent.containers import ContainerDirectories
from volcano_vgpu.core.assignments import allocated_devices, resized_devices
from volcano_vgpu.core.model import PhysicalDevice
from volcano_vgpu.core.monitor.join import MIB, Allocations, Known
from volcano_vgpu.core.settings import AgentSettings
from volcano_vgpu.monitor import metrics as usage_metrics
from volcano_vgpu.monitor.files import RegionFiles
from volcano_vgpu.monitor.processes import HostProcesses
from volcano_vgpu.monitor.resizer import ResizeLoop, SliceResizer
from volcano_vgpu.monitor.scrape import Scraper
from volcano_vgpu.monitor.writer import TICK_SECONDS, FeedbackLoop, FeedbackWriter, WriterLock

LOCK: Final = "feedback.lock"

_log = structlog.get_logger(__name__)


def known_of(  # noqa: PLR0913 - one parameter for each thing that is known
    pods: tuple[Json, ...],
    served: Allocations,
    entry: NodeEntry,
    *,
    spec: VendorSpec,
    factor: int,
    cards: Iterable[PhysicalDevice] | None = None,
) -> Known:
    """What is known of a node: its pods' allocations as they were handed over, else as they are written; its cards.

    ``cards`` are all that were found on it, registered or not; ``None`` where they were not looked for.
    """
    written = {
        (PodUid(lenient.uid(raw)), container): devices
        for raw in pods
        for container, devices in allocated_devices(raw, spec).items()
    }
    given = {**written, **served}
    for raw in pods:
        uid = PodUid(lenient.uid(raw))
        own = {name: each for (of, name), each in given.items() if of == uid}
        given.update({(uid, name): each for name, each in resized_devices(raw, own).items()})
    devices = zip(entry.ids, entry.state.shape.devices, strict=True)
    sizes = {name: device.memory * factor * MIB for name, device in devices}
    found = None if cards is None else frozenset(name for card in cards for name in _names(card))
    return Known(pods=pods, allocations=given, sizes=sizes, factor=factor, cards=found)


def _names(card: PhysicalDevice) -> tuple[DeviceId, ...]:
    return (card.uuid, *(instance.uuid for instance in card.instances))


def files_of(settings: AgentSettings) -> RegionFiles:
    """The directories of containers: the agent's own, and those of monitors before it."""
    own = ContainerDirectories(Path(settings.hook_path), Path(settings.lock_path)).root
    return RegionFiles([own, *map(Path, settings.monitor.directories)])


def scraper_of(settings: AgentSettings, known: Callable[[], Known]) -> Scraper:
    """Looks at the regions of a node."""
    return Scraper(files_of(settings), HostProcesses(Path(settings.monitor.proc)), known, clock=time.time)


def lock_of(settings: AgentSettings) -> Path:
    """The file that a feedback writer of this node holds."""
    return Path(settings.hook_path) / "vgpu" / LOCK


def writer_of(
    settings: AgentSettings, pods: Callable[[], tuple[Json, ...]] = tuple, *, wrote: Callable[[], None] = lambda: None
) -> FeedbackWriter:
    """Writes feedback to the containers of a node."""
    return FeedbackWriter(files_of(settings), WriterLock(lock_of(settings)), pods, wrote=wrote)


def resizes_of(
    settings: AgentSettings,
    api: Patching,
    *,
    pods: Callable[[], Iterable[Json]],
    allocations: Callable[[], Allocations],
) -> ResizeLoop:
    """Puts in force what is asked of the slices of a node."""
    resizer = SliceResizer(api, files_of(settings), pods=pods, allocations=allocations, factor=settings.memory_unit)
    return ResizeLoop(resizer)


class NodeMonitor:
    """The monitor of a node's agent: exports containers' usage as metrics and, if configured, writes feedback."""

    def __init__(
        self,
        settings: AgentSettings,
        metrics: Metrics,
        *,
        known: Callable[[], Known],
        pods: Callable[[], tuple[Json, ...]],
    ) -> None:
        self._settings = settings.monitor
        self._metrics = metrics
        self._scraper = scraper_of(settings, known)
        writes = metrics.counter("feedback_writes_total", "Fields of containers that feedback has changed")
        self._writer = writer_of(settings, pods, wrote=writes.inc)
        self._loop: FeedbackLoop | None = None

    def start(self) -> None:
        """Begins. Containers that an earlier writer left blocked are let go where no feedback is written any more."""
        if self._settings.enabled:
            usage_metrics.read_from(self._metrics, self._scraper.scrape)
        if self._settings.feedback:
            self._metrics.gauge("feedback_active", "Whether the agent writes feedback to containers").set_function(
                lambda: float(not self._writer.blocking_reason)
            )
            self._loop = FeedbackLoop(self._writer, seconds=TICK_SECONDS)
            self._loop.start()
            return
        try:
            self._writer.let_go()
        except OSError as error:
            _log.warning("containers_not_let_go", error=str(error))

    def stop(self) -> None:
        """Ends."""
        if self._loop is not None:
            self._loop.stop()
