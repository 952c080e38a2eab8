"""Lists: order, selectors, pages."""

from __future__ import annotations

from tests.contract.apiserver.api import Api, Object
from tests.contract.apiserver.cases import case
from tests.contract.apiserver.objects import named
from tests.contract.apiserver.pods import binding, pod
from tests.contract.apiserver.refusals import refused


def names(listed: Object) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def filled(api: Api, *wanted: str) -> str:
    """The path of a workspace's secrets with these names, which no other test uses."""
    path = f"{api.workspace()}/secrets"
    for name in wanted:
        api.create(path, named(name))
    return path


@case("a list has a version, is ordered by name, and its items leave out their kind")
def listed(api: Api) -> None:
    found = api.get(filled(api, "b", "c", "a"))
    assert (found["kind"], found["apiVersion"], names(found)) == ("SecretList", "v1", ["a", "b", "c"])
    assert int(found["metadata"]["resourceVersion"]) >= max(
        int(item["metadata"]["resourceVersion"]) for item in found["items"]
    )
    assert all("kind" not in item for item in found["items"])


@case("labels select by equality, by sets and by existence")
def by_labels(api: Api) -> None:
    path = filled(api)
    for name, labels in (("a", {"app": "x", "tier": "1"}), ("b", {"app": "y"}), ("c", {"tier": "2"})):
        api.create(path, named(name, labels=labels))
    for selector, expected in (
        ("app=x", "a"),
        ("app==x", "a"),
        ("app!=x", "bc"),
        ("app", "ab"),
        ("!app", "c"),
        ("app in (x,y)", "ab"),
        ("app in (x, y),tier", "a"),
        ("app notin (x)", "bc"),
        ("tier>1", "c"),
        ("tier<2", "a"),
        ("app=x,tier=2", ""),
    ):
        assert "".join(names(api.get(path, labelSelector=selector))) == expected, selector


@case("pods are selected by node, phase, scheduler and name")
def by_fields(api: Api) -> None:
    space = api.workspace()
    for name in ("a", "b"):
        api.create(f"{space}/pods", pod(name))
    api.create(f"{space}/pods/b/binding", binding("b", "contract-node"))
    api.patch(f"{space}/pods/b/status", {"status": {"phase": "Running"}})
    for selector, expected in (
        ("spec.nodeName=contract-node", ["b"]),
        ("spec.nodeName=", ["a"]),
        ("spec.nodeName!=contract-node", ["a"]),
        ("status.phase=Running", ["b"]),
        ("status.phase!=Running,metadata.name=a", ["a"]),
        ("metadata.name=b", ["b"]),
        ("spec.schedulerName=nobody.example", ["a", "b"]),
        ("spec.schedulerName=nobody.example,spec.nodeName=contract-node", ["b"]),
    ):
        assert names(api.get(f"{space}/pods", fieldSelector=selector)) == expected, selector
    everywhere = api.get("/api/v1/pods", fieldSelector="spec.nodeName=contract-node")
    assert "b" in names(everywhere)


@case("events are selected by the object they are about")
def events_by_fields(api: Api) -> None:
    space = api.workspace()
    for name in ("p", "q"):
        about = {"kind": "Pod", "name": name, "namespace": space.rsplit("/", maxsplit=1)[-1]}
        api.create(f"{space}/events", {**named(name), "involvedObject": about, "reason": "R", "type": "Normal"})
    selector = "involvedObject.kind=Pod,involvedObject.name=q,type=Normal,reason=R"
    assert names(api.get(f"{space}/events", fieldSelector=selector)) == ["q"]


@case("pages show one version, whatever is written in between")
def pages(api: Api) -> None:
    path = filled(api, "a", "c", "e")
    first = api.get(path, limit=2)
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "c"], 1)
    api.create(path, named("d"))
    api.ask("DELETE", f"{path}/e")
    second = api.get(path, limit=2, **{"continue": first["metadata"]["continue"]})
    assert names(second) == ["e"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


@case("pages of a selection do not count what remains")
def selected_pages(api: Api) -> None:
    path = filled(api)
    for name in "abc":
        api.create(path, named(name, labels={"app": "x"}))
    first = api.get(path, limit=2, labelSelector="app=x")
    assert "remainingItemCount" not in first["metadata"]
    second = api.get(path, limit=2, labelSelector="app=x", **{"continue": first["metadata"]["continue"]})
    assert names(first) + names(second) == ["a", "b", "c"]


@case("a continue that is none is 400")
def bad_continue(api: Api) -> None:
    refused(api.ask("GET", filled(api), limit=1, **{"continue": "nonsense"}), 400, "BadRequest")


@case("a list at an exact version shows that version")
def exact_version(api: Api) -> None:
    path = filled(api, "a")
    version = api.get(path)["metadata"]["resourceVersion"]
    api.create(path, named("b"))
    api.ask("DELETE", f"{path}/a")
    found = api.get(path, resourceVersion=version, resourceVersionMatch="Exact")
    assert (names(found), found["metadata"]["resourceVersion"]) == (["a"], version)
    later = api.get(path, resourceVersion=version)
    assert int(later["metadata"]["resourceVersion"]) >= int(version), "a cache may be behind, but not that far"
    assert names(api.get(path)) == ["b"]


@case("a list at a version that is still to come is 504")
def future_version(api: Api) -> None:
    path = filled(api)
    future = int(api.get(path)["metadata"]["resourceVersion"]) + 1_000_000
    message = refused(api.ask("GET", path, resourceVersion=future), 504, "Timeout")
    assert message.startswith(f"Timeout: Too large resource version: {future}, current: ")
