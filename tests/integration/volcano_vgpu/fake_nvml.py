"""The parts of ``pynvml`` that discovery asks for, about cards that a test makes up."""

# ruff: noqa: N802, N815 - the library's names

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

NOT_SUPPORTED, NOT_FOUND, NOT_LOADED, TIMEOUT, LOST = 3, 6, 9, 10, 15
_WORDS = {
    1: "Uninitialized",
    NOT_SUPPORTED: "Not Supported",
    NOT_FOUND: "Not Found",
    NOT_LOADED: "Driver Not Loaded",
    TIMEOUT: "Timeout",
    LOST: "GPU is lost",
    999: "Unknown Error",
}


class NVMLError(Exception):
    """An error as the library raises it."""

    def __init__(self, value: int) -> None:
        super().__init__(_WORDS[value])
        self.value = value


@dataclass
class FakeCard:
    """A card. ``broken`` maps the name of a function to the error that it raises for this card; ``*`` means all."""

    uuid: str
    minor: int = 0
    name: str | bytes = "NVIDIA A100-SXM4-40GB"
    memory: int = 40960 * 2**20
    bus: str = "00000000:3B:00.0"
    mig: bool = False
    instances: list[FakeCard | None] = field(default_factory=list)
    place: tuple[int, int, int] = (0, 0, 0)
    remapped: tuple[int, int, int, int] = (0, 0, 0, 0)
    peers: list[str | None] = field(default_factory=list)
    broken: dict[str, int] = field(default_factory=dict)
    parent: FakeCard | None = None


