"""MIG instances made and removed through NVML, on a driver that a test makes up."""

# ruff: noqa: N802, N815, SLF001 - the library's names, and what is behind its references

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from hami_plugins.model.devices import SlicePlacement
from tests.integration.volcano_vgpu.fake_nvml import NOT_FOUND, NOT_SUPPORTED, FakeCard, FakeNvml, NVMLError
from tests.unit.volcano_vgpu.test_flexible_mig import place
from volcano_vgpu.core.flexible_mig import GpuInstance
from volcano_vgpu.discovery.nvml_partitions import NvmlPartitioner
from volcano_vgpu.discovery.partitions import PartitionError

A = "GPU-a"


class Placement(ctypes.Structure):
    """``nvmlGpuInstancePlacement_t``."""

    _fields_ = (("start", ctypes.c_uint), ("size", ctypes.c_uint))


@dataclass
class Gpu:
    """A GPU instance with its compute instances."""

    number: int
    profile: int
    start: int
    size: int
    computes: list[Any] = field(default_factory=list)


PROFILES = {
    0: SimpleNamespace(
        id=19, name=b"MIG 1g.5gb", sliceCount=1, instanceCount=7, multiprocessorCount=14, memorySizeMB=4864
    ),
    2: SimpleNamespace(
        id=9, name="MIG 3g.20gb", sliceCount=3, instanceCount=2, multiprocessorCount=42, memorySizeMB=19968
    ),
    4: SimpleNamespace(
        id=0, name="MIG 7g.40gb", sliceCount=7, instanceCount=1, multiprocessorCount=98, memorySizeMB=40192
    ),
    7: SimpleNamespace(
        id=20, name="MIG 1g.5gb+me", sliceCount=1, instanceCount=1, multiprocessorCount=14, memorySizeMB=4864
    ),
}
PLACES = {19: [(at, 1) for at in range(7)], 9: [(0, 4), (4, 4)], 0: [(0, 8)], 20: [(0, 1)]}


class MigNvml(FakeNvml):
    """A driver that can cut a card."""

    NVML_ERROR_UNINITIALIZED = 1
    NVML_GPU_INSTANCE_PROFILE_COUNT = 8
    NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 5
    NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0
    c_nvmlGpuInstancePlacement_t = Placement
    c_nvmlGpuInstance_t = ctypes.py_object
    c_nvmlComputeInstance_t = ctypes.py_object

    def __init__(self, *cards: FakeCard) -> None:
        super().__init__(*cards)
        self.gpus: list[Gpu] = []
        self.processes = 0

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeCard:
        return next(card for card in self.cards if card.uuid == uuid)

    def nvmlDeviceGetGpuInstanceProfileInfo(self, card: FakeCard, number: int) -> Any:
        self._asked("nvmlDeviceGetGpuInstanceProfileInfo", card)
        if number not in PROFILES:
            raise NVMLError(NOT_SUPPORTED)
        return PROFILES[number]

    def nvmlDeviceGetGpuInstancePossiblePlacements(self, card: FakeCard, profile: int, room: Any, count: Any) -> None:
        count._obj.value = len(PLACES[profile])
        for at, (start, size) in enumerate(PLACES[profile] if room is not None else ()):
            room[at] = Placement(start, size)

    def nvmlDeviceGetGpuInstances(self, card: FakeCard, profile: int, room: Any, count: Any) -> None:
        found = [gpu for gpu in self.gpus if gpu.profile == profile]
        count._obj.value = len(found)
        for at, gpu in enumerate(found):
            room[at] = gpu

    def nvmlGpuInstanceGetInfo(self, gpu: Any) -> Any:
        return SimpleNamespace(id=gpu.number, placement=SimpleNamespace(start=gpu.start, size=gpu.size))

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, card: FakeCard, profile: int, where: Any) -> Gpu:
        self._asked("nvmlDeviceCreateGpuInstanceWithPlacement", card)
        gpu = Gpu(len(self.gpus) + 1, profile, where._obj.start, where._obj.size)
        self.gpus.append(gpu)
        return gpu

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(self, gpu: Gpu, number: int, engine: int) -> Any:
        slices = {19: 1, 20: 1, 9: 3, 0: 7}[gpu.profile]
        if number >= slices:
            raise NVMLError(NOT_SUPPORTED)
        return SimpleNamespace(id=number, sliceCount=number + 1, instanceCount=1)

    def nvmlGpuInstanceCreateComputeInstance(self, gpu: Gpu, profile: int) -> Any:
        self._asked("nvmlGpuInstanceCreateComputeInstance")
        gpu.computes.append(SimpleNamespace(gpu=gpu, profile=profile))
        self.cards[0].instances.append(FakeCard(f"MIG-{gpu.number}", place=(gpu.number, gpu.start, gpu.size)))

    def nvmlGpuInstanceGetComputeInstances(self, gpu: Gpu, profile: int, room: Any, count: Any) -> None:
        found = [each for each in gpu.computes if each.profile == profile]
        count._obj.value = len(found)
        for at, each in enumerate(found):
            room[at] = each

    def nvmlComputeInstanceDestroy(self, compute: Any) -> None:
        self._asked("nvmlComputeInstanceDestroy")
        compute.gpu.computes.remove(compute)
        self.cards[0].instances = [
            each for each in self.cards[0].instances if each is None or each.place[0] != compute.gpu.number
        ]

    def nvmlGpuInstanceDestroy(self, gpu: Gpu) -> None:
        self._asked("nvmlGpuInstanceDestroy")
        assert not gpu.computes
        self.gpus.remove(gpu)

    def nvmlDeviceGetComputeRunningProcesses(self, device: FakeCard) -> list[int]:
        return list(range(self.processes))


