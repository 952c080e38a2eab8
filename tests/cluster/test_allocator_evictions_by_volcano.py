"""Preemption with ``preemption.mode: scheduler``: Volcano evicts whom its sums demand, and the server evicts no pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.allocator import Allocator
from tests.cluster.evictions import Site, a_site, priority_classes
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

SCHEDULER: Final = {"mode": "scheduler"}


@pytest.fixture(scope="module")
def allocator(volcano: Volcano, control_plane: ControlPlane) -> Iterator[Allocator]:
    with priority_classes(control_plane), Allocator(volcano, "extender", preemption=SCHEDULER) as found:
        yield found


@pytest.fixture
def site(allocator: Allocator, namespace: str) -> Iterator[Site]:
    with a_site(allocator, namespace) as found:
        yield found


def test_where_sums_are_short_a_gang_gets_the_room_of_two_pods(site: Site) -> None:
    site.pool.add(4, cards=1)
    for at in range(4):
        site.low(f"low-{at}", 30_000)
    site.gang("train", 20_000)
    wait_until(lambda: site.placed("train") == 4, "the gang is bound", show=lambda: site.story("train"))
    assert len(site.kubelet.victims) == 2


def test_where_sums_suffice_no_pod_leaves_and_the_refusal_has_the_numbers(site: Site) -> None:
    (node,) = site.pool.add(1, cards=2)
    for at, card in enumerate(site.pool.cards[node]):
        site.low(f"low-{at}", 30_000, card.uuid)
    site.high(20_000)
    site.wait_refused("high")
    assert "largest free 10,960 MiB" in site.told("high")
    assert site.kubelet.victims == []


def test_a_gang_does_not_leave_as_a_whole(site: Site) -> None:
    site.pool.add(4, cards=1)
    site.gang("small", 30_000, priority="cards-low")
    wait_until(lambda: site.placed("small") == 4, "the gang is bound")
    site.high(20_000)
    site.wait_refused("high")
    assert site.kubelet.victims == []
