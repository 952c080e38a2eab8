"""Which sets are allocated of what is free: counts, scenarios, and the fragmentation tables over all free masks."""

from collections import Counter
from itertools import combinations

import pytest

from neuron_topology.core.hardware.fabric import devices_of, line, mask_of
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.sets.chances import chances
from neuron_topology.core.sets.families import Family, arcs, windows
from neuron_topology.core.sets.tables import Tables, Topology
from tests.golden import cases
from tests.golden.cases import Case
from tests.golden.neuron_tables import tables_of

FAMILIES = {"all subcubes": Family.LINKED, "AWS sets": Family.AWS}
TORUS_TYPE = "trn1.32xlarge"

DEVIATIONS = {
    "pfit-m08": ("7,908 of 12,870 are 0.614 when rounded", {"set4_all": "0.614"}),
    "scen-10": "of the two sets in one NUMA node the one with the lowest indexes is taken",
    "hamiwin-single": "the lowest of the devices that leave the most sets, not the highest",
}


@cases.each("neuron/allowed-counts.yaml")
def test_awss_family_allocates_awss_sets(case: Case) -> None:
    tables = tables_of(case.given["instance_type"], Family.AWS)
    sets = tables.sets.get(case.given["devices"], ())
    assert [list(devices_of(each)) for each in sets] == case.expect["sets"]
    assert (case.given["devices"] in tables.counts) is case.expect["allowed"]


@cases.each("neuron/allowed-sets.yaml")
def test_awss_family_supports_what_aws_supports(case: Case) -> None:
    devices = case.given["devices"]
    sets = tables_of(case.given["instance_type"], Family.AWS).sets.get(len(devices), ())
    assert (mask_of(devices) in sets) is case.expect["supported"]


@cases.each("neuron/scenarios.yaml")
def test_a_scenario_is_decided_as_the_reference_says(case: Case) -> None:
    kind, free = case.given["instance_type"], mask_of(case.given["free"])
    count = case.given["ask"]
    if case.given["unit"] == "core":
        per_device = INSTANCE_TYPES[kind].logical_cores()
        count = -(-count // per_device)
        assert case.expect["wide"].get("device_count", count) == count
    aws, wide = tables_of(kind, Family.AWS), tables_of(kind)
    given = aws.choose(free, count)
    if case.expect["aws"]["accept"] is not None:
        assert bool(given) is case.expect["aws"]["accept"]
        if "devices" in case.expect["aws"]:
            told = mask_of(case.expect["aws"]["devices"])
            assert told in aws.options(free, count)
            assert given == told
    chosen, options = wide.choose(free, count), wide.options(free, count)
    expected = case.expect["wide"]
    assert bool(chosen) is (expected["accept"] is True or expected["accept"] == "policy")
    assert len(options) == expected.get("options", len(options))
    if "devices" in expected:
        assert chosen == mask_of(expected["devices"])
    best = case.expect["best"] or {}
    if best.get("devices"):
        alike = [best["devices"], *best.get("alternatives", ())]
        assert chosen in [mask_of(each) for each in alike]
        assert chosen == min(map(mask_of, alike), key=devices_of)


@cases.each("neuron/hami-window.yaml")
def test_hamis_windows_are_found(case: Case) -> None:
    count, total = case.given["k"], case.given["device_count"]
    trainium = case.given["family"] == "trn"
    tables = tables_of(TORUS_TYPE, Family.AWS) if trainium else Topology(line(total), Family.AWS).tables
    free = tables.full & ~mask_of(case.given["busy"])
    chosen, told = tables.choose(free, count), case.expect["devices"]
    if case.id == "hamiwin-single":
        assert (chosen, told) == (1, [15])
    else:
        assert list(devices_of(chosen)) == (told or [])


@cases.each("neuron/frag-blocking.yaml")
def test_it_takes_as_many_busy_devices_to_block_a_count(case: Case) -> None:
    tables, count = tables_of(TORUS_TYPE, FAMILIES[case.given["family"]]), case.given["k"]
    choices = tables.choices(count)
    fewest = next(
        busy
        for busy in range(17)
        if any(not choices[tables.full & ~mask_of(each)] for each in combinations(range(16), busy))
    )
    assert fewest == case.expect["min_busy"]
    if case.expect["example"]:
        assert not choices[tables.full & ~mask_of(case.expect["example"])]


@cases.each("neuron/frag-pfit.yaml")
def test_the_chance_of_a_fit_is_as_computed(case: Case) -> None:
    busy = case.given["busy"]
    expected = case.expect | DEVIATIONS.get(case.id, ("", {}))[1]  # type: ignore[operator]
    for name, told in expected.items():
        if told is None:
            continue
        count = int(name.removeprefix("set").partition("_")[0])
        family = Family.AWS if name.endswith("_aws") else Family.LINKED
        assert f"{chances(tables_of(TORUS_TYPE, family), count)[busy]:.3f}" == told, name


@pytest.fixture(scope="module")
def largest() -> Counter[tuple[int, int]]:
    """How many free masks have so much as their largest allocatable size: AWS's sets, and all subcubes."""
    aws, wide = tables_of(TORUS_TYPE, Family.AWS), tables_of(TORUS_TYPE)
    return Counter((_most(aws, free), _most(wide, free)) for free in range(1 << 16))


def _most(tables: Tables, free: int) -> int:
    return next((size for size in (16, 8, 4, 2, 1) if size in tables.sets and tables.choices(size)[free]), 0)


@cases.each("neuron/frag-states.yaml")
def test_the_largest_set_of_every_free_mask_is_as_counted(case: Case, largest: Counter[tuple[int, int]]) -> None:
    if case.given["largest_aws"] != "any":
        found = largest[case.given["largest_aws"], case.given["largest_all"]]
        assert found == case.expect["masks"]
    else:
        assert sum(n for (aws, wide), n in largest.items() if wide > aws) == case.expect["masks"]


@cases.each("neuron/frag-ring12.yaml")
def test_arcs_that_wrap_fit_where_no_window_does(case: Case) -> None:
    count = case.given["k"]
    kind = "inf2.48xlarge"
    aws, wide = tables_of(kind, Family.AWS), tables_of(kind)
    assert (len(set(arcs(12, count))), len(windows(12, count))) == (case.expect["arcs"], case.expect["windows"])
    only = sum(1 for free in range(1 << 12) if wide.choose(free, count) and not aws.choose(free, count))
    assert only == case.expect["masks_only_wrapping"]
