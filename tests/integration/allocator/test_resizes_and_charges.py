"""A leader books the requests of running slices, and reports and records all allocations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.allocator.sites import Site, site
from tests.integration.volcano_vgpu.allocation.servers import Client, a_node, a_pod
from tests.waiting import wait_for

ASK, BOOKED = "hami-plugins.io/resize-memory", "hami-plugins.io/booked-memory"
REFUSED = "hami-plugins.io/resize-refused"


def annotation(place: Site, name: str, key: str) -> str | None:
    found: dict[str, str] = place.server.get("pods", name, "default")["metadata"].get("annotations") or {}
    return found.get(key)


def holder(name: str, ask: str = "") -> dict[str, Any]:
    """A bound pod with a quarter of the first card."""
    raw = a_pod(name, memory=10_240, node="n", ids="GPU-n-0,NVIDIA,10240,0:;")
    if ask:
        raw["metadata"]["annotations"][ASK] = ask
    return raw


def test_growth_is_booked_and_leaves_less_to_the_next_pod(tmp_path: Path) -> None:
    with site(tmp_path, a_node("n", cards=1)) as place:
        place.put(holder("grows", "main=30000"))
        (waits,) = place.put(a_pod("waits", memory=20_000))
        client = place.start()
        assert wait_for(lambda: annotation(place, "grows", BOOKED)) == "main=30000"
        assert "memory" in client.predicate(waits, "n")


def test_growth_beyond_the_card_is_refused_on_the_pod(tmp_path: Path) -> None:
    with site(tmp_path, a_node("n", cards=1)) as place:
        place.put(holder("grows", "main=50000"))
        place.start()
        assert "main=50000: container main: card GPU-n-0 has 40960 of 40960 MiB" in wait_for(
            lambda: annotation(place, "grows", REFUSED)
        )
        assert annotation(place, "grows", BOOKED) is None


def scraped(client: Client) -> dict[str, float]:
    _, text = client.get("/metrics")
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith("hami_allocator_allocated_")]
    return {name: float(value) for name, _, value in lines}


def test_what_is_held_is_in_the_metrics_and_in_the_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with site(tmp_path, a_node("n", cards=1)) as place:
        place.put(holder("runs"), a_pod("waits"))
        client = place.start(charging={"journalDirectory": str(journal)})
        labels = '{owner="",pod_namespace="default",queue="",vendor="Volcano-vGPU"}'
        assert wait_for(lambda: scraped(client)) == {
            f"hami_allocator_allocated_devices{labels}": 0.25,
            f"hami_allocator_allocated_memory_bytes{labels}": 10_240 << 20,
        }
    lines = [json.loads(each) for each in (journal / "one.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [each["event"] for each in lines] == ["began", "held", "listed"]
    assert (lines[1]["pod"], lines[1]["devices"], lines[1]["memoryMiB"]) == ("runs", "1/4", 10_240)
