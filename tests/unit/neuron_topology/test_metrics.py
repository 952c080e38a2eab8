"""How a cluster's Neuron devices are used and cut up, in figures and as Prometheus reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.core import Metric

from hami_plugins.engine.inventory import NodeBuilder, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import CoreMask
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.pods import PodRecord
from hami_plugins.observe.metrics import Metrics
from neuron_topology.core.device_metrics import DeviceMetrics, DeviceState, Linkage, figures_of, recognition
from neuron_topology.core.hardware.fabric import ring, torus
from neuron_topology.core.nodes import HEALTH_KEY
from neuron_topology.core.sets.chances import chances
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.tables import Topology
from neuron_topology.core.vendor import SPEC
from neuron_topology.server.metrics import families
from tests.builders import a_device, a_node, a_record, a_share, a_snapshot, allocated
from tests.unit.neuron_topology.nodes import INF2, TRN1, a_neuron_node

REGISTRY = Registry([SPEC])


def an_entry(name: str = "n", *pods: tuple[str, tuple[int, ...]], kind: str = TRN1, **given: str) -> NodeEntry:
    """A node on which pods hold devices whole; a name with a slash is of that gang."""
    node = a_neuron_node(kind, family=given.pop("family", ""), annotations=given)._replace(name=name)  # type: ignore[arg-type]
    entry = NodeBuilder(REGISTRY).entry(node, NodeFacts())
    return with_pods(entry, [holding(entry, *pod) for pod in pods])


def holding(entry: NodeEntry, name: str, devices: tuple[int, ...], bits: int = 0b11) -> PodRecord:
    group, _, short = name.rpartition("/")
    shares = [a_share(entry.ids[at], 0, bits.bit_count(), CoreMask(bits), vendor=SPEC.name) for at in devices]
    return replace(a_record(allocated(*shares), name=short or name), group=group)


def figures(*entries: NodeEntry) -> DeviceMetrics:
    return figures_of(a_snapshot(*entries))


def test_devices_count_by_what_they_are_to_who_asks() -> None:
    found = figures(an_entry("n", ("one", (0, 1)), **{HEALTH_KEY: '{"devices": [1, 5]}'}))
    assert found.devices == {DeviceState.FREE: 13, DeviceState.HELD: 2, DeviceState.BROKEN: 1}
    assert (found.held_broken, found.held_twice) == (1, 0)


def test_a_device_of_which_two_pods_hold_the_same_cores_is_counted() -> None:
    entry = an_entry()
    pods = [holding(entry, "a", (3,), 0b01), holding(entry, "b", (3,), 0b10), holding(entry, "c", (4,), 0b11)]
    assert figures(with_pods(entry, pods)).held_twice == 0
    assert figures(with_pods(entry, [*pods, holding(entry, "d", (4,), 0b10)])).held_twice == 1


@pytest.mark.parametrize(
    ("topology", "share"),
    [
        (Topology(torus()), 23 / 81),
        (Topology(torus(), Family.LINKED), 1.0),
        (Topology(ring(12), Family.LINKED), 1.0),
        (Topology(ring(12)), (12 + sum(13 - k for k in range(2, 12)) + 1) / (12 + 12 * 10 + 1)),
    ],
)
def test_aws_allocates_23_of_the_81_subcubes(topology: Topology, share: float) -> None:
    assert recognition(topology) == pytest.approx(share)


def test_nodes_count_by_what_they_could_still_allocation() -> None:
    column = an_entry("column", ("job", (0, 4, 8, 12)))
    found = figures(column, an_entry("idle"))
    assert found.largest == {1: 1, 16: 1}
    assert dict(found.fitting) == {1: 2, 4: 1, 8: 1, 16: 1}
    assert {count: number for count, number in found.fragmented.items() if number} == {4: 1, 8: 1}
    assert 0 < found.worth < found.worth_idle


def test_nodes_are_compared_with_what_chance_would_leave() -> None:
    found = figures(an_entry("column", ("job", (0, 4, 8, 12))), an_entry("idle"))
    assert found.by_chance[4] == pytest.approx(1 + 0.859, abs=5e-4)
    assert found.by_chance[8] == pytest.approx(1 + 0.077, abs=5e-4)
    curve = found.chances[TRN1, "aws", 4]
    assert (curve[0], curve[13]) == (1.0, 0.0)
    assert len(curve) == 17
    assert {count for *_, count in found.chances} == {4, 8}


def test_broken_devices_count_as_in_use_in_what_chance_would_leave() -> None:
    found = figures(an_entry("n", **{HEALTH_KEY: '{"devices": [1, 5]}'}))
    assert found.by_chance[8] == pytest.approx(0.467, abs=5e-4)


def test_a_machine_too_large_for_tables_has_no_curve() -> None:
    assert chances(Topology(ring(20)).tables, 1) == ()


def test_a_linked_pool_is_less_fragmented_in_the_same_state() -> None:
    found = figures(an_entry("column", ("job", (0, 4, 8, 12)), family="linked"))
    assert not found.fragmented[4]
    assert found.fragmented[8] == 0


@pytest.mark.parametrize(
    ("devices", "linkage", "numa"),
    [
        ((0, 1, 4, 5), Linkage.RING, 1),
        ((0, 1, 2, 3), Linkage.RING, 2),
        ((0, 1), Linkage.PATH, 1),
        ((0, 1, 4, 12), Linkage.LINKED, 1),
        ((0, 2), Linkage.APART, 2),
    ],
)
def test_allocations_count_by_how_their_devices_are_linked_and_lie(
    devices: tuple[int, ...], linkage: Linkage, numa: int
) -> None:
    found = figures(an_entry("n", ("job", devices)))
    assert found.linkage == {linkage: 1}
    assert found.numa == {numa: 1}


def test_a_single_device_is_no_matter_of_links_and_a_machine_without_known_places_none_of_numa() -> None:
    assert figures(an_entry("n", ("job", (3,)))).linkage == {}
    found = figures(an_entry("n", ("job", (0, 1)), kind="inf1.6xlarge"))
    assert (found.linkage, found.numa) == ({Linkage.PATH: 1}, {})


def test_gangs_count_by_whether_they_have_the_same_devices_everywhere() -> None:
    same = [an_entry("a", ("same/0", (0, 1, 2, 3))), an_entry("b", ("same/1", (0, 1, 2, 3)))]
    other = [an_entry("c", ("other/0", (0, 1, 2, 3)), ("alone/0", (4, 5))), an_entry("d", ("other/1", (4, 5, 6, 7)))]
    assert figures(*same, *other).alike == {True: 1, False: 1}


def test_nodes_without_these_devices_say_nothing() -> None:
    assert figures(a_node("plain", a_device())) == DeviceMetrics()


def samples(*given: Metric) -> dict[tuple[str, ...], float]:
    return {(each.name, *each.labels.values()): each.value for family in given for each in family.samples}


def test_prometheus_reads_every_figure() -> None:
    entries = [an_entry("a", ("gang/0", (0, 1, 2, 3))), an_entry("b", ("gang/1", (0, 1, 2, 3)), kind=INF2)]
    found = samples(*families(a_snapshot(*entries)))
    assert found["neuron_devices", "free"] == 20
    assert found["neuron_recognised_sets_ratio", TRN1, "aws"] == pytest.approx(23 / 81)
    assert found["neuron_nodes", "8"] == 2
    assert found["neuron_nodes_fitting", "4"] == 2
    assert found["neuron_nodes_fragmented", "16"] == 0
    assert found["neuron_nodes_fitting_by_chance", "8"] < found["neuron_nodes_fitting", "8"]
    assert found["neuron_set_chance_ratio", TRN1, "aws", "8", "2"] == pytest.approx(0.467, abs=5e-4)
    assert ("neuron_set_chance_ratio", TRN1, "aws", "8", "9") not in found
    assert 0 < found["neuron_free_sets_ratio",] < 1
    assert found["neuron_allocations", "ring"] == 1
    assert found["neuron_allocations_by_numa", "2"] == 2
    assert (found["neuron_gangs", "true"], found["neuron_gangs", "false"]) == (1, 0)
    assert (found["neuron_allocations", "apart"], found["neuron_devices", "broken"]) == (0, 0)
    assert found["neuron_devices_held_twice",] == 0
    assert found["neuron_devices_held_broken",] == 0


def test_a_cluster_without_nodes_is_all_zero_and_can_be_served() -> None:
    metrics = Metrics("neuron_allocator")
    metrics.collected(lambda: families(a_snapshot(a_node("plain", a_device()))))
    text, _ = metrics.text()
    assert b"neuron_free_sets_ratio 0.0" in text
