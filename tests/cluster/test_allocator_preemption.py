"""Preemption in mode ``extender``: a pod that matters more gets its slice, and no pod leaves that need not.

The cases are those of the notes on what Volcano's actions do; ``PretendedKubelet`` has pods run and end.
"""

from __future__ import annotations

import time
from functools import partial
from signal import SIGKILL
from typing import Any, Final

import pytest

from tests.cluster.agents import Numbers
from tests.cluster.allocator import Allocator
from tests.cluster.eviction_episodes import random_episodes
from tests.cluster.evictions import FULL, PREEMPTABLE, Site, allocator, site
from tests.cluster.slices import gpu
from tests.cluster.waiting import wait_until

__all__ = ["allocator", "site"]

PREEMPTION: Final = FULL


def test_a1_one_card_is_full_and_its_pod_makes_room(site: Site) -> None:
    site.pool.add(1, cards=1)
    site.low("low", 30_000)
    site.high(20_000)
    site.wait_bound("high")
    assert site.kubelet.victims == ["low"]


def test_a3_while_a_victim_ends_slowly_no_other_pod_leaves(site: Site) -> None:
    site.kubelet.ends = 4.0
    site.pool.add(2, cards=1)
    for name in ("low-0", "low-1"):
        site.low(name, 30_000)
    site.high(20_000)
    site.wait_bound("high")
    assert len(site.kubelet.victims) == 1
    assert site.kubelet.bound["high"] >= site.kubelet.gone[site.kubelet.victims[0]] - 0.1


def test_v1_both_pods_of_one_card_leave(site: Site) -> None:
    (node,) = site.pool.add(1, cards=2)
    for at, card in enumerate(site.pool.cards[node]):
        site.low(f"mid-{at}", 20_000, card.uuid, priority="cards-mid")
        site.low(f"low-{at}", 20_000, card.uuid)
    site.high(38_000)
    site.wait_bound("high")
    assert site.kubelet.victims in (["low-0", "mid-0"], ["low-1", "mid-1"])


def test_of_equal_pods_the_youngest_leaves(site: Site) -> None:
    site.pool.add(2, cards=1)
    site.low("older", 30_000)
    time.sleep(1.1)  # the API server writes whole seconds
    site.low("younger", 30_000)
    site.high(20_000)
    site.wait_bound("high")
    assert site.kubelet.victims == ["younger"]


def test_the_lower_priority_leaves_although_it_is_older(site: Site) -> None:
    site.pool.add(2, cards=1)
    site.low("low", 30_000)
    time.sleep(1.1)
    site.low("mid", 30_000, priority="cards-mid")
    site.high(20_000)
    site.wait_bound("high")
    assert site.kubelet.victims == ["low"]


def test_one_pod_leaves_rather_than_two(site: Site) -> None:
    first, second = site.pool.add(2, cards=1)
    for at in range(2):
        site.low(f"small-{at}", 15_000, site.pool.cards[first][0].uuid)
    site.low("large", 30_000, site.pool.cards[second][0].uuid)
    site.high(30_000)
    site.wait_bound("high")
    assert site.kubelet.victims == ["large"]


@pytest.mark.parametrize(
    "spared", [{"priority": "cards-high"}, {"annotations": {"volcano.sh/preemptable": "false"}}], ids=str
)
def test_a_pod_that_is_spared_stays(site: Site, spared: dict[str, Any]) -> None:
    site.pool.add(1, cards=1)
    site.low("stays", 30_000, **spared)
    site.high(20_000)
    site.wait_refused("high")
    assert site.kubelet.victims == []


def test_g1_a_gang_of_four_needs_two_pods_to_leave(site: Site) -> None:
    site.pool.add(4, cards=1)
    for at in range(4):
        site.low(f"low-{at}", 30_000)
    site.gang("train", 20_000)
    wait_until(lambda: site.placed("train") == 4, "the gang is bound", 10, show=lambda: site.story("train"))
    assert len(site.kubelet.victims) == 2


def test_g6_a_gang_for_half_of_which_room_can_be_made_evicts_no_pod(site: Site) -> None:
    site.pool.add(4, cards=1)
    for at in range(2):
        site.low(f"low-{at}", 40_000)
    for at in range(2):
        site.low(f"high-{at}", 40_000, priority="cards-high")
    site.gang("train", 38_000)
    wait_until(lambda: len(site.members("train")) == 4, "the gang's pods exist")
    site.wait_refused(site.members("train")[0]["metadata"]["name"])
    assert site.kubelet.victims == []
    assert site.placed("train") == 0


