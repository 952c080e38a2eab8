"""HAMi's own scheduler and the allocator side by side: no slice is given twice, whichever of them is faster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hami_plugins.kube.client import connect_to
from tests.integration.allocator.hami_pods import ALLOCATED, a_node, a_pod, bind, call, hami, notes_of
from tests.integration.allocator.hami_scheduler import HamiScheduler, served
from tests.integration.allocator.sites import MARK, Site
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.waiting import wait_for

BIG = 30_000
"""MiB: one such pod has room on a card."""


@contextmanager
def both(folder: Path, cards: int = 1) -> Iterator[tuple[Site, Client, HamiScheduler]]:
    with hami(folder, a_node("n1", cards)) as (place, client):
        api = connect_to(place.server.url, component="hami-scheduler")
        yield place, client, HamiScheduler(api)
        api.close()


def old(place: Site, name: str, memory: int = BIG) -> dict[str, Any]:
    """A pod from before our webhooks, which waits for HAMi's scheduler."""
    raw = a_pod(name, memory)
    raw["spec"]["schedulerName"] = "hami-scheduler"
    return place.put(raw)[0]


def refused(client: Client, pod: dict[str, Any]) -> str:
    return str((call(client, "filter", Pod=pod, NodeNames=["n1"])["FailedNodes"] or {}).get("n1", ""))


def test_what_hami_has_assigned_is_held_from_its_first_write_to_the_binding_and_after(tmp_path: Path) -> None:
    with both(tmp_path) as (place, client, scheduler):
        first = old(place, "first")
        (ours,) = place.create(a_pod("ours", BIG))
        wait_for(lambda: not refused(client, ours))

        scheduler.filter(first, "n1", "GPU-n1-0,NVIDIA,30000,0:")
        why = wait_for(lambda: refused(client, ours))
        scheduler.lock(first, "n1")
        assert scheduler.bind(first, "n1") == ""
        bound = place.server.get("pods", "first", "default")
        assert refused(client, ours)
    assert "10960" in why.replace(",", "")
    assert notes_of(bound)[ALLOCATED] == "GPU-n1-0,NVIDIA,30000,0:;"
    assert MARK not in notes_of(bound)


def test_hami_binds_what_was_given_away_meanwhile_to_a_free_card(tmp_path: Path) -> None:
    with both(tmp_path, cards=2) as (place, client, scheduler):
        first = old(place, "first")
        (ours,) = place.create(a_pod("ours", BIG))
        wait_for(lambda: not refused(client, ours))
        assert bind(client, ours, "n1") == ""
        served(place, "ours")
        given = notes_of(place.server.get("pods", "ours", "default"))[ALLOCATED]
        taken = given.partition(",")[0]

        scheduler.filter(first, "n1", f"{taken},NVIDIA,30000,0:")
        assert scheduler.bind(first, "n1") == ""
        moved = notes_of(place.server.get("pods", "first", "default"))[ALLOCATED].partition(",")[0]
    assert {taken, moved} == {"GPU-n1-0", "GPU-n1-1"}


def test_hami_is_refused_a_binding_that_the_node_has_no_room_for(tmp_path: Path) -> None:
    with both(tmp_path) as (place, client, scheduler):
        first = old(place, "first")
        (ours,) = place.create(a_pod("ours", BIG))
        wait_for(lambda: not refused(client, ours))
        assert bind(client, ours, "n1") == ""
        served(place, "ours")
        scheduler.filter(first, "n1", "GPU-n1-0,NVIDIA,30000,0:")
        why = scheduler.bind(first, "n1")
        assert not place.server.get("pods", "first", "default")["spec"].get("nodeName")
    assert "nvidia.com/gpumem" in why or "10,960" in why, why


def test_an_assignment_on_a_marked_pod_holds_nothing(tmp_path: Path) -> None:
    with both(tmp_path) as (place, client, scheduler):
        forger, ours = place.create(a_pod("forger", BIG), a_pod("ours", BIG))
        wait_for(lambda: not refused(client, ours))
        scheduler.filter(forger, "n1", "GPU-n1-0,NVIDIA,30000,0:")
        wait_for(lambda: "hami.io/vgpu-node" in notes_of(place.server.get("pods", "forger", "default")))
        assert bind(client, ours, "n1") == ""
