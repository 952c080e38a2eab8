"""Random histories: what lists and watches show is one story, told to everybody alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sandbox.apiserver.serving import MERGE, Object, Server, events

SECRETS = "/api/v1/namespaces/default/secrets"
NAMES = ("a", "b", "c", "d")
LABELS = ("", "x", "y")


@dataclass(frozen=True)
class Step:
    """One request of a history; ``text`` is a label and a value at once."""

    verb: str
    name: str
    text: str


STEPS = st.builds(
    Step,
    verb=st.sampled_from(["create", "put", "patch", "delete", "nothing", "missing"]),
    name=st.sampled_from(NAMES),
    text=st.sampled_from(LABELS),
)


def obey(server: Server, step: Step) -> None:
    """Do a step; refusals are part of history."""
    path = f"{SECRETS}/{step.name}"
    labels = {"l": step.text} if step.text else {}
    body = {"metadata": {"name": step.name, "labels": labels}}
    match step.verb:
        case "create":
            server.ask("POST", SECRETS, body)
        case "put":
            server.ask("PUT", path, body)
        case "patch":
            server.ask("PATCH", path, {"metadata": {"labels": {"l": step.text or None}}}, media=MERGE)
        case "delete":
            server.ask("DELETE", path)
        case "nothing":
            server.ask("PATCH", path, {}, media=MERGE)
        case _:
            server.ask("DELETE", f"{SECRETS}/nobody")


def listed(server: Server, query: str = "") -> tuple[dict[str, Object], str]:
    """Objects by name, without their kinds, and the version of the list."""
    body = server.ask("GET", f"{SECRETS}{query}").body
    return {item["metadata"]["name"]: item for item in body["items"]}, body["metadata"]["resourceVersion"]


def followed(objects: dict[str, Object], told: list[Object]) -> dict[str, Object]:
    """The copy of a client after these events; fails if they contradict it."""
    kept = dict(objects)
    for event in told:
        obj: dict[str, Any] = {
            key: value for key, value in event["object"].items() if key not in ("kind", "apiVersion")
        }
        name = obj["metadata"]["name"]
        assert (name in kept) == (event["type"] != "ADDED"), event
        if event["type"] == "DELETED":
            del kept[name]
        else:
            kept[name] = obj
    return kept


@given(
    before=st.lists(STEPS, max_size=15),
    after=st.lists(STEPS, max_size=25),
    selector=st.sampled_from(["", "l=x", "l", "!l", "l!=x"]),
)
def test_a_list_and_the_watch_from_it_come_to_the_later_list(
    before: list[Step], after: list[Step], selector: str
) -> None:
    server = Server()
    for step in before:
        obey(server, step)
    objects, version = listed(server, f"?labelSelector={selector}")
    early = server.watch(f"{SECRETS}?labelSelector={selector}&resourceVersion={version}")
    for step in after:
        obey(server, step)
    later, _ = listed(server, f"?labelSelector={selector}")
    told = list(events(early))
    assert followed(objects, told) == later
    late = server.watch(f"{SECRETS}?labelSelector={selector}&resourceVersion={version}")
    assert list(events(late)) == told


@given(steps=st.lists(STEPS, max_size=30), at=st.integers(0, 29))
def test_every_watcher_sees_the_same_order(steps: list[Step], at: int) -> None:
    server = Server()
    watches = [server.watch("/api/v1/secrets"), server.watch(SECRETS)]
    for number, step in enumerate(steps):
        if number == at:
            version = server.ask("GET", SECRETS).body["metadata"]["resourceVersion"]
            watches.append(server.watch(f"{SECRETS}?resourceVersion={version}"))
        obey(server, step)
    first, second, *joined = (list(events(watch)) for watch in watches)
    assert first == second
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in first]
    assert versions == sorted(set(versions))
    for tail in joined:
        assert tail == first[len(first) - len(tail) :]


@given(steps=st.lists(STEPS, max_size=25))
def test_the_same_history_gives_the_same_answers(steps: list[Step]) -> None:
    servers = Server(), Server()
    for server in servers:
        for step in steps:
            obey(server, step)
    one, two = (server.ask("GET", SECRETS) for server in servers)
    assert one == two


@given(before=st.lists(STEPS, max_size=15), after=st.lists(STEPS, max_size=15), limit=st.integers(1, 3))
def test_pages_are_the_list_that_they_began_with(before: list[Step], after: list[Step], limit: int) -> None:
    server = Server()
    for step in before:
        obey(server, step)
    objects, version = listed(server)
    page = server.ask("GET", f"{SECRETS}?limit={limit}").body
    found = list(page["items"])
    pending = list(after)
    while token := page["metadata"].get("continue"):
        if pending:
            obey(server, pending.pop())
        page = server.ask("GET", f"{SECRETS}?limit={limit}&continue={token}").body
        assert page["metadata"]["resourceVersion"] == version
        found += page["items"]
    assert found == [objects[name] for name in sorted(objects)]
    for step in pending:
        obey(server, step)
    exact = server.ask("GET", f"{SECRETS}?resourceVersion={version}&resourceVersionMatch=Exact").body
    assert exact["items"] == found


@given(steps=st.lists(STEPS, max_size=40), window=st.integers(1, 5))
def test_a_watch_tells_everything_or_that_it_cannot(steps: list[Step], window: int) -> None:
    server = Server(window=window)
    _, version = listed(server)
    whole = server.watch(f"{SECRETS}?resourceVersion={version}")
    for step in steps:
        obey(server, step)
    expected = list(events(whole))
    told = list(events(server.watch(f"{SECRETS}?resourceVersion={version}")))
    if len(expected) <= window:
        assert told == expected
    else:
        assert [(event["type"], event["object"]["code"]) for event in told] == [("ERROR", 410)]


PODS = "/api/v1/namespaces/default/pods"


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["create", "bind", "run", "delete", "end"]),
            st.sampled_from(NAMES),
            st.sampled_from(["n1", "n2"]),
        ),
        max_size=30,
    )
)
def test_the_watch_of_a_node_is_the_part_of_the_whole_story_that_is_about_it(
    steps: list[tuple[str, str, str]],
) -> None:
    server = Server()
    nodes = {name: server.watch(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}") for name in ("n1", "n2")}
    for verb, name, node in steps:
        path = f"{PODS}/{name}"
        match verb:
            case "create":
                spec = {"containers": [{"name": "c", "image": "i"}]}
                server.ask("POST", PODS, {"metadata": {"name": name}, "spec": spec})
            case "bind":
                target = {"kind": "Node", "name": node}
                server.ask("POST", f"{path}/binding", {"metadata": {"name": name}, "target": target})
            case "run":
                server.ask("PATCH", f"{path}/status", {"status": {"phase": "Running", "reason": node}}, media=MERGE)
            case "delete":
                server.ask("DELETE", path)
            case _:
                server.ask("DELETE", f"{path}?gracePeriodSeconds=0")
    for node, watch in nodes.items():
        there = server.ask("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}").body["items"]
        whole = [pod for pod in server.ask("GET", PODS).body["items"] if pod["spec"].get("nodeName") == node]
        assert there == whole
        assert followed({}, list(events(watch))) == {pod["metadata"]["name"]: pod for pod in whole}
