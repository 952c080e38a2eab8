"""The report of a cluster: which nodes and devices, what they add up to, and what could not be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.errors import ManifestError
from hami_plugins.model.cluster import ClusterSnapshot, Listing
from hami_plugins.model.nodes import NodeShape, NodeState, Problem
from hami_plugins.model.requests import ContainerKind
from hami_plugins.occupancy.devices import SegmentKind
from hami_plugins.occupancy.report import ClusterReport, NodeSelection, held_slices, report_of
from tests.builders import ACME, a_device, a_node, a_record, a_share, a_snapshot, allocated
from tests.unit.plan.plans import REGISTRY, holding

BARE = replace(a_node("bare"), ids=(), state=NodeState.idle(NodeShape(())))


def report(snapshot: ClusterSnapshot, **wanted: object) -> ClusterReport:
    return report_of(snapshot, REGISTRY, NodeSelection(**wanted))  # type: ignore[arg-type]


def names(found: ClusterReport) -> list[str]:
    return [node.name for node in found.nodes]


def test_nodes_without_devices_are_counted() -> None:
    found = report_of(a_snapshot(a_node("gpu"), BARE), REGISTRY)
    assert (names(found), found.bare, found.devices) == (["gpu"], 1, 1)


def test_nodes_are_chosen_by_name_and_pattern() -> None:
    cluster = a_snapshot(*(a_node(name) for name in ("gpu-1", "gpu-2", "other")))
    assert names(report(cluster, names=("gpu-*",))) == ["gpu-1", "gpu-2"]
    assert names(report(cluster, names=("other", "gpu-1"))) == ["gpu-1", "other"]


def test_a_name_that_no_node_has_is_an_error_with_one_that_exists() -> None:
    with pytest.raises(ManifestError, match=r"no node is called gpu-11; the cluster has 1, such as gpu-1; give a name"):
        report(a_snapshot(a_node("gpu-1")), names=("gpu-11",))


def test_devices_are_chosen_by_vendor_and_by_free_room() -> None:
    full = a_record(allocated(a_share(memory=16_384, cores=100)))
    cluster = a_snapshot(holding(a_node("n", a_device(), a_device(index=1)), full), holding(a_node("full"), full))
    found = report(cluster, free=True)
    assert [[card.id for card in node.cards] for node in found.nodes] == [["card-1"]]
    assert found.bare == 1
    assert report(cluster, vendors=frozenset({ACME})).devices == 3
    assert report(cluster, vendors=frozenset({"other"})).devices == 0


def test_the_totals_are_those_of_the_devices_shown() -> None:
    found = report(a_snapshot(holding(a_node("a"), a_record()), a_node("b")))
    (total,) = found.totals
    assert (total.cards, total.amounts[SegmentKind.HELD], total.amounts[SegmentKind.FREE]) == (2, 1024, 31_744)
    assert found.totals is found.totals


def test_what_could_not_be_read_and_what_a_listing_lacks_is_told() -> None:
    cluster = replace(
        a_snapshot(a_node()), problems=(Problem("node x", "bad"),), listing=Listing(kinds={"Node": 1, "Job": 2})
    )
    found = report(cluster)
    assert found.problems == (Problem("node x", "bad"),)
    assert [gap.why for gap in found.gaps] == ["no pods in this listing: every device counts as unused"]
    assert found.listed == (("Job", 2), ("Node", 1))
    assert report(a_snapshot(a_node())).listed == ()


def test_containers_are_told_by_name_but_init_containers_only_while_they_run() -> None:
    init = allocated(a_share(memory=1), kind=ContainerKind.INIT)
    record = replace(a_record(init, allocated(a_share(memory=2))), containers=("setup", "main"))
    idle = replace(a_record(name="idle"), allocations=())

    def held(*, finished: bool) -> list[tuple[str, int]]:
        (node,) = report(a_snapshot(holding(a_node(), replace(record, init_finished=finished), idle))).nodes
        return [(each.container, each.memory) for each in held_slices(node)["default/running", "card-0"]]

    assert held(finished=False) == [("setup", 1), ("main", 2)]
    assert held(finished=True) == [("main", 2)]
