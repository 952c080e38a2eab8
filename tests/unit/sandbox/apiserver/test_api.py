"""Requests that the contract does not reach: bad parameters, other endpoints, the rules of writing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.errors import ConfigError
from hami_plugins.sandbox.apiserver.kinds import PODS, ResourceKinds, custom, declared
from hami_plugins.sandbox.apiserver.watches import MAX_WAITING
from tests import raw_objects
from tests.unit.sandbox.apiserver.serving import MERGE, Object, Server, events

PODS_PATH = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


@pytest.fixture
def server() -> Server:
    return Server()


def pod(name: str, **spec: Any) -> Object:
    return raw_objects.pod(name, raw_objects.container("c", image="i:1"), **spec)


def bind(server: Server, name: str, **binding: Any) -> int:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}, **binding}
    return server.ask("POST", f"{PODS_PATH}/{name}/binding", body).code


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"{MAPS}?limit=many", 400),
        ("GET", f"{MAPS}?resourceVersion=new", 400),
        ("GET", f"{MAPS}?limit=1&continue=eyJydiI6MX0", 400),
        ("GET", f"{MAPS}/a/b/c", 404),
        ("GET", f"{MAPS}/a/status", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/nowhere", 404),
        ("GET", f"{PODS_PATH}/a/binding", 405),
        ("POST", "/api/v1/configmaps", 405),
        ("DELETE", "/api/v1/configmaps", 405),
        ("DELETE", f"{PODS_PATH}/a/status", 405),
        ("PATCH", MAPS, 405),
        ("OPTIONS", MAPS, 405),
        ("POST", "/version", 405),
        ("POST", f"{MAPS}/a", 405),
        ("GET", "/livez/ping", 200),
        ("GET", "/apis/policy", 200),
        ("GET", "/apis/nobody.example", 404),
        ("HEAD", MAPS, 200),
    ],
)
def test_paths_and_parameters_are_checked(server: Server, method: str, path: str, code: int) -> None:
    assert server.ask(method, path, {} if method in ("POST", "PATCH") else None).code == code


@pytest.mark.parametrize("query", ["timeoutSeconds=long", "resourceVersion=new", "labelSelector=!"])
def test_a_watch_with_bad_parameters_is_refused_before_it_begins(server: Server, query: str) -> None:
    assert server.ask("GET", f"{MAPS}?watch=true&{query}").code == 400


def test_a_continue_and_a_version_exclude_each_other(server: Server) -> None:
    for name in "ab":
        server.ask("POST", MAPS, {"metadata": {"name": name}})
    token = server.ask("GET", f"{MAPS}?limit=1").body["metadata"]["continue"]
    assert server.ask("GET", f"{MAPS}?continue={token}&resourceVersion=2").code == 400


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"name": 1}, 400),
        ({"labels": []}, 400),
        ({"annotations": {"a": {}}}, 400),
        ({"finalizers": {}}, 400),
        ({"ownerReferences": "me"}, 400),
        ({"name": "x" * 254}, 422),
        ({"labels": {"a": "x" * 64}}, 422),
        ({"labels": {"/a": "x"}}, 422),
        ({"labels": {"Not.Lower/a": "x"}}, 422),
        ({"labels": {"a" * 64: "x"}}, 422),
        ({"finalizers": ["not a key"]}, 422),
        ({"managedFields": [{}], "selfLink": "/x", "generation": 7, "deletionTimestamp": "2026-01-01T00:00:00Z"}, 201),
    ],
)
def test_metadata_is_checked(server: Server, metadata: Object, code: int) -> None:
    reply = server.ask("POST", MAPS, {"metadata": {"name": "a", **metadata}})
    assert reply.code == code
    if code == 201:
        assert set(reply.body["metadata"]) == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}


@pytest.mark.parametrize(
    "body", [b"[]", b"3", b'{"metadata": 3}', b'{"apiVersion": "v2", "metadata": {"name": "a"}}', b"{"]
)
def test_a_body_that_is_no_such_object_is_400(server: Server, body: bytes) -> None:
    assert server.ask("POST", MAPS, body).code == 400


def test_bodies_may_be_yaml(server: Server) -> None:
    body = b"metadata: {name: a}\ndata: {x: y}\n"
    assert server.ask("POST", MAPS, body, media="application/yaml").body["data"] == {"x": "y"}
    assert server.ask("POST", MAPS, b"a: [", media="application/yaml").code == 400


@pytest.mark.parametrize(("name", "code"), [("has.dots", 422), ("x" * 64, 422), ("fine", 201)])
def test_namespaces_are_named_like_labels(server: Server, name: str, code: int) -> None:
    assert server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).code == code


@pytest.mark.parametrize(("name", "code"), [("system:node:x", 201), ("a/b", 422)])
def test_roles_are_named_freely(server: Server, name: str, code: int) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert server.ask("POST", roles, {"metadata": {"name": name}}).code == code


@pytest.mark.parametrize("patch", [[], "text", 3])
def test_a_merge_patch_that_is_no_object_is_400(server: Server, patch: Any) -> None:
    server.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert server.ask("PATCH", f"{MAPS}/a", patch, media=MERGE).code == 400


def test_a_json_patch_may_not_leave_nothing(server: Server) -> None:
    server.ask("POST", MAPS, {"metadata": {"name": "a"}})
    operations = [{"op": "replace", "path": "", "value": 3}]
    assert server.ask("PATCH", f"{MAPS}/a", operations, media="application/json-patch+json").code == 422


def test_an_identity_that_a_patch_names_is_the_one_that_is_there(server: Server) -> None:
    server.ask("POST", MAPS, {"metadata": {"name": "a"}})
    reply = server.ask("PATCH", f"{MAPS}/a", {"metadata": {"uid": "other"}}, media=MERGE)
    assert (reply.code, reply.body["details"]["causes"][0]["field"]) == (422, "metadata.uid")


@pytest.mark.parametrize("patch", [{"kind": "Secret"}, {"apiVersion": "v2"}])
def test_a_patch_makes_no_other_kind(server: Server, patch: Object) -> None:
    server.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert server.ask("PATCH", f"{MAPS}/a", patch, media=MERGE).code == 422


@pytest.mark.parametrize(("text", "code"), [("eQ==", 201), ("no base64", 400), (3, 400)])
def test_secrets_are_base64(server: Server, text: Any, code: int) -> None:
    path = "/api/v1/namespaces/default/secrets"
    assert server.ask("POST", path, {"metadata": {"name": "a"}, "data": {"x": text}}).code == code


def test_members_that_a_kind_does_not_have_are_dropped(server: Server) -> None:
    body = {"metadata": {"name": "a"}, "data": {}, "spec": {"x": 1}}
    assert set(server.ask("POST", MAPS, body).body) == {"kind", "apiVersion", "metadata"}


def test_some_kinds_are_created_by_a_put(server: Server) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert server.ask("PUT", f"{leases}/a", {"metadata": {"name": "a", "resourceVersion": "7"}}).code == 201
    lost = server.ask("PUT", f"{leases}/b", {"metadata": {"name": "b", "uid": "gone"}})
    assert (lost.code, lost.body["reason"]) == (409, "Conflict")
    assert server.ask("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}}).code == 404


def test_an_object_does_not_move_to_another_namespace(server: Server) -> None:
    server.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert server.ask("PATCH", f"{MAPS}/a", {"metadata": {"namespace": "other"}}, media=MERGE).code == 400


def test_true_is_not_one(server: Server) -> None:
    made = server.ask("POST", QUEUES, {**queue("q"), "spec": {"x": 1}}).body
    changed = server.ask("PATCH", f"{QUEUES}/q", {"spec": {"x": True}}, media=MERGE).body
    assert changed["spec"] == {"x": True}
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]


def queue(name: str) -> Object:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}


def test_a_custom_object_says_what_it_is(server: Server) -> None:
    assert server.ask("POST", QUEUES, {"metadata": {"name": "q"}}).code == 400
    assert server.ask("POST", QUEUES, queue("q")).code == 201


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"x.example/gpu": "1"}}], "BestEffort"),
    ],
)
def test_pods_get_their_class_of_service(server: Server, resources: list[Object], expected: str) -> None:
    containers = [{"name": f"c{at}", "image": "i", "resources": each} for at, each in enumerate(resources)]
    made = server.ask("POST", PODS_PATH, pod("p", containers=containers)).body
    assert made["status"]["qosClass"] == expected


@pytest.mark.parametrize(
    ("image", "policy"), [("i", "Always"), ("r:5/i", "Always"), ("i:latest", "Always"), ("r:5/i:1", "IfNotPresent")]
)
def test_images_with_a_tag_are_pulled_once(server: Server, image: str, policy: str) -> None:
    made = server.ask("POST", PODS_PATH, pod("p", containers=[{"name": "c", "image": image}])).body
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("containers", "field"),
    [
        ([{"image": "i"}], "spec.containers[0].name"),
        ([{"name": "Not Lower", "image": "i"}], "spec.containers[0].name"),
        ([{"name": "c"}], "spec.containers[0].image"),
        (
            [{"name": "c", "image": "i", "resources": {"requests": {"x.example/gpu": 1}}}],
            "spec.containers[0].resources.limits",
        ),
    ],
)
def test_containers_are_checked(server: Server, containers: list[Object], field: str) -> None:
    reply = server.ask("POST", PODS_PATH, pod("p", containers=containers))
    assert (reply.code, reply.body["details"]["causes"][0]["field"]) == (422, field)


@pytest.mark.parametrize("spec", [{"containers": {}}, {"containers": ["c"]}, {"overhead": {"cpu": "x"}}])
def test_a_spec_of_the_wrong_shape_is_400(server: Server, spec: Object) -> None:
    assert server.ask("POST", PODS_PATH, pod("p", **spec)).code == 400


def test_resources_of_the_wrong_shape_are_400(server: Server) -> None:
    containers = [{"name": "c", "image": "i", "resources": {"limits": [1]}}]
    assert server.ask("POST", PODS_PATH, pod("p", containers=containers)).code == 400
    assert server.ask("POST", PODS_PATH, {"metadata": {"name": "p"}, "spec": []}).code == 400


def test_quotas_are_kept_in_canonical_form(server: Server) -> None:
    path = "/api/v1/namespaces/default/resourcequotas"
    made = server.ask("POST", path, {"metadata": {"name": "q"}, "spec": {"hard": {"limits.x/y": "4000"}}}).body
    assert made["spec"]["hard"] == {"limits.x/y": "4k"}


def test_tolerations_are_added_and_never_taken_back(server: Server) -> None:
    server.ask("POST", PODS_PATH, pod("p", tolerations=[{"key": "a"}]))
    both, other = [{"key": "a"}, {"key": "b"}], [{"key": "b"}]
    assert server.ask("PATCH", f"{PODS_PATH}/p", {"spec": {"tolerations": both}}, media=MERGE).code == 200
    assert server.ask("PATCH", f"{PODS_PATH}/p", {"spec": {"tolerations": other}}, media=MERGE).code == 422


def test_gates_are_taken_away_and_never_added_and_a_gated_pod_may_choose_nodes(server: Server) -> None:
    server.ask("POST", PODS_PATH, pod("p", schedulingGates=[{"name": "g"}]))
    chosen = {"spec": {"nodeSelector": {"a": "b"}}}
    assert server.ask("PATCH", f"{PODS_PATH}/p", chosen, media=MERGE).code == 200
    more = {"spec": {"schedulingGates": [{"name": "g"}, {"name": "h"}]}}
    assert server.ask("PATCH", f"{PODS_PATH}/p", more, media=MERGE).code == 422
    assert server.ask("PATCH", f"{PODS_PATH}/p", {"spec": {"schedulingGates": []}}, media=MERGE).code == 200
    assert server.ask("PATCH", f"{PODS_PATH}/p", {"spec": {"nodeSelector": None}}, media=MERGE).code == 422


@pytest.mark.parametrize("target", [{"kind": "Pod", "name": "n"}, {"kind": "Node"}, {}])
def test_a_binding_needs_a_node(server: Server, target: Object) -> None:
    server.ask("POST", PODS_PATH, pod("p"))
    assert bind(server, "p", target=target) == 500
    assert bind(server, "p") == 201


def test_a_dry_binding_binds_nothing(server: Server) -> None:
    server.ask("POST", PODS_PATH, pod("p"))
    body = {"metadata": {"name": "p"}, "target": {"name": "n"}}
    assert server.ask("POST", f"{PODS_PATH}/p/binding?dryRun=All", body).code == 201
    assert "nodeName" not in server.ask("GET", f"{PODS_PATH}/p").body["spec"]


def test_the_end_of_a_pod_is_its_grace_after_now(server: Server) -> None:
    server.ask("POST", PODS_PATH, pod("p", terminationGracePeriodSeconds=90))
    bind(server, "p")
    server.tick(10)
    marked = server.ask("DELETE", f"{PODS_PATH}/p").body["metadata"]
    assert (marked["deletionTimestamp"], marked["deletionGracePeriodSeconds"]) == ("2026-01-02T03:05:45Z", 90)


def test_a_pod_with_a_finalizer_outlives_its_grace(server: Server) -> None:
    made = pod("p")
    made["metadata"]["finalizers"] = ["x.example/y"]
    server.ask("POST", PODS_PATH, made)
    bind(server, "p")
    assert server.ask("DELETE", f"{PODS_PATH}/p?gracePeriodSeconds=0").code == 200
    assert server.ask("GET", f"{PODS_PATH}/p").body["metadata"]["deletionGracePeriodSeconds"] == 0
    server.ask("PATCH", f"{PODS_PATH}/p", {"metadata": {"finalizers": None}}, media=MERGE)
    assert server.ask("GET", f"{PODS_PATH}/p").code == 404


def test_a_grace_that_is_no_number_is_400(server: Server) -> None:
    server.ask("POST", PODS_PATH, pod("p"))
    assert server.ask("DELETE", f"{PODS_PATH}/p?gracePeriodSeconds=soon").code == 400


def test_a_namespace_waits_for_pods_that_end_gracefully(server: Server) -> None:
    server.ask("POST", PODS_PATH, pod("p"))
    bind(server, "p")
    server.ask("DELETE", "/api/v1/namespaces/default")
    assert server.ask("GET", "/api/v1/namespaces/default").body["status"]["phase"] == "Terminating"
    assert server.ask("POST", MAPS, {"metadata": {"name": "late"}}).code == 403
    labels = {"metadata": {"labels": {"x": "y"}}}
    assert server.ask("PATCH", "/api/v1/namespaces/default", labels, media=MERGE).code == 200
    server.ask("DELETE", "/api/v1/namespaces/default")
    server.ask("DELETE", f"{PODS_PATH}/p?gracePeriodSeconds=0")
    assert server.ask("GET", "/api/v1/namespaces/default").code == 404


def test_a_version_that_is_no_number_cannot_be_expected(server: Server) -> None:
    server.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert server.ask("PUT", f"{MAPS}/a", {"metadata": {"name": "a", "resourceVersion": "new"}}).code == 500


def test_events_of_the_newer_group_are_stored_once(server: Server) -> None:
    newer = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {"metadata": {"name": "e"}, "regarding": {"kind": "Pod"}, "note": "text"}
    assert server.ask("POST", newer, event).body["note"] == "text"
    assert server.ask("GET", "/api/v1/namespaces/default/events/e").body["message"] == "text"
    patched = server.ask("PATCH", f"{newer}/e", {"note": "other"}, media=MERGE).body
    assert (patched["note"], patched["apiVersion"]) == ("other", "events.k8s.io/v1")
    assert [item["note"] for item in server.ask("GET", newer).body["items"]] == ["other"]
    told = list(events(server.watch("/api/v1/events")))
    assert [event["object"]["message"] for event in told] == ["other"]


def test_a_watcher_that_never_reads_is_cut_off(server: Server) -> None:
    watch = server.watch("/api/v1/configmaps")
    for _ in range(MAX_WAITING + 1):
        watch.add(b"x")
    assert watch.ended


def test_a_kind_has_one_place() -> None:
    kinds = ResourceKinds([PODS])
    with pytest.raises(ConfigError, match="pods in version v1 is served already"):
        kinds.add(PODS)
    with pytest.raises(ConfigError, match="no resource nodes"):
        kinds.named("nodes")
    with pytest.raises(ConfigError, match="kind Node of v1 is not served"):
        kinds.of({"apiVersion": "v1", "kind": "Node"})


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("things.x.example", {}),
        ("things.x.example", {"group": "x.example", "names": {"plural": "things", "kind": "Thing"}}),
        (
            "others.x.example",
            {"group": "x.example", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1"}]},
        ),
    ],
)
def test_a_definition_that_cannot_be_served_is_422(server: Server, name: str, spec: Object) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert server.ask("POST", path, {"metadata": {"name": name}, "spec": spec}).code == 422


def test_versions_that_are_not_served_are_no_kinds() -> None:
    names = {"plural": "things", "kind": "Thing"}
    versions: list[Object] = [
        {"name": "v1", "served": True, "subresources": {"status": {}}},
        {"name": "v0", "served": False},
    ]
    definition = {"spec": {"group": "x.example", "names": names, "scope": "Namespaced", "versions": versions}}
    assert declared(definition) == (custom("x.example/v1", "things", "Thing", status=True),)


def test_a_refused_body_is_json(server: Server) -> None:
    reply = server.ask("GET", f"{MAPS}/a")
    assert json.dumps(reply.body)
    assert reply.body["details"] == {"name": "a", "kind": "configmaps"}
