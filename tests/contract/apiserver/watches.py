"""Watches: where they begin, what they tell, how they end."""

from __future__ import annotations

from collections.abc import Iterator

from tests.contract.apiserver.api import Api, Object
from tests.contract.apiserver.cases import case
from tests.contract.apiserver.lists import filled
from tests.contract.apiserver.objects import named
from tests.contract.apiserver.pods import binding, pod
from tests.contract.apiserver.refusals import refused


def told(events: Iterator[Object], count: int) -> list[tuple[str, str]]:
    """Type and name of the next events."""
    found = (next(events) for _ in range(count))
    return [(event["type"], event["object"]["metadata"]["name"]) for event in found]


@case("a watch from a list's version tells everything that came after, in order")
def from_a_list(api: Api) -> None:
    path = filled(api, "a")
    version = api.get(path)["metadata"]["resourceVersion"]
    api.create(path, named("b"))
    api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})
    api.ask("DELETE", f"{path}/b")
    with api.watch(path, resourceVersion=version) as events:
        assert told(events, 3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
        api.create(path, named("c"))
        event = next(events)
    assert (event["type"], event["object"]["kind"], event["object"]["apiVersion"]) == ("ADDED", "Secret", "v1")


@case("a watch without a version, or from 0, begins with what is there")
def from_nothing(api: Api) -> None:
    path = filled(api, "a", "b")
    for query in ({}, {"resourceVersion": "0"}):
        with api.watch(path, **query) as events:
            assert sorted(told(events, 2)) == [("ADDED", "a"), ("ADDED", "b")]


@case("a deletion is told under a version of its own")
def deletion_version(api: Api) -> None:
    path = filled(api)
    version = api.get(path)["metadata"]["resourceVersion"]
    made = api.create(path, {**named("a"), "data": {"x": "eQ=="}})
    api.ask("DELETE", f"{path}/a")
    with api.watch(path, resourceVersion=version) as events:
        next(events)
        last = next(events)["object"]
    assert int(last["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert last["data"] == {"x": "eQ=="}


@case("the end of a pod is told twice, as a mark without grace and as a deletion")
def pod_deletion(api: Api) -> None:
    space = api.workspace()
    version = api.get(f"{space}/pods")["metadata"]["resourceVersion"]
    api.create(f"{space}/pods", pod("a"))
    api.ask("DELETE", f"{space}/pods/a")
    with api.watch(f"{space}/pods", resourceVersion=version) as events:
        found = [next(events) for _ in range(3)]
    assert [event["type"] for event in found] == ["ADDED", "MODIFIED", "DELETED"]
    marked, last = (event["object"]["metadata"] for event in found[1:])
    assert (marked["deletionGracePeriodSeconds"], marked["generation"]) == (0, 2)
    assert last == {**marked, "resourceVersion": last["resourceVersion"]}
    assert int(last["resourceVersion"]) > int(marked["resourceVersion"])


@case("writes that change nothing are not told")
def silence(api: Api) -> None:
    path = filled(api, "a")
    version = api.get(path)["metadata"]["resourceVersion"]
    api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})
    api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})
    api.create(path, named("end"))
    with api.watch(path, resourceVersion=version) as events:
        assert told(events, 2) == [("MODIFIED", "a"), ("ADDED", "end")]


@case("an object that enters or leaves a selection is added or deleted for its watchers")
def selections(api: Api) -> None:
    path = filled(api, "a")
    version = api.get(path)["metadata"]["resourceVersion"]
    with api.watch(path, resourceVersion=version, labelSelector="in=yes") as events:
        for labels in ({"in": "yes"}, {"in": "yes", "more": "x"}, {"in": "no"}):
            api.patch(f"{path}/a", {"metadata": {"labels": labels}})
        found = [next(events) for _ in range(3)]
    assert [event["type"] for event in found] == ["ADDED", "MODIFIED", "DELETED"]
    assert found[2]["object"]["metadata"]["labels"] == {"in": "yes", "more": "x"}
    assert int(found[2]["object"]["metadata"]["resourceVersion"]) > int(
        found[1]["object"]["metadata"]["resourceVersion"]
    )


@case("a watch of a node's pods begins for a pod with its binding")
def pods_of_a_node(api: Api) -> None:
    space = api.workspace()
    node = space.rsplit("/", maxsplit=1)[-1]
    version = api.get(f"{space}/pods")["metadata"]["resourceVersion"]
    with api.watch("/api/v1/pods", resourceVersion=version, fieldSelector=f"spec.nodeName={node}") as events:
        api.create(f"{space}/pods", pod("a"))
        api.create(f"{space}/pods", pod("b"))
        api.create(f"{space}/pods/b/binding", binding("b", node, annotations={"x": "y"}))
        api.ask("DELETE", f"{space}/pods/b", {"gracePeriodSeconds": 0})
        first = next(events)
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "b")
        assert first["object"]["metadata"]["annotations"] == {"x": "y"}
        while (last := next(events))["type"] == "MODIFIED":
            continue
    assert (last["type"], last["object"]["metadata"]["name"]) == ("DELETED", "b")


@case("one object is watched by its name")
def one_object(api: Api) -> None:
    path = filled(api, "a", "b")
    version = api.get(path)["metadata"]["resourceVersion"]
    with api.watch(path, resourceVersion=version, fieldSelector="metadata.name=b") as events:
        for name in ("a", "b"):
            api.patch(f"{path}/{name}", {"metadata": {"labels": {"x": "y"}}})
        assert told(events, 1) == [("MODIFIED", "b")]


@case("a watch ends after the seconds it was given")
def limited(api: Api) -> None:
    path = filled(api)
    version = api.get(path)["metadata"]["resourceVersion"]
    with api.watch(path, resourceVersion=version, timeoutSeconds=1) as events:
        assert list(events) == []


@case("initial events end with a bookmark that says so")
def initial_events(api: Api) -> None:
    path = filled(api, "a", "b")
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with api.watch(path, **asked) as events:
        assert sorted(told(events, 2)) == [("ADDED", "a"), ("ADDED", "b")]
        end = next(events)
        assert end["type"] == "BOOKMARK"
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        api.create(path, named("c"))
        assert told(events, 1) == [("ADDED", "c")]
    with api.watch(path, resourceVersion=end["object"]["metadata"]["resourceVersion"]) as events:
        assert told(events, 1) == [("ADDED", "c")]


@case("initial events need to be asked for in full")
def initial_events_by_half(api: Api) -> None:
    reply = api.ask("GET", filled(api), watch="true", sendInitialEvents="true")
    assert "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" in refused(reply, 422, "Invalid")