def test_t1_pods_that_come_while_a_victim_ends_do_not_get_its_room(site: Site) -> None:
    site.kubelet.ends = 4.0
    site.pool.add(1, cards=1)
    site.low("low", 30_000)
    site.high(38_000)
    wait_until(lambda: site.kubelet.victims, "the victim ends")
    for at in range(4):
        site.submit(f"mid-{at}", gpu(memory=5_000), priorityClassName="cards-mid")
    site.wait_bound("high")
    assert not any(site.node_of(f"mid-{at}") for at in range(4))
    assert site.kubelet.victims == ["low"]


def test_b1_where_sums_suffice_and_no_card_has_room_one_pod_leaves(site: Site) -> None:
    (node,) = site.pool.add(1, cards=2)
    for at, card in enumerate(site.pool.cards[node]):
        site.low(f"low-{at}", 30_000, card.uuid)
    site.high(20_000)
    site.wait_bound("high")
    assert len(site.kubelet.victims) == 1


def test_b4_nodes_that_cannot_help_are_left_alone(site: Site) -> None:
    for number in range(3):
        (node,) = site.pool.add(1, cards=2)
        name, priority = ("low", "cards-low") if number == 0 else (f"high-{number}", "cards-high")
        for at, card in enumerate(site.pool.cards[node]):
            site.low(f"{name}-{at}", 30_000, card.uuid, priority=priority)
    site.high(20_000)
    site.wait_bound("high")
    assert site.kubelet.victims in (["low-0"], ["low-1"])


def test_v2_the_pod_that_is_alone_on_its_card_leaves(site: Site) -> None:
    (node,) = site.pool.add(1, cards=2)
    first, second = site.pool.cards[node]
    site.low("shares", 30_000, first.uuid)
    site.low("mid", 10_000, first.uuid, priority="cards-mid")
    site.low("alone", 30_000, second.uuid)
    site.high(40_960)
    site.wait_bound("high")
    assert site.kubelet.victims == ["alone"]


def test_g5_a_gang_for_which_some_sums_suffice_and_some_do_not(site: Site) -> None:
    nodes = site.pool.add(2, cards=4)
    for node in nodes:
        for card in site.pool.cards[node]:
            site.low(f"low-{card.uuid[4:12]}-{node[-1]}", 30_000, card.uuid)
    site.gang("train", 38_000)
    wait_until(lambda: site.placed("train") == 4, "the gang is bound", show=lambda: site.story("train"))
    assert len(site.kubelet.victims) == 4


def half_bound_gang(site: Site) -> None:
    """Two of its four pods are on the first card and fill it; now it needs all four."""
    site.gang("train", 20_000, minimum=2)
    wait_until(lambda: site.placed("train") == 2, "two pods are bound", show=lambda: site.story("train"))
    site.needs("train", 4)


def test_a_gang_of_which_two_are_bound_already_evicts_only_what_the_rest_needs(site: Site) -> None:
    first, *others = site.pool.add(3, cards=1)
    for node in others:
        card = site.pool.cards[node][0].uuid
        site.low(f"low-{node[-1]}", 30_000, card, annotations={PREEMPTABLE: "false"})
    half_bound_gang(site)
    assert site.kubelet.victims == []
    for node in others:
        site.give_up(f"low-{node[-1]}")
    wait_until(lambda: site.placed("train") == 4, "the gang is bound", show=lambda: site.story("train"))
    assert len(site.kubelet.victims) == 1
    assert len(site.pool.by_card()[site.pool.cards[first][0].uuid]) == 2, "the bound ones stay"


def test_a_gang_of_which_two_are_bound_evicts_no_pod_where_the_rest_would_not_all_have_room(site: Site) -> None:
    _, second = site.pool.add(2, cards=1)
    card = site.pool.cards[second][0].uuid
    site.low("stays", 20_000, card, priority="cards-high")
    site.low("low", 20_000, card, annotations={PREEMPTABLE: "false"})
    half_bound_gang(site)
    site.give_up("low")
    waits = next(each for each in site.members("train") if not each["spec"].get("nodeName"))
    site.wait_refused(waits["metadata"]["name"])
    assert site.placed("train") == 2
    assert site.kubelet.victims == []


