"""The second look at a gang whose members got devices of different numbers: it is taken only where it is better."""

from __future__ import annotations

from typing import Any

import yaml

from hami_plugins.engine.registry import Registry
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.decisions import Placed
from hami_plugins.plan import Planner, submission
from neuron_topology.core.names import DEVICES
from neuron_topology.core.vendor import SPEC
from tests.unit.cli.linked import a_node, a_pod, on

REGISTRY = Registry([SPEC])
HOST = "kubernetes.io/hostname"


def a_task(name: str, node: str, devices: int) -> dict[str, Any]:
    """One member, on the node of that name."""
    asked = {DEVICES: devices}
    container = {"name": "main", "image": "i", "resources": {"limits": asked, "requests": asked}}
    return {
        "name": name,
        "replicas": 1,
        "template": {"spec": {"nodeSelector": {HOST: node}, "containers": [container]}},
    }


def planned(busy: dict[str, list[int]], *tasks: dict[str, Any]) -> dict[str, list[str]]:
    """The devices of each member by its task, on nodes with 16 of which these are busy; without those that wait."""
    cluster: list[dict[str, Any]] = []
    for name, devices in busy.items():
        cluster.append(node := a_node(name))
        node["metadata"]["labels"][HOST] = name  # type: ignore[index]
        if devices:
            cluster.append(a_pod(f"on-{name}", name, on(name, *devices), aws_neuron=len(devices)))
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "gang", "namespace": "lab"},
        "spec": {"schedulerName": "volcano", "minAvailable": len(tasks), "tasks": list(tasks)},
    }
    snapshot = snapshot_of(cluster, REGISTRY)
    submitted = workloads.read(manifests.read(yaml.safe_dump(job), source="f"))
    plan = Planner(REGISTRY).plan(snapshot, submission.units(submitted, snapshot))
    return {
        each.pod.name.split("-")[1]: sorted(
            share.device.rpartition("-")[2] for allocation in each.decision.containers for share in allocation.shares
        )
        for each in plan.pods
        if isinstance(each.decision, Placed)
    }


FIRST, THIRD = ["0", "1", "2", "3"], ["10", "11", "8", "9"]


def test_the_same_devices_are_not_had_at_the_price_of_a_member() -> None:
    """Were the devices of ``b`` taken on ``a`` as well, ``a`` would have no linked eight left."""
    busy = {"a": [*range(12, 16)], "b": [*range(4, 16)]}
    found = planned(busy, a_task("one", "a", 4), a_task("other", "b", 4), a_task("large", "a", 8))
    assert found == {"one": THIRD, "other": FIRST, "large": [str(at) for at in range(8)]}


def test_where_as_many_sets_would_be_used_the_first_choice_stays() -> None:
    busy = {"a": [*range(12, 16)], "b": [*range(8), *range(12, 16)], "c": [*range(4, 16)]}
    found = planned(busy, a_task("one", "a", 4), a_task("other", "b", 4), a_task("last", "c", 4))
    assert found == {"one": THIRD, "other": THIRD, "last": FIRST}
