"""Paths of the API server, built and read."""

from __future__ import annotations

import pytest

from hami_plugins.kube import paths
from hami_plugins.kube.paths import PathTarget, target


@pytest.mark.parametrize(
    ("path", "meaning"),
    [
        (paths.NODES, PathTarget("", "nodes", "", "", "")),
        (paths.node("n1"), PathTarget("", "nodes", "", "", "n1")),
        (paths.node_status("n1"), PathTarget("", "nodes", "status", "", "n1")),
        (paths.pods("ns"), PathTarget("", "pods", "", "ns", "")),
        (paths.pod("ns", "p"), PathTarget("", "pods", "", "ns", "p")),
        (paths.pod_status("ns", "p"), PathTarget("", "pods", "status", "ns", "p")),
        (paths.pod_binding("ns", "p"), PathTarget("", "pods", "binding", "ns", "p")),
        (paths.events("ns"), PathTarget("", "events", "", "ns", "")),
        (paths.event("ns", "e"), PathTarget("", "events", "", "ns", "e")),
        (paths.leases("ns"), PathTarget("coordination.k8s.io", "leases", "", "ns", "")),
        (paths.lease("ns", "l"), PathTarget("coordination.k8s.io", "leases", "", "ns", "l")),
        ("/apis/scheduling.volcano.sh/v1beta1/queues", PathTarget("scheduling.volcano.sh", "queues", "", "", "")),
        ("/api/v1/namespaces/ns", PathTarget("", "namespaces", "", "", "ns")),
        ("/api/v1/namespaces/ns/status", PathTarget("", "namespaces", "status", "", "ns")),
        ("/api/v1/pods?limit=5", PathTarget("", "pods", "", "", "")),
        ("/version", PathTarget("", "/version", "", "", "")),
        ("/api/v1", PathTarget("", "/api/v1", "", "", "")),
    ],
)
def test_a_path_means_what_the_api_server_takes_it_for(path: str, meaning: PathTarget) -> None:
    assert target(path) == meaning


def test_a_rule_names_the_subresource() -> None:
    assert [target(path).rule for path in (paths.node("n"), paths.node_status("n"))] == ["nodes", "nodes/status"]


def test_a_name_never_leaves_its_place() -> None:
    assert paths.pod("ns", "../../nodes/n1") == "/api/v1/namespaces/ns/pods/..%2F..%2Fnodes%2Fn1"
