"""Custom resources, with and without a status subresource."""

from __future__ import annotations

import secrets

from tests.contract.apiserver.api import MERGE, STRATEGIC, Api, Object
from tests.contract.apiserver.cases import case
from tests.contract.apiserver.objects import named
from tests.contract.apiserver.refusals import refused

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def kind(api: Api, *, status: bool, scope: str = "Cluster") -> tuple[str, Object]:
    """The path of a new kind's collection, and the head of its objects."""
    group = f"g{secrets.token_hex(4)}.contract.example"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    if status:
        version["subresources"] = {"status": {}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "shortNames": ["th"]}
    spec = {"group": group, "scope": scope, "names": names, "versions": [version]}
    name = f"things.{group}"
    api.create(DEFINITIONS, {**named(name), "spec": spec})
    api.remember(f"{DEFINITIONS}/{name}")
    path = f"/apis/{group}/v1/things"
    api.until(path, lambda reply: reply.code == 200)
    return path, {"apiVersion": f"{group}/v1", "kind": "Thing"}


@case("a definition is established, and its kind is served")
def established(api: Api) -> None:
    path, head = kind(api, status=True)
    group = head["apiVersion"].partition("/")[0]
    definition = api.get(f"{DEFINITIONS}/things.{group}")
    conditions = {each["type"]: each["status"] for each in definition["status"]["conditions"]}
    assert {"Established": "True", "NamesAccepted": "True"}.items() <= conditions.items()
    api.create(path, {**head, **named("a"), "spec": {"x": {"y": [1, 2.5, "z", None, True]}}})
    assert api.get(f"{path}/a")["spec"]["x"]["y"][:3] == [1, 2.5, "z"]
    resources = {each["name"]: each for each in api.get(f"/apis/{group}/v1")["resources"]}
    assert set(resources) == {"things", "things/status"}
    assert (resources["things"]["kind"], resources["things"]["shortNames"]) == ("Thing", ["th"])


@case("items of a custom list carry their kind")
def custom_list(api: Api) -> None:
    path, head = kind(api, status=False)
    api.create(path, {**head, **named("a")})
    found = api.get(path)
    assert found["kind"] == "ThingList"
    assert [(item["kind"], item["apiVersion"]) for item in found["items"]] == [("Thing", head["apiVersion"])]


@case("a status subresource keeps status and the rest apart")
def with_status(api: Api) -> None:
    path, head = kind(api, status=True)
    made = api.create(path, {**head, **named("a"), "spec": {"x": 1}, "status": {"y": 1}})
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    ignored = api.patch(f"{path}/a", {"status": {"y": 1}})
    assert ignored["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    change = {"metadata": {"annotations": {"z": "1"}}, "spec": {"x": 2}, "status": {"y": 2}}
    patched = api.patch(f"{path}/a/status", change)
    assert (patched["spec"], patched["status"]) == ({"x": 1}, {"y": 2})
    assert "annotations" not in patched["metadata"]
    assert patched["metadata"]["generation"] == 1
    assert api.patch(f"{path}/a", {"spec": {"x": 2}})["metadata"]["generation"] == 2


@case("without a status subresource status is a member like any other")
def without_status(api: Api) -> None:
    path, head = kind(api, status=False)
    made = api.create(path, {**head, **named("a"), "status": {"y": 1}})
    assert (made["status"], made["metadata"]["generation"]) == ({"y": 1}, 1)
    patched = api.patch(f"{path}/a", {"status": {"y": 2}})
    assert (patched["status"], patched["metadata"]["generation"]) == ({"y": 2}, 2)
    assert api.ask("PATCH", f"{path}/a/status", {"status": {"y": 3}}, media=MERGE).code == 404


@case("one that becomes true is a new generation")
def true_and_one(api: Api) -> None:
    path, head = kind(api, status=True)
    api.create(path, {**head, **named("a"), "spec": {"x": 1}})
    assert api.patch(f"{path}/a", {"spec": {"x": True}})["metadata"]["generation"] == 2


@case("a PUT of a custom object needs its version")
def blind_put(api: Api) -> None:
    path, head = kind(api, status=False)
    made = api.create(path, {**head, **named("a")})
    reply = api.ask("PUT", f"{path}/a", {**head, **named("a"), "spec": {}})
    assert "metadata.resourceVersion: Invalid value" in refused(reply, 422, "Invalid")
    assert api.ask("PUT", f"{path}/a", {**made, "spec": {"x": 1}}).code == 200


@case("a strategic patch of a custom object is 415 and names what is taken")
def strategic(api: Api) -> None:
    path, head = kind(api, status=False)
    api.create(path, {**head, **named("a")})
    message = refused(api.ask("PATCH", f"{path}/a", {"spec": {}}, media=STRATEGIC), 415, "UnsupportedMediaType")
    assert message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


@case("custom objects live in namespaces where their definition says so")
def namespaced(api: Api) -> None:
    path, head = kind(api, status=False, scope="Namespaced")
    space = api.workspace().rsplit("/", maxsplit=1)[-1]
    inside = path.replace("/things", f"/namespaces/{space}/things")
    assert api.create(inside, {**head, **named("a")})["metadata"]["namespace"] == space
    assert [item["metadata"]["name"] for item in api.get(path)["items"]] == ["a"]


@case("custom objects are watched like others")
def watched(api: Api) -> None:
    path, head = kind(api, status=True)
    version = api.get(path)["metadata"]["resourceVersion"]
    with api.watch(path, resourceVersion=version) as events:
        api.create(path, {**head, **named("a")})
        api.patch(f"{path}/a/status", {"status": {"y": 1}})
        found = [next(events) for _ in range(2)]
    assert [(each["type"], each["object"]["kind"]) for each in found] == [("ADDED", "Thing"), ("MODIFIED", "Thing")]


@case("a kind ends with its definition")
def definition_deleted(api: Api) -> None:
    path, head = kind(api, status=False)
    group = head["apiVersion"].partition("/")[0]
    assert api.ask("DELETE", f"{DEFINITIONS}/things.{group}").code == 200
    api.until(path, lambda reply: reply.code == 404)