def test_g3_a_gang_leaves_as_a_whole(site: Site) -> None:
    site.pool.add(4, cards=1)
    site.gang("small", 30_000, priority="cards-low")
    wait_until(lambda: site.placed("small") == 4, "the gang is bound")
    site.high(20_000)
    site.wait_bound("high")
    wait_until(lambda: len(site.kubelet.victims) == 4, "all four leave")


@pytest.mark.parametrize("card", [0, 1])
def test_of_two_pods_the_one_without_a_budget_leaves(site: Site, card: int) -> None:
    (node,) = site.pool.add(1, cards=2)
    first, second = site.pool.cards[node]
    site.low("kept", 30_000, (first, second)[card].uuid, labels={"app": "kept"})
    site.low("free", 30_000, (second, first)[card].uuid, priority="cards-mid")
    site.budget("kept")
    site.high(20_000)
    site.wait_bound("high")
    assert site.kubelet.victims == ["free"]


def test_a_budget_that_allows_no_eviction_holds(site: Site) -> None:
    site.pool.add(1, cards=1)
    site.low("kept", 30_000, labels={"app": "kept"})
    site.budget("kept")
    site.high(20_000)
    site.wait_refused("high")
    assert site.kubelet.victims == []


def test_t2_a_server_that_is_killed_after_the_eviction_keeps_the_room_all_the_same(site: Site) -> None:
    site.kubelet.ends = 6.0
    site.pool.add(1, cards=1)
    site.low("low", 30_000)
    site.high(38_000)
    wait_until(lambda: site.kubelet.victims, "the victim ends")
    site.server.component.restart(SIGKILL)
    for at in range(4):
        site.submit(f"mid-{at}", gpu(memory=5_000), priorityClassName="cards-mid")
    site.wait_bound("high")
    assert not any(site.node_of(f"mid-{at}") for at in range(4))
    assert site.kubelet.victims == ["low"]


def test_a_pod_that_is_deleted_while_its_victim_ends_leaves_no_room_kept(site: Site) -> None:
    site.kubelet.ends = 3.0
    site.pool.add(1, cards=1)
    site.low("low", 30_000)
    site.high(38_000)
    wait_until(lambda: site.kubelet.victims, "the victim ends")
    site.remove("high")
    site.submit("other", gpu(memory=38_000), priorityClassName="cards-mid")
    site.wait_bound("other")
    assert site.kubelet.victims == ["low"]


@pytest.mark.parametrize("killed", ["server", "scheduler", "both"])
def test_a_gang_keeps_its_room_whoever_is_killed_while_its_victims_end(site: Site, killed: str) -> None:
    site.kubelet.ends = 6.0
    site.pool.add(4, cards=1)
    for at in range(4):
        site.low(f"low-{at}", 30_000)
    site.gang("train", 20_000)
    wait_until(lambda: len(site.kubelet.victims) == 2, "two victims end")
    if killed != "scheduler":
        site.server.component.restart(SIGKILL)
    if killed != "server":
        site.allocator.volcano.restart_scheduler(SIGKILL)
    for at in range(4):
        site.submit(f"late-{at}", gpu(memory=15_000), priorityClassName="cards-low")
    wait_until(lambda: site.placed("train") == 4, "the gang is bound", show=lambda: site.story("train"))
    assert len(site.kubelet.victims) == 2
    assert not any(site.node_of(f"late-{at}") for at in range(4))


def test_pods_of_equal_priority_never_take_turns(site: Site) -> None:
    site.pool.add(2, cards=1)
    for at in range(2):
        site.low(f"holds-{at}", 30_000, priority="cards-high")
    for at in range(6):
        site.submit(f"waits-{at}", gpu(memory=30_000), priorityClassName="cards-high")
    site.wait_refused("waits-5")
    assert site.kubelet.victims == []


def test_nobody_leaves_in_vain_and_no_more_than_needed_whoever_is_killed(
    site: Site, allocator: Allocator, numbers: Numbers
) -> None:
    site.pool.add(2, cards=2)
    killed = [partial(site.server.component.restart, SIGKILL), partial(allocator.volcano.restart_scheduler, SIGKILL)]
    random_episodes(site, numbers, "Volcano", killed)
