"""The official Python client works against the embedded API server as against any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock import leaselock

from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.fleet import bare_node


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(kinds=VOLCANO) as started:
        yield started


@pytest.fixture
def api(server: ApiServer, tmp_path: Path) -> Iterator[client.ApiClient]:
    settings = client.Configuration()
    loading: Any = config
    loading.load_kube_config(str(server.kubeconfig(tmp_path / "config")), client_configuration=settings)
    opened = client.ApiClient(settings)
    yield opened
    opened.rest_client.pool_manager.clear()


def pod(name: str) -> client.V1Pod:
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, annotations={"x": "old"}),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]),
    )


def test_nodes_are_listed_page_by_page(server: ApiServer, api: client.ApiClient) -> None:
    for number in range(5):
        server.put(bare_node(f"n{number}"))
    core: Any = client.CoreV1Api(api)
    first = core.list_node(limit=3)
    token = first.metadata._continue  # noqa: SLF001 - continue is a word of the language, so the client spells it so
    second = core.list_node(limit=3, _continue=token)
    assert [node.metadata.name for node in (*first.items, *second.items)] == [f"n{number}" for number in range(5)]
    assert first.metadata.remaining_item_count == 2
    assert first.items[0].status.capacity["cpu"] == "16"


def test_a_pod_is_created_bound_and_watched(server: ApiServer, api: client.ApiClient) -> None:
    core: Any = client.CoreV1Api(api)
    version = core.list_namespaced_pod("default").metadata.resource_version
    core.create_namespaced_pod("default", pod("p"))
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name="p", annotations={"x": "new"}),
        target=client.V1ObjectReference(kind="Node", name="n"),
    )
    answer = core.create_namespaced_pod_binding("p", "default", binding, _preload_content=False)
    assert answer.status == 201
    core.delete_namespaced_pod("p", "default", grace_period_seconds=0)
    watching: Any = watch
    events = watching.Watch().stream(
        core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=1, _request_timeout=10
    )
    found = [(event["type"], event["object"].spec.node_name) for event in events]
    assert found == [("ADDED", None), ("MODIFIED", "n"), ("MODIFIED", "n"), ("DELETED", "n")]


def test_patches_of_every_type_arrive(server: ApiServer, api: client.ApiClient) -> None:
    server.put(bare_node("n"))
    core: Any = client.CoreV1Api(api)
    operations = [{"op": "add", "path": "/metadata/annotations", "value": {"x": "1"}}]
    assert core.patch_node("n", operations).metadata.annotations == {"x": "1"}
    condition = {"status": {"conditions": [{"type": "Cards", "status": "True"}]}}
    patched = core.patch_node_status("n", condition)
    assert {each.type for each in patched.status.conditions} == {"Ready", "Cards"}


def test_a_stale_replacement_is_a_conflict(server: ApiServer, api: client.ApiClient) -> None:
    server.put(bare_node("n"))
    core: Any = client.CoreV1Api(api)
    seen = core.read_node("n")
    core.patch_node("n", {"metadata": {"annotations": {"x": "1"}}})
    with pytest.raises(ApiException) as caught:
        core.replace_node("n", seen)
    assert caught.value.status == 409


def test_custom_objects_and_their_status_are_written(api: client.ApiClient) -> None:
    custom: Any = client.CustomObjectsApi(api)
    place = ("scheduling.volcano.sh", "v1beta1")
    queue: dict[str, Any] = {
        "apiVersion": "/".join(place),
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"weight": 1},
    }
    custom.create_cluster_custom_object(*place, "queues", queue)
    custom.patch_cluster_custom_object_status(*place, "queues", "q", {"status": {"state": "Open"}})
    found = custom.get_cluster_custom_object(*place, "queues", "q")
    assert (found["spec"], found["status"]) == ({"weight": 1}, {"state": "Open"})


def test_of_two_candidates_one_holds_the_lease(api: client.ApiClient) -> None:
    elections: Any = leaderelection
    configs: Any = electionconfig
    locks: Any = leaselock
    leases: Any = client.CoordinationV1Api(api)

    def candidate(name: str) -> Any:
        lock = locks.LeaseLock("leader", "default", name)
        lock.api_instance = leases
        nothing = {"onstarted_leading": lambda: None, "onstopped_leading": lambda: None}
        return elections.LeaderElection(
            configs.Config(lock, lease_duration=17, renew_deadline=15, retry_period=5, **nothing)
        )

    one, two = candidate("one"), candidate("two")
    assert one.try_acquire_or_renew()
    assert not two.try_acquire_or_renew()
    assert one.try_acquire_or_renew()
    lease = leases.read_namespaced_lease("leader", "default")
    assert lease.spec.holder_identity == "one"


def test_groups_and_the_version_are_found(api: client.ApiClient) -> None:
    apis: Any = client.ApisApi(api)
    resources = apis.get_api_versions()
    assert "scheduling.volcano.sh" in {group.name for group in resources.groups}
    versions: Any = client.VersionApi(api)
    assert versions.get_code().major == "1"
