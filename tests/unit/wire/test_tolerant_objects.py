"""Queues and PodGroups with something wrong in them: the rest counts, and the mistake is reported with its place."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import objects

GPU = "a.com/gpu"


def a_queue(spec: Any = None, status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "q", **metadata}, "spec": spec or {}, "status": status or {}}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param({"capability": {GPU: "many"}}, r"spec\.capability\[a\.com/gpu\]: not a quantity", id="word"),
        pytest.param({"capability": {GPU: "-3"}}, r"capability\[a\.com/gpu\]: an amount below 0", id="negative"),
        pytest.param({"capability": {GPU: None}}, r"capability\[a\.com/gpu\]: not a quantity", id="null"),
        pytest.param({"capability": [GPU]}, r"capability: expected an object", id="list"),
        pytest.param({"deserved": {GPU: "1e999"}}, r"deserved\[a\.com/gpu\]: an exponent beyond", id="huge"),
        pytest.param({"guarantee": "all"}, r"guarantee: expected an object", id="text"),
        pytest.param({"guarantee": {"resource": {GPU: "x"}}}, r"guarantee\.resource\[a\.com/gpu\]", id="inner"),
        pytest.param({"weight": -1}, r"weight: expected a number of at least 0 and at most 65535", id="no weight"),
        pytest.param({"weight": 10**9}, r"weight: expected a number of at least 0 and at most", id="too heavy"),
        pytest.param({"weight": "2"}, r"weight: expected an integer", id="weight as text"),
        pytest.param({"parent": 7}, r"parent: expected text", id="parent"),
        pytest.param({"priority": "high"}, r"priority: expected an integer", id="priority"),
    ],
)
def test_what_cannot_be_read_of_a_queue_counts_as_not_set(spec: dict[str, Any], complaint: str) -> None:
    readable = {"capability": {"cpu": "2"}} if "capability" not in spec else {"deserved": {"cpu": "2"}}
    found, (error,) = objects.readable_queue(a_queue({**readable, **spec}))
    assert {**found.capability, **found.deserved} == {"cpu": 2 * NANO}
    assert (found.weight, found.guarantee, found.parent, found.priority, found.open) == (1, {}, "", 0, True)
    with pytest.raises(WireError, match=complaint):
        raise error
    with pytest.raises(WireError, match=complaint):
        objects.queue(a_queue(spec))


def test_a_queue_of_nonsense_is_still_a_queue() -> None:
    found, wrong = objects.readable_queue({"metadata": {"name": "q"}, "spec": [], "status": 3})
    assert (found.name, found.open, len(wrong)) == ("q", True, 2)


def test_a_queue_without_a_name_is_none() -> None:
    with pytest.raises(WireError, match="a name"):
        objects.readable_queue({"metadata": {}})


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param({"minResources": {GPU: "-1"}}, "an amount below 0", id="negative"),
        pytest.param({"minMember": -4}, "at least 0", id="members"),
        pytest.param({"minTaskMember": {"a": "two"}}, "an integer under a text", id="task"),
        pytest.param({"queue": 3}, "expected text", id="queue"),
    ],
)
def test_what_cannot_be_read_of_a_group_counts_as_not_set(spec: dict[str, Any], complaint: str) -> None:
    found, (error,) = objects.readable_pod_group(a_queue(spec, {"phase": "Inqueue"}, namespace="ns"))
    assert (found.full_name, found.queue, found.min_member) == ("ns/q", "default", 0)
    assert (found.min_resources, found.min_by_task, found.phase) == (None, {}, "Inqueue")
    with pytest.raises(WireError, match=complaint):
        raise error
    with pytest.raises(WireError, match=complaint):
        objects.pod_group(a_queue(spec, namespace="ns"))


class TestTimes:
    @pytest.mark.parametrize(
        ("stamp", "seconds"),
        [
            ("1970-01-01T00:01:00Z", 60),
            ("1970-01-01T00:01:00.999999Z", 60),
            ("1970-01-01T00:01:00", None),
            ("tomorrow Z", None),
            ("0000-01-01T00:00:00Z", None),
            (None, None),
            (17, None),
        ],
    )
    def test_seconds(self, stamp: object, seconds: int | None) -> None:
        assert objects.seconds(stamp) == seconds

    def test_a_group_knows_when_it_was_made(self) -> None:
        assert objects.pod_group(a_queue(creationTimestamp="1970-01-01T00:00:09Z")).made_at == 9

    def test_the_latest_time_of_an_object(self) -> None:
        made, beaten, changed = "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-02T00:00:00Z"
        raw = {
            "metadata": {"creationTimestamp": made},
            "status": {"conditions": [{"lastHeartbeatTime": beaten, "lastTransitionTime": changed}, "odd"]},
        }
        assert objects.latest_time(raw) == beaten
        assert objects.latest_time({"metadata": {"creationTimestamp": made}, "status": {"conditions": 5}}) == made

    @pytest.mark.parametrize("raw", [{}, {"metadata": 3, "status": []}, {"metadata": {"creationTimestamp": "soon"}}])
    def test_nothing_to_tell(self, raw: dict[str, object]) -> None:
        assert objects.latest_time(raw) == ""
