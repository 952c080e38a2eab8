"""Creating, reading, replacing and deleting."""

from __future__ import annotations

import re

from tests.contract.apiserver.api import MERGE, Api, Object
from tests.contract.apiserver.cases import case

LEASES = "/apis/coordination.k8s.io/v1/namespaces"


def named(name: str, **metadata: object) -> Object:
    return {"metadata": {"name": name, **metadata}}


@case("a created object carries an identity, a version, a time and its namespace")
def identity(api: Api) -> None:
    space = api.workspace()
    metadata = api.create(f"{space}/configmaps", named("a"))["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["resourceVersion"].isdigit()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert space.endswith(f"/{metadata['namespace']}")


@case("one counter of versions serves all kinds")
def one_counter(api: Api) -> None:
    space = api.workspace()
    versions = [
        int(api.create(f"{space}/{plural}", named("a"))["metadata"]["resourceVersion"])
        for plural in ("configmaps", "secrets", "serviceaccounts")
    ]
    assert versions == sorted(set(versions))


@case("an object of Kubernetes' own kinds may leave out kind and apiVersion")
def kind_left_out(api: Api) -> None:
    made = api.create(f"{api.workspace()}/configmaps", named("a"))
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")


@case("a label that is null is empty text")
def null_label(api: Api) -> None:
    made = api.create(f"{api.workspace()}/configmaps", named("a", labels={"x": None}))
    assert made["metadata"]["labels"] == {"x": ""}


@case("generateName becomes a name of the prefix and five characters")
def generated_name(api: Api) -> None:
    made = api.create(f"{api.workspace()}/configmaps", {"metadata": {"generateName": "job-"}})
    assert re.fullmatch(r"job-[bcdfghjklmnpqrstvwxz2456789]{5}", made["metadata"]["name"])


@case("an identity that the client brings along is replaced")
def own_uid(api: Api) -> None:
    mine = "11111111-1111-1111-1111-111111111111"
    assert api.create(f"{api.workspace()}/configmaps", named("a", uid=mine))["metadata"]["uid"] != mine


@case("a PUT at an older version is 409 Conflict and changes nothing")
def stale_put(api: Api) -> None:
    space = api.workspace()
    old = api.create(f"{space}/configmaps", named("a"))
    api.patch(f"{space}/configmaps/a", {"data": {"x": "1"}})
    reply = api.ask("PUT", f"{space}/configmaps/a", {**old, "data": {"x": "2"}})
    assert (reply.code, reply.body["reason"]) == (409, "Conflict")
    assert reply.body["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert reply.body["details"] == {"name": "a", "kind": "configmaps"}
    assert api.get(f"{space}/configmaps/a")["data"] == {"x": "1"}


@case("a PUT without a version replaces whatever is there")
def blind_put(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", {**named("a"), "data": {"x": "1"}})
    reply = api.ask("PUT", f"{space}/configmaps/a", {**named("a"), "data": {"y": "2"}})
    assert (reply.code, reply.body["data"]) == (200, {"y": "2"})


@case("a PUT without a version is 422 for a Lease")
def blind_put_of_lease(api: Api) -> None:
    path = f"{LEASES}/{api.workspace().rsplit('/', maxsplit=1)[-1]}/leases"
    lease = api.create(path, {**named("a"), "spec": {"holderIdentity": "one"}})
    reply = api.ask("PUT", f"{path}/a", {**named("a"), "spec": {"holderIdentity": "two"}})
    assert (reply.code, reply.body["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    lease["spec"]["holderIdentity"] = "two"
    assert api.ask("PUT", f"{path}/a", lease).code == 200


@case("a PUT creates a Lease that is not there, and no ConfigMap")
def made_by_put(api: Api) -> None:
    space = api.workspace()
    path = f"{LEASES}/{space.rsplit('/', maxsplit=1)[-1]}/leases"
    assert api.ask("PUT", f"{path}/a", {**named("a"), "spec": {"holderIdentity": "one"}}).code == 201
    assert api.ask("PUT", f"{space}/configmaps/a", named("a")).code == 404


@case("a lease keeps microseconds")
def lease_times(api: Api) -> None:
    path = f"{LEASES}/{api.workspace().rsplit('/', maxsplit=1)[-1]}/leases"
    at = "2026-01-02T03:04:05.678901Z"
    made = api.create(path, {**named("a"), "spec": {"acquireTime": at, "leaseDurationSeconds": 15}})
    assert made["spec"] == {"acquireTime": at, "leaseDurationSeconds": 15}


@case("a PUT of an object with another identity is 409")
def put_of_another(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a"))
    reply = api.ask("PUT", f"{space}/configmaps/a", named("a", uid="11111111-1111-1111-1111-111111111111"))
    assert (reply.code, reply.body["reason"]) == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in reply.body["message"]


@case("a write that changes nothing makes no version")
def no_change(api: Api) -> None:
    space = api.workspace()
    made = api.create(f"{space}/configmaps", {**named("a"), "data": {"x": "1"}})
    for reply in (
        api.ask("PUT", f"{space}/configmaps/a", {**named("a"), "data": {"x": "1"}}),
        api.ask("PATCH", f"{space}/configmaps/a", {"data": {"x": "1"}}, media=MERGE),
    ):
        assert (reply.code, reply.body["metadata"]["resourceVersion"]) == (200, made["metadata"]["resourceVersion"])


@case("the spec's changes are counted as generations, others are not")
def generations(api: Api) -> None:
    space = api.workspace().rsplit("/", maxsplit=1)[-1]
    path = f"/apis/apps/v1/namespaces/{space}/deployments"
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    assert api.create(path, {**named("a"), "spec": spec})["metadata"]["generation"] == 1
    assert api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})["metadata"]["generation"] == 1
    assert api.patch(f"{path}/a/status", {"status": {"observedGeneration": 1}})["metadata"]["generation"] == 1
    assert api.patch(f"{path}/a", {"spec": {"minReadySeconds": 3}})["metadata"]["generation"] == 2


@case("a dry run answers as the write would and writes nothing")
def dry_run(api: Api) -> None:
    space = api.workspace()
    reply = api.ask("POST", f"{space}/configmaps", named("a"), dryRun="All")
    assert (reply.code, reply.body["metadata"]["name"]) == (201, "a")
    assert api.ask("GET", f"{space}/configmaps/a").code == 404
    api.create(f"{space}/configmaps", named("a"))
    assert api.ask("DELETE", f"{space}/configmaps/a", dryRun="All").code == 200
    assert api.ask("GET", f"{space}/configmaps/a").code == 200


@case("deleting an object answers with a Status that names it")
def deletion(api: Api) -> None:
    space = api.workspace()
    made = api.create(f"{space}/configmaps", named("a"))
    reply = api.ask("DELETE", f"{space}/configmaps/a")
    assert (reply.code, reply.body["kind"], reply.body["status"]) == (200, "Status", "Success")
    assert reply.body["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert api.ask("DELETE", f"{space}/configmaps/a").code == 404


@case("a deletion that expects another identity or version is 409")
def deletion_of_another(api: Api) -> None:
    space = api.workspace()
    made = api.create(f"{space}/configmaps", named("a"))
    for wanted in ({"uid": "11111111-1111-1111-1111-111111111111"}, {"resourceVersion": "1"}):
        reply = api.ask("DELETE", f"{space}/configmaps/a", {"preconditions": wanted})
        assert (reply.code, reply.body["reason"]) == (409, "Conflict")
    expected = {name: made["metadata"][name] for name in ("uid", "resourceVersion")}
    assert api.ask("DELETE", f"{space}/configmaps/a", {"preconditions": expected}).code == 200


@case("an object with a finalizer is marked, and goes with its last finalizer")
def finalizers(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a", finalizers=["test.example/one"]))
    marked = api.ask("DELETE", f"{space}/configmaps/a")
    assert (marked.code, marked.body["kind"]) == (200, "ConfigMap")
    assert marked.body["metadata"]["deletionTimestamp"]
    more = api.ask(
        "PATCH",
        f"{space}/configmaps/a",
        {"metadata": {"finalizers": ["test.example/one", "test.example/two"]}},
        media=MERGE,
    )
    assert more.code == 422
    assert api.ask("PATCH", f"{space}/configmaps/a", {"metadata": {"finalizers": None}}, media=MERGE).code == 200
    assert api.ask("GET", f"{space}/configmaps/a").code == 404


@case("a collection is deleted as far as the label selector goes")
def deletion_of_many(api: Api) -> None:
    space = api.workspace()
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        api.create(f"{space}/configmaps", named(name, labels={"app": app}))
    reply = api.ask("DELETE", f"{space}/configmaps", labelSelector="app=x")
    assert reply.code == 200
    left = api.get(f"{space}/configmaps", labelSelector="app")["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


@case("a namespace ends with everything in it")
def namespaces(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a"))
    reply = api.ask("DELETE", space)
    assert (reply.code, reply.body["status"]["phase"]) == (200, "Terminating")
    api.until(space, lambda reply: reply.code == 404)
    assert api.ask("GET", f"{space}/configmaps/a").code == 404


@case("a namespace is active and labelled with its name")
def new_namespace(api: Api) -> None:
    space = api.get(api.workspace())
    assert space["status"] == {"phase": "Active"}
    assert space["metadata"]["labels"]["kubernetes.io/metadata.name"] == space["metadata"]["name"]


@case("an event of the core API is the same object in events.k8s.io")
def events_in_both(api: Api) -> None:
    space = api.workspace()
    name = space.rsplit("/", maxsplit=1)[-1]
    event = {
        **named("e"),
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": name, "apiVersion": "v1"},
        "reason": "Tested",
        "message": "a text",
        "type": "Normal",
        "source": {"component": "contract"},
        "count": 1,
    }
    made = api.create(f"{space}/events", event)
    other = api.get(f"/apis/events.k8s.io/v1/namespaces/{name}/events/e")
    assert other["apiVersion"] == "events.k8s.io/v1"
    assert other["metadata"]["uid"] == made["metadata"]["uid"]
    assert (other["note"], other["regarding"]["name"], other["deprecatedCount"]) == ("a text", "p", 1)


@case("the server tells its version and its health")
def version_and_health(api: Api) -> None:
    assert api.get("/version")["major"] == "1"
    for path in ("/healthz", "/livez", "/readyz"):
        assert api.ask("GET", path)[:2] == (200, "ok")


@case("discovery lists groups, versions and resources with their subresources")
def discovery(api: Api) -> None:
    assert api.get("/api")["versions"] == ["v1"]
    groups = {group["name"]: group for group in api.get("/apis")["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert api.get("/apis/apps")["kind"] == "APIGroup"
    core = {each["name"]: each for each in api.get("/api/v1")["resources"]}
    assert {"pods", "pods/binding", "pods/status", "pods/eviction", "nodes/status", "bindings"} <= set(core)
    assert core["pods"]["namespaced"] is True
    assert core["nodes"]["namespaced"] is False
    assert core["pods"]["shortNames"] == ["po"]
    apps = api.get("/apis/apps/v1")
    assert (apps["kind"], apps["groupVersion"]) == ("APIResourceList", "apps/v1")
    assert "deployments/status" in {each["name"] for each in apps["resources"]}
