"""Events over real sockets: the resulting objects, and that no call waits for them."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from hami_plugins.kube.events import EventLimits, EventRecorder, ObjectRef
from tests.integration.kube.scripted import Asked, Line
from tests.waiting import PATIENCE, wait_for

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POD = ObjectRef("Pod", "trainer", "uid-1", "ns")
NODE = ObjectRef("Node", "n1", "n1")
FAST = EventLimits(burst=100)


def accepting(asked: Asked, line: Line) -> None:
    line.answer(201 if asked.method == "POST" else 200, {"kind": "Event"})


def test_an_event_carries_everything_that_kubectl_shows(serve: Any, client_of: Any) -> None:
    server = serve(accepting)
    with EventRecorder(client_of(server), "volcano-vgpu", "n1") as recorder:
        recorder.emit(POD, "Refused", "no slice is left", now=NOON)
        wait_for(lambda: recorder.written == 1)
    (asked,) = server.asked
    body = asked.json
    name = body["metadata"].pop("name")
    assert name.startswith("trainer.")
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/ns/events")
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "trainer", "namespace": "ns", "uid": "uid-1"},
        "reason": "Refused",
        "message": "no slice is left",
        "type": "Warning",
        "count": 1,
        "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:00:00Z",
        "source": {"component": "volcano-vgpu", "host": "n1"},
        "reportingComponent": "volcano-vgpu",
        "reportingInstance": "n1",
    }


def test_the_same_event_again_is_counted_on_the_first_one(serve: Any, client_of: Any) -> None:
    server = serve(accepting)
    with EventRecorder(client_of(server), "c", "h", limits=FAST) as recorder:
        recorder.emit(NODE, "Lost", "a card is gone", now=NOON)
        wait_for(lambda: recorder.written == 1)
        recorder.emit(NODE, "Lost", "a card is gone", now=NOON + timedelta(minutes=5))
        wait_for(lambda: recorder.written == 2)
    first, second = server.asked
    assert first.path == "/api/v1/namespaces/default/events"
    assert second.method == "PATCH"
    assert second.path == f"{first.path}/{first.json['metadata']['name']}"
    assert second.json == {"count": 2, "lastTimestamp": "2026-01-01T12:05:00Z"}


def test_an_event_that_the_server_forgot_is_written_anew(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        if asked.method == "PATCH":
            line.answer(404, {})
        else:
            accepting(asked, line)

    server = serve(script)
    with EventRecorder(client_of(server), "c", "h", limits=FAST) as recorder:
        recorder.emit(POD, "Refused", "m", now=NOON)
        wait_for(lambda: recorder.written == 1)
        recorder.emit(POD, "Refused", "m", now=NOON + timedelta(hours=2))
        wait_for(lambda: recorder.written == 2)
    assert [asked.method for asked in server.asked] == ["POST", "PATCH", "POST"]
    assert server.asked[0].json["metadata"] != server.asked[2].json["metadata"]


def test_an_event_whose_first_try_came_through_unheard_is_not_doubled(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        match [each.method for each in server.asked]:
            case ["POST"]:
                line.answer(500, {})
            case ["POST", "POST"]:
                line.answer(409, {"reason": "AlreadyExists"})
            case _:
                line.answer(200, {})

    server = serve(script)
    minutes = itertools.count(step=60.0)
    recorder = EventRecorder(client_of(server), "c", "h", limits=FAST, clock=lambda: next(minutes))
    recorder.emit(POD, "Refused", "m", now=NOON)
    recorder.emit(POD, "Refused", "m", now=NOON + timedelta(minutes=1))
    with recorder:
        wait_for(lambda: recorder.written == 1)
    assert [asked.method for asked in server.asked] == ["POST", "POST", "PATCH"]
    assert server.asked[0].json["metadata"] == server.asked[1].json["metadata"]
    assert server.asked[2].json["count"] == 2


def test_a_recorder_never_keeps_anybody_waiting_and_counts_what_it_drops(serve: Any, client_of: Any) -> None:
    client = client_of(serve(lambda asked, line: line.hang())).within(0.2)
    limits = EventLimits(waiting=10)
    recorder = EventRecorder(client, "c", "h", limits=limits)
    recorder.start()
    began = time.monotonic()
    for number in range(1000):
        recorder.emit(POD, "Refused", f"message {number}", now=NOON)
    assert time.monotonic() - began < 10
    assert recorder.stop(timeout=PATIENCE)
    assert (recorder.written, recorder.dropped) == (0, 1000)


def test_a_refused_event_is_dropped_and_the_next_one_written(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        line.answer(403 if "/ns/" in asked.path else 201, {})

    server = serve(script)
    with EventRecorder(client_of(server), "c", "h") as recorder:
        recorder.emit(POD, "Refused", "m", now=NOON)
        recorder.emit(NODE, "Lost", "m", now=NOON)
        wait_for(lambda: recorder.written == 1)
    assert recorder.dropped == 1


def test_a_long_message_is_cut_to_what_the_server_takes(serve: Any, client_of: Any) -> None:
    server = serve(accepting)
    with EventRecorder(client_of(server), "c", "h") as recorder:
        recorder.emit(POD, "Refused", "ü" * 2000, now=NOON)
        wait_for(lambda: recorder.written == 1)
    message = server.asked[0].json["message"]
    assert len(message.encode()) <= 1024
    assert message == "ü" * 510 + "..."


def test_what_waits_is_written_before_the_end(serve: Any, client_of: Any) -> None:
    server = serve(accepting)
    recorder = EventRecorder(client_of(server), "c", "h", limits=FAST)
    for number in range(20):
        recorder.emit(POD, "Refused", f"message {number}", now=NOON)
    recorder.start()
    assert recorder.stop()
    assert [asked.json["message"] for asked in server.asked] == [f"message {number}" for number in range(20)]
