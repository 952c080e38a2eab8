"""Odd Neuron nodes and pods: what they hold, which findings they have, and that the rest continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_topology.core.names import CORES, DEVICES, INSTANCE_LABEL
from tests.unit.cli.conftest import Type
from tests.unit.cli.linked import a_node, a_pod, held, written

pytestmark = pytest.mark.usefixtures("packs_vendors")


def aws_bound(name: str, node: str, ids: str, **limits: int | str) -> dict[str, object]:
    """A pod to which AWS's scheduler extension, or a user by hand, has given numbers."""
    found = a_pod(name, node, "", **limits)
    found["metadata"]["annotations"] = {"AWS_NEURON_IDS": ids, "NEURON_ALLOCATED": "true"}  # type: ignore[index]
    return found


def smaller(node: dict[str, object], devices: int, kind: str = "trn1.32xlarge") -> dict[str, object]:
    """The node as it came back: with fewer devices, or as another type."""
    offered = {**node["status"]["capacity"], DEVICES: str(devices), CORES: str(2 * devices)}  # type: ignore[index]
    status = {**node["status"], "capacity": offered, "allocatable": offered}  # type: ignore[dict-item]
    metadata = {**node["metadata"], "labels": {INSTANCE_LABEL: kind}}  # type: ignore[dict-item]
    return {**node, "metadata": metadata, "status": status}


def test_a_type_that_nobody_knows_is_told_and_allocates_devices_singly_or_all_together(
    type_in: Type, tmp_path: Path
) -> None:
    unknown = smaller(a_node("n"), 16, "trn9.32xlarge")
    cluster = written(tmp_path / "cluster.yaml", unknown, a_pod("four", aws_neuron=4))
    said = type_in("explain", "pod", "lab/four", "--snapshot", cluster)
    assert "asked 4, which n never allocates together; the nearest numbers that it does: 1 or 16" in said.out
    vetted = type_in("vet", "--snapshot", cluster)
    assert vetted.code == 1
    assert "HP736 warning: Node n\n    instance type trn9.32xlarge is not known" in vetted.out
    whole = written(tmp_path / "whole.yaml", a_pod("whole", aws_neuron=16))
    planned = type_in("plan", "-f", whole, "--snapshot", cluster)
    assert planned.code == 0
    assert "devices are allocated one by one or all together" in planned.err


def test_numbers_by_hand_that_meet_are_held_by_both_and_told(type_in: Type, tmp_path: Path) -> None:
    pods = [
        aws_bound("one", "n", "0,1,2,3", aws_neuron=4),
        aws_bound("two", "n", "3,4,5,6", aws_neuron=4),
        aws_bound("half", "n", "16,17", aws_neuroncore=2),
        aws_bound("same", "n", "17", aws_neuroncore=1),
    ]
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), *pods)
    assert (
        "n-AWSNeuron-3: 4 of 2 cores are promised, to lab/two as well"
        in type_in("explain", "pod", "lab/one", "--snapshot", cluster).out
    )
    said = type_in("vet", "--snapshot", cluster).out
    assert said.count("HP737 error: Node n\n") == 2
    assert "pod lab/one: n-AWSNeuron-3" in said
    assert "pod lab/half: n-AWSNeuron-8: 3 of 2 cores are promised, to lab/same as well" in said
    page = tmp_path / "page.html"
    four = written(tmp_path / "four.yaml", a_pod("four", aws_neuron=4))
    planned = type_in("plan", "-f", four, "--snapshot", cluster, "--html", page)
    assert "AWSNeuron #12-15" in planned.out


def test_one_core_for_two_pods_is_told_where_nothing_else_is_too_much(type_in: Type, tmp_path: Path) -> None:
    wide = a_node("n")
    wide["metadata"]["labels"][INSTANCE_LABEL] = "trn2.48xlarge"  # type: ignore[index]
    for each in ("capacity", "allocatable"):
        wide["status"][each] = {**wide["status"][each], CORES: "64"}  # type: ignore[index]
    pods = [aws_bound("one", "n", "4,5", aws_neuroncore=2), aws_bound("two", "n", "5", aws_neuroncore=1)]
    cluster = written(tmp_path / "cluster.yaml", wide, *pods)
    said = type_in("explain", "pod", "lab/two", "--snapshot", cluster)
    assert "its partition of n-AWSNeuron-1 is promised, to lab/one as well" in said.out


