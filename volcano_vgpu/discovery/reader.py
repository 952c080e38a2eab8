"""Reads one card, one field at a time, through NVML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from hami_plugins.model.units import DeviceId, MiB
from volcano_vgpu.core.model import DeviceLink, DeviceMeasurement, MigInstance, PhysicalDevice

_MIB: Final = 2**20
_ANCESTORS: Final = (
    ("NVML_TOPOLOGY_INTERNAL", "pcie-internal"),
    ("NVML_TOPOLOGY_SINGLE", "pcie-single"),
    ("NVML_TOPOLOGY_MULTIPLE", "pcie-multiple"),
    ("NVML_TOPOLOGY_HOSTBRIDGE", "pcie-hostbridge"),
    ("NVML_TOPOLOGY_NODE", "pcie-node"),
    ("NVML_TOPOLOGY_SYSTEM", "pcie-system"),
)

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ProbedDevice:
    """A card as read, the driver's handle of it, and where the driver gave it up, in which words."""

    card: PhysicalDevice
    handle: Any
    lost: str


class CardReader:
    """Asks NVML (the module ``pynvml``, handed in) about cards.

    A field that cannot be read is named in ``PhysicalDevice.unreadable`` and hides no other. ``buses`` is where the
    kernel reports the NUMA node of a PCI device: NVML's own number means something else on boards whose cards share
    memory with the processor.
    """

    def __init__(self, nvml: Any, buses: Path) -> None:
        self._nvml = nvml
        self._buses = buses

    def card(self, index: int) -> ProbedDevice:
        """The card of that index; raises NVML's error where not even its UUID can be read."""
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = DeviceId(text(nvml.nvmlDeviceGetUUID(handle)))
        fields = _Fields(nvml)
        bus = fields.read("PCI address", lambda: text(nvml.nvmlDeviceGetPciInfo(handle).busId), "")
        mig = fields.read("MIG mode", lambda: self._mig(handle), False)
        card = PhysicalDevice(
            uuid=uuid,
            index=index,
            minor=fields.read("minor number", lambda: int(nvml.nvmlDeviceGetMinorNumber(handle)), -1),
            model=fields.read("name", lambda: text(nvml.nvmlDeviceGetName(handle)), ""),
            memory=fields.read("memory", lambda: MiB(nvml.nvmlDeviceGetMemoryInfo(handle).total // _MIB), MiB(0)),
            numa=self._numa(bus),
            pci_bus=bus,
            mig=mig,
            instances=fields.read("MIG instances", lambda: tuple(self._instances(handle)), ()) if mig else (),
            unreadable=tuple(fields.unreadable),
        )
        return ProbedDevice(card, handle, fields.lost)

    def use(self, handle: Any) -> DeviceMeasurement:
        """What the driver measures."""
        nvml, fields = self._nvml, _Fields(self._nvml)
        return DeviceMeasurement(
            memory_used=fields.read("memory", lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used), None),
            utilization=fields.read("load", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100, None),
            temperature=fields.read(
                "temperature", lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)), None
            ),
            power_watts=fields.read("power", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000, None),
        )

    def sick(self, handle: Any) -> str:
        """Why a card that had an error is not to be used yet; empty where it answers as a sound one does."""
        nvml = self._nvml
        try:
            nvml.nvmlDeviceGetUUID(handle)
            nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            return f"it does not answer: {error}"
        try:
            _, _, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
        except nvml.NVMLError as error:
            return "" if error.value == nvml.NVML_ERROR_NOT_SUPPORTED else f"it does not answer: {error}"
        if failed:
            return "a memory row could not be remapped"
        return "a memory row waits for a reset to be remapped" if pending else ""

    def links(self, seen: ProbedDevice, others: Sequence[ProbedDevice]) -> tuple[DeviceLink, ...]:
        """What joins a card to the others: NVLink, or how close they are on PCIe."""
        lanes = self._lanes(seen, {other.card.pci_bus.lower(): other.card.uuid for other in others})
        found = [DeviceLink(peer=peer, kind="nvlink", lanes=count) for peer, count in sorted(lanes.items())]
        found += [
            DeviceLink(peer=other.card.uuid, kind=kind)
            for other in others
            if other.card.uuid not in lanes and (kind := self._closeness(seen, other))
        ]
        return tuple(found)

    def _lanes(self, seen: ProbedDevice, buses: Mapping[str, DeviceId]) -> Counter[DeviceId]:
        nvml = self._nvml
        lanes: Counter[DeviceId] = Counter()
        for lane in range(nvml.NVML_NVLINK_MAX_LINKS):
            try:
                if nvml.nvmlDeviceGetNvLinkState(seen.handle, lane) != nvml.NVML_FEATURE_ENABLED:
                    continue
                bus = text(nvml.nvmlDeviceGetNvLinkRemotePciInfo(seen.handle, lane).busId).lower()
            except nvml.NVMLError:
                # The driver has neither this lane nor any above it.
                break
            if bus and bus in buses:
                lanes[buses[bus]] += 1
        return lanes

    def _closeness(self, one: ProbedDevice, other: ProbedDevice) -> str:
        try:
            level = self._nvml.nvmlDeviceGetTopologyCommonAncestor(one.handle, other.handle)
        except self._nvml.NVMLError:
            return ""
        return next((kind for name, kind in _ANCESTORS if getattr(self._nvml, name) == level), "")

    def _mig(self, handle: Any) -> bool:
        nvml = self._nvml
        try:
            current, _ = nvml.nvmlDeviceGetMigMode(handle)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NOT_SUPPORTED:
                return False
            raise
        return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)

    def _instances(self, handle: Any) -> Iterator[MigInstance]:
        nvml = self._nvml
        for at in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, at)
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_NOT_FOUND:
                    continue
                raise
            number = nvml.nvmlDeviceGetGpuInstanceId(instance)
            lies = nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceGetGpuInstanceById(handle, number)).placement
            yield MigInstance(
                uuid=DeviceId(text(nvml.nvmlDeviceGetUUID(instance))),
                profile=text(nvml.nvmlDeviceGetName(instance)).rpartition(" ")[2],
                memory=MiB(nvml.nvmlDeviceGetMemoryInfo(instance).total // _MIB),
                start=int(lies.start),
                size=int(lies.size),
            )

    def _numa(self, bus: str) -> int | None:
        domain, colon, rest = bus.lower().partition(":")
        try:
            node = int((self._buses / f"{domain[-4:]}{colon}{rest}" / "numa_node").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None


class _Fields:
    """Reads fields one by one. ``unreadable`` are those without a value; ``lost`` says why the card is given up."""

    def __init__(self, nvml: Any) -> None:
        self.unreadable: list[str] = []
        self.lost = ""
        self._nvml = nvml

    def read(self, name: str, ask: Callable[[], _Value], otherwise: _Value) -> _Value:
        """The field, or something else."""
        try:
            return ask()
        except self._nvml.NVMLError as error:
            self.unreadable.append(name)
            if error.value in (self._nvml.NVML_ERROR_GPU_IS_LOST, self._nvml.NVML_ERROR_RESET_REQUIRED):
                self.lost = str(error)
            return otherwise


def text(found: object) -> str:
    """A text of NVML's; older versions of the library answer in bytes."""
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
