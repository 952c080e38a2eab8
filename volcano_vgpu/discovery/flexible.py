"""Cards as discovery finds them, with the MIG instances that could be made on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from hami_plugins.model.devices import Profile
from hami_plugins.model.units import DeviceId
from volcano_vgpu.core.flexible_mig import Journal, offered
from volcano_vgpu.core.model import DeviceMeasurement, NodeInventory
from volcano_vgpu.discovery.partitions import Partitioner, PartitionError
from volcano_vgpu.discovery.port import Discovery

_SLICE_SECONDS: Final = 0.5
"""How soon a ``look_again`` is noticed."""


class FlexibleDiscovery:
    """``Discovery`` over another one. ``journal`` identifies the agent's own instances."""

    def __init__(
        self,
        inner: Discovery,
        partitioner: Partitioner,
        journal: Callable[[], Journal],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._partitioner = partitioner
        self._journal = journal
        self._clock = clock
        self._again = threading.Event()
        self._known: Mapping[DeviceId, tuple[Profile, ...]] = {}
        self._told = ""

    def look_again(self) -> None:
        """An instance was created or removed: waiting calls return now."""
        self._again.set()

    def open(self) -> None:
        """See ``Discovery``."""
        self._inner.open()

    def inventory(self) -> NodeInventory:
        """See ``Discovery``. What a card could be cut into stays as it was known while the driver does not tell."""
        self._again.clear()
        found = self._inner.inventory()
        try:
            possible, existing = self._partitioner.possible(), self._partitioner.existing()
        except PartitionError as error:
            if str(error) != self._told:
                self._told = str(error)
                structlog.get_logger(__name__).warning("mig_not_looked_at", error=self._told)
        else:
            self._told = ""
            journal = self._journal()
            self._known = {
                card.uuid: offered(card, possible.get(card.uuid, ()), journal, existing) for card in found.cards
            }
        cards = tuple(replace(card, partitions=self._known.get(card.uuid, ())) for card in found.cards)
        return replace(found, cards=cards)

    def use(self, uuid: DeviceId) -> DeviceMeasurement:
        """See ``Discovery``."""
        return self._inner.use(uuid)

    def wait(self, timeout: float) -> bool:
        """See ``Discovery``."""
        until = self._clock() + timeout
        while (left := until - self._clock()) > 0:
            if self._again.is_set():
                return True
            begun = self._clock()
            if self._inner.wait(min(left, _SLICE_SECONDS)):
                return True
            if self._clock() - begun < min(left, _SLICE_SECONDS) / 2:
                return False  # it was closed
        return self._again.is_set()

    def close(self) -> None:
        """See ``Discovery``."""
        self._inner.close()
