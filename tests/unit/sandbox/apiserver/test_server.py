"""The server's own handles, for tests and demonstrations that need no client."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.api import load_snapshot
from hami_plugins.sandbox.apiserver import KOORDINATOR, VOLCANO, ApiServer
from hami_plugins.sandbox.apiserver.answers import ApiError
from hami_plugins.sandbox.apiserver.server import ApiServerError
from hami_plugins.sandbox.fleet import bare_node, put_fleet
from tests import raw_objects


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(kinds=(*VOLCANO, *KOORDINATOR))


def a_pod(**status: Any) -> dict[str, Any]:
    return {**raw_objects.pod("p", raw_objects.container("c", image="i"), node="n"), "status": status}


def test_an_object_is_put_with_its_status_and_replaced_as_a_whole(server: ApiServer) -> None:
    first = server.put(a_pod(phase="Running"))
    assert (first["metadata"]["namespace"], first["status"]["phase"]) == ("default", "Running")
    second = server.put({**a_pod(phase="Failed"), "metadata": {"name": "p", "labels": {"a": "b"}}})
    assert (second["metadata"]["uid"], second["status"]) == (first["metadata"]["uid"], {"phase": "Failed"})
    assert second["metadata"]["labels"] == {"a": "b"}
    assert server.put(second) == second == server.get("pods", "p")


def test_what_is_handed_out_is_a_copy(server: ApiServer) -> None:
    server.put(a_pod())["metadata"]["name"] = "changed"
    assert [pod["metadata"]["name"] for pod in server.objects("pods")] == ["p"]


def test_an_object_is_deleted_as_by_a_client(server: ApiServer) -> None:
    server.put(a_pod())
    server.delete("pods", "p")
    assert server.get("pods", "p")["metadata"]["deletionGracePeriodSeconds"] == 30
    server.delete("pods", "p", grace=0)
    with pytest.raises(ApiError, match='pods "p" not found'):
        server.get("pods", "p")


def test_the_first_namespaces_are_there(server: ApiServer) -> None:
    names = [each["metadata"]["name"] for each in server.objects("namespaces")]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]


def test_a_server_that_never_started_has_no_address(server: ApiServer) -> None:
    with pytest.raises(ApiServerError, match="before it is started"):
        _ = server.url
    server.stop()


def test_custom_kinds_of_the_products_are_served(server: ApiServer) -> None:
    server.put({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}})
    server.put({"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": "n"}})
    assert server.get("queues.scheduling.volcano.sh", "q")["metadata"]["generation"] == 1
    assert server.objects("devices.scheduling.koordinator.sh")


@pytest.mark.parametrize(
    ("fleet", "names"),
    [
        ("h100x8=2", ["added-h100x8-0", "added-h100x8-1"]),
        ("name: lab\nnodes: [{shape: t4x1, name: edge}]\n", ["edge-0"]),
    ],
)
def test_a_fleet_is_put_by_shapes_or_text(server: ApiServer, fleet: str, names: list[str]) -> None:
    assert put_fleet(server, fleet) == names
    assert put_fleet(server, fleet) == names
    assert [node["metadata"]["name"] for node in server.objects("nodes")] == names


def test_a_shipped_fleet_reads_the_same_through_the_server(server: ApiServer) -> None:
    names = put_fleet(server, "mixed")
    server.put(bare_node("bare", capacity={"x.example/y": "1000"}))
    snapshot = load_snapshot(server.objects("nodes"))
    assert not snapshot.problems
    assert sorted(node.name for node in snapshot.nodes) == sorted([*names, "bare"])
