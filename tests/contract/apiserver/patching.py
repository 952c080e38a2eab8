"""The three kinds of patches."""

from __future__ import annotations

from typing import Any

from tests.contract.apiserver.api import JSON_PATCH, MERGE, STRATEGIC, Api
from tests.contract.apiserver.cases import case
from tests.contract.apiserver.objects import named
from tests.contract.apiserver.pods import pod
from tests.contract.apiserver.refusals import refused


@case("a merge patch lays members over members and null takes them away")
def merge_patch(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", {**named("a"), "data": {"x": "1", "y": "2"}})
    assert api.patch(f"{space}/configmaps/a", {"data": {"x": None, "z": "3"}})["data"] == {"y": "2", "z": "3"}


@case("the last annotation taken away leaves no annotations member")
def last_annotation(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a", annotations={"x": "1"}))
    assert (
        "annotations" not in api.patch(f"{space}/configmaps/a", {"metadata": {"annotations": {"x": None}}})["metadata"]
    )


@case("a version in a merge patch is a condition")
def conditional_patch(api: Api) -> None:
    space = api.workspace()
    path = f"{space}/configmaps/a"
    first = api.create(f"{space}/configmaps", named("a"))["metadata"]["resourceVersion"]
    reply = api.ask("PATCH", path, {"metadata": {"resourceVersion": first}, "data": {"x": "1"}}, media=MERGE)
    assert reply.code == 200
    reply = api.ask("PATCH", path, {"metadata": {"resourceVersion": first}, "data": {"x": "2"}}, media=MERGE)
    assert "the object has been modified" in refused(reply, 409, "Conflict")
    assert api.get(path)["data"] == {"x": "1"}


@case("a JSON patch adds, replaces, removes, copies and moves")
def json_patch(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", {**named("a", annotations={"d/x": "0"}), "data": {"x": "1", "y": "2"}})
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "3"},
        {"op": "copy", "from": "/data/x", "path": "/data/z"},
        {"op": "move", "from": "/data/y", "path": "/data/w"},
        {"op": "replace", "path": "/metadata/annotations/d~1x", "value": "1"},
        {"op": "add", "path": "/metadata/labels", "value": {"l": "m"}},
        {"op": "remove", "path": "/data/x"},
    ]
    patched = api.patch(f"{space}/configmaps/a", operations, JSON_PATCH)
    assert patched["data"] == {"z": "3", "w": "2"}
    assert (patched["metadata"]["annotations"], patched["metadata"]["labels"]) == ({"d/x": "1"}, {"l": "m"})


@case("a JSON patch whose test fails or whose path is missing is 422 and changes nothing")
def failing_json_patch(api: Api) -> None:
    space = api.workspace()
    made = api.create(f"{space}/configmaps", {**named("a"), "data": {"x": "1"}})
    for operation in (
        {"op": "test", "path": "/data/x", "value": "2"},
        {"op": "remove", "path": "/data/nothing"},
        {"op": "move", "from": "/data/nothing", "path": "/data/x"},
        {"op": "add", "path": "/nothing/here", "value": "1"},
    ):
        change = {"op": "add", "path": "/data/y", "value": "2"}
        reply = api.ask("PATCH", f"{space}/configmaps/a", [change, operation], media=JSON_PATCH)
        assert refused(reply, 422, "Invalid") == "the server rejected our request due to an error in our request"
    assert api.get(f"{space}/configmaps/a") == made


@case("a JSON patch that replaces or copies a member that is not there makes it")
def lenient_json_patch(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", {**named("a"), "data": {"x": "1"}})
    operations = [
        {"op": "replace", "path": "/data/y", "value": "2"},
        {"op": "copy", "from": "/data/nothing", "path": "/data/z"},
        {"op": "test", "path": "/data/nothing", "value": None},
    ]
    assert api.patch(f"{space}/configmaps/a", operations, JSON_PATCH)["data"] == {"x": "1", "y": "2", "z": ""}


@case("a version tested by a JSON patch is a condition")
def tested_version(api: Api) -> None:
    space = api.workspace()
    made = api.create(f"{space}/configmaps", named("a"))
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]}
    add = {"op": "add", "path": "/data", "value": {"x": "1"}}
    assert api.ask("PATCH", f"{space}/configmaps/a", [test, add], media=JSON_PATCH).code == 200
    assert api.ask("PATCH", f"{space}/configmaps/a", [test, add], media=JSON_PATCH).code == 422


@case("a strategic patch merges conditions by type and containers by name")
def strategic_merge(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a", containers=[{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]))
    change = {"spec": {"containers": [{"name": "d", "image": "k"}]}}
    containers = api.patch(f"{space}/pods/a", change, STRATEGIC)["spec"]["containers"]
    assert [(each["name"], each["image"]) for each in containers] == [("c", "i"), ("d", "k")]
    for kind, status in (("One", "True"), ("Two", "True"), ("One", "False")):
        change = {"status": {"conditions": [{"type": kind, "status": status}]}}
        api.patch(f"{space}/pods/a/status", change, STRATEGIC)
    found = {each["type"]: each["status"] for each in api.get(f"{space}/pods/a")["status"]["conditions"]}
    assert {"One": "False", "Two": "True"}.items() <= found.items()
    gone = {"status": {"conditions": [{"type": "Two", "$patch": "delete"}]}}
    patched = api.patch(f"{space}/pods/a/status", gone, STRATEGIC)
    assert "Two" not in {each["type"] for each in patched["status"]["conditions"]}


@case("a merge patch replaces lists as a whole")
def merged_lists(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/pods", pod("a"))
    for kind in ("One", "Two"):
        api.patch(f"{space}/pods/a/status", {"status": {"conditions": [{"type": kind, "status": "True"}]}})
    assert [each["type"] for each in api.get(f"{space}/pods/a")["status"]["conditions"]] == ["Two"]


@case("a strategic patch joins finalizers and replaces taints")
def strategic_lists(api: Api) -> None:
    space = api.workspace()
    api.create(f"{space}/configmaps", named("a", finalizers=["test.example/one"]))
    change = {"metadata": {"finalizers": ["test.example/two"]}}
    found = api.patch(f"{space}/configmaps/a", change, STRATEGIC)["metadata"]["finalizers"]
    assert sorted(found) == ["test.example/one", "test.example/two"]
    fewer = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["test.example/one"]}}
    assert api.patch(f"{space}/configmaps/a", fewer, STRATEGIC)["metadata"]["finalizers"] == ["test.example/two"]
    api.patch(f"{space}/configmaps/a", {"metadata": {"finalizers": None}})
    name = space.rsplit("/", maxsplit=1)[-1]
    node = api.remember(f"/api/v1/nodes/{name}")
    api.create("/api/v1/nodes", {**named(name), "spec": {"unschedulable": True}})
    for key in ("one", "two"):
        api.patch(node, {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}, STRATEGIC)
    assert "one" not in {taint["key"] for taint in api.get(node)["spec"]["taints"]}
