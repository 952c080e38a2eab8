"""Tables as kubectl prints them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hami_plugins.sandbox.apiserver.kinds import BUILTIN, VOLCANO, ResourceKind
from hami_plugins.sandbox.apiserver.tables import duration, table, wanted

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
ACCEPTED = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
MINUTE, HOUR, DAY = 60, 3600, 86400


def kind_of(plural: str, group: str = "") -> ResourceKind:
    return next(each for each in (*BUILTIN, *VOLCANO) if (each.group, each.plural) == (group, plural))


def shown(obj: dict[str, Any], kind: ResourceKind, *, wide: bool = False) -> dict[str, Any]:
    """The only row of a table, by column."""
    made = table(kind, [obj], {}, include="", now=NOW)
    (row,) = made["rows"]
    columns = made["columnDefinitions"]
    return {
        column["name"]: cell
        for column, cell in zip(columns, row["cells"], strict=True)
        if wide or not column["priority"]
    }


def a_pod(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    made = {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    return {"metadata": made, "spec": {"containers": [{"name": "one"}, {"name": "two"}]}, "status": status or {}}


def state(name: str, reason: str, **more: Any) -> dict[str, Any]:
    return {"name": "one", "restartCount": 0, "state": {name: {"reason": reason, **more}}}


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        (ACCEPTED, True),
        ("application/json", False),
        ("application/json,application/json;as=Table;v=v1;g=meta.k8s.io", False),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", False),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", False),
        ("", False),
    ],
)
def test_a_table_is_what_a_client_names_first(accept: str, *, answer: bool) -> None:
    assert wanted(accept) is answer


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (10 * MINUTE, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (2 * DAY, "2d"),
        (2 * DAY + 4 * HOUR, "2d4h"),
        (9 * DAY + 4 * HOUR, "9d"),
        (800 * DAY, "2y"),
    ],
)
def test_times_are_as_short_as_kubectls(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
        ({"phase": "Running", "containerStatuses": [state("waiting", "CrashLoopBackOff")]}, "CrashLoopBackOff"),
        ({"phase": "Succeeded", "containerStatuses": [state("terminated", "Completed", exitCode=0)]}, "Completed"),
        ({"phase": "Pending", "initContainerStatuses": [state("waiting", "PodInitializing")]}, "Pending"),
        ({"phase": "Pending", "initContainerStatuses": [state("terminated", "Error", exitCode=1)]}, "Init:Error"),
        ({"phase": "Pending", "initContainerStatuses": [state("terminated", "Completed", exitCode=0)]}, "Pending"),
        ({"phase": "Pending", "conditions": [{"reason": "SchedulingGated"}]}, "SchedulingGated"),
        ({}, "Unknown"),
    ],
)
def test_the_status_of_a_pod_says_why_it_does_not_run(status: dict[str, Any], word: str) -> None:
    assert shown(a_pod(status), kind_of("pods"))["Status"] == word


def test_a_pod_has_the_columns_of_kubectl_get_pods() -> None:
    ready = [{"ready": True, "restartCount": 2, "state": {}}, {"ready": False, "restartCount": 1, "state": {}}]
    found = a_pod({"phase": "Running", "containerStatuses": ready, "podIP": "10.0.0.1"})
    found["spec"]["nodeName"] = "n1"
    assert shown(found, kind_of("pods")) == {
        "Name": "a",
        "Ready": "1/2",
        "Status": "Running",
        "Restarts": "3",
        "Age": "10m",
    }
    wide = shown(found, kind_of("pods"), wide=True)
    assert (wide["IP"], wide["Node"], wide["Nominated Node"]) == ("10.0.0.1", "n1", "<none>")
    leaving = a_pod({"phase": "Running"}, deletionTimestamp="2026-01-01T00:09:00Z")
    assert shown(leaving, kind_of("pods"))["Status"] == "Terminating"


def test_a_node_says_whether_it_is_ready_and_cordoned() -> None:
    node = {
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.34.4"}},
    }
    row = shown(node, kind_of("nodes"))
    assert (row["Status"], row["Roles"], row["Version"]) == ("Ready,SchedulingDisabled", "worker", "v1.34.4")
    assert row["Age"] == "<unknown>"
    bare = shown(
        {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}, kind_of("nodes")
    )
    assert (bare["Status"], bare["Roles"]) == ("NotReady", "<none>")
    assert shown({"metadata": {"name": "n"}}, kind_of("nodes"))["Status"] == "Unknown"


@pytest.mark.parametrize(
    "event",
    [
        {"involvedObject": {"kind": "Pod", "name": "a"}, "message": "why\n", "lastTimestamp": "2026-01-01T00:09:00Z"},
        {"regarding": {"kind": "Pod", "name": "a"}, "note": "why", "eventTime": "2026-01-01T00:09:00.000000Z"},
    ],
)
def test_an_event_says_what_happened_to_which_object(event: dict[str, Any]) -> None:
    row = shown({"metadata": {"name": "e"}, "type": "Warning", "reason": "Odd", **event}, kind_of("events"))
    assert row == {"Last Seen": "60s", "Type": "Warning", "Reason": "Odd", "Object": "pod/a", "Message": "why"}


def test_a_volcano_job_has_its_state() -> None:
    job = {"metadata": {"name": "j"}, "spec": {}, "status": {"state": {"phase": "Running"}, "running": 2}}
    row = shown(job, kind_of("jobs", "batch.volcano.sh"))
    assert (row["Status"], row["RUNNINGS"], row["minAvailable"]) == ("Running", 2, "")


def test_any_other_kind_has_name_and_age() -> None:
    found = {"metadata": {"name": "c", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert shown(found, kind_of("configmaps")) == {"Name": "c", "Age": "10m"}
    assert shown({"metadata": {"name": "e"}, "type": "Normal"}, kind_of("events"))["Last Seen"] == "<unknown>"


def test_a_row_carries_as_much_of_the_object_as_was_asked_for() -> None:
    found = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}

    def carried(include: str) -> Any:
        return table(kind_of("configmaps"), [found], {}, include=include, now=NOW)["rows"][0].get("object")

    assert carried("Object") == found
    assert carried("None") is None
    assert carried("Metadata") == carried("")
    assert carried("") == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "c"},
    }
