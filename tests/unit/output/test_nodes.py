"""The devices of a cluster as tables, as a document and as a page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.model.cluster import ClusterSnapshot, Listing
from hami_plugins.model.nodes import NodeShape, NodeState, Problem, Taint
from hami_plugins.occupancy.report import ClusterReport, report_of
from hami_plugins.output import nodes, page
from tests.builders import a_device, a_node, a_record, a_share, a_snapshot, allocated
from tests.schema import ADAPTER
from tests.unit.output.test_page import read
from tests.unit.plan.plans import REGISTRY, cordoned, holding


def report(*entries: object) -> ClusterReport:
    return report_of(ClusterSnapshot(nodes=entries), REGISTRY)  # type: ignore[arg-type]


def cells(found: ClusterReport, *, wide: bool = False) -> list[dict[str, str]]:
    table, _ = nodes.devices(found, wide=wide)
    return [dict(zip(table.columns, row.cells, strict=True)) for row in table.rows]


def test_equal_neighbours_share_a_row() -> None:
    pod = a_record(allocated(*(a_share(f"card-{at}", 16_384, 100) for at in range(2))), name="train")
    rows = cells(report(holding(a_node("n", *(a_device(index=at) for at in range(5))), pod)))
    assert [(row["CARD"], row["ROOM"], row["HELD BY"]) for row in rows] == [
        ("0-1", "full", "default/train 16 GiB, 100 %"),
        ("2-4", "3 x 16 GiB free", "-"),
    ]


@pytest.mark.parametrize(("most", "shown", "left"), [(0, 2, 2), (2, 2, 2), (3, 2, 2), (4, 4, 1), (6, 6, 0)])
def test_long_tables_end_between_two_nodes(most: int, shown: int, left: int) -> None:
    found = report(*(holding(a_node(name, a_device(), a_device(index=1)), a_record()) for name in "abc"))
    table, more = nodes.devices(found, most=most)
    assert (len(table.rows), more) == (shown, left)


def test_a_wide_row_is_one_device_with_its_id_and_containers() -> None:
    record = replace(a_record(), containers=("main",), terminating=True)
    unknown = replace(a_record(name="x"), containers=())
    (row,) = cells(report(holding(a_node(), record, unknown)), wide=True)
    assert (row["ID"], row["NUMA"], row["MODE"], row["STATE"]) == ("card-0", "0", "-", "ready")
    assert row["HELD BY"] == "default/running/main 1 GiB (terminating); default/x 1 GiB"
    (row,) = cells(report(cordoned(a_node())), wide=True)
    assert (row["STATE"], row["HELD BY"]) == ("cordoned", "-")


def test_the_tone_of_a_row_is_that_of_its_room() -> None:
    full = a_record(allocated(a_share(memory=16_384)))
    over = a_record(allocated(a_share(memory=20_000)))
    entries = (
        a_node("a"),
        holding(a_node("b", a_device(slots=1)), a_record()),
        a_node("c", a_device(healthy=False)),
        holding(a_node("d"), full),
        holding(a_node("e"), over),
    )
    table, _ = nodes.devices(report(*entries))
    assert [row.tone for row in table.rows] == ["good", "warn", "bad", "", "bad"]
    assert [row.cells[3] for row in table.rows] == [
        "16 GiB free",
        "15 GiB stranded: its only slot is taken",
        "unhealthy",
        "full",
        "3.5 GiB overbooked",
    ]


def test_amounts_that_a_device_does_not_have_are_dashes() -> None:
    (row,) = cells(report(holding(a_node("n", a_device(memory=0, cores=0)), a_record(allocated(a_share(memory=0))))))
    assert (row["MEMORY"], row["CORES"], row["SLOTS"]) == ("-", "-", "1/10")
    assert row["HELD BY"] == "default/running"


def test_totals_and_summary() -> None:
    bare = replace(a_node("bare"), ids=(), state=NodeState.idle(NodeShape(())))
    found = report(holding(a_node("a"), a_record()), bare)
    (row,) = nodes.totals(found).rows
    assert row.cells == ("Acme", "Acme", "1", "16 GiB", "1 GiB", "15 GiB", "-", "-")
    assert nodes.summary(found).words == "1 node, 1 card; 1 node without cards"
    assert nodes.summary(report(a_node())).words == "1 node, 1 card"


def test_the_document_is_the_one_of_the_schema() -> None:
    entry = a_node("n", a_device(), a_device(index=1))
    facts = replace(entry.facts, taints=(Taint("gpu", "yes", "NoSchedule"), Taint("soft", "", "PreferNoSchedule")))
    over = a_record(allocated(a_share("card-1", 20_000)), name="over")
    running = replace(a_record(), containers=("main",))
    snapshot = replace(
        a_snapshot(holding(replace(entry, facts=facts), running, over)),
        problems=(Problem("pod a/b", "bad"),),
        listing=Listing(kinds={"Node": 1, "Pod": 2}),
    )
    document = nodes.document(report_of(snapshot, REGISTRY), REGISTRY)
    ADAPTER.validate_python(document)
    (node,) = document["nodes"]
    assert node["taints"] == ["gpu=yes:NoSchedule"]
    assert [device["room"]["state"] for device in node["devices"]] == ["free", "overbooked"]
    assert node["devices"][0]["holders"] == [
        {
            "namespace": "default",
            "pod": "running",
            "container": "main",
            "kind": "app",
            "memoryMiB": 1024,
            "cores": 0,
            "partition": "",
            "terminating": False,
        }
    ]
    assert document["problems"] == [{"place": "pod a/b", "what": "bad"}]
    assert document["listed"] == {"Node": 1, "Pod": 2}


def test_the_page_shows_devices_and_nothing_of_a_plan() -> None:
    found = report(holding(a_node(), a_record(name="old")))
    text = page.report_page(found, page.Heading(title="Nodes", source="here", made_at="now"))
    reader = read(text)
    assert {"Nodes", "here · now", "of all cards taken"} <= set(reader.texts)
    assert "default/old (running)\n1024 MiB (1 GiB) of 16 GiB" in reader.labels()
    assert not {"planned", "With planned pods", "Planned pods", "What waits, and why"} & set(reader.texts)


def test_the_page_names_the_ids_of_its_cards() -> None:
    (row,) = read(page.report_page(report(a_node("n", a_device(), a_device(index=1))), page.Heading())).with_class("ix")
    assert row["title"] == "card-0 card-1"


def test_the_page_has_room_for_what_waits() -> None:
    waiting = [page.RefusalPanel(title="team/big", stage="does not fit", why="too much")]
    reader = read(page.report_page(report(a_node()), page.Heading(), waiting=waiting))
    assert {"What waits, and why", "team/big", "too much"} <= set(reader.texts)


def test_the_page_tells_what_could_not_be_read_and_what_the_listing_lacks() -> None:
    snapshot = replace(a_snapshot(a_node()), problems=(Problem("node x", "bad"),), listing=Listing(kinds={"Node": 1}))
    texts = read(page.report_page(report_of(snapshot, REGISTRY), page.Heading())).texts
    assert {"node x", "bad", "thing in the cluster could not be read: see the remarks"} <= set(texts)
    assert any("no pods in this listing" in text for text in texts)


def test_the_page_of_a_cluster_without_devices_says_so() -> None:
    bare = replace(a_node("bare"), ids=(), state=NodeState.idle(NodeShape(())))
    assert "1 node has no devices." in read(page.report_page(report(bare), page.Heading())).texts
