"""What neuron-ls prints, read in both of its forms."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.hardware.machines import machine_of
from neuron_topology.core.hardware.neuron_ls import decode
from tests.unit.neuron_topology.hardware.printed import INF1_TABLE, TRN1, TRN1_TABLE, TRN2_TABLE, as_json


def test_the_table_of_a_real_machine_has_the_links_of_its_type() -> None:
    found = decode("node x", TRN1_TABLE)
    kind = INSTANCE_TYPES[TRN1]
    assert found.instance_type == TRN1
    assert tuple(device.neighbours for device in found.devices) == kind.fabric.neighbours
    assert {(device.cores, device.memory) for device in found.devices} == {(2, kind.device_memory)}
    by_bus: dict[str, set[int]] = {}
    for device in found.devices:
        by_bus.setdefault(f"0x{device.bus}", set()).add(device.index)
    assert by_bus == {group.name: set(group.devices) for group in kind.pcie}


def test_json_says_the_same_as_the_table() -> None:
    table, listed = decode("x", TRN1_TABLE), decode("x", as_json())
    assert [device.neighbours for device in listed.devices] == [device.neighbours for device in table.devices]
    assert tuple(device.numa for device in listed.devices) == INSTANCE_TYPES[TRN1].numa
    assert {device.numa for device in table.devices} == {-1}


def test_rows_of_further_processes_are_not_devices() -> None:
    found = decode("x", INF1_TABLE)
    assert [(device.index, device.neighbours, device.bus) for device in found.devices] == [
        (0, (1,), "0000:00"),
        (1, (0,), "0000:00"),
    ]


def test_a_newer_table_tells_numa_nodes_and_the_lnc_setting() -> None:
    found = decode("x", TRN2_TABLE)
    (device,) = found.devices
    assert (device.cores, device.neighbours, device.numa, found.lnc) == (8, (), 1, 2)


@pytest.mark.parametrize(("printed", "lnc", "logical"), [(4, 2, 4), (8, 2, 4), (8, 1, 8), (2, 0, 2)])
def test_cores_count_at_the_lnc_setting_whether_a_release_prints_logical_or_physical_ones(
    printed: int, lnc: int, logical: int
) -> None:
    table = TRN2_TABLE.replace("| 8      |", f"| {printed}      |").replace("config: 2", f"config: {lnc}")
    found = decode("x", table)
    assert found.devices[0].logical_cores(found.lnc) == logical
    assert machine_of("trn2.3xlarge", 1, found).cores == logical


def test_a_machine_with_one_device_needs_no_column_of_links() -> None:
    rows = [line.split("|") for line in TRN2_TABLE.splitlines() if line.startswith("|")]
    alone = "\n".join("|".join(row[:5] + row[6:]) for row in rows)
    assert [(device.index, device.neighbours, device.numa) for device in decode("x", alone).devices] == [(0, (), 1)]
    two = [line.split("|") for line in INF1_TABLE.splitlines() if line.startswith("|")]
    with pytest.raises(WireError, match="no column CONNECTED DEVICES"):
        decode("x", "\n".join("|".join(row[:4] + row[5:]) for row in two))


def test_json_tells_the_lnc_setting_and_numa_nodes_as_numbers_or_text() -> None:
    found = decode("x", as_json("trn2.48xlarge", logical_neuroncore_config=2, numa_node=1))
    assert found.lnc == 2
    assert {device.numa for device in found.devices} == {1}
    unknown = decode("x", as_json("trn2.48xlarge", numa_node="N/A"))
    assert {device.numa for device in unknown.devices} == {-1}


def test_devices_are_in_the_order_of_their_indexes_and_may_be_missing() -> None:
    listed = json.loads(as_json(without=[3]))
    assert [device.index for device in decode("x", json.dumps(listed[::-1])).devices] == [
        *range(3),
        *range(4, 16),
    ]


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("", "neither JSON nor a table"),
        ("No neuron device found", "neither JSON nor a table"),
        ("[", "not JSON"),
        ("[]", "no device in it"),
        ("{}", "expected a list"),
        ("[3]", "expected an object"),
        ('[{"nc_count": 2}]', "not a device index"),
        ('[{"neuron_device": 0, "nc_count": -2}]', "nc_count"),
        ('[{"neuron_device": 0, "logical_neuroncore_config": -1}]', "logical_neuroncore_config"),
        ('[{"neuron_device": 64}]', "not a device index below 64"),
        ('[{"neuron_device": 0}, {"neuron_device": 0}]', "listed twice"),
        ('[{"neuron_device": 0, "connected_to": [0]}]', "connected to itself"),
        ('[{"neuron_device": 0, "connected_to": ["1"]}]', "expected device indexes"),
        ('[{"neuron_device": 0, "connected_to": [true]}]', "expected device indexes"),
        ('[{"neuron_device": 0, "connected_to": [99]}]', "expected device indexes"),
        ('[{"neuron_device": 0, "connected_to": 1}]', "expected a list"),
        ('[{"neuron_device": 0, "numa_node": []}]', "expected an integer"),
        ("| NEURON | NEURON |\n| DEVICE | CORES |\n| 0 | 2 |", "no column NEURON MEMORY"),
        (TRN2_TABLE.replace("| 8      |", "| eight  |"), "not a number in column NEURON CORES"),
        (INF1_TABLE.replace("| 1      | 4", "| 0      | 4"), "listed twice"),
        (INF1_TABLE.replace("8 GB   | 0 ", "8 GB   | a "), "not a number in column CONNECTED DEVICES"),
        ("| NEURON | NEURON | NEURON | CONNECTED |\n| DEVICE | CORES | MEMORY | DEVICES |\n| 0 |", "NEURON CORES"),
    ],
)
def test_what_is_not_neuron_ls_is_refused_with_place_and_reason(printed: str, why: str) -> None:
    with pytest.raises(WireError, match=why) as caught:
        decode("node trn-7: hami-plugins.io/neuron-ls", printed)
    assert caught.value.key.startswith("node trn-7")


@given(
    st.text(max_size=60)
    | st.sampled_from([TRN1_TABLE, TRN2_TABLE, as_json()]).flatmap(
        lambda whole: st.integers(0, len(whole)).map(lambda end: whole[:end])
    )
)
def test_no_text_raises_anything_else(printed: str) -> None:
    with suppress(WireError):
        assert decode("x", printed).devices
