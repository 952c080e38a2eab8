"""Members of a gang on several nodes: the devices of the same numbers where that can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_topology.core.names import DEVICES
from tests.unit.cli.conftest import Type
from tests.unit.cli.linked import a_node, a_pod, on, written

pytestmark = pytest.mark.usefixtures("packs_vendors")


def a_gang(members: int, devices: int, cpu: int = 1) -> dict[str, object]:
    asked = {DEVICES: devices, "cpu": cpu}
    container = {"name": "main", "image": "i", "resources": {"limits": asked, "requests": asked}}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "gang", "namespace": "lab"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": members,
            "tasks": [{"name": "w", "replicas": members, "template": template}],
        },
    }


def allocated_to(type_in: Type, cluster: Path, job: Path) -> list[str]:
    """The devices of each member as the table has them."""
    said = type_in("plan", "-f", job, "--snapshot", cluster, "--no-headers", "--policy", "node=spread").out
    return sorted(line.split("#")[1].split()[0] for line in said.splitlines() if line.startswith("lab/gang-w-"))


def test_members_of_a_gang_get_the_same_devices_on_every_node(type_in: Type, tmp_path: Path) -> None:
    busy = {"a": (0, 1, 2, 3, 8, 9, 10, 11, 12), "b": (8, 9, 10, 11, 12), "c": (12,)}
    pods = [a_pod(f"on-{name}", name, on(name, *devices), aws_neuron=len(devices)) for name, devices in busy.items()]
    cluster = written(tmp_path / "cluster.yaml", *map(a_node, busy), *pods)
    job = written(tmp_path / "gang.yaml", a_gang(3, 4, cpu=100))
    assert allocated_to(type_in, cluster, job) == ["4-7", "4-7", "4-7"]


def test_what_the_last_node_had_left_is_tried_on_the_others(type_in: Type, tmp_path: Path) -> None:
    pod = a_pod("busy", "b", on("b", 0, 1, 2, 3, *range(8, 16)), aws_neuron=12)
    cluster = written(tmp_path / "cluster.yaml", a_node("a"), a_node("b"), pod)
    job = written(tmp_path / "gang.yaml", a_gang(2, 4, cpu=100))
    said = type_in("plan", "-f", job, "--snapshot", cluster, "--policy", "node=spread", "--no-headers").out
    assert said.count("#4-7") == 2, said


def test_of_equal_nodes_the_one_that_has_the_same_devices_is_taken(type_in: Type, tmp_path: Path) -> None:
    pods = []
    for name, row in {"a": range(4, 8), "b": range(4), "c": range(4, 8)}.items():
        busy = [device for device in range(16) if device not in row]
        pods.append(a_pod(f"on-{name}", name, on(name, *busy), aws_neuron=12))
    cluster = written(tmp_path / "cluster.yaml", a_node("a"), a_node("b"), a_node("c"), *pods)
    job = written(tmp_path / "gang.yaml", a_gang(2, 4))
    said = type_in("plan", "-f", job, "--snapshot", cluster, "--no-headers").out
    assert said.count("#4-7") == 2, said


def test_members_on_one_node_get_different_devices_and_so_do_those_of_the_next(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("a"), a_node("b"))
    job = written(tmp_path / "gang.yaml", a_gang(4, 8))
    assert allocated_to(type_in, cluster, job) == ["0-7", "0-7", "8-15", "8-15"]


def test_a_member_that_cannot_have_the_same_devices_gets_others(type_in: Type, tmp_path: Path) -> None:
    pods = [
        a_pod("low", "a", on("a", *range(8)), aws_neuron=8),
        a_pod("high", "b", on("b", *range(8, 16)), aws_neuron=8),
    ]
    cluster = written(tmp_path / "cluster.yaml", a_node("a"), a_node("b"), *pods)
    job = written(tmp_path / "gang.yaml", a_gang(2, 8))
    assert allocated_to(type_in, cluster, job) == ["0-7", "8-15"]
