"""What kubectl asks of an API server besides objects: tables, OpenAPI, logs, and clear words where there is nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from hami_plugins.sandbox.apiserver import ApiServer, ClusterParts

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PODS = "/api/v1/namespaces/default/pods"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "main", "image": "x"}]},
}


def log_of(pod: Any, container: str) -> str | None:
    return f"{pod['metadata']['name']} {container}\n" if pod["metadata"]["name"] == "a" else None


@pytest.fixture
def server() -> Iterator[ApiServer]:
    around = ClusterParts(logs=log_of, unattended={("apps", "deployments"): 'no controller "here"'})
    with ApiServer(around=around) as started:
        started.put({**POD, "metadata": {"name": "a", "namespace": "default"}})
        yield started


def get(server: ApiServer, path: str, *, accept: str = "application/json") -> tuple[int, Any]:
    answer = urllib3.request("GET", f"{server.url}{path}", headers={"Accept": accept}, retries=False)
    try:
        return answer.status, json.loads(answer.data)
    except ValueError:
        return answer.status, answer.data.decode()


def test_lists_single_objects_and_watches_come_as_tables(server: ApiServer) -> None:
    _, found = get(server, PODS, accept=TABLE)
    assert (found["kind"], [row["cells"][0] for row in found["rows"]]) == ("Table", ["a"])
    assert found["metadata"]["resourceVersion"]
    _, one = get(server, f"{PODS}/a", accept=TABLE)
    assert [row["object"]["metadata"]["name"] for row in one["rows"]] == ["a"]
    answer = urllib3.request(
        "GET", f"{server.url}{PODS}?watch=true&timeoutSeconds=1", headers={"Accept": TABLE}, preload_content=False
    )
    first = json.loads(next(iter(answer)).splitlines()[0])
    answer.close()
    assert (first["type"], first["object"]["kind"], first["object"]["rows"][0]["cells"][0]) == ("ADDED", "Table", "a")


def test_watchers_that_want_tables_and_objects_each_get_their_own(server: ApiServer) -> None:
    path = f"{server.url}{PODS}?watch=true&timeoutSeconds=5&resourceVersion={server.store.version}"
    plain = urllib3.request("GET", path, preload_content=False)
    tables = urllib3.request("GET", path, headers={"Accept": TABLE}, preload_content=False)
    server.put({**POD, "metadata": {"name": "b", "namespace": "default"}})
    kinds = [json.loads(next(iter(each)).splitlines()[0])["object"]["kind"] for each in (plain, tables)]
    for each in (plain, tables):
        each.close()
    assert kinds == ["Pod", "Table"]


def test_openapi_names_every_kind_that_can_be_patched(server: ApiServer) -> None:
    _, roots = get(server, "/openapi/v3")
    assert {"api/v1", "apis/apps/v1"} <= set(roots["paths"])
    code, core = get(server, roots["paths"]["api/v1"]["serverRelativeURL"])
    patch = core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert code == 200
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    assert "/api/v1/nodes/{name}" in core["paths"]
    assert get(server, "/openapi/v3/apis/none/v1")[0] == 404


def test_get_all_means_what_it_does_elsewhere(server: ApiServer) -> None:
    _, core = get(server, "/api/v1")
    assert {each["name"] for each in core["resources"] if "all" in each.get("categories", ())} == {
        "pods",
        "replicationcontrollers",
        "services",
    }


def test_a_log_is_what_the_cluster_says_of_a_container(server: ApiServer) -> None:
    assert get(server, f"{PODS}/a/log") == (200, "a main\n")
    code, refused = get(server, f"{PODS}/a/log?container=other")
    assert (code, refused["message"]) == (400, "container other is not valid for pod a")
    server.put({**POD, "metadata": {"name": "b", "namespace": "default"}})
    assert get(server, f"{PODS}/b/log")[1]["message"] == 'container "main" in pod "b" is waiting to start'
    assert get(server, f"{PODS}/gone/log")[0] == 404


def test_what_needs_a_process_is_refused_with_the_reason(server: ApiServer) -> None:
    for name in ("exec", "attach", "portforward"):
        code, refused = get(server, f"{PODS}/a/{name}")
        assert code == 400
        assert refused["message"] == f"{name}: containers of the embedded cluster run no processes"
    with ApiServer() as bare:
        bare.put({**POD, "metadata": {"name": "a", "namespace": "default"}})
        assert "no logs" in get(bare, f"{PODS}/a/log")[1]["message"]


def test_protobuf_is_refused_with_what_helps(server: ApiServer) -> None:
    media = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    answer = urllib3.request("POST", f"{server.url}{PODS}", headers=media, body=b"k8s\0", retries=False)
    assert answer.status == 415
    assert json.loads(answer.data)["message"] == (
        "the embedded API server reads JSON and YAML, no protobuf: write a manifest and apply it"
    )


def test_creating_what_no_controller_looks_after_is_warned_of(server: ApiServer) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    made = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": made}
    path = f"{server.url}/apis/apps/v1/namespaces/default/deployments"
    answer = urllib3.request("POST", path, json=body, retries=False)
    assert (answer.status, answer.headers["Warning"]) == (201, '299 - "no controller \\"here\\""')
    answer = urllib3.request("POST", f"{server.url}{PODS}", json={**POD, "metadata": {"name": "c"}}, retries=False)
    assert (answer.status, "Warning" in answer.headers) == (201, False)


def test_a_port_of_its_own_is_taken_or_refused() -> None:
    with ApiServer() as first, pytest.raises(OSError, match="in use"):
        ApiServer(port=first.port).start()
