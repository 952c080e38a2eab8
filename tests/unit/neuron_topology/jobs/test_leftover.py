"""What nodes leave for pods, by the listing of a cluster."""

from __future__ import annotations

from typing import Any

from neuron_topology.core.jobs.leftover import Leftover
from neuron_topology.core.jobs.node_capacity import HostCapacity
from tests import raw_objects

GIB = 1 << 30
TRN1 = "trn1.2xlarge"


def a_node(name: str, cpu: str = "8", memory: str = "30Gi", kind: str = TRN1) -> dict[str, Any]:
    """A node with what its status offers to pods."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": kind} if kind else {}},
        "status": {"allocatable": {"cpu": cpu, "memory": memory}},
    }


def a_pod(node: str, cpu: str, memory: str, owner: str = "DaemonSet", phase: str = "Running") -> dict[str, Any]:
    """A pod of a controller."""
    metadata = {"namespace": "n", "ownerReferences": [{"kind": owner}] if owner else None}
    main = raw_objects.container("c", requests={"cpu": cpu, "memory": memory}, image="i")
    return raw_objects.pod("p", main, metadata=metadata, node=node, phase=phase)


def rooms(*raws: Any) -> Any:
    left = Leftover()
    for raw in raws:
        left.take(raw)
    return left.rooms()


def test_a_node_leaves_what_its_daemon_sets_do_not_ask_for() -> None:
    pods = (a_pod("n", "500m", "1Gi"), a_pod("n", "250m", "1Gi"), a_pod("other", "4", "8Gi"))
    assert rooms(*pods, a_node("n")) == {TRN1: HostCapacity(7250, 28 * GIB)}


def test_pods_of_other_owners_and_ended_ones_take_nothing() -> None:
    others = (
        a_pod("n", "4", "8Gi", owner="Job"),
        a_pod("n", "4", "8Gi", owner=""),
        a_pod("n", "1", "1Gi", phase="Failed"),
    )
    assert rooms(a_node("n"), *others) == {TRN1: HostCapacity(8000, 30 * GIB)}


def test_the_largest_node_of_a_type_decides_by_resource() -> None:
    nodes = (a_node("a", "8", "20Gi"), a_node("b", "4", "30Gi"), a_node("c", "2", "1Gi"))
    assert rooms(a_pod("x", "1", "1Gi", owner=""), *nodes) == {TRN1: HostCapacity(8000, 30 * GIB)}


def test_without_pods_the_usual_daemons_are_counted() -> None:
    assert rooms(a_node("n")) == {TRN1: HostCapacity(7500, 29 * GIB)}


def test_what_cannot_be_read_and_what_says_no_type_is_passed_over() -> None:
    broken = a_node("n")
    broken["status"]["allocatable"]["cpu"] = "many"
    bare = a_node("m")
    del bare["status"]["allocatable"]["memory"]
    odd = {"kind": "Pod", "metadata": "odd"}
    assert rooms(broken, bare, a_node("k", kind=""), odd, {"kind": "Service"}) == {}
