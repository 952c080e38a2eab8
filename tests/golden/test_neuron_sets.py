"""The sets of linked devices and their measures: the reference's exhaustive tables, counted anew by our code."""

from collections import defaultdict
from functools import cache
from math import comb

from neuron_topology.core.hardware.fabric import Fabric, FabricShape, devices_of, mask_of, torus
from neuron_topology.core.sets import families
from neuron_topology.core.sets.families import LABELS, Family, subcubes
from neuron_topology.core.sets.measures import Hops, connected, hops, links_in, ring_through
from tests.golden import cases, ultraserver
from tests.golden.cases import Case
from tests.golden.neuron_tables import bisection, locality_of, tables_of

TORUS = torus()
LINKS = TORUS.masks
TORUS_TYPE = "trn1.32xlarge"

OF_THREE_DIMENSIONS = [[0, 1, 2, 3, 7, 6, 5, 4]]
"""The example for all odd dimensions: half the torus, which is a cube."""

DEVIATIONS = {
    "locset-trn1-8": "sets inside one bus are counted, as for the smaller counts; of whole buses there are four",
}


@cache
def connected_sets() -> dict[int, list[int]]:
    """Every connected set of the torus, by its size."""
    found = defaultdict(list)
    for members in range(1, 1 << TORUS.devices):
        if connected(members, LINKS):
            found[members.bit_count()].append(members)
    return found


@cases.each("neuron/math-labels.yaml")
def test_the_torus_is_a_hypercube(case: Case) -> None:
    device, label = case.given["device"], case.expect["label"]
    assert LABELS[device] == label
    near = {other for other in range(16) if (LABELS[other] ^ label).bit_count() == 1}
    assert near == set(TORUS.neighbours[device])


@cases.each("neuron/subcubes.yaml")
def test_a_subcube_is_allocated_as_the_families_say(case: Case) -> None:
    members, count = mask_of(case.given["devices"]), case.expect["k"]
    assert members in subcubes(count)
    assert members in tables_of(TORUS_TYPE).sets[count]
    assert (members in tables_of(TORUS_TYPE, Family.AWS).sets.get(count, ())) is case.expect["aws_allowed"]


@cases.each("neuron/math-families.yaml")
def test_the_families_have_as_many_sets_as_the_reference_counts(case: Case) -> None:
    count = case.given["k"]
    aws = tables_of(TORUS_TYPE, Family.AWS).sets
    if count == "all":
        allocated, own = tables_of(TORUS_TYPE).sets, sum(map(len, aws.values()))
        assert sum(len(allocated[size]) for size in (1, 2, 4, 8, 16)) == case.expect["subcubes"]
    else:
        allocated, own = tables_of(TORUS_TYPE).sets, len(aws.get(count, ()))
        assert len(allocated[count]) == len(subcubes(count)) == case.expect["subcubes"]
    assert case.expect["allowed"] == own


@cases.each("neuron/math-subsets.yaml")
def test_the_table_of_all_connected_sets_comes_out_again(case: Case) -> None:
    count = case.given["k"]
    found = connected_sets()[count]
    links = {members: links_in(members, LINKS) for members in found}
    most = max(links.values())
    best = [members for members in found if links[members] == most]
    measured = {members: hops(members, LINKS) for members in best}
    least = min(measured.values())
    allocated = [members for members in best if measured[members] == least]
    assert {
        "k_subsets": comb(16, count),
        "connected": len(found),
        "hamiltonian": sum(1 for members in found if ring_through(members, LINKS)),
        "max_links": most,
        "bisection": bisection(allocated[0], LINKS),
        "best_sets": len(allocated),
    } == {name: value for name, value in case.expect.items() if not name.startswith("min_")}
    assert most == sum(number.bit_count() for number in range(count))
    assert sorted(allocated, key=devices_of) == list(tables_of(TORUS_TYPE).sets[count])
    assert _least_of_all(found) == (case.expect["min_diameter"], case.expect["min_mean_hop"])


def _least_of_all(found: list[int]) -> tuple[int, str]:
    """The least diameter and the least mean hop of any of the sets, each by itself."""
    measured: list[Hops] = [hops(members, LINKS) for members in found]
    return min(each.diameter for each in measured), f"{float(min(each.mean for each in measured)):.4f}"


