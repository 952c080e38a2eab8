"""The client against the embedded API server: the promises that the product's writes lean on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from hami_plugins.errors import AlreadyExistsError, ContentionError, KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.kube.store import Store
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.wire.fields import Json
from tests.waiting import PATIENCE, wait_for

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"a": "1"}}}


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def client(server: ApiServer) -> Iterator[KubeClient]:
    made = connect_to(server.url, component="test")
    yield made
    made.close()


def version(item: Json) -> str:
    return str(item["metadata"]["resourceVersion"])


def test_an_object_lives_from_its_creation_to_its_deletion(client: KubeClient) -> None:
    api: KubeApi = client
    made = api.create(paths.NODES, NODE)
    with pytest.raises(AlreadyExistsError):
        api.create(paths.NODES, NODE)
    assert api.get(paths.node("n1")) == made
    api.delete(paths.node("n1"))
    with pytest.raises(KubeError) as caught:
        api.get(paths.node("n1"))
    assert caught.value.status == 404


def test_a_conditional_patch_fails_once_another_has_written(client: KubeClient) -> None:
    made = client.create(paths.NODES, NODE)
    condition = {"metadata": {"resourceVersion": version(made), "labels": {"a": None, "b": "2"}}}
    patched = client.merge_patch(paths.node("n1"), condition)
    assert patched["metadata"]["labels"] == {"b": "2"}
    with pytest.raises(ContentionError):
        client.merge_patch(paths.node("n1"), condition)
    with pytest.raises(ContentionError):
        client.replace(paths.node("n1"), made)


def test_a_status_is_written_apart(client: KubeClient) -> None:
    client.create(paths.NODES, NODE)
    patched = client.merge_patch(paths.node_status("n1"), {"status": {"capacity": {"volcano.sh/vgpu-memory": "8"}}})
    assert patched["status"]["capacity"] == {"volcano.sh/vgpu-memory": "8"}


def test_a_store_follows_the_pods_of_one_node(server: ApiServer, client: KubeClient) -> None:
    def put(name: str, node: str) -> None:
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "none"}]}
        server.put(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        )

    put("mine", "n1")
    put("other", "n2")
    selection = Selection(paths.PODS, "Pod", fields="spec.nodeName=n1", cached=True)
    with Store(client, selection, name="pods", trim=lambda item: {"name": item["metadata"]["name"]}) as store:
        assert store.synced.wait(PATIENCE)
        assert store.all() == ({"name": "mine"},)
        put("next", "n1")
        wait_for(lambda: len(store) == 2)
        assert store.by_name("default", "next") == {"name": "next"}
        server.delete("pods", "mine", "default", grace=0)
        wait_for(lambda: store.by_name("default", "mine") is None)
    assert len(store) == 1


def test_an_idle_store_asks_for_nothing(server: ApiServer, client: KubeClient) -> None:
    asked: list[tuple[str, str]] = []
    watching = replace(client, on_request=lambda verb, what, code, seconds: asked.append((verb, what)))
    with Store(watching, Selection(paths.NODES, "Node"), name="nodes") as store:
        assert store.synced.wait(PATIENCE)
        wait_for(lambda: server.open_watches() == 1)
        for _ in range(20):
            server.bookmark()
        server.put(NODE)
        wait_for(lambda: len(store) == 1)
    assert asked == [("list", "nodes"), ("watch", "nodes")]