def test_numbers_that_no_device_or_core_has_are_told(type_in: Type, tmp_path: Path) -> None:
    devices = written(tmp_path / "a.yaml", a_node("n"), aws_bound("far", "n", "0,1,2,99", aws_neuron=4))
    assert "holds n-AWSNeuron-99, which its node does not report" in type_in("vet", "--snapshot", devices).out
    cores = written(tmp_path / "b.yaml", a_node("n"), aws_bound("far", "n", "31,32", aws_neuroncore=2))
    said = type_in("explain", "pod", "lab/far", "--snapshot", cores)
    assert "holds core 32, which node n does not report" in said.out
    assert "AWSNeuron #0-15" in said.out


def test_maps_of_awss_extension_that_are_half_written_are_told_with_what_repairs_them(
    type_in: Type, tmp_path: Path
) -> None:
    maps = {"NEURON_DEV_USAGE_MAP": "true,false", "NEURON_CORE_USAGE_MAP": ",".join(["true"] * 31 + ["x"])}
    cluster = written(tmp_path / "cluster.yaml", a_node("n", annotations=maps))
    said = type_in("vet", "--snapshot", cluster).out
    assert "NEURON_DEV_USAGE_MAP has 2 words, and the node has 16 devices; neuron repair removes it" in said
    assert "NEURON_CORE_USAGE_MAP is not a list of true and false: 'true,true" in said
    whole = {"NEURON_DEV_USAGE_MAP": ",".join(["false"] * 16), "NEURON_CORE_USAGE_MAP": ",".join(["true"] * 32)}
    assert type_in("vet", "--snapshot", written(tmp_path / "b.yaml", a_node("n", annotations=whole))).code == 0


def test_a_node_that_came_back_smaller_keeps_what_its_pods_hold_out_of_account_and_tells(
    type_in: Type, tmp_path: Path
) -> None:
    old = a_pod("old", "n", held(10, 11, 12, 13, 14, 15), aws_neuron=6)
    cluster = written(tmp_path / "cluster.yaml", smaller(a_node("n"), 12), old, a_pod("one", aws_neuron=1))
    said = type_in("vet", "--snapshot", cluster).out
    assert "the node has 12 devices, trn1.32xlarge has 16: devices are allocated one by one or all together" in said
    assert "pod lab/old: holds n-AWSNeuron-12 and 3 more, which its node does not report" in said
    assert "fits now" in type_in("explain", "pod", "lab/one", "--snapshot", cluster).out


def test_a_node_that_came_back_as_another_type_is_wired_as_that(type_in: Type, tmp_path: Path) -> None:
    other = smaller(a_node("n"), 12, "inf2.48xlarge")
    cluster = written(
        tmp_path / "cluster.yaml",
        other,
        a_pod("old", "n", held(8, 9, 10, 11), aws_neuron=4),
        a_pod("six", aws_neuron=6),
    )
    said = type_in("explain", "pod", "lab/six", "--snapshot", cluster).out
    assert "n: AWSNeuron #0-5" in said
    assert "ring of 12" in said
    assert "a lab/six: 0-5" in said


def test_both_units_in_one_container_are_refused_wherever_the_pod_is_seen(type_in: Type, tmp_path: Path) -> None:
    both = written(tmp_path / "both.yaml", a_pod("both", aws_neuron=1, aws_neuroncore=2))
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), a_pod("both", aws_neuron=1, aws_neuroncore=2))
    remedy = "keep one of the two: whole devices, or cores of a device"
    nodes = written(tmp_path / "nodes.yaml", a_node("n"))
    assert remedy in type_in("plan", "-f", both, "--snapshot", nodes).out
    assert remedy in type_in("explain", "pod", "lab/both", "--snapshot", cluster).out
