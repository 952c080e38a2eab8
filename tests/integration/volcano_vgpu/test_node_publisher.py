"""The publisher keeps the node saying what it is to say."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hami_plugins.errors import KubeError
from hami_plugins.kube.reflector import Backoff
from hami_plugins.model.units import DeviceId
from hami_plugins.vendors.volcano import TOUCHED_KEY
from hami_plugins.vendors.volcano_releases import Version
from tests.integration.volcano_vgpu.node_api import NodeApi
from tests.unit.volcano_vgpu.cards import card, inventory, settings, sick, uuid
from tests.waiting import PATIENCE, wait_for
from volcano_vgpu.agent.node import NodePublisher, SteadyClock
from volcano_vgpu.agent.scheduler import Leader, Needs, WriteReason
from volcano_vgpu.core.publication import PublicationTiming
from volcano_vgpu.core.register import HANDSHAKE, HANDSHAKE_KEY, REGISTER_KEY

COUNT, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
LOCK_KEY = "hamivgpu"
MOMENT = timedelta(milliseconds=20)
QUICK = PublicationTiming(settle=MOMENT, interval=5 * MOMENT, grace=5 * MOMENT)
TWO = inventory(card(0), card(1))


class Kubelet:
    """Writes the number of slots that are on offer into the node's status, as a kubelet does."""

    def __init__(self, api: NodeApi) -> None:
        self.offers: list[frozenset[DeviceId]] = []
        self.prompt = True
        self._api = api

    def __call__(self, cards: frozenset[DeviceId]) -> None:
        self.offers.append(cards)
        if self.prompt:
            self.report()

    def report(self) -> None:
        number = {COUNT: str(10 * len(self.offers[-1]))}
        self._api.edit(capacity=number, allocatable=number)


@contextmanager
def publishing(
    api: NodeApi, *, timing: PublicationTiming = QUICK, **changes: Any
) -> Iterator[tuple[NodePublisher, Kubelet]]:
    kubelet = Kubelet(api)
    chosen = settings(**{"start_jitter": 0.0, **changes})
    backoff = Backoff(first=0.01, most=0.05)
    with NodePublisher(api, api, chosen, on_offer=kubelet, timing=timing, backoff=backoff) as publisher:
        yield publisher, kubelet


@pytest.fixture
def api() -> NodeApi:
    return NodeApi()


def settled(publisher: NodePublisher, api: NodeApi, cards: int) -> None:
    """Waits until that many cards are offered and summed up."""
    wait_for(lambda: len(publisher.offered) == cards and api.capacity.get(CORES) == str(100 * cards))


def test_a_new_node_is_written_twice_register_first(api: NodeApi) -> None:
    with publishing(api) as (publisher, kubelet):
        words = publisher.publish(TWO)
        settled(publisher, api, 2)
    assert [path for path, _ in api.writes] == ["", "/status"]
    assert api.annotations[REGISTER_KEY] == words.annotations[REGISTER_KEY]
    assert api.annotations[HANDSHAKE_KEY] == HANDSHAKE
    assert kubelet.offers == [{uuid(0), uuid(1)}, frozenset()]
    assert publisher.written == 2


def test_nothing_is_offered_before_the_register_is_written(api: NodeApi) -> None:
    with publishing(api) as (publisher, kubelet):
        api.faults = [KubeError("away", status=503)] * 3
        publisher.publish(TWO)
        wait_for(lambda: len(api.faults) < 3)
        assert kubelet.offers == []
        settled(publisher, api, 2)
        assert publisher.valid
        assert kubelet.offers == [{uuid(0), uuid(1)}]


def test_a_restart_that_changes_nothing_writes_nothing(api: NodeApi) -> None:
    with publishing(api) as (publisher, _):
        publisher.publish(TWO)
        settled(publisher, api, 2)
    api.writes.clear()
    with publishing(api) as (publisher, _):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        for _ in range(20):
            api.edit(allocatable={"cpu": "4"})
        publisher.publish(TWO)
    assert api.writes == []


