"""The page of nodes as a server makes it, and the pods that wait on it."""

from __future__ import annotations

from hami_plugins.explain.waiting import WaitingReport
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.occupancy.report import NodeSelection, narrowed, report_of
from hami_plugins.output.page import Heading, RefusalPanel
from hami_plugins.output.page import nodes as nodes_page
from tests.builders import a_device, a_node
from tests.unit.plan.plans import REGISTRY

KINDS = (("A", 6), ("B", 2))


def test_a_served_page_draws_some_nodes_of_each_kind_and_counts_all() -> None:
    """The page of 5,000 nodes would have 17 MB."""
    entries = [a_node(f"{model}-{at}", a_device(model=model)) for model, count in KINDS for at in range(count)]
    report = report_of(ClusterSnapshot(nodes=tuple(entries)), REGISTRY)
    drawn = [use.name for use in nodes_page.some_of_each(report.nodes, 5)]
    assert drawn == ["A-0", "A-1", "A-2", "B-0", "B-1"]
    assert nodes_page.some_of_each(report.nodes, 8) is report.nodes
    service = nodes_page.PageService(most=5, elsewhere="ask for others", refresh=7)
    shown = nodes_page.report_page(report, Heading(title="Nodes"), service=service)
    assert "5 of 8 nodes are drawn, some of each kind; ask for others" in shown
    assert 'data-seconds="7"' in shown
    assert shown.count('<article class="node"') == 5
    whole = nodes_page.report_page(report, Heading(title="Nodes"))
    assert "data-seconds" not in whole
    assert whole.count('<article class="node"') == 8


def test_what_waits_is_counted_at_the_top_and_told_below() -> None:
    waiting = WaitingReport(pods=2, more=1)
    report = report_of(ClusterSnapshot(nodes=(a_node("a"),)), REGISTRY, waiting=waiting)
    shown = nodes_page.report_page(
        report,
        Heading(title="Nodes"),
        waiting=[RefusalPanel(title="ml/p", stage="waits", why="too large")],
        waiting_more="and 1 more pod",
    )
    assert "pods wait for devices" in shown
    assert "and 1 more pod" in shown
    one = report_of(ClusterSnapshot(nodes=(a_node("a"),)), REGISTRY, waiting=WaitingReport(pods=1))
    assert "pod waits for devices" in nodes_page.report_page(one, Heading(title="Nodes"))


def test_a_report_is_narrowed_to_nodes_without_another_look() -> None:
    report = report_of(ClusterSnapshot(nodes=tuple(a_node(f"n-{at}") for at in range(12))), REGISTRY)
    found = narrowed(report, NodeSelection(names=("n-1*",)))
    assert [use.name for use in found.nodes] == ["n-1", "n-10", "n-11"]
    assert found.waiting is report.waiting
