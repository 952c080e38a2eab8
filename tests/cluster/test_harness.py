"""The real cluster itself: it comes up, runs what it is given, survives restarts."""

from __future__ import annotations

from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import Node
from tests.cluster.objects import pod, shell


def test_a_node_becomes_ready(node: Node) -> None:
    assert node.wait_ready()["status"]["nodeInfo"]["kubeletVersion"] == "v1.34.4"


def test_a_pod_runs_and_its_log_is_read(node: Node, control_plane: ControlPlane, namespace: str) -> None:
    control_plane.api.create(
        f"/api/v1/namespaces/{namespace}/pods", pod("hello", shell("echo hello from $HOSTNAME"), node=node.name)
    )
    control_plane.wait_for_pod(namespace, "hello", "Succeeded")
    assert control_plane.pod_log(namespace, "hello").startswith("hello from ")