@pytest.mark.parametrize(
    ("annotations", "status"),
    [
        ({REGISTER_KEY: None}, {}),
        ({REGISTER_KEY: "GPU-x,1,1,T,true:"}, {}),
        ({HANDSHAKE_KEY: "Deleted_2026.11.21 07:39:03"}, {}),
        ({}, {"capacity": {MEMORY: "0"}}),
        ({REGISTER_KEY: None, HANDSHAKE_KEY: None}, {"capacity": {MEMORY: "1", CORES: "1"}}),
    ],
)
def test_whatever_others_break_is_repaired_without_taking_slots_back(
    api: NodeApi, annotations: dict[str, str | None], status: dict[str, dict[str, str]]
) -> None:
    with publishing(api, timing=PublicationTiming(grace=timedelta(minutes=1))) as (publisher, kubelet):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        said, sums = {key: api.annotations[key] for key in (REGISTER_KEY, HANDSHAKE_KEY)}, api.capacity
        api.edit(annotations=annotations, **status)
        wait_for(lambda: api.annotations.items() >= said.items() and api.capacity == sums)
        assert kubelet.offers == [{uuid(0), uuid(1)}]


def test_slots_are_taken_back_where_a_broken_register_cannot_be_repaired(api: NodeApi) -> None:
    with publishing(api) as (publisher, kubelet):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        api.faults = [KubeError("away", status=503)] * 1000
        api.edit(annotations={REGISTER_KEY: None})
        wait_for(lambda: not publisher.valid)
        assert kubelet.offers[-1] == frozenset()
        api.faults.clear()
        wait_for(lambda: publisher.valid)


def test_a_conflict_is_decided_anew_on_what_is_there_then(api: NodeApi) -> None:
    with publishing(api) as (publisher, _):
        api.before_write = lambda: api.edit(annotations={"other": "kept"})
        publisher.publish(TWO)
        settled(publisher, api, 2)
    assert api.annotations["other"] == "kept"
    assert [path for path, _ in api.writes] == ["", "/status"]


def test_a_card_that_fails_leaves_the_register_and_comes_back(api: NodeApi) -> None:
    with publishing(api) as (publisher, _):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        publisher.publish(inventory(card(0), *sick(1)))
        settled(publisher, api, 1)
        assert uuid(1) not in api.annotations[REGISTER_KEY]
        publisher.publish(TWO)
        settled(publisher, api, 2)


def test_with_the_last_healthy_card_the_number_goes_first(api: NodeApi) -> None:
    with publishing(api) as (publisher, kubelet):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        kubelet.prompt = False
        publisher.publish(inventory(*sick(0, 1)))
        wait_for(lambda: kubelet.offers[-1] == frozenset())
        api.edit(allocatable={"cpu": "4"})
        assert api.annotations[REGISTER_KEY]
        kubelet.report()
        wait_for(lambda: api.annotations[REGISTER_KEY] == "")
        wait_for(lambda: api.capacity[MEMORY] == "0")


def test_withdrawing_takes_everything_back_number_first(api: NodeApi) -> None:
    with publishing(api) as (publisher, kubelet):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        assert publisher.withdraw(timeout=PATIENCE)
        assert kubelet.offers[-1] == frozenset()
    assert api.annotations == {}
    assert api.capacity == {}


def test_withdrawing_sets_the_number_to_zero_where_no_kubelet_does(api: NodeApi) -> None:
    with publishing(api) as (publisher, kubelet):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        kubelet.prompt = False
        assert publisher.withdraw(timeout=1.0)
    assert api.annotations == {}
    order = [body for _, body in api.writes][2:]
    assert order[0]["status"]["allocatable"] == {COUNT: "0"}
    assert order[1]["metadata"]["annotations"][REGISTER_KEY] is None


def test_withdrawing_says_so_where_it_could_not(api: NodeApi) -> None:
    with publishing(api) as (publisher, _):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        api.faults = [KubeError("forbidden", status=403)] * 1000
        assert not publisher.withdraw(timeout=0.2)
        assert publisher.last_error == "forbidden"


def test_many_touches_are_few_writes(api: NodeApi) -> None:
    with publishing(api) as (publisher, _):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        before, stamp = len(api.writes), api.annotations[TOUCHED_KEY]
        for _ in range(50):
            publisher.touch(WriteReason.BIND)
        wait_for(lambda: api.annotations[TOUCHED_KEY] != stamp)
        assert api.annotations[TOUCHED_KEY].endswith(" pod-bound")
        assert len(api.writes) - before == 1


def test_a_touch_that_the_scheduler_does_not_need_is_not_written(api: NodeApi) -> None:
    with publishing(api) as (publisher, _):
        publisher.adapt(Needs(Version(1, 16, 0)))
        publisher.publish(TWO)
        settled(publisher, api, 2)
        before = len(api.writes)
        publisher.touch(WriteReason.BIND)
        publisher.touch(WriteReason.UNALLOCATED)
        wait_for(lambda: len(api.writes) > before)
        assert api.annotations[TOUCHED_KEY].endswith(" pod-bound-without-cards")


