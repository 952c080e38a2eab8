"""Preemption with ``preemption.mode: scheduler``: Volcano evicts the pods that its sums demand, and the server evicts
none.
"""

from __future__ import annotations

from typing import Final

from tests.cluster.evictions import Site, allocator, site
from tests.cluster.waiting import wait_until

__all__ = ["allocator", "site"]

PREEMPTION: Final = {"mode": "scheduler"}


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
