"""Reclaim in mode ``extender``: a queue gets back what another holds beyond its share, on devices with room then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pytest

from tests.cluster.evictions import FULL, Site, a_site, evicting
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import queue
from tests.cluster.slices import gpu
from tests.cluster.volcano import QUEUES, Volcano
from tests.cluster.waiting import wait_until

QUEUE: Final = "scheduling.volcano.sh/queue-name"
MEMORY: Final = "volcano.sh/vgpu-memory"


@contextmanager
def queues(plane: ControlPlane, deserved: int = 0) -> Iterator[None]:
    """Two equal queues, ``qa`` and ``qb``; with so much memory of cards each, if any."""
    more: dict[str, Any] = {"deserved": {MEMORY: str(deserved)}} if deserved else {}
    for name in ("qa", "qb"):
        plane.api.create(QUEUES, queue(name, **more))
    try:
        wait_until(
            lambda: all(plane.api.get(f"{QUEUES}/{name}")["status"]["state"] == "Open" for name in ("qa", "qb")),
            "the queues are open",
        )
        yield
    finally:
        for name in ("qa", "qb"):
            plane.api.merge_patch(f"{QUEUES}/{name}", {"spec": {"reclaimable": True}})
            wait_until(partial(_removed, plane, name), f"queue {name} is gone", 60)


def _removed(plane: ControlPlane, name: str) -> bool:
    plane.api.delete(f"{QUEUES}/{name}")
    return plane.api.find(f"{QUEUES}/{name}") is None


def hold_to(site: Site, plugin: str, memory: int) -> None:
    """``qa`` deserves no more from now on. ``proportion`` divides what all nodes have, also those of other tests."""
    if plugin == "proportion":
        site.plane.api.merge_patch(f"{QUEUES}/qa", {"spec": {"capability": {MEMORY: str(memory)}}})


def of(name: str) -> dict[str, Any]:
    return {"annotations": {QUEUE: name}}


@contextmanager
def reclaiming(volcano: Volcano, plugin: str, namespace: str, deserved: int = 0) -> Iterator[Site]:
    plane = volcano.plane
    with (
        evicting(volcano, FULL, queues=plugin) as allocator,
        queues(plane, deserved if plugin == "capacity" else 0),
        a_site(allocator, namespace) as site,
    ):
        yield site
        plane.clear_namespace(namespace)


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_r1_a_queue_gets_back_room_on_a_full_card(volcano: Volcano, namespace: str, plugin: str) -> None:
    with reclaiming(volcano, plugin, namespace, 20_000) as site:
        site.pool.add(1, cards=1)
        for at in range(2):
            site.low(f"own-{at}", 20_000, **of("qa"))
        hold_to(site, plugin, 20_000)
        site.submit("back", gpu(memory=15_000), priorityClassName="cards-low", **of("qb"))
        site.wait_bound("back")
        assert len(site.kubelet.victims) == 1


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_r3_while_a_victim_ends_slowly_no_other_pod_leaves(volcano: Volcano, namespace: str, plugin: str) -> None:
    with reclaiming(volcano, plugin, namespace, 30_000) as site:
        site.kubelet.ends = 3.0
        site.pool.add(2, cards=1)
        for at in range(4):
            site.low(f"own-{at}", 20_000, **of("qa"))
        hold_to(site, plugin, 60_000)
        site.submit("back", gpu(memory=15_000), priorityClassName="cards-low", **of("qb"))
        site.wait_bound("back")
        assert len(site.kubelet.victims) == 1
        assert site.kubelet.bound["back"] >= site.kubelet.gone[site.kubelet.victims[0]] - 0.1


def test_a_queue_within_its_share_gives_nothing(volcano: Volcano, namespace: str) -> None:
    with reclaiming(volcano, "capacity", namespace, 40_000) as site:
        site.pool.add(1, cards=1)
        for at in range(2):
            site.low(f"own-{at}", 20_000, **of("qa"))
        site.submit("back", gpu(memory=15_000), priorityClassName="cards-low", **of("qb"))
        site.wait_refused("back")
        assert site.kubelet.victims == []


@pytest.mark.parametrize(
    ("shares", "wait", "leave"),
    [
        (("capacity", 40_000), 1, 1),
        (("capacity", 60_000), 1, 0),
        # It divides what all nodes have by what is asked for, and no queue deserves more than its capability.
        (("proportion", 60_000), 1, 0),
        (("proportion", 41_920), 2, 1),
    ],
    ids=["capacity, above", "capacity, within", "proportion, within", "proportion, above"],
)
def test_r2_where_no_card_has_room_a_queue_gives_what_it_holds_beyond_its_share(
    volcano: Volcano, namespace: str, shares: tuple[str, int], wait: int, leave: int
) -> None:
    """The sums of the node suffice, so that Volcano itself sees no need to evict more than one pod."""
    plugin, deserved = shares
    with reclaiming(volcano, plugin, namespace, deserved) as site:
        (node,) = site.pool.add(1, cards=2)
        for at, card in enumerate(site.pool.cards[node]):
            notes = {QUEUE: "qa", "volcano.sh/vgpu-use-gpuuuid": card.uuid}
            site.low(f"own-{at}", 30_000, annotations=notes)
        hold_to(site, plugin, deserved)
        for at in range(wait):
            site.submit(f"back-{at}", gpu(memory=20_000), priorityClassName="cards-low", **of("qb"))
        for at in range(wait):
            if leave:
                site.wait_bound(f"back-{at}")
            else:
                site.wait_refused(f"back-{at}")
        assert len(site.kubelet.victims) == leave
