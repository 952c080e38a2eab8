"""The calls of Volcano's extender plugin, taken apart, and the replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire import volcano_extender
from hami_plugins.wire.volcano_extender import Task

POD = {"metadata": {"name": "p", "namespace": "x", "uid": "u1"}, "spec": {"containers": []}, "status": {}}
TASK: dict[str, Any] = {
    "UID": "u1",
    "Job": "x/podgroup-u1",
    "Name": "p",
    "Namespace": "x",
    "Resreq": {"MilliCPU": 0, "Memory": 0, "ScalarResources": {"volcano.sh/vgpu-number": 1000, "pods": 1}},
    "NodeName": "",
    "Status": 1,
    "Pod": POD,
}
NODE = {"Name": "n1", "Node": {"metadata": {"name": "n1"}}, "Tasks": {"x/q": {"Name": "q", "Pod": POD}}}


def body(**members: Any) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode()


def test_a_predicate_call_names_the_task_and_the_node() -> None:
    found = volcano_extender.predicate(body(task=TASK, node=NODE))
    assert found.node == "n1"
    assert volcano_extender.task(found.task) == Task(
        uid=PodUid("u1"), namespace="x", name="p", node=NodeName(""), pod=POD, job="x/podgroup-u1", status=1
    )


def test_equal_tasks_have_equal_texts_on_every_node() -> None:
    texts = {volcano_extender.predicate(body(task=TASK, node={"Name": name})).task for name in ("n1", "n2")}
    assert len(texts) == 1


def test_what_follows_the_nodes_name_is_not_even_looked_at() -> None:
    whole = body(task=TASK, node=NODE)
    cut = whole[: whole.index(b'"n1"') + 4]
    assert volcano_extender.predicate(cut) == volcano_extender.predicate(whole)


@pytest.mark.parametrize(
    "written",
    [
        body(node=NODE, task=TASK),
        json.dumps({"task": TASK, "node": NODE}, indent=1).encode(),
        body(task=TASK, node={"Node": {}, "Name": "n1"}),
        body(task=TASK, node=NODE).replace(b'"Name":"n1"', b'"Name":"\\u006e1"'),
    ],
)
def test_a_call_that_is_written_otherwise_means_the_same(written: bytes) -> None:
    found = volcano_extender.predicate(written)
    assert (found.node, volcano_extender.task(found.task).uid) == ("n1", "u1")


@given(st.text())
def test_no_text_in_a_pod_is_taken_for_the_node(text: str) -> None:
    task = {**TASK, "Pod": {"metadata": {"annotations": {"a": text + ',"node":{"Name":"evil"', "node": text}}}}
    found = volcano_extender.predicate(body(task=task, node=NODE))
    assert (found.node, volcano_extender.task(found.task).pod) == ("n1", task["Pod"])


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "expected an object"),
        (b"{}", "node.Name: is missing"),
        (body(task=TASK), "node.Name: is missing"),
        (body(task=TASK, node={"Name": 3}), "node.Name: expected text"),
        (body(task=TASK, node="n1"), "node: expected an object"),
        (b'{"task":{},"node":{"Name":"\xff"}}', "not UTF-8"),
    ],
)
def test_what_is_no_predicate_call_is_refused(sent: bytes, wrong: str) -> None:
    with pytest.raises(WireError, match=wrong):
        volcano_extender.predicate(sent)


@pytest.mark.parametrize("missing", ["UID", "Namespace", "Name"])
def test_a_task_without_a_name_is_refused(missing: str) -> None:
    task = {name: value for name, value in TASK.items() if name != missing}
    with pytest.raises(WireError, match=rf"task\.{missing}: is missing"):
        volcano_extender.event(body(task=task))


def nodes(*names: str) -> list[dict[str, Any]]:
    return [{**NODE, "Name": name, "Node": {"metadata": {"name": name}}} for name in names]


def test_a_prioritize_call_names_the_nodes_in_their_order() -> None:
    found = volcano_extender.prioritize(body(task=TASK, nodes=nodes("n2", "n1")))
    assert (volcano_extender.task(found.task).uid, found.nodes) == ("u1", ("n2", "n1"))


def test_a_prioritize_call_has_the_text_of_the_predicate_calls_before_it() -> None:
    asked = volcano_extender.predicate(body(task=TASK, node=NODE))
    assert volcano_extender.prioritize(body(task=TASK, nodes=nodes("n1"))).task == asked.task


@pytest.mark.parametrize(
    "written",
    [
        body(nodes=nodes("n1", "n2"), task=TASK),
        json.dumps({"task": TASK, "nodes": nodes("n1", "n2")}, indent=1).encode(),
        body(task=TASK, nodes=[{"Name": "n1"}, {"Name": "n2"}]),
        body(task=TASK, nodes=nodes("n1", "n2")).replace(b'"Name":"n1"', b'"Name":"\\u006e1"'),
        body(task=TASK, nodes=nodes("n1", "n2")).replace(
            b'{"metadata"', b'{"kind":"Node","apiVersion":"v1","metadata"'
        ),
    ],
)
def test_a_prioritize_call_that_is_written_otherwise_means_the_same(written: bytes) -> None:
    found = volcano_extender.prioritize(written)
    assert (volcano_extender.task(found.task).uid, found.nodes) == ("u1", ("n1", "n2"))


@given(st.text())
def test_no_text_in_a_call_is_taken_for_a_node_to_rank(text: str) -> None:
    evil = text + '{"Name":"evil","Node":{"metadata":{"name":"evil"'
    asked = [{**each, "Tasks": {evil: evil}} for each in nodes("n1", "n2")]
    found = volcano_extender.prioritize(body(task={**TASK, "Job": evil}, nodes=asked))
    assert found.nodes == ("n1", "n2")


def test_a_prioritize_call_with_a_nameless_node_says_which() -> None:
    with pytest.raises(WireError, match=r"nodes\[1\]\.Name"):
        volcano_extender.prioritize(body(task=TASK, nodes=[{"Name": "n1"}, {}]))


def test_an_event_names_the_node_that_the_session_chose() -> None:
    assert volcano_extender.event(body(task={**TASK, "NodeName": "n5"})).node == "n5"


def test_replies_have_the_members_that_volcano_reads() -> None:
    assert orjson.loads(volcano_extender.predicate_reply()) == {"status": "", "code": 0}
    assert orjson.loads(volcano_extender.predicate_reply("no room")) == {"status": "no room", "code": 2}
    assert orjson.loads(volcano_extender.predicate_reply("what?", code=volcano_extender.ERROR))["code"] == 1
    scores = {NodeName("n1"): 12.5}
    assert orjson.loads(volcano_extender.prioritize_reply(scores)) == {"nodeScore": {"n1": 12.5}, "errorMessage": ""}
    assert orjson.loads(volcano_extender.event_reply("no")) == {"errorMessage": "no"}


LONG = {"Task": {"x/q": {"Name": "q", "Pod": {"note": "y" * 3_000}}}}
"""What a node carries of its pods."""

ODD = [
    body(node=NODE, task=TASK),
    body(task=TASK, node={"Node": {}, "Name": "n1"}),
    body(task=TASK, node={"Name": ""}),
    body(task=TASK, node={"Name": "a\\b"}),
    body(task=TASK, node={**NODE, **LONG}),
    body(task=TASK, nodes=[{**each, **LONG} for each in nodes(*map(str, range(20)))]),
    body(task=TASK, nodes=nodes("n1", "x" * 300, "n2")),
    body(task=TASK, nodes=nodes("n" * 253, "n1")),
    body(task=TASK, nodes=[{"Name": "n1"}, {"Name": "n2"}, *nodes("n3")]),
    body(task=TASK, nodes=[{"Name": "n1", **LONG}]),
    body(task=TASK, nodes=[]),
    body(nodes=nodes("n1"), task=TASK),
    body(task=TASK),
    b"",
]


def in_parts(written: bytes, cuts: list[int]) -> list[bytes]:
    borders = [0, *sorted(min(cut, len(written)) for cut in cuts), len(written)]
    return [written[begin:end] for begin, end in pairwise(borders)]


def said(read: Callable[[bytes], object], written: bytes) -> object:
    try:
        return read(written)
    except WireError as error:
        return str(error)


@given(st.sampled_from(ODD), st.lists(st.integers(0, 8_000), max_size=12))
@example(body(task=TASK, nodes=[{"Name": "n1", **LONG}]), [1_000, 2_000, 3_000])
def test_what_is_kept_of_a_call_means_the_same_wherever_it_was_cut(written: bytes, cuts: list[int]) -> None:
    readers = (
        (volcano_extender.OneNode, volcano_extender.predicate),
        (volcano_extender.ManyNodes, volcano_extender.prioritize),
    )
    for collecting, read in readers:
        collector = collecting()
        for part in in_parts(written, cuts):
            collector.add(part)
        assert len(collector.text()) <= collector.size
        assert said(read, collector.text()) == said(read, written)


def test_of_a_large_call_only_the_task_and_the_names_are_kept() -> None:
    pods = {"Tasks": {"x": "y" * 1_000_000}}
    one, many = volcano_extender.OneNode(), volcano_extender.ManyNodes()
    calls = (
        (one, body(task=TASK, node={**NODE, **pods})),
        (many, body(task=TASK, nodes=[{**each, **pods} for each in nodes("n1", "n2", "n3")])),
    )
    for collector, written in calls:
        for at in range(0, len(written), 10_000):
            collector.add(written[at : at + 10_000])
            assert collector.size < 15_000
    assert volcano_extender.predicate(one.text()).node == "n1"
    assert volcano_extender.prioritize(many.text()).nodes == ("n1", "n2", "n3")
