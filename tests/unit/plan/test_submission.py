"""From workloads to what is planned: the pods of a DaemonSet, one for every node that would have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from hami_plugins.inputs import manifests, workloads
from hami_plugins.model.nodes import NodeEntry, Taint
from hami_plugins.plan import Planner, Stage, submission
from tests.builders import COUNT, MEMORY, a_node, a_snapshot
from tests.unit.plan.plans import REGISTRY


def planned(nodes: list[NodeEntry], memory: int = 1024, **spec: Any) -> dict[str, Stage]:
    """What becomes of each pod of a DaemonSet."""
    container = {"name": "agent", "resources": {"limits": {COUNT: 1, MEMORY: memory}}}
    template = {"spec": {"containers": [container], **spec}}
    written = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {"template": template}}
    submitted = workloads.read(manifests.read(yaml.safe_dump(written), source="f"))
    snapshot = a_snapshot(*nodes)
    plan = Planner(REGISTRY).plan(snapshot, submission.units(submitted, snapshot))
    return {each.pod.name: each.stage for each in plan.pods}


def with_facts(name: str, **facts: Any) -> NodeEntry:
    entry = a_node(name)
    return replace(entry, facts=replace(entry.facts, **facts))


def test_a_daemon_set_has_a_pod_on_every_node() -> None:
    assert planned([a_node("n1"), a_node("n2")]) == {"d-n1": Stage.PLACED, "d-n2": Stage.PLACED}


def test_nodes_that_its_selector_or_its_tolerations_leave_out_get_none() -> None:
    nodes = [
        with_facts("n1", labels={"gpu": "yes"}),
        with_facts("n2"),
        with_facts("n3", labels={"gpu": "yes"}, taints=(Taint("for", "others", "NoSchedule"),)),
    ]
    assert list(planned(nodes, nodeSelector={"gpu": "yes"})) == ["d-n1"]


def test_a_node_without_room_has_its_pod_all_the_same_and_it_waits() -> None:
    assert planned([a_node("n1")], memory=10**6) == {"d-n1": Stage.NODES}


def test_cordoned_and_troubled_nodes_get_their_pod_too_as_the_controller_tolerates_them() -> None:
    unreachable = Taint("node.kubernetes.io/unreachable", "", "NoExecute")
    nodes = [with_facts("n1", unschedulable=True), with_facts("n2", taints=(unreachable,))]
    assert planned(nodes) == {"d-n1": Stage.PLACED, "d-n2": Stage.PLACED}
