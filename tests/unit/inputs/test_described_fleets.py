"""Fleet files that describe devices instead of naming a shape: any model, count and memory, of every vendor."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.errors import ManifestError
from hami_plugins.inputs import fleets
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.units import VendorName
from hami_plugins.vendors import builtin

AGENTS = {"Volcano-vGPU", "Koordinator"}


def nodes(*groups: dict[str, Any]) -> tuple[NodeEntry, ...]:
    fleet = fleets.parse(json.dumps({"name": "lab", "nodes": groups}), source="f.yaml")
    found = snapshot_of(fleets.objects_of(fleet), builtin())
    assert found.problems == ()
    return found.nodes


def node(**group: Any) -> NodeEntry:
    (found,) = nodes(group)
    return found


def fault(**group: Any) -> str:
    with pytest.raises(ManifestError) as caught:
        nodes(group)
    return str(caught.value)


def a_group(vendor: str, **more: Any) -> dict[str, Any]:
    """Two devices, with what has to be said of this vendor."""
    if vendor == "NVIDIA":
        more = {"model": "NVIDIA A40", "memoryMiB": 46_068, **more}
    if vendor in {"MLU", "DCU", "Enflame", "Mthreads", "Metax-SGPU", "AMD", "MR-V100", "MR-V50", "BI-V150", "BI-V100"}:
        more = {"memoryMiB": 32_768, **more}
    return {"devices": 2, "vendor": vendor, **more}


@pytest.mark.parametrize("vendor", sorted({spec.name for spec in builtin()} - AGENTS))
def test_devices_of_every_vendor_read_back_as_described(vendor: str) -> None:
    entry = node(**a_group(vendor))
    devices = entry.state.shape.devices
    assert {device.vendor for device in devices} == {vendor}
    assert [device.index for device in devices] == [0, 1]
    assert all(device.healthy and device.slots > 0 for device in devices)
    memory = a_group(vendor).get("memoryMiB")
    assert memory is None or {device.memory for device in devices} == {memory}


@pytest.mark.parametrize(
    ("group", "vendor", "count", "memory"),
    [
        ({"devices": 2, "model": "NVIDIA GeForce RTX 3090", "memoryMiB": 24_576}, "NVIDIA", 2, 24_576),
        ({"devices": 4, "model": "NVIDIA GeForce GTX 1080 Ti", "memoryMiB": 11_264}, "NVIDIA", 4, 11_264),
        ({"devices": 8, "model": "Tesla V100-SXM2-32GB", "memoryMiB": 32_768, "nvlinks": 2}, "NVIDIA", 8, 32_768),
        ({"devices": 8, "model": "NVIDIA L20", "memoryMiB": 46_068}, "NVIDIA", 8, 46_068),
        ({"devices": 4, "model": "NVIDIA A40", "memoryMiB": 46_068}, "NVIDIA", 4, 46_068),
        ({"devices": 1, "model": "NVIDIA A10", "memoryMiB": 23_028, "agents": "koordinator"}, "Koordinator", 1, 23_028),
        ({"devices": 2, "model": "NVIDIA RTX A5000", "memoryMiB": 24_564}, "NVIDIA", 2, 24_564),
        ({"devices": 2, "model": "Tesla T4", "memoryMiB": 15_360, "agents": "volcano"}, "Volcano-vGPU", 2, 15_360),
        ({"devices": 8, "vendor": "Ascend910B2"}, "Ascend910B2", 8, 65_536),
        ({"devices": 8, "vendor": "Ascend910B4"}, "Ascend910B4", 8, 32_768),
        ({"devices": 2, "vendor": "MR-V100", "memoryMiB": 32_768}, "MR-V100", 2, 32_768),
        ({"devices": 8, "vendor": "XPU", "model": "P800"}, "XPU", 8, 98_304),
        ({"devices": 8, "vendor": "kunlun"}, "kunlun", 8, 98_304),
        ({"devices": 4, "vendor": "DCU", "model": "K100-AI", "memoryMiB": 65_520}, "DCU", 4, 65_520),
        ({"devices": 8, "vendor": "MLU", "memoryMiB": 24_576}, "MLU", 8, 24_576),
        ({"devices": 8, "vendor": "Mthreads", "memoryMiB": 49_152}, "Mthreads", 8, 49_152),
        ({"devices": 8, "vendor": "Metax-SGPU", "memoryMiB": 65_536, "linkGroup": 4}, "Metax-SGPU", 8, 65_536),
        ({"devices": 8, "vendor": "AMD", "model": "AMD MI300X", "memoryMiB": 196_592}, "AMD", 8, 196_592),
        ({"devices": 16, "vendor": "AWSNeuron", "cores": 4, "instanceType": "trn2.48xlarge"}, "AWSNeuron", 16, 0),
    ],
)
def test_clusters_that_no_shape_fits_can_be_described(
    group: dict[str, Any], vendor: str, count: int, memory: int
) -> None:
    devices = node(**group).state.shape.devices
    assert [(device.vendor, device.memory) for device in devices] == [(vendor, memory)] * count


def test_everything_that_can_be_said_of_devices_is_there() -> None:
    entry = node(
        devices=4,
        model="NVIDIA A40",
        memoryMiB=46_068,
        slots=6,
        cores=120,
        numa=[0, 1, 1, 0],
        nvlinks=4,
        unhealthy=[3],
        cpus=96,
        memoryGiB=1024,
        arch="arm64",
        instanceType="bm.a40",
        labels={"pool": "a"},
        taints=[{"key": "k", "effect": "NoSchedule"}],
        advertise={"example.com/fpga": 2},
        unschedulable=True,
    )
    devices = entry.state.shape.devices
    assert entry.name == "nvidia-a40-0"
    assert [(device.slots, device.cores, device.memory) for device in devices] == [(6, 120, 46_068)] * 4
    assert [device.numa for device in devices] == [0, 1, 1, 0]
    assert [device.healthy for device in devices] == [True, True, True, False]
    assert any(score > 400 for row in entry.state.shape.links for score in row)
    assert entry.facts.labels["node.kubernetes.io/instance-type"] == "bm.a40"
    assert (entry.facts.labels["kubernetes.io/arch"], entry.facts.labels["pool"]) == ("arm64", "a")
    assert 95 < entry.facts.allocatable["cpu"].nano / 10**9 < 96
    assert entry.facts.allocatable["example.com/fpga"].whole == 2
    assert entry.facts.unschedulable
    assert [taint.key for taint in entry.facts.taints] == ["k"]


def test_boards_have_two_sockets_and_ascend_910_rings_of_four_unless_the_file_says_otherwise() -> None:
    assert [device.numa for device in node(**a_group("NVIDIA", devices=4)).state.shape.devices] == [0, 0, 1, 1]
    chips = node(**a_group("Ascend910B2", devices=8)).state.shape.devices
    assert [device.group for device in chips] == ["0"] * 4 + ["1"] * 4
    assert {device.group for device in node(**a_group("Ascend310P")).state.shape.devices} == {None}
    zones = node(**a_group("Metax-SGPU", devices=4, linkGroup=2)).state.shape.devices
    assert [device.group for device in zones] == ["1", "1", "2", "2"]


def test_groups_of_one_model_count_their_nodes_on_beside_shapes() -> None:
    found = nodes(a_group("NVIDIA", count=2), a_group("NVIDIA"), {"shape": "t4x1"})
    assert [entry.name for entry in found] == ["nvidia-a40-0", "nvidia-a40-1", "nvidia-a40-2", "t4x1-0"]
    ids = [device for entry in found for device in entry.ids]
    assert len(ids) == len(set(ids)) == 7


def test_a_vendor_may_be_written_in_small_letters() -> None:
    assert set(node(**a_group("ascend910b4")).state.shape.positions) == {VendorName("Ascend910B4")}


@pytest.mark.parametrize(
    ("group", "complaint"),
    [
        ({}, "f.yaml: document 1, line 1, column 27: nodes[0]: neither a shape nor devices; write shape: t4x1, or"),
        ({"devices": 0, "model": "NVIDIA A40"}, "nodes[0].devices: has to be 1 or more"),
        ({"devices": 65, "model": "NVIDIA A40"}, "nodes[0].devices: 65 is more than 64"),
        ({"devices": 2}, "nodes[0]: model is missing; write it as nvidia-smi prints it"),
        ({"devices": 2, "model": "NVIDIA A40"}, "memoryMiB is missing: the memory of one NVIDIA GPU, such as 46068"),
        ({"devices": 2, "model": "a,b", "memoryMiB": 1}, "nodes[0].model: 'a,b' has a comma, colon or semicolon"),
        ({"devices": 2, "vendor": "Ascend910B5"}, "nodes[0].vendor: no vendor 'Ascend910B5'; did you mean"),
        ({"devices": 2, "vendor": "qq"}, "no vendor 'qq'; known are NVIDIA, MLU"),
        ({"devices": 2, "vendor": "Volcano-vGPU"}, "nodes[0].vendor: write vendor: NVIDIA and agents: volcano"),
        ({"devices": 2, "vendor": "kunlun", "memoryMiB": 1}, "memoryMiB: is the same for every node of kunlun"),
        (a_group("NVIDIA", numa=[0]), "nodes[0].numa: has to be a list of 2 NUMA nodes, one for each device"),
        (a_group("NVIDIA", numa=["0", 1]), "nodes[0].numa: has to be a list of 2 NUMA nodes"),
        (a_group("NVIDIA", numa=[0, 64]), "nodes[0].numa: has to be a list of 2 NUMA nodes"),
        (a_group("NVIDIA", arch="mips"), "nodes[0].arch: 'mips' is none of amd64, arm64"),
        (a_group("NVIDIA", memory=1), "nodes[0].memory: means nothing here; known are"),
        (a_group("NVIDIA", unhealthy=[2]), "has to be the number of a device, 0 to 1"),
        ({"shape": "t4x1", "devices": 2}, "nodes[0].devices: means nothing here; known are shape, count"),
    ],
)
def test_errors_name_place_and_remedy(group: dict[str, Any], complaint: str) -> None:
    assert complaint in fault(**group)


@pytest.mark.parametrize("vendor", ["AMD", "DCU", "Metax-SGPU"])
def test_registered_devices_that_failed_are_unhealthy(vendor: str) -> None:
    devices = node(**a_group(vendor, unhealthy=[1])).state.shape.devices
    assert [device.healthy for device in devices] == [True, False]