def test_links_that_are_looked_at_one_by_one_give_the_same_sets_as_the_theorem() -> None:
    unnamed = Fabric(FabricShape.IRREGULAR, TORUS.neighbours)
    assert families.sets_of(unnamed, Family.LINKED) == families.sets_of(TORUS, Family.LINKED)


@cases.each("neuron/math-rings.yaml")
def test_edge_disjoint_rings_of_the_reference_are_rings_of_ours(case: Case) -> None:
    cube = case.given["graph"]
    cycles = case.about["recomputed"].get("example_cycles", OF_THREE_DIMENSIONS)
    if cube == "Q6":
        cycles = [[_chip(label) for label in cycle] for cycle in cycles]
        links = {frozenset((a, b)) for a, row in enumerate(ultraserver.chips()) for b in row}
    else:
        links = {frozenset(link) for link in TORUS.links}
    used = [frozenset(step) for cycle in cycles for step in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
    told = case.expect["edge_disjoint_hamiltonian_cycles"]
    assert len(cycles) == (3 // 2 if told == "floor(n/2)" else told)
    assert set(used) <= links
    assert len(set(used)) == len(used)
    if case.expect["leftover"] == "perfect matching":
        inside = set(cycles[0])
        left = [link for link in links if link <= inside and link not in used]
        assert sorted(device for link in left for device in link) == sorted(inside)


def _chip(label: int) -> int:
    """The chip of a 6-bit label: two bits for the machine in the ring, four for the device."""
    return (0, 1, 3, 2).index(label >> 4) * 16 + LABELS.index(label & 15)


@cases.each("neuron/cycle-order.yaml")
def test_an_order_is_a_ring_where_the_reference_says_so(case: Case) -> None:
    order = case.given["order"]
    steps = zip(order, [*order[1:], order[0]], strict=True)
    unlinked = [list(step) for step in steps if step[1] not in TORUS.neighbours[step[0]]]
    assert unlinked == case.expect["unlinked_steps"]
    ours = tables_of(TORUS_TYPE).order(mask_of(order))
    if case.expect["hamiltonian_ring"]:
        assert list(ours) == order
    else:
        assert list(ours) != order
        assert list(tables_of(TORUS_TYPE, Family.AWS).order(mask_of(order))) == order


@cases.each("neuron/locality-sets.yaml")
def test_sets_lie_in_the_host_as_the_reference_counts(case: Case) -> None:
    kind, count = case.given["instance_type"], case.given["k"]
    locality, sets = locality_of(kind), tables_of(kind).sets[count]
    pure = [each for each in sets if locality.spread(each).numa == 1]
    _counted(case.expect["all_sets_in_one_numa"], pure, len(sets))
    if (least := case.expect["all_sets_in_one_numa"].get("min_numa_spread")) is not None:
        assert min(locality.spread(each).numa for each in sets) == least
    if (own := case.expect["aws_sets_in_one_numa"]) is not None:
        aws = tables_of(kind, Family.AWS).sets[count]
        _counted(own, [each for each in aws if locality.spread(each).numa == 1], len(aws))
    if (aligned := case.expect["pcie_aligned"]) is not None:
        whole = [each for each in sets if locality.spread(each).parted == 0]
        inside = [each for each in sets if locality.spread(each).pcie == 1]
        _counted(aligned, inside if kind.startswith("trn1") else whole, len(sets))


def _counted(expected: dict[str, object], found: list[int], total: int) -> None:
    told = {"count": len(found), "of": total, "sets": sorted(list(devices_of(each)) for each in found)}
    expected = {name: value for name, value in expected.items() if name in told}
    if isinstance(listed := expected.get("sets"), list):
        expected["sets"] = sorted(listed)
    assert {name: told[name] for name in expected} == expected


@cases.each("neuron/degraded-node.yaml")
def test_a_node_with_a_bad_device_stays_useful(case: Case) -> None:
    tables = tables_of(TORUS_TYPE)
    for bad in range(16):
        left = tables.options(tables.full & ~(1 << bad), case.given["k"])
        assert (len(left), len(tables.sets[case.given["k"]])) == (case.expect["remaining"], case.expect["of"])
