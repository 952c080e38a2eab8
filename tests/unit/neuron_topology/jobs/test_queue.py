"""``neuron queue``: a queue as large as the devices that are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.errors import ConfigError
from neuron_topology.core.jobs.queue import queue
from tests.unit.neuron_topology.hypernodes.nodes import an_idle_node
from tests.unit.neuron_topology.typing_in import type_in

NEURON, EFA = "aws.amazon.com/neuron", "vpc.amazonaws.com/efa"


def a_node(**status: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": "n"}, "status": status}


def test_the_queue_has_the_devices_and_interfaces_of_all_nodes_and_limits_nothing_else() -> None:
    made = queue("test", [an_idle_node("a"), an_idle_node("b"), a_node(allocatable={"cpu": "8"})], weight=3)
    assert made == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "test"},
        "spec": {"weight": 3, "reclaimable": True, "capability": {NEURON: "32", EFA: "16"}},
    }


def test_what_nodes_can_allocate_counts_and_their_capacity_where_they_do_not_say() -> None:
    nodes = [
        a_node(allocatable={NEURON: "15"}, capacity={NEURON: "16"}),
        a_node(capacity={NEURON: "1"}),
        a_node(allocatable={NEURON: "some"}),
    ]
    assert queue("q", nodes)["spec"]["capability"] == {NEURON: "16"}


def test_without_devices_there_is_no_queue() -> None:
    with pytest.raises(ConfigError, match=r"no node offers aws\.amazon\.com/neuron;"):
        queue("q", [a_node(allocatable={"cpu": "8"})])


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_command_prints_what_kubectl_applies(form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": [an_idle_node("a")]}))
    said = type_in(capsys, "queue", "test", "--snapshot", str(dump), "-o", form)
    assert said.code == 0
    assert yaml.safe_load(said.out)["spec"]["capability"] == {NEURON: "16", EFA: "8"}
