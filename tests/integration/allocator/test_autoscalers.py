"""An autoscaler asks ``filter`` about nodes that do not exist: posted calls, as its simulation makes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.errors import ConfigError
from hami_plugins.sandbox.fleet import bare_node
from tests import raw_objects
from tests.integration.allocator.hami_pods import a_node, a_pod, call
from tests.integration.allocator.sites import Site, site
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.waiting import wait_for

SHAPE, TYPE = "hami-plugins.io/fleet-shape", "node.kubernetes.io/instance-type"
TEMPLATES = [
    {"instanceType": "g4dn.12xlarge", "node": {"devices": 4, "model": "Tesla T4", "memoryMiB": 15360}},
    {"labels": {"pool": "big"}, "node": {"shape": "a100-80x8"}},
]


def template(name: str, **labels: str) -> dict[str, Any]:
    """A node of a group that is empty: the cloud knows its type and its labels, and nothing of its devices."""
    raw = bare_node(name, capacity={"cpu": "48"})
    raw["metadata"]["labels"] = {**labels, "kubernetes.io/hostname": name}
    return raw


@contextmanager
def asked(folder: Path, *nodes: dict[str, Any], **told: Any) -> Iterator[tuple[Site, Client]]:
    with site(folder, *nodes) as place:
        yield place, place.start(**{"vendors": ["NVIDIA"], "templates": TEMPLATES, **told})


def fitting(client: Client, pod: dict[str, Any], *nodes: dict[str, Any]) -> tuple[set[str], dict[str, str]]:
    found = call(client, "filter", Pod=pod, Nodes={"metadata": {}, "items": list(nodes)})
    assert not found["Error"], found
    refused = {**(found["FailedNodes"] or {}), **(found["FailedAndUnresolvableNodes"] or {})}
    return {each["metadata"]["name"] for each in found["Nodes"]["items"]}, refused


def test_nodes_that_do_not_exist_have_the_devices_of_their_shape(tmp_path: Path) -> None:
    small, large = a_pod("p", memory=10_000), a_pod("q", memory=60_000)
    nodes = (
        template("by-type", **{TYPE: "g4dn.12xlarge"}),
        template("by-labels", pool="big", zone="a"),
        template("by-shape", **{SHAPE: "l40sx4", TYPE: "g4dn.12xlarge"}),
        template("plain", **{TYPE: "m5.large"}),
    )
    with asked(tmp_path) as (_, client):
        assert fitting(client, small, *nodes)[0] == {"by-type", "by-labels", "by-shape"}
        found, refused = fitting(client, large, *nodes)
    assert found == {"by-labels"}
    assert "60,000 MiB" in refused["by-type"]


def test_whole_nodes_that_exist_are_asked_with_their_pods_and_templates_beside_them(tmp_path: Path) -> None:
    node = a_node("n1", cards=1)
    with asked(tmp_path, node) as (place, client):
        client_pod = {**a_pod("p", memory=40_000), "metadata": {**a_pod("p")["metadata"], "uid": "uid-p"}}
        held = raw_objects.pod(
            "runs",
            raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "20000"}, image="i"),
            metadata={
                "namespace": "default",
                "annotations": {"hami.io/vgpu-devices-allocated": "GPU-n1-0,NVIDIA,20000,0:;"},
            },
            node="n1",
        )
        assert fitting(client, client_pod, node)[0] == {"n1"}
        place.put(held)
        wait_for(lambda: not fitting(client, client_pod, node)[0])
        found, _ = fitting(client, client_pod, node, template("new", pool="big"))
    assert found == {"new"}


def test_a_template_that_is_made_from_a_node_keeps_its_register(tmp_path: Path) -> None:
    copied = a_node("template-node-for-group-1", cards=2)
    with asked(tmp_path, templates=[]) as (_, client):
        assert fitting(client, a_pod("p"), copied)[0] == {"template-node-for-group-1"}


def test_neuron_instances_need_no_template(tmp_path: Path) -> None:
    asks = raw_objects.container(limits={"aws.amazon.com/neuron": "4"}, image="i")
    pod = raw_objects.pod("p", asks, metadata={"namespace": "default"})
    raw = template("trn", **{TYPE: "trn1.32xlarge"})
    for amounts in (raw["status"]["capacity"], raw["status"]["allocatable"]):
        amounts |= {"aws.amazon.com/neuron": "16", "aws.amazon.com/neuroncore": "32"}
    with asked(tmp_path, vendors=["AWSNeuron"]) as (_, client):
        assert fitting(client, pod, raw)[0] == {"trn"}


def test_an_unknown_shape_is_named_on_the_node_and_ends_a_server_that_has_it_set(tmp_path: Path) -> None:
    with asked(tmp_path) as (place, client):
        _, refused = fitting(client, a_pod("p"), template("odd", **{SHAPE: "t5x5"}))
        assert "t5x5" in refused["odd"]
        assert json.dumps(refused).count("l40sx4") == 1
        with pytest.raises(ConfigError, match="templates"):
            place.start("two", vendors=["NVIDIA"], templates=[{"instanceType": "g5.xlarge", "node": {"shape": "t5x5"}}])