def test_a_scheduler_that_needs_no_handshake_gets_none(api: NodeApi) -> None:
    with publishing(api) as (publisher, _):
        publisher.adapt(Needs(Version(1, 16, 0)))
        publisher.publish(TWO)
        settled(publisher, api, 2)
        assert HANDSHAKE_KEY not in api.annotations
        publisher.adapt(Needs(Version(1, 14, 1)))
        wait_for(lambda: api.annotations.get(HANDSHAKE_KEY) == HANDSHAKE)
        settled(publisher, api, 2)


def test_a_scheduler_that_led_before_the_last_write_needs_no_touch(api: NodeApi) -> None:
    now = datetime.now(UTC)
    with publishing(api) as (publisher, _):
        publisher.led_by(Leader("vc-0", now - timedelta(minutes=1)), False)
        publisher.publish(TWO)
        settled(publisher, api, 2)
        publisher.led_by(Leader("vc-0", now - timedelta(minutes=1)), False)
        publisher.publish(TWO)
    assert [path for path, _ in api.writes] == ["", "/status"]


def test_a_new_leader_is_shown_the_node_after_its_first_session(api: NodeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volcano_vgpu.agent.node.FIRST_SESSION", MOMENT)
    with publishing(api) as (publisher, _):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        publisher.led_by(Leader("vc-1", None), True)
        wait_for(lambda: api.annotations[TOUCHED_KEY].endswith(" scheduler-restarted"))


def test_a_lock_is_released_once_its_pod_is_served(api: NodeApi) -> None:
    taken = datetime(2026, 11, 21, 7, 36, 33, tzinfo=UTC)
    with publishing(api) as (publisher, _):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        publisher.release_lock(taken)
        api.edit(annotations={LOCK_KEY: "2026-11-21T07:36:33Z"})
        wait_for(lambda: LOCK_KEY not in api.annotations)
        api.edit(annotations={LOCK_KEY: "2026-11-21T07:36:34Z"})
        publisher.release_lock(taken)
        publisher.publish(inventory(card(0)))
        settled(publisher, api, 1)
        assert api.annotations[LOCK_KEY] == "2026-11-21T07:36:34Z"


def test_a_node_that_is_made_anew_is_written_anew(api: NodeApi) -> None:
    with publishing(api) as (publisher, _):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        api.before_write = api.go
        publisher.publish(inventory(card(0)))
        wait_for(lambda: not publisher.valid)
        api.come("u2")
        settled(publisher, api, 1)


def test_nothing_stops_the_publisher_but_its_owner(api: NodeApi) -> None:
    with publishing(api) as (publisher, _):
        api.before_write = lambda: 1 // 0  # type: ignore[assignment]
        publisher.publish(TWO)
        settled(publisher, api, 2)
        assert publisher.words is not None
        assert publisher.stop()
        assert not publisher.valid


def test_the_first_write_comes_at_a_random_moment(api: NodeApi) -> None:
    """Of many agents that start together, not all write together."""
    waits = threading.Event()

    class Luck(random.Random):
        def uniform(self, a: float, b: float) -> float:
            waits.set()
            return 0.05 * b

    kubelet = Kubelet(api)
    chosen = settings(start_jitter=1.0)
    with NodePublisher(api, api, chosen, on_offer=kubelet, timing=QUICK, luck=Luck()) as publisher:
        publisher.publish(TWO)
        assert waits.is_set()
        settled(publisher, api, 2)


def test_a_clock_that_is_set_back_holds_nothing_up(api: NodeApi) -> None:
    ahead = [timedelta(hours=1)]
    clock = SteadyClock(wall=lambda: datetime.now(UTC) + ahead[0])
    chosen = settings(start_jitter=0.1)
    with NodePublisher(api, api, chosen, on_offer=Kubelet(api), timing=QUICK, now=clock) as publisher:
        ahead[0] = timedelta()
        publisher.publish(TWO)
        settled(publisher, api, 2)


def test_a_leader_whose_clock_is_ahead_is_shown_the_node_all_the_same(
    api: NodeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volcano_vgpu.agent.node.FIRST_SESSION", MOMENT)
    with publishing(api) as (publisher, _):
        publisher.publish(TWO)
        settled(publisher, api, 2)
        publisher.led_by(Leader("vc-1", datetime.now(UTC) + timedelta(hours=1)), False)
        wait_for(lambda: api.annotations[TOUCHED_KEY].endswith(" scheduler-restarted"))
