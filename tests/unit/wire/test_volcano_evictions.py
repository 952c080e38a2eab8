"""The calls of Volcano's extender plugin while it makes room, as 1.14.1 sends them, and the replies that it reads."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.units import PodUid
from hami_plugins.wire import volcano_extender

HIGH: dict[str, Any] = {
    "UID": "3544a691-0b3c-4a53-9d1a-0a3a2b0a7f10",
    "Job": "ns/podgroup-3544a691-0b3c-4a53-9d1a-0a3a2b0a7f10",
    "Name": "high",
    "Namespace": "ns",
    "TaskRole": "",
    "Resreq": {
        "MilliCPU": 0,
        "Memory": 0,
        "ScalarResources": {"pods": 1, "volcano.sh/vgpu-memory": 20000000, "volcano.sh/vgpu-number": 1000},
        "MaxTaskNum": 0,
    },
    "NodeName": "",
    "EvictionOccurred": False,
    "JobAllocatedHyperNode": "",
    "Status": 1,
    "LastTransaction": None,
    "Priority": 1000000,
    "VolumeReady": False,
    "Preemptable": True,
    "BestEffort": False,
    "HasRestartableInitContainer": False,
    "SchGated": False,
    "RevocableZone": "",
    "NumaInfo": {"Policy": "", "ResMap": {}},
    "Pod": {"metadata": {}, "spec": {}, "status": {}},
    "CustomBindErrHandlerSucceeded": False,
}


def low(name: str = "lo", **members: Any) -> dict[str, Any]:
    uid = f"23cc79a1-{name}"
    return {**HIGH, "UID": uid, "Job": f"ns/podgroup-{uid}", "Name": name, "NodeName": "n1", "Status": 32, **members}


def sent(**members: Any) -> bytes:
    return json.dumps(members).encode()


def test_a_call_names_who_needs_room_and_who_may_go() -> None:
    found = volcano_extender.evictions(sent(evictor=HIGH, evictees=[low("a"), low("b")]))
    assert (found.evictor.uid, found.evictor.status, found.evictor.node) == (HIGH["UID"], 1, "")
    assert [(each.uid, each.namespace, each.name, each.node, each.job) for each in found.evictees] == [
        ("23cc79a1-a", "ns", "a", "n1", "ns/podgroup-23cc79a1-a"),
        ("23cc79a1-b", "ns", "b", "n1", "ns/podgroup-23cc79a1-b"),
    ]


@pytest.mark.parametrize("evictees", [None, []])
def test_where_nobody_may_go_the_call_is_read_all_the_same(evictees: object) -> None:
    """As in the second phase of the action preempt, which looks within one job."""
    assert volcano_extender.evictions(sent(evictor=HIGH, evictees=evictees)).evictees == ()


def test_twenty_pods_of_a_node_are_read() -> None:
    pods = [low(f"lo-{at}", Pod={"metadata": {"annotations": {"a": "x" * 4000}}}) for at in range(20)]
    body = sent(evictor=HIGH, evictees=pods)
    assert len(body) > 80_000
    assert len(volcano_extender.evictions(body).evictees) == 20


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (b"", "not JSON"),
        (b"[]", "expected an object"),
        (b"{}", "evictor.UID: is missing"),
        (sent(evictees=[low()]), "evictor.UID: is missing"),
        (sent(evictor=7), "evictor: expected an object"),
        (sent(evictor=HIGH, evictees={}), "evictees: expected a list"),
        (sent(evictor=HIGH, evictees=[3]), r"evictees\[0\]: expected an object"),
        (sent(evictor=HIGH, evictees=[low(), low(UID="")]), r"evictees\[1\].UID: is missing"),
        (sent(evictor=HIGH, evictees=[low(Name="")]), r"evictees\[0\].Name: is missing"),
        (sent(evictor=HIGH, evictees=[low(Namespace="")]), r"evictees\[0\].Namespace: is missing"),
        (sent(evictor=HIGH, evictees=[low(NodeName="")]), r"evictees\[0\].NodeName: is missing"),
        (sent(evictor=HIGH, evictees=[low(), low("b", NodeName="n2")]), "evictees: expected one node"),
        (sent(evictor={**HIGH, "Status": "1"}), "evictor.Status: expected an integer"),
    ],
)
def test_what_is_no_such_call_is_refused(body: bytes, wrong: str) -> None:
    with pytest.raises(WireError, match=wrong):
        volcano_extender.evictions(body)


def test_victims_are_named_by_their_uid_and_the_answer_counts() -> None:
    uid = "23cc79a1-8101-4a9e-b385-66422fbeb260"
    assert json.loads(volcano_extender.evictions_reply([PodUid(uid)])) == {"status": 1, "victims": [{"UID": uid}]}


def test_nobody_is_an_answer_that_counts_and_no_abstention() -> None:
    """With the status 0 the other plugins would decide alone, by sums."""
    assert json.loads(volcano_extender.evictions_reply()) == {"status": 1, "victims": []}


UNDONE = {"NodeName": "n1", "EvictionOccurred": True, "JobAllocatedHyperNode": "", "Status": 4}


@pytest.mark.parametrize(
    ("members", "status", "evicts", "undone"),
    [
        ({"Status": 2, "NodeName": "n1"}, 2, False, 0),
        ({"Status": 4, "NodeName": "n1", "EvictionOccurred": True}, 4, True, 0),
        ({"Status": 32, "NodeName": "n1"}, 32, False, 0),
        ({"Status": 64, "NodeName": "n1"}, 64, False, 0),
        ({"Status": 1, "NodeName": "n1"}, 1, False, 0),
        ({"Status": 1, "NodeName": "n1", "LastTransaction": UNDONE}, 1, False, 4),
        ({"Status": None, "EvictionOccurred": None}, 0, False, 0),
    ],
)
def test_an_event_says_how_far_the_session_is_with_the_pod(
    members: dict[str, Any], status: int, evicts: bool, undone: int
) -> None:
    found = volcano_extender.event(sent(task={**copy.deepcopy(HIGH), **members}))
    assert (found.status, found.evicts, found.undone) == (status, evicts, undone)


def test_each_status_has_volcanos_number() -> None:
    assert {each.name: each.value for each in volcano_extender.TaskStatus} == {
        "PENDING": 1,
        "ALLOCATED": 2,
        "PIPELINED": 4,
        "BINDING": 8,
        "BOUND": 16,
        "RUNNING": 32,
        "RELEASING": 64,
    }


@pytest.mark.parametrize(
    ("members", "wrong"),
    [
        ({"Status": -1}, "Status"),
        ({"Status": "Pending"}, "Status"),
        ({"EvictionOccurred": "yes"}, "EvictionOccurred"),
        ({"LastTransaction": []}, "LastTransaction"),
        ({"LastTransaction": {"Status": 4.5}}, "LastTransaction.Status"),
    ],
)
def test_an_event_that_cannot_be_read_names_the_member(members: dict[str, Any], wrong: str) -> None:
    with pytest.raises(WireError, match=rf"task\.{wrong}: expected"):
        volcano_extender.event(sent(task={**HIGH, **members}))
