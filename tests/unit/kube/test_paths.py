"""Paths of the API server, built and read."""

from __future__ import annotations

import pytest

from hami_plugins.kube import paths
from hami_plugins.kube.paths import Target, target


@pytest.mark.parametrize(
    ("path", "meaning"),
    [
        (paths.NODES, Target("", "nodes", "", "", "")),
        (paths.node("n1"), Target("", "nodes", "", "", "n1")),
        (paths.node_status("n1"), Target("", "nodes", "status", "", "n1")),
        (paths.pods("ns"), Target("", "pods", "", "ns", "")),
        (paths.pod("ns", "p"), Target("", "pods", "", "ns", "p")),
        (paths.pod_status("ns", "p"), Target("", "pods", "status", "ns", "p")),
        (paths.pod_binding("ns", "p"), Target("", "pods", "binding", "ns", "p")),
        (paths.events("ns"), Target("", "events", "", "ns", "")),
        (paths.event("ns", "e"), Target("", "events", "", "ns", "e")),
        (paths.leases("ns"), Target("coordination.k8s.io", "leases", "", "ns", "")),
        (paths.lease("ns", "l"), Target("coordination.k8s.io", "leases", "", "ns", "l")),
        ("/apis/scheduling.volcano.sh/v1beta1/queues", Target("scheduling.volcano.sh", "queues", "", "", "")),
        ("/api/v1/namespaces/ns", Target("", "namespaces", "", "", "ns")),
        ("/api/v1/namespaces/ns/status", Target("", "namespaces", "status", "", "ns")),
        ("/api/v1/pods?limit=5", Target("", "pods", "", "", "")),
        ("/version", Target("", "/version", "", "", "")),
        ("/api/v1", Target("", "/api/v1", "", "", "")),
    ],
)
def test_a_path_means_what_the_api_server_takes_it_for(path: str, meaning: Target) -> None:
    assert target(path) == meaning


def test_a_rule_names_the_subresource() -> None:
    assert [target(path).rule for path in (paths.node("n"), paths.node_status("n"))] == ["nodes", "nodes/status"]


def test_a_name_never_leaves_its_place() -> None:
    assert paths.pod("ns", "../../nodes/n1") == "/api/v1/namespaces/ns/pods/..%2F..%2Fnodes%2Fn1"
