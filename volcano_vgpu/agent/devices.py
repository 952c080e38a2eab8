"""Keeps the state of this node's cards: follows discovery, and passes changes to publisher and plugin."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from hami_plugins.model.units import DeviceId, NodeName
from hami_plugins.model.vendor import VendorSpec
from volcano_vgpu.agent.server import Slot
from volcano_vgpu.core.health import Transition, transitions
from volcano_vgpu.core.model import NodeInventory
from volcano_vgpu.core.register import NodeRegistration
from volcano_vgpu.core.shares import NodeOffer
from volcano_vgpu.core.slots import Slots
from volcano_vgpu.discovery.port import Discovery, DiscoveryError

LOOK_SECONDS: Final = 15.0
"""Between two discoveries of the cards without a change notification."""

RETRY_SECONDS: Final = 10.0
"""Until a driver that is not there is looked for again."""

LOST_SECONDS: Final = 30.0
"""A driver may be missing this long (it is replaced, or restarts) before its cards are no longer allocated."""


@dataclass(frozen=True, slots=True)
class CurrentView:
    """The cards as they are now: what was found, what the node says of it, their slots, and what can be allocated."""

    inventory: NodeInventory
    words: NodeRegistration
    slots: Slots
    offer: NodeOffer


class Publishing(Protocol):
    """The publisher of the node's cards."""

    def publish(self, inventory: NodeInventory) -> NodeRegistration:
        """See ``NodePublisher``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSettings:
    """What the operator sets for slots and allocations: ``spec`` has the resource names and MIG geometries in force."""

    node: NodeName
    split_count: int
    spec: VendorSpec


class CardKeeper:
    """Looks at the cards from a thread of its own.

    ``on_change`` is called with changes of cards. ``trouble`` is the reason why the cards cannot be read, empty if they
    can. Cards whose driver has been missing for ``lost`` seconds stay known, and are unhealthy until it is back.
    """

    def __init__(  # noqa: PLR0913 - what it looks at, and what tests choose
        self,
        discovery: Discovery,
        sharing: SlotSettings,
        *,
        on_change: Callable[[tuple[Transition, ...]], None],
        look: float = LOOK_SECONDS,
        retry: float = RETRY_SECONDS,
        lost: float = LOST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trouble = "the cards are not discovered yet"
        self._discovery = discovery
        self._sharing = sharing
        self._on_slots: Callable[[tuple[Slot, ...]], None] | None = None
        self._on_change = on_change
        self._look = look
        self._retry = retry
        self._lost = lost
        self._clock = clock
        self._away_since: float | None = None
        self._publisher: Publishing | None = None
        self._log = structlog.get_logger(__name__)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._sight = self._seen(NodeInventory(), None)
        self._offered: frozenset[DeviceId] = frozenset()
        self._ever_offered = False
        self._found = False
        self._thread = threading.Thread(target=self._run, name="cards", daemon=True)

    @property
    def sight(self) -> CurrentView:
        """The cards as they are now; none before they were found."""
        return self._sight

    def start(self, publisher: Publishing) -> None:
        """Begins to look for cards and to publish them."""
        self._publisher = publisher
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and lets go of the driver."""
        self._stop.set()
        self._discovery.close()
        if self._thread.is_alive():
            self._thread.join()

    def tell(self, on_slots: Callable[[tuple[Slot, ...]], None]) -> None:
        """Sends all slots, now and whenever one of them changes."""
        with self._lock:
            self._on_slots = on_slots
            self._tell()

    def offered(self, cards: frozenset[DeviceId]) -> None:
        """Which cards the API server knows of: only their slots are for the kubelet to hand out."""
        with self._lock:
            self._offered = cards
            self._ever_offered = self._ever_offered or bool(cards)
            self._tell()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._discovery.open()
                while not self._stop.is_set():
                    found = self._discovery.inventory()
                    self.trouble, self._away_since = "", None
                    self._take(found)
                    self._discovery.wait(self._look)
            except DiscoveryError as error:
                self._waiting(str(error))
            except Exception as error:  # noqa: BLE001 - the outermost loop: whatever a driver does, the agent stays
                self._log.exception("discovery_failed")
                self._waiting(f"the driver cannot be queried: {error!r}")

    def _waiting(self, why: str) -> None:
        if why != self.trouble:
            self._log.warning("cards_not_found", reason=why, retry_seconds=self._retry)
        self.trouble = why
        now = self._clock()
        self._away_since = now if self._away_since is None else self._away_since
        if self._found and now - self._away_since >= self._lost:
            known = self._sight.inventory
            sick = tuple(replace(card, problems=card.problems or (why,)) for card in known.cards)
            self._take(replace(known, cards=sick))
        self._stop.wait(self._retry)

    def _take(self, inventory: NodeInventory) -> None:
        if self._found and inventory == self._sight.inventory:
            return
        changed = transitions(self._sight.inventory if self._found else None, inventory)
        if self._publisher is None:
            return
        sight = self._seen(inventory, self._publisher.publish(inventory))
        with self._lock:
            self._sight, self._found = sight, True
            self._tell()
        self._log.info(
            "cards_found",
            driver=inventory.driver,
            cards=len(inventory.cards),
            shared=len(sight.words.cards),
            healthy=len(sight.words.registered),
            passed_over=dict(sight.words.passed_over),
        )
        self._on_change(changed)

    def _seen(self, inventory: NodeInventory, words: NodeRegistration | None) -> CurrentView:
        told = words or NodeRegistration(annotations={}, capacity={}, cards=(), registered=(), passed_over={})
        offer = NodeOffer.of(
            self._sharing.node,
            told.annotations.get(self._sharing.spec.keys.register, ""),
            inventory,
            spec=self._sharing.spec,
            passed_over=told.passed_over,
        )
        return CurrentView(inventory, told, Slots.of(told.cards, self._sharing.split_count), offer)

    def _tell(self) -> None:
        """A slot that may not be allocated now is reported as unhealthy: containers that hold it go on running.

        Before the first registration there are none: a scheduler that sees slots and no register does not survive it.
        """
        sight = self._sight
        if self._ever_offered and self._on_slots is not None:
            self._on_slots(
                tuple(
                    Slot(slot, card.uuid in self._offered, card.numa)
                    for card in sight.words.cards
                    for slot in sight.slots.slots_of(card.uuid)
                )
            )
