"""Plans, explanations and findings about Neuron pods, with the vendor that the pack plugs in."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from hami_plugins.cli import plugged
from neuron_topology.names import CORES, DEVICES, INSTANCE_LABEL, LEGACY_DEVICES
from neuron_topology.nodes import FAMILY_LABEL, HEALTH_KEY
from neuron_topology.vendor import SPEC
from tests.unit.cli.conftest import Type

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture(autouse=True)
def with_the_packs_vendors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry points as the project declares them, whatever is installed."""
    declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    known = metadata.EntryPoints(
        metadata.EntryPoint(name, value, group) for group, each in declared.items() for name, value in each.items()
    )
    monkeypatch.setattr(metadata, "entry_points", known.select)


def a_node(name: str, *, family: str = "aws", annotations: dict[str, str] | None = None) -> dict[str, object]:
    offered = {"cpu": "128", "memory": "512Gi", "pods": "110", DEVICES: "16", CORES: "32"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {INSTANCE_LABEL: "trn1.32xlarge", FAMILY_LABEL: family},
            "annotations": annotations or {},
        },
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_pod(name: str, node: str = "", ids: str = "", **limits: int | str) -> dict[str, object]:
    listed = ids and {"hami.io/aws-neuron-devices-allocated": ids}
    resources = {key.replace("_", "/").replace("aws/", "aws.amazon.com/"): value for key, value in limits.items()}
    spec: dict[str, object] = {
        "containers": [{"name": "main", "image": "i", "resources": {"limits": resources, "requests": resources}}]
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", "uid": name, "annotations": listed or {}},
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {"phase": "Running" if node else "Pending"},
    }


def written(path: Path, *objects: dict[str, object]) -> Path:
    path.write_text("---\n".join(yaml.safe_dump(each) for each in objects), encoding="utf-8")
    return path


def held(*devices: int) -> str:
    return "".join(f"n-AWSNeuron-{device},AWSNeuron,0,3:" for device in devices) + ";"


def test_the_packs_vendor_takes_the_place_of_hamis() -> None:
    assert list(plugged.vendors()) == [SPEC]


def test_a_plan_places_pods_on_the_sets_of_each_pool(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("rows"), a_node("wide", family="linked"))
    pair = written(tmp_path / "pair.yaml", a_pod("pair", aws_neuron=2))
    said = type_in("plan", "-f", pair, "--snapshot", cluster, "--annotations", "hami")
    assert said.code == 0, said.out
    assert "wide" in said.out
    assert "AWS_NEURON_IDS: 0,1" in said.out


def test_a_pod_that_waits_for_a_set_is_told_what_is_free(type_in: Type, tmp_path: Path) -> None:
    cluster = written(
        tmp_path / "cluster.yaml",
        a_node("n", family="linked"),
        a_pod("busy", "n", held(0, 2, 5, 11, 13), aws_neuron=5),
        a_pod("waits", aws_neuron=4),
    )
    said = type_in("explain", "pod", "lab/waits", "--snapshot", cluster)
    assert said.code == 1
    assert "no linked set of 4 among the 11 devices that are free" in said.out


def test_a_pod_that_asks_for_what_no_set_has_is_told_the_nearest_counts(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), a_pod("odd", aws_neuron=7))
    said = type_in("explain", "pod", "lab/odd", "--snapshot", cluster)
    assert "the nearest that it does: 4 or 8" in said.out


def test_the_old_name_is_not_offered_by_todays_plugin(type_in: Type, tmp_path: Path) -> None:
    cluster = written(tmp_path / "cluster.yaml", a_node("n"), a_pod("old", aws_neurondevice=16))
    said = type_in("explain", "pod", "lab/old", "--snapshot", cluster)
    assert said.code == 1
    assert f"Insufficient {LEGACY_DEVICES}" in said.out
    old = written(tmp_path / "old.yaml", a_pod("old", aws_neurondevice=16))
    assert "AWS's plugin offers this name no more" in type_in("vet", "-f", old).out
    offering = a_node("n")
    offering["status"]["allocatable"] |= {LEGACY_DEVICES: "16"}  # type: ignore[index]
    assert type_in("vet", "-f", old, "--snapshot", written(tmp_path / "offering.yaml", offering)).code == 0


def test_what_a_pod_holds_as_devices_nobody_gets_as_cores(type_in: Type, tmp_path: Path) -> None:
    cluster = written(
        tmp_path / "cluster.yaml",
        a_node("n"),
        a_pod("busy", "n", held(*range(16)), aws_neuron=16),
        a_pod("cores", aws_neuroncore=2),
    )
    said = type_in("explain", "pod", "lab/cores", "--snapshot", cluster)
    assert said.code == 1
    assert "16/16 CardInsufficientCore" in said.out


def test_vet_asks_the_pools_which_counts_they_have(type_in: Type, tmp_path: Path) -> None:
    pair = written(tmp_path / "pair.yaml", a_pod("pair", aws_neuron=2))
    rows = written(tmp_path / "rows.yaml", a_node("rows"))
    wide = written(tmp_path / "wide.yaml", a_node("wide", family="linked"))
    assert "does not support requests for device: 2" in type_in("vet", "-f", pair, "--snapshot", rows).out
    assert type_in("vet", "-f", pair, "--snapshot", wide).code == 0


def test_both_units_in_one_container_are_refused(type_in: Type, tmp_path: Path) -> None:
    both = written(tmp_path / "both.yaml", a_pod("both", aws_neuron=1, aws_neuroncore=2))
    said = type_in("vet", "-f", both)
    assert said.code == 1
    assert "keep one of the two: whole devices, or cores of a device" in said.out


def test_what_is_broken_on_a_node_is_left_out_and_what_cannot_be_read_is_a_problem(
    type_in: Type, tmp_path: Path
) -> None:
    four = written(tmp_path / "four.yaml", a_pod("four", aws_neuron=4))
    broken = a_node("n", annotations={HEALTH_KEY: '{"devices": [1], "links": [[4, 5]]}'})
    said = type_in("plan", "-f", four, "--snapshot", written(tmp_path / "a.yaml", broken))
    assert "#8-11" in said.out
    unreadable = a_node("n", annotations={HEALTH_KEY: "?"})
    said = type_in("plan", "-f", four, "--snapshot", written(tmp_path / "b.yaml", unreadable))
    assert "#0-3" in said.out
    assert HEALTH_KEY in said.out + said.err