class FakeNvml:
    """A driver and its cards."""

    NVMLError = NVMLError
    NVML_ERROR_NOT_SUPPORTED = NOT_SUPPORTED
    NVML_ERROR_NOT_FOUND = NOT_FOUND
    NVML_ERROR_TIMEOUT = TIMEOUT
    NVML_ERROR_GPU_IS_LOST = LOST
    NVML_ERROR_RESET_REQUIRED = 16
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_FEATURE_ENABLED = 1
    NVML_TEMPERATURE_GPU = 0
    NVML_NVLINK_MAX_LINKS = 36
    NVML_TOPOLOGY_INTERNAL = 0
    NVML_TOPOLOGY_SINGLE = 10
    NVML_TOPOLOGY_MULTIPLE = 20
    NVML_TOPOLOGY_HOSTBRIDGE = 30
    NVML_TOPOLOGY_NODE = 40
    NVML_TOPOLOGY_SYSTEM = 50
    nvmlEventTypeXidCriticalError = 8

    def __init__(self, *cards: FakeCard) -> None:
        self.cards = list(cards)
        self.broken: dict[str, int] = {}
        self.calls: list[str] = []
        self.open = 0
        self.registered = 0
        self.sets = 0
        self._events: list[Any] = []
        self._happened = threading.Condition()

    def happen(self, card: FakeCard, xid: int, kind: int = 8) -> None:
        """An event of a card."""
        with self._happened:
            self._events.append(SimpleNamespace(eventType=kind, eventData=xid, device=card))
            self._happened.notify_all()

    def _asked(self, name: str, card: FakeCard | None = None) -> None:
        self.calls.append(name)
        if name in self.broken:
            raise NVMLError(self.broken[name])
        if card is not None and (error := card.broken.get(name, card.broken.get("*"))) is not None:
            raise NVMLError(error)

    def nvmlInit(self) -> None:
        self._asked("nvmlInit")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self._asked("nvmlShutdown")
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        self._asked("nvmlDeviceGetCount")
        return len(self.cards)

    def nvmlSystemGetDriverVersion(self) -> str:
        self._asked("nvmlSystemGetDriverVersion")
        return "550.54.15"

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:
        self._asked("nvmlDeviceGetHandleByIndex", self.cards[index])
        return self.cards[index]

    def nvmlDeviceGetUUID(self, card: FakeCard) -> str:
        self._asked("nvmlDeviceGetUUID", card)
        return card.uuid

    def nvmlDeviceGetPciInfo(self, card: FakeCard) -> Any:
        self._asked("nvmlDeviceGetPciInfo", card)
        return SimpleNamespace(busId=card.bus)

    def nvmlDeviceGetMinorNumber(self, card: FakeCard) -> int:
        self._asked("nvmlDeviceGetMinorNumber", card)
        return card.minor

    def nvmlDeviceGetName(self, card: FakeCard) -> str | bytes:
        self._asked("nvmlDeviceGetName", card)
        return card.name

    def nvmlDeviceGetMemoryInfo(self, card: FakeCard) -> Any:
        self._asked("nvmlDeviceGetMemoryInfo", card)
        return SimpleNamespace(total=card.memory, used=card.memory // 4)

    def nvmlDeviceGetUtilizationRates(self, card: FakeCard) -> Any:
        self._asked("nvmlDeviceGetUtilizationRates", card)
        return SimpleNamespace(gpu=50)

    def nvmlDeviceGetTemperature(self, card: FakeCard, sensor: int) -> int:
        self._asked("nvmlDeviceGetTemperature", card)
        return 61

    def nvmlDeviceGetPowerUsage(self, card: FakeCard) -> int:
        self._asked("nvmlDeviceGetPowerUsage", card)
        return 250500

    def nvmlDeviceGetRemappedRows(self, card: FakeCard) -> tuple[int, int, int, int]:
        self._asked("nvmlDeviceGetRemappedRows", card)
        return card.remapped

    def nvmlDeviceGetMigMode(self, card: FakeCard) -> list[int]:
        self._asked("nvmlDeviceGetMigMode", card)
        return [int(card.mig), int(card.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, card: FakeCard) -> int:
        self._asked("nvmlDeviceGetMaxMigDeviceCount", card)
        return len(card.instances)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: FakeCard, at: int) -> FakeCard:
        self._asked("nvmlDeviceGetMigDeviceHandleByIndex", card)
        if (found := card.instances[at]) is None:
            raise NVMLError(NOT_FOUND)
        return found

    def nvmlDeviceGetGpuInstanceId(self, card: FakeCard) -> int:
        self._asked("nvmlDeviceGetGpuInstanceId", card)
        return card.place[0]

    def nvmlDeviceGetGpuInstanceById(self, card: FakeCard, number: int) -> FakeCard:
        self._asked("nvmlDeviceGetGpuInstanceById", card)
        return next(each for each in card.instances if each is not None and each.place[0] == number)

    def nvmlGpuInstanceGetInfo(self, card: FakeCard) -> Any:
        return SimpleNamespace(placement=SimpleNamespace(start=card.place[1], size=card.place[2]))

    def nvmlDeviceGetNvLinkState(self, card: FakeCard, lane: int) -> int:
        self._asked("nvmlDeviceGetNvLinkState", card)
        if lane >= len(card.peers):
            raise NVMLError(NOT_SUPPORTED)
        return int(card.peers[lane] is not None)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, card: FakeCard, lane: int) -> Any:
        return SimpleNamespace(busId=card.peers[lane])

    def nvmlDeviceGetTopologyCommonAncestor(self, one: FakeCard, other: FakeCard) -> int:
        self._asked("nvmlDeviceGetTopologyCommonAncestor", one)
        return self.NVML_TOPOLOGY_SYSTEM

    def nvmlEventSetCreate(self) -> object:
        self._asked("nvmlEventSetCreate")
        self.sets += 1
        return object()

    def nvmlEventSetFree(self, events: object) -> None:
        self.sets -= 1

    def nvmlDeviceGetSupportedEventTypes(self, card: FakeCard) -> int:
        self._asked("nvmlDeviceGetSupportedEventTypes", card)
        return 8

    def nvmlDeviceRegisterEvents(self, card: FakeCard, kinds: int, events: object) -> None:
        self.registered += 1

    def nvmlEventSetWait_v2(self, events: object, milliseconds: int) -> Any:
        self._asked("nvmlEventSetWait_v2")
        with self._happened:
            if not self._happened.wait_for(lambda: self._events, milliseconds / 1000):
                raise NVMLError(TIMEOUT)
            return self._events.pop(0)