def driver() -> MigNvml:
    return MigNvml(FakeCard(A, mig=True, instances=[None]), FakeCard("GPU-off"), FakeCard("GPU-odd", broken={"*": 999}))


def cut(nvml: MigNvml) -> NvmlPartitioner:
    nvml.cards[2].broken = {"nvmlDeviceGetMigMode": 999}
    return NvmlPartitioner(nvml)


def test_a_card_could_have_each_of_its_profiles_without_further_engines() -> None:
    found = cut(driver()).possible()
    assert set(found) == {A}
    assert {each.name: (each.memory, each.cores, each.slices, len(each.placements)) for each in found[A]} == {  # type: ignore[index]
        "1g.5gb": (4864, 15, 1, 7),
        "3g.20gb": (19968, 43, 3, 2),
        "7g.40gb": (40192, 100, 7, 1),
    }
    assert found[A][1].placements == (SlicePlacement(0, 4), SlicePlacement(4, 4))  # type: ignore[index]


def test_an_instance_is_made_at_its_place_with_a_compute_instance_that_has_all_of_it() -> None:
    nvml = driver()
    partitioner = cut(nvml)
    partitioner.create(place(4, "3g.20gb", 4))
    (gpu,) = nvml.gpus
    assert ((gpu.start, gpu.size), gpu.computes[0].profile) == ((4, 4), 2)
    nvml.processes = 2
    assert partitioner.existing() == (GpuInstance(place(4, "3g.20gb", 4), "MIG-1", 2),)  # type: ignore[arg-type]


def test_one_that_gets_no_compute_instance_is_taken_back() -> None:
    nvml = driver()
    nvml.broken["nvmlGpuInstanceCreateComputeInstance"] = 999
    with pytest.raises(PartitionError, match=r"cannot make MIG instance 1g\.5gb at 0 of GPU-a: Unknown Error"):
        cut(nvml).create(place(0))
    assert nvml.gpus == []


def test_an_instance_is_removed_with_what_is_in_it_and_no_other() -> None:
    nvml = driver()
    partitioner = cut(nvml)
    for where in (place(0), place(1)):
        partitioner.create(where)
    partitioner.destroy(place(0))
    assert [each.place for each in partitioner.existing()] == [place(1)]


def test_half_of_one_is_listed_without_uuid_and_can_be_removed() -> None:
    nvml = driver()
    partitioner = cut(nvml)
    nvml.gpus.append(Gpu(1, 19, 3, 1))
    assert partitioner.existing() == (GpuInstance(place(3)),)
    partitioner.destroy(place(3))
    assert partitioner.existing() == ()


@pytest.mark.parametrize(
    ("function", "call", "words"),
    [
        ("nvmlDeviceGetCount", "possible", "cannot look at MIG: Unknown Error"),
        ("nvmlDeviceGetCount", "existing", "cannot list MIG instances: Unknown Error"),
    ],
)
def test_a_driver_that_does_not_answer_is_an_error_with_the_reason(function: str, call: str, words: str) -> None:
    nvml = driver()
    nvml.broken[function] = 999
    with pytest.raises(PartitionError, match=words):
        getattr(cut(nvml), call)()


def test_a_library_that_is_not_initialized_is_once() -> None:
    nvml = driver()
    partitioner = cut(nvml)
    nvml.broken["nvmlDeviceGetCount"] = 1
    with pytest.raises(PartitionError):
        partitioner.existing()
    assert nvml.open == 1

    def begin() -> None:
        nvml.broken.pop("nvmlDeviceGetCount", None)

    nvml.nvmlInit = begin  # type: ignore[method-assign]
    nvml.broken["nvmlDeviceGetCount"] = 1
    assert partitioner.existing() == ()


def test_a_mig_device_that_cannot_be_read_hides_nothing_silently() -> None:
    nvml = driver()
    nvml.cards[0].broken["nvmlDeviceGetMigDeviceHandleByIndex"] = 999
    with pytest.raises(PartitionError):
        cut(nvml).existing()
    nvml.cards[0].broken["nvmlDeviceGetMigDeviceHandleByIndex"] = NOT_FOUND
    assert cut(nvml).existing() == ()


def test_a_profile_that_the_card_does_not_have_is_refused() -> None:
    with pytest.raises(PartitionError, match="the card has no such profile"):
        cut(driver()).create(place(0, "2g.10gb", 2))
