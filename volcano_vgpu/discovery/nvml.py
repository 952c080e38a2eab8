"""Cards as NVIDIA's driver reports them, through NVML.

When a card is healthy: an XID error that counts (``health.XidFilter``) is a problem of its card, and stays one until
``recovery`` seconds have passed without another and the card answers a probe, without a memory row that could not be
remapped or waits for a reset. The probe is repeated until then, so that a reset by hand or by the driver is noticed,
and nothing needs a restart of the agent to heal. A card that the driver gives up ("fallen off the bus") has a problem
until the driver reports it again; no other card is suspected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import structlog

from hami_plugins.model.units import DeviceId
from volcano_vgpu.core.health import XidFilter
from volcano_vgpu.core.model import DeviceLink, DeviceMeasurement, NodeInventory, PhysicalDevice
from volcano_vgpu.discovery.port import DiscoveryError
from volcano_vgpu.discovery.reader import CardReader, ProbedDevice, text

_SLICE_SECONDS: Final = 0.5
"""NVML's wait cannot be broken off, so it is asked to wait so long at a time."""

_BUSES: Final = Path("/sys/bus/pci/devices")
_MEANINGS: Final[Mapping[int, str]] = {
    48: "double-bit ECC error; reset the card",
    62: "the card's microcontroller halted; reset the card",
    63: "a memory row is to be remapped; reset the card when it is idle",
    64: "a memory row could not be remapped; reset the card, replace it if that does not help",
    74: "NVLink error; check the link, reset the card",
    79: "the card has fallen off the bus; reboot the node, check its power and seating",
    92: "many single-bit ECC errors; watch the card",
    94: "contained ECC error; restart the application, reset the card when it is idle",
    95: "uncontained ECC error; reset the card",
    119: "the card's system processor does not answer; reset the card or reboot the node",
    120: "the card's system processor failed; reset the card or reboot the node",
}
"""What an XID means and what to do about it."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """The last XID of a card, and when it is to be probed next."""

    xid: int
    probe_at: float

    def __str__(self) -> str:
        return (
            f"XID {self.xid}: {_MEANINGS.get(self.xid, 'look it up in the kernel log and in the list of XID errors')}"
        )


class NvmlDiscovery:
    """Looks at the cards of this machine. ``library`` is the module ``pynvml``; without one ``open`` loads it."""

    def __init__(
        self,
        *,
        counts: XidFilter,
        recovery: float,
        library: Any = None,
        buses: Path = _BUSES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counts = counts
        self._recovery = recovery
        self._nvml = library
        self._buses = buses
        self._clock = clock
        self._closed = threading.Event()
        # Held while NVML waits for events, so that the set of events is not freed under it.
        self._events_lock = threading.Lock()
        self._events: Any = None
        self._opened = False
        self._seen: Mapping[DeviceId, ProbedDevice] = {}
        self._known: dict[int, PhysicalDevice] = {}
        self._links: dict[DeviceId, tuple[DeviceLink, ...]] = {}
        self._faults: dict[DeviceId, _Fault] = {}
        self._log = structlog.get_logger(__name__)

    def open(self) -> None:
        """See ``Discovery``."""
        if self._nvml is None:
            try:
                self._nvml = import_module("pynvml")
            except ImportError as error:
                raise DiscoveryError(
                    "NVML cannot be used: the package nvidia-ml-py is missing; install hami-plugins[nvidia], or set "
                    "cardsFile"
                ) from error
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise DiscoveryError(
                f"no NVIDIA driver: {error}; install or load it, and let the agent see it (runtimeClassName nvidia, or "
                "the driver's libraries mounted); cardsFile is for machines without cards"
            ) from error
        self._opened = True
        self._listen()

    def inventory(self) -> NodeInventory:
        """See ``Discovery``."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            count = self._begun_again(error)
        reader = CardReader(self._nvml, self._buses)
        seen: dict[int, ProbedDevice] = {}
        cards: dict[int, PhysicalDevice] = {}
        passed_over: dict[str, str] = {}
        for index in range(count):
            try:
                seen[index] = reader.card(index)
            except self._nvml.NVMLError as error:
                if (known := self._known.get(index)) is None:
                    passed_over[f"index {index}"] = f"cannot be read: {error}; look at nvidia-smi and the kernel log"
                else:
                    cards[index] = replace(known, problems=(_lost(str(error)),))
            else:
                cards[index] = replace(seen[index].card, problems=self._problems(seen[index], reader))
        self._known |= cards
        self._put_off_probes()
        self._seen = {each.card.uuid: each for each in seen.values()}
        self._find_links(reader)
        found = [replace(card, links=self._links.get(card.uuid, ())) for card in cards.values()]
        found.sort(key=lambda card: (card.minor, card.uuid))
        return NodeInventory(driver=self._driver(), cards=tuple(found), passed_over=passed_over)

    def use(self, uuid: DeviceId) -> DeviceMeasurement:
        """See ``Discovery``."""
        seen = self._seen.get(uuid)
        return DeviceMeasurement() if seen is None else CardReader(self._nvml, self._buses).use(seen.handle)

    def wait(self, timeout: float) -> bool:
        """See ``Discovery``: an error that counts, or the time to probe a card anew."""
        until = self._clock() + timeout
        while not self._closed.is_set():
            now = self._clock()
            if any(fault.probe_at <= now for fault in self._faults.values()):
                return True
            if now >= until:
                return False
            if self._heard(min(_SLICE_SECONDS, until - now)):
                return True
        return False

    def close(self) -> None:
        """See ``Discovery``."""
        self._closed.set()
        if self._opened:
            self._opened = False
            self._let_go()

    def _let_go(self) -> None:
        nvml = self._nvml
        with self._events_lock:
            if self._events is not None:
                with suppress(nvml.NVMLError):
                    nvml.nvmlEventSetFree(self._events)
            self._events = None
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def _driver(self) -> str:
        try:
            return text(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError:
            return ""

    def _begun_again(self, error: Exception) -> int:
        """The number of cards after beginning anew, once: the driver may have been loaded anew under us."""
        self._log.warning("nvml_lost", error=str(error))
        self._let_go()
        try:
            self._nvml.nvmlInit()
            count: int = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as again:
            raise DiscoveryError(f"the NVIDIA driver does not answer: {again}; is it being replaced?") from again
        self._known = {}
        self._listen()
        return count

    def _problems(self, seen: ProbedDevice, reader: CardReader) -> tuple[str, ...]:
        """What is wrong with a card that can be read."""
        lost = (_lost(seen.lost),) if seen.lost else ()
        uuid = seen.card.uuid
        fault, now = self._faults.get(uuid), self._clock()
        if fault is None:
            return lost
        if fault.probe_at > now:
            return (*lost, str(fault))
        why = seen.lost or reader.sick(seen.handle)
        if why:
            return (*lost, f"{fault} ({why})")
        del self._faults[uuid]
        self._log.info("card_recovered", device=uuid, xid=fault.xid)
        return lost

    def _put_off_probes(self) -> None:
        """Whatever was not to be probed now, for its card did not answer, is so later."""
        now = self._clock()
        for uuid, fault in self._faults.items():
            if fault.probe_at <= now:
                self._faults[uuid] = replace(fault, probe_at=now + self._recovery)

    def _find_links(self, reader: CardReader) -> None:
        """Links do not change while the cards are the same, and there are many questions to ask."""
        if self._seen.keys() <= self._links.keys():
            return
        for uuid, seen in self._seen.items():
            self._links[uuid] = reader.links(seen, [other for name, other in self._seen.items() if name != uuid])

    def _listen(self) -> None:
        """Asks for the errors of all cards. A card that sends none is still looked at with every inventory."""
        nvml = self._nvml
        with self._events_lock:
            try:
                self._events = nvml.nvmlEventSetCreate()
                count = nvml.nvmlDeviceGetCount()
            except nvml.NVMLError as error:
                self._log.warning("nvml_events_unavailable", error=str(error))
                return
            for index in range(count):
                try:
                    handle = nvml.nvmlDeviceGetHandleByIndex(index)
                    if nvml.nvmlDeviceGetSupportedEventTypes(handle) & nvml.nvmlEventTypeXidCriticalError:
                        nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)
                except nvml.NVMLError as error:
                    self._log.warning("nvml_events_unavailable", index=index, error=str(error))

    def _heard(self, seconds: float) -> bool:
        """Waits for one event; whether something may have changed."""
        with self._events_lock:
            if self._events is not None:
                try:
                    return self._noted(self._nvml.nvmlEventSetWait_v2(self._events, max(1, int(seconds * 1000))))
                except self._nvml.NVMLError as error:
                    if error.value == self._nvml.NVML_ERROR_TIMEOUT:
                        return False
                    self._log.warning("nvml_wait_failed", error=str(error))
        # A driver that fails at once is not to keep a core busy. What is wrong, if anything, is found out card by card.
        self._closed.wait(seconds)
        return self._events is not None

    def _noted(self, event: Any) -> bool:
        """Takes down an XID against its card. One that names no card makes every card looked at, none suspected."""
        nvml, xid = self._nvml, int(event.eventData)
        if event.eventType != nvml.nvmlEventTypeXidCriticalError or not self._counts.counts(xid):
            return False
        try:
            uuid = DeviceId(text(nvml.nvmlDeviceGetUUID(event.device)))
        except nvml.NVMLError as error:
            self._log.warning("xid_of_unknown_card", xid=xid, error=str(error))
            return True
        self._faults[uuid] = _Fault(xid, self._clock() + self._recovery)
        self._log.warning("xid_seen", device=uuid, xid=xid)
        return True


def _lost(why: str) -> str:
    return f"lost: {why}; reset the card or reboot the node"
