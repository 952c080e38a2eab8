"""The keeper of cards: the reports to publisher, plugin and people, and their times."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hami_plugins.model.units import DeviceId, NodeName
from hami_plugins.vendors.volcano import SPEC
from tests.unit.volcano_vgpu.cards import card, inventory, settings, sick, uuid
from tests.waiting import wait_for
from volcano_vgpu.agent.devices import CardKeeper, SlotSettings
from volcano_vgpu.agent.server import Slot
from volcano_vgpu.core import register
from volcano_vgpu.core.health import HealthEventReason, Transition
from volcano_vgpu.core.model import DeviceMeasurement, NodeInventory
from volcano_vgpu.core.register import NodeRegistration
from volcano_vgpu.discovery.port import DiscoveryError


class Cards:
    """A driver with scripted reports, which fails when the script is empty."""

    def __init__(self) -> None:
        self.reports: NodeInventory | None = None
        self.opened = 0
        self._changed = threading.Event()

    def report(self, found: NodeInventory | None) -> None:
        self.reports = found
        self._changed.set()

    def open(self) -> None:
        self.opened += 1
        if self.reports is None:
            raise DiscoveryError("no driver; install one")

    def inventory(self) -> NodeInventory:
        if self.reports is None:
            raise DiscoveryError("the driver has gone; load it")
        return self.reports

    def use(self, uuid: DeviceId) -> DeviceMeasurement:
        return DeviceMeasurement()

    def wait(self, timeout: float) -> bool:
        found = self._changed.wait(timeout)
        self._changed.clear()
        return found

    def close(self) -> None:
        self._changed.set()


class Publisher:
    def __init__(self) -> None:
        self.published: list[NodeInventory] = []

    def publish(self, found: NodeInventory) -> NodeRegistration:
        self.published.append(found)
        return register.desired(found, settings(device_split_count=2))


class Bench:
    def __init__(self, keeper: CardKeeper, driver: Cards, publisher: Publisher) -> None:
        self.keeper, self.driver, self.publisher = keeper, driver, publisher
        self.slots: list[tuple[Slot, ...]] = []
        self.changes: list[Transition] = []


@contextmanager
def keeper(*, lost: float = 60) -> Iterator[Bench]:
    driver, publisher = Cards(), Publisher()
    changes: list[Transition] = []
    made = CardKeeper(
        driver,
        SlotSettings(node=NodeName("n1"), split_count=2, spec=SPEC),
        on_change=changes.extend,
        look=60,
        retry=0.01,
        lost=lost,
    )
    bench = Bench(made, driver, publisher)
    bench.changes = changes
    made.tell(bench.slots.append)
    made.start(publisher)
    try:
        yield bench
    finally:
        made.stop()


def test_without_a_driver_it_waits_and_says_why() -> None:
    with keeper() as bench:
        wait_for(lambda: bench.driver.opened > 2)
        assert bench.keeper.trouble == "no driver; install one"
        assert bench.publisher.published == []
        bench.driver.report(inventory(card(1)))
        wait_for(lambda: bench.publisher.published)
        wait_for(lambda: not bench.keeper.trouble)


def test_no_slot_is_told_before_the_first_registration() -> None:
    with keeper() as bench:
        bench.driver.report(inventory(card(1)))
        wait_for(lambda: bench.publisher.published)
        wait_for(lambda: bench.keeper.sight.words.cards)
        assert bench.slots == []
        bench.keeper.offered(frozenset({uuid(1)}))
        assert [(slot.id[-2:], slot.healthy) for slot in bench.slots[-1]] == [("-0", True), ("-1", True)]


def test_slots_of_cards_that_are_not_registered_now_are_unhealthy() -> None:
    with keeper() as bench:
        bench.driver.report(inventory(card(1), card(2)))
        wait_for(lambda: len(bench.keeper.sight.words.cards) == 2)
        bench.keeper.offered(frozenset({uuid(1), uuid(2)}))
        bench.keeper.offered(frozenset({uuid(1)}))
        assert [slot.healthy for slot in bench.slots[-1]] == [True, True, False, False]
        bench.keeper.offered(frozenset())
        assert [slot.healthy for slot in bench.slots[-1]] == [False] * 4


def test_an_unchanged_inventory_is_published_once() -> None:
    with keeper() as bench:
        bench.driver.report(inventory(card(1)))
        wait_for(lambda: bench.publisher.published)
        for _ in range(3):
            bench.driver.report(inventory(card(1)))
            wait_for(lambda: not bench.driver._changed.is_set())  # noqa: SLF001 - the test's own event
        bench.driver.report(inventory(card(1), card(2)))
        wait_for(lambda: len(bench.publisher.published) > 1)
        assert [len(found.cards) for found in bench.publisher.published] == [1, 2]


def test_people_are_told_what_becomes_of_cards() -> None:
    with keeper() as bench:
        bench.driver.report(inventory(card(1)))
        wait_for(lambda: bench.publisher.published)
        bench.driver.report(inventory(*sick(1)))
        wait_for(lambda: len(bench.changes) == 1)
        bench.driver.report(inventory(card(1)))
        wait_for(lambda: len(bench.changes) == 2)
        assert [change.turn for change in bench.changes] == [HealthEventReason.FAILED, HealthEventReason.RECOVERED]


def test_a_driver_that_breaks_down_is_opened_again_and_the_cards_stay_known() -> None:
    with keeper() as bench:
        bench.driver.report(inventory(card(1)))
        wait_for(lambda: bench.publisher.published)
        bench.driver.report(None)
        wait_for(lambda: bench.keeper.trouble)
        assert bench.keeper.sight.inventory.card(uuid(1)) is not None
        bench.driver.report(inventory(card(1)))
        wait_for(lambda: not bench.keeper.trouble)
        assert len(bench.publisher.published) == 1


def test_cards_whose_driver_stays_away_are_not_handed_out_until_it_is_back() -> None:
    with keeper(lost=0.05) as bench:
        bench.driver.report(inventory(card(1)))
        wait_for(lambda: bench.publisher.published)
        bench.keeper.offered(frozenset({uuid(1)}))
        bench.driver.report(None)
        wait_for(lambda: bench.changes)
        (sick_now,) = bench.keeper.sight.inventory.cards
        assert "no driver; install one" in sick_now.problems[0]
        assert not bench.keeper.sight.words.registered
        assert bench.keeper.trouble
        bench.driver.report(inventory(card(1)))
        wait_for(lambda: len(bench.changes) == 2)
        assert [change.turn for change in bench.changes] == [HealthEventReason.FAILED, HealthEventReason.RECOVERED]
        assert bench.keeper.sight.words.registered
        assert len(bench.publisher.published) == 3


@pytest.mark.parametrize("number", [1, 2])
def test_what_can_be_allocated_is_what_is_registered(number: int) -> None:
    with keeper() as bench:
        bench.driver.report(inventory(card(1), *sick(2)))
        wait_for(lambda: bench.publisher.published)
        wait_for(lambda: bench.keeper.sight.words.cards)
        assert (bench.keeper.sight.offer.device(uuid(number)) is not None) is (number == 1)
