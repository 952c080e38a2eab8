"""Puts in force what is asked of running slices and booked for them: the memory limits in their regions.

Looked at from time to time, and only where a pod has an annotation about it: an idle node costs no API call. One field
of a region is written, its memory limit, and only in a region whose layout is known, in the same file and over the same
limit that were decided on. The library reads the field at each allocation, and never writes it again.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import structlog

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.model.units import PodUid
from hami_plugins.wire import lenient, resizes
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pod_devices import AssignedDevice
from hami_plugins.wire.pods import finished
from volcano_vgpu.agent.bookkeeper import Patching
from volcano_vgpu.core.monitor.join import Allocations
from volcano_vgpu.core.monitor.regions import Content
from volcano_vgpu.core.resizes import AgentStep, LimitInForce, in_force, next_step
from volcano_vgpu.monitor.files import NotPlainError, Parts, RegionFiles, opened, parts, read

EVERY_SECONDS: Final = 5.0

_LIMIT: Final = struct.Struct("<Q")

_log = structlog.get_logger(__name__)


class SliceResizer:
    """One ``look`` after the other at the pods of a node. ``allocations`` is what its containers were handed."""

    def __init__(
        self,
        api: Patching,
        files: RegionFiles,
        *,
        pods: Callable[[], Iterable[Json]],
        allocations: Callable[[], Allocations],
        factor: int,
    ) -> None:
        self._api = api
        self._files = files
        self._pods = pods
        self._allocations = allocations
        self._factor = factor

    def look(self) -> None:
        """Does what is next about each container that was to be resized."""
        asked = [raw for raw in self._pods() if _concerns(raw)]
        if not asked:
            return
        directories, allocations = self._files.directories(), self._allocations()
        for raw in asked:
            uid = PodUid(lenient.uid(raw))
            own = {name: devices for (of, name), devices in allocations.items() if of == uid and len(devices) == 1}
            for name, (device,) in own.items():
                if self._step(raw, name, device, directories.get(f"{uid}_{name}")):
                    break  # the pod was written: what is next follows from its new version

    def _step(self, raw: Json, name: str, device: AssignedDevice, directory: Path | None) -> bool:
        """Whether the pod was written, or could not be."""
        found = resizes.decode(lenient.texts(lenient.inside(raw, "metadata").get("annotations")))
        if found is None:
            return False
        content: Content = None if directory is None else read(directory)
        region = in_force(content, device.device)
        step = next_step(found, name, device.memory, region, factor=self._factor)
        if step.annotations is not None and not self._write(raw, step.annotations):
            return True
        if step.limit is not None and directory is not None and isinstance(region, LimitInForce):
            self._put(directory, region, step)
            _log.info("slice_resized", pod=_name(raw), container=name, limit_bytes=step.limit)
        return step.annotations is not None

    def _write(self, raw: Json, annotations: Mapping[str, str]) -> bool:
        metadata = lenient.inside(raw, "metadata")
        about = {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
        path = paths.pod(str(metadata.get("namespace")), str(metadata.get("name")))
        try:
            self._api.merge_patch(path, {"metadata": {**about, "annotations": dict(annotations)}})
        except KubeError as error:
            _log.warning("resize_not_written", pod=_name(raw), error=str(error))
            return False
        return True

    @staticmethod
    def _put(directory: Path, before: LimitInForce, step: AgentStep) -> None:
        """Writes the limit, if the region still has the one that was decided on."""
        try:
            with opened(directory, os.O_RDWR) as file:
                found = None if file is None else parts(file)
                if file is None or not isinstance(found, Parts):
                    return
                header = found.header
                if header.memory_limits[before.index] == before.limit:
                    os.pwrite(file, _LIMIT.pack(step.limit), header.layout.memory_limit_at(before.index))
        except (OSError, NotPlainError) as error:
            _log.warning("limit_not_written", path=str(directory), error=str(error))


class ResizeLoop:
    """A thread that looks every ``seconds``."""

    def __init__(self, resizer: SliceResizer, *, seconds: float = EVERY_SECONDS) -> None:
        self._resizer = resizer
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="resizes", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends. Slices stay as they are."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._resizer.look()
            except Exception:  # noqa: BLE001 - the outermost loop: the next look may work
                _log.exception("resize_failed")


def _concerns(raw: Json) -> bool:
    annotations = lenient.inside(raw, "metadata", "annotations")
    return any(annotations.get(key) for key in resizes.KEYS) and not finished(raw)


def _name(raw: Json) -> str:
    metadata = lenient.inside(raw, "metadata")
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
