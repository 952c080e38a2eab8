"""MIG instances made and removed through NVML (``nvml.h``, Multi Instance GPU Management).

It needs the right to change the card: root on the host, or a container with the capability ``SYS_ADMIN`` that sees
``/proc/driver/nvidia/capabilities/mig/config``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from ctypes import byref, c_uint
from importlib import import_module
from typing import Any, Final, TypeVar

from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from volcano_vgpu.core.flexible_mig import GpuInstance, MigPlace
from volcano_vgpu.discovery.partitions import PartitionError
from volcano_vgpu.discovery.reader import text

_Value = TypeVar("_Value")
_WHOLE: Final = 100
_ENGINES: Final = frozenset("+-")
"""In the name of a profile: a variant with other engines, of which no scheduler knows when to take it."""


class NvmlPartitioner:
    """Cuts the cards of this machine. ``library`` is the module ``pynvml``; without one it is loaded when it is needed,
    and initialized where it is not."""

    def __init__(self, library: Any = None) -> None:
        self._nvml = library

    def possible(self) -> Mapping[DeviceId, tuple[Profile, ...]]:
        """See ``Partitioner``."""
        return self._try(lambda: {uuid: tuple(self._profiles(handle)) for uuid, handle in self._cards()}, "look at MIG")

    def existing(self) -> tuple[GpuInstance, ...]:
        """See ``Partitioner``."""
        return self._try(
            lambda: tuple(found for uuid, handle in self._cards() for found in self._of_card(uuid, handle)),
            "list MIG instances",
        )

    def create(self, place: MigPlace) -> None:
        """See ``Partitioner``."""
        self._try(lambda: self._create(place), f"make MIG instance {place}")

    def destroy(self, place: MigPlace) -> None:
        """See ``Partitioner``."""
        self._try(lambda: self._destroy(place), f"remove MIG instance {place}")

    def _try(self, ask: Callable[[], _Value], what: str) -> _Value:
        if self._nvml is None:
            try:
                self._nvml = import_module("pynvml")
            except ImportError as error:
                raise PartitionError(f"cannot {what}: the package nvidia-ml-py is missing") from error
        try:
            try:
                return ask()
            except self._nvml.NVMLError as error:
                if error.value != self._nvml.NVML_ERROR_UNINITIALIZED:
                    raise
            self._nvml.nvmlInit()
            return ask()
        except self._nvml.NVMLError as error:
            raise PartitionError(f"cannot {what}: {error}") from error

    def _cards(self) -> Iterator[tuple[DeviceId, Any]]:
        nvml = self._nvml
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            try:
                current, _ = nvml.nvmlDeviceGetMigMode(handle)
            except nvml.NVMLError:
                continue  # no card of MIG, or one that does not answer: discovery says so
            if current == nvml.NVML_DEVICE_MIG_ENABLE:
                yield DeviceId(text(nvml.nvmlDeviceGetUUID(handle))), handle

    def _infos(self, handle: Any) -> Iterator[tuple[str, Any]]:
        """The profiles of a card, each once, by name; numbers that a card does not have are passed over."""
        nvml = self._nvml
        for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            with suppress(nvml.NVMLError):
                info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number)
                yield text(info.name).rpartition(" ")[2], info

    def _profiles(self, handle: Any) -> Iterator[Profile]:
        found = [(name, info) for name, info in self._infos(handle) if _ENGINES.isdisjoint(name)]
        most = max((info.multiprocessorCount for _, info in found), default=0)
        for name, info in found:
            yield Profile(
                name=name,
                memory=MiB(info.memorySizeMB),
                cores=CoreShare(-(-_WHOLE * info.multiprocessorCount // most) if most else 0),
                slices=int(info.sliceCount),
                placements=tuple(self._places(handle, info.id)),
            )

    def _places(self, handle: Any, profile: int) -> Iterator[SlicePlacement]:
        nvml, count = self._nvml, c_uint()
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, None, byref(count))
        room = (nvml.c_nvmlGpuInstancePlacement_t * count.value)()
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile, room, byref(count))
        yield from (SlicePlacement(int(each.start), int(each.size)) for each in room[: count.value])

    def _of_card(self, uuid: DeviceId, handle: Any) -> Iterator[GpuInstance]:
        devices = dict(self._mig_devices(handle))
        for name, _, info in self._gpu_instances(handle):
            place = MigPlace(uuid, name, int(info.placement.start), int(info.placement.size))
            seen = devices.get(int(info.id), [])
            first = DeviceId(text(self._nvml.nvmlDeviceGetUUID(seen[0]))) if seen else DeviceId("")
            yield GpuInstance(place, first, sum(len(self._processes(each)) for each in seen))

    def _gpu_instances(self, handle: Any) -> Iterator[tuple[str, Any, Any]]:
        nvml = self._nvml
        for name, profile in self._infos(handle):
            count = c_uint()
            room = (nvml.c_nvmlGpuInstance_t * max(int(profile.instanceCount), 1))()
            nvml.nvmlDeviceGetGpuInstances(handle, profile.id, room, byref(count))
            for instance in room[: count.value]:
                yield name, instance, nvml.nvmlGpuInstanceGetInfo(instance)

    def _mig_devices(self, handle: Any) -> Mapping[int, list[Any]]:
        """The MIG devices of a card by the number of their GPU instance."""
        nvml = self._nvml
        found: dict[int, list[Any]] = {}
        for at in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, at)
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_NOT_FOUND:
                    continue
                raise
            found.setdefault(int(nvml.nvmlDeviceGetGpuInstanceId(device)), []).append(device)
        return found

    def _processes(self, device: Any) -> list[Any]:
        return list(self._nvml.nvmlDeviceGetComputeRunningProcesses(device))

    def _create(self, place: MigPlace) -> None:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByUUID(place.card)
        profile = next((info for name, info in self._infos(handle) if name == place.profile), None)
        if profile is None:
            raise PartitionError(f"cannot make MIG instance {place}: the card has no such profile")
        where = nvml.c_nvmlGpuInstancePlacement_t(place.start, place.size)
        instance = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile.id, byref(where))
        try:
            whole = self._whole(instance, int(profile.sliceCount))
            nvml.nvmlGpuInstanceCreateComputeInstance(instance, whole.id)
        except nvml.NVMLError:
            nvml.nvmlGpuInstanceDestroy(instance)
            raise

    def _whole(self, instance: Any, slices: int) -> Any:
        """The compute profile that has all slices of a GPU instance."""
        nvml, shared = self._nvml, self._nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
        last: Exception | None = None
        for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            try:
                found = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, number, shared)
            except nvml.NVMLError as error:
                last = error
                continue
            if int(found.sliceCount) == slices:
                return found
        raise last or nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)

    def _destroy(self, place: MigPlace) -> None:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByUUID(place.card)
        for name, instance, info in self._gpu_instances(handle):
            if (name, int(info.placement.start), int(info.placement.size)) != place[1:]:
                continue
            for compute in self._compute_instances(instance):
                nvml.nvmlComputeInstanceDestroy(compute)
            nvml.nvmlGpuInstanceDestroy(instance)

    def _compute_instances(self, instance: Any) -> Iterator[Any]:
        nvml, shared = self._nvml, self._nvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
        for number in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            try:
                profile = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, number, shared)
            except nvml.NVMLError:
                continue
            count = c_uint()
            room = (nvml.c_nvmlComputeInstance_t * max(int(profile.instanceCount), 1))()
            nvml.nvmlGpuInstanceGetComputeInstances(instance, profile.id, room, byref(count))
            yield from room[: count.value]
