"""No rule about the cluster objects to what a node has that an autoscaler may add, not even on an empty cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from hami_plugins import vet
from hami_plugins.inputs import manifests
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.vendors import builtin
from tests import pool_objects
from tests.pool_objects import NEURON, TYPE, a_node_pool, a_plain_node, a_requirement
from tests.raw_objects import Raw

REGISTRY = builtin()
CAPACITY = {"HP801", "HP802", "HP803", "HP804", "HP806"}


def rules(submitted: Raw, *there: Raw) -> list[str]:
    """The ids of the findings about the cluster."""
    documents = manifests.read(yaml.safe_dump(submitted), source="test")
    found = vet.vet(documents, REGISTRY, snapshot=snapshot_of(there, REGISTRY))
    return [each.rule for each in found if each.rule in CAPACITY]


def a_gpu_pod(limits: dict[str, str], annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    found = pool_objects.a_waiting_pod(devices=0, limits=limits, **spec)
    found["metadata"]["annotations"] = annotations or {}
    return found


def a_gpu_node() -> Raw:
    """A node with one card, which HAMi's agent has registered."""
    found = pool_objects.a_plain_node("g-0")
    card = {"id": "GPU-1", "count": 10, "devmem": 24576, "devcore": 100, "type": "NVIDIA-Tesla T4", "health": True}
    found["metadata"]["annotations"] = {"hami.io/node-nvidia-register": json.dumps([card])}
    for amounts in ("capacity", "allocatable"):
        found["status"][amounts]["nvidia.com/gpu"] = "10"
    return found


GPUS = a_node_pool("gpus", a_requirement(TYPE, "g5.12xlarge"))
FULL = a_node_pool(nodes=4, limits={"cpu": "512"}, resources={"cpu": "512"})


@pytest.mark.parametrize("there", [[], [a_plain_node()]], ids=["empty", "without devices"])
def test_a_pod_that_fits_a_new_node_is_no_mistake(there: list[Raw]) -> None:
    pod = pool_objects.a_waiting_pod()
    assert rules(pod, *there) == ["HP801"]
    assert rules(pod, *there, a_node_pool()) == []


def test_a_pool_at_its_limit_adds_nothing() -> None:
    assert rules(pool_objects.a_waiting_pod(), a_plain_node(), FULL) == ["HP801"]


def test_a_pool_that_is_not_ready_adds_nothing() -> None:
    pool = a_node_pool(conditions=[{"type": "Ready", "status": "False"}])
    assert rules(pool_objects.a_waiting_pod(), a_plain_node(), pool) == ["HP801"]


def test_more_than_a_new_node_has_is_a_mistake() -> None:
    pool = a_node_pool("trn", a_requirement(TYPE, "trn1.2xlarge"))
    assert rules(pool_objects.a_waiting_pod(devices=16), pool) == ["HP802"]
    assert rules(pool_objects.a_waiting_pod(devices=1), pool) == []


def test_more_than_any_node_has_is_none_where_a_new_one_has_it() -> None:
    small = pool_objects.a_trn1_node()
    small["status"]["capacity"][NEURON] = small["status"]["allocatable"][NEURON] = "1"
    small["metadata"]["labels"][TYPE] = "trn1.2xlarge"
    pod = pool_objects.a_waiting_pod(devices=16)
    assert rules(pod, small) == ["HP802"]
    assert rules(pod, small, a_node_pool()) == []


@pytest.mark.parametrize("there", [[], [pool_objects.a_trn1_node()]], ids=["empty", "other devices"])
@pytest.mark.parametrize("words", ["nvidia.com/gpu", "volcano.sh/vgpu-number"])
def test_a_cluster_without_gpus_leaves_open_whose_agent_new_nodes_get(words: str, there: list[Raw]) -> None:
    assert rules(a_gpu_pod({words: "4"}), *there, GPUS) == []
    assert rules(a_gpu_pod({words: "5"}), *there, GPUS) == ["HP802"]


def test_new_nodes_get_the_agent_of_the_nodes_that_are_there() -> None:
    assert rules(a_gpu_pod({"volcano.sh/vgpu-number": "1"}), a_gpu_node(), GPUS) == ["HP801"]


def test_a_label_that_the_pool_leaves_open_has_the_value_that_the_pod_wants() -> None:
    pool = a_node_pool("trn", a_requirement(TYPE, "trn1.32xlarge"), a_requirement("team", operator="Exists"))
    assert rules(pool_objects.a_waiting_pod(nodeSelector={"team": "a"}), a_plain_node(), pool) == []
    assert rules(pool_objects.a_waiting_pod(nodeSelector={"other": "a"}), a_plain_node(), pool) == ["HP803"]


def test_a_model_of_a_new_node_is_known() -> None:
    pod = a_gpu_pod({"nvidia.com/gpu": "1"}, {"nvidia.com/use-gputype": "A10G"})
    assert "HP804" in rules(pod, a_gpu_node())
    assert rules(pod, a_gpu_node(), GPUS) == []


def test_a_gang_for_which_nodes_may_be_added_is_left_to_plan() -> None:
    job = pool_objects.a_volcano_job(replicas=2, schedulerName="volcano")
    node = pool_objects.a_trn1_node()
    assert rules(job, node) == ["HP806"]
    assert rules(job, node, a_node_pool()) == []
