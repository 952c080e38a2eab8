"""The receivers of reports about calls and cards."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from hami_plugins.kube.events import ObjectRef
from hami_plugins.model.units import PodUid
from tests.unit.volcano_vgpu.cards import card, uuid
from volcano_vgpu.agent.metrics import AgentMetrics
from volcano_vgpu.agent.reporter import Reporter
from volcano_vgpu.agent.scheduler import WriteReason
from volcano_vgpu.core.health import AffectedContainer, HealthEventReason, Transition
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.shares import AllocatedContainer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = {"metadata": {"namespace": "default", "name": "one", "uid": "u1"}}


class Heard:
    """All receivers of reports."""

    def __init__(self) -> None:
        self.events: list[tuple[ObjectRef, str, str, str]] = []
        self.touches: list[WriteReason] = []
        self.booked: list[tuple[str, str]] = []
        self.metrics = AgentMetrics()

    def emit(self, regarding: ObjectRef, reason: str, message: str, **more: Any) -> None:
        assert more["now"] == NOW
        self.events.append((regarding, reason, message, more.get("type", "Warning")))

    def served(self, uid: PodUid, containers: Mapping[str, AllocatedContainer]) -> None:
        self.booked.append((uid, "served"))

    def refused(self, uid: PodUid, container: str, refusal: ContainerRefusal) -> None:
        self.booked.append((uid, refusal.code))


def reporter(heard: Heard, holders: tuple[AffectedContainer, ...] = ()) -> Reporter:
    events: Any = heard
    return Reporter(
        node="n1",
        events=events,
        metrics=heard.metrics,
        bookkeeping=heard,
        touch=heard.touches.append,
        pod={"u1": POD}.get,
        holders=lambda _card: holders,
        now=lambda: NOW,
    )


def test_volcano_is_told_what_was_served() -> None:
    heard = Heard()
    reporter(heard).served(PodUid("u1"), {"main": AllocatedContainer(())})
    assert heard.booked == [("u1", "served")]
    assert heard.events == []


def test_a_refusal_is_counted_booked_and_told_to_the_pod() -> None:
    heard = Heard()
    reporter(heard).refused(
        PodUid("u1"), "main", ContainerRefusal(RefusalCode.COUNT, "pod default/one, container main: too many")
    )
    assert heard.metrics.metrics.value("refusals_total", reason="count-does-not-match") == 1
    assert heard.booked == [("u1", RefusalCode.COUNT)]
    ((regarding, reason, message, kind),) = heard.events
    assert (regarding.kind, regarding.namespace, regarding.name, regarding.uid) == ("Pod", "default", "one", "u1")
    assert (reason, message, kind) == ("VgpuRefused", "pod default/one, container main: too many", "Warning")


def test_an_event_names_the_container_where_the_text_does_not() -> None:
    heard = Heard()
    reporter(heard).refused(PodUid("u1"), "side", ContainerRefusal(RefusalCode.DIRECTORY, "no space"))
    assert heard.events[0][2] == "container side: no space"


@pytest.mark.parametrize("code", [RefusalCode.UNRECORDED, RefusalCode.POD_GONE])
def test_what_passes_by_itself_makes_no_event(code: RefusalCode) -> None:
    heard = Heard()
    reporter(heard).refused(PodUid("u1"), "main", ContainerRefusal(code, "wait"))
    assert heard.events == []
    assert heard.metrics.metrics.value("refusals_total", reason=code.value) == 1


def test_a_pod_that_was_bound_without_cards_has_the_node_touched() -> None:
    heard = Heard()
    reporter(heard).refused(PodUid("u1"), "main", ContainerRefusal(RefusalCode.NO_ALLOCATION, "nothing allocated"))
    assert heard.touches == [WriteReason.UNALLOCATED]


def test_a_pod_that_stays_without_cards_has_the_node_touched_once() -> None:
    """The kubelet asks again for as long as the pod is there; the cache was right after the first time."""
    heard = Heard()
    told = reporter(heard)
    for _ in range(3):
        told.refused(PodUid("u1"), "main", ContainerRefusal(RefusalCode.NO_ALLOCATION, "nothing allocated"))
    assert heard.touches == [WriteReason.UNALLOCATED]
    told.refused(PodUid("u3"), "main", ContainerRefusal(RefusalCode.NO_ALLOCATION, "nothing allocated"))
    assert heard.touches == [WriteReason.UNALLOCATED, WriteReason.UNALLOCATED]


def test_a_pod_that_nobody_knows_any_more_makes_no_event() -> None:
    heard = Heard()
    reporter(heard).refused(PodUid("u2"), "main", ContainerRefusal(RefusalCode.COUNT, "too many"))
    assert heard.events == []


def test_a_card_that_fails_is_told_to_the_node_and_to_the_pods_on_it() -> None:
    heard = Heard()
    holder = AffectedContainer("default", "one", "u1", "main")
    sick = card(1, problems=("XID 79: gone",))
    reporter(heard, (holder,)).cards_changed((Transition(HealthEventReason.FAILED, sick),))
    assert [(event[0].kind, event[0].name, event[1]) for event in heard.events] == [
        ("Node", "n1", "GPUUnhealthy"),
        ("Pod", "one", "GPUUnhealthy"),
    ]
    assert all(uuid(1) in event[2] and "XID 79" in event[2] for event in heard.events)


def test_another_owner_of_the_cards_is_told_to_the_node() -> None:
    heard = Heard()
    reporter(heard).refused_to_start("another plugin answers")
    assert heard.events[0][0] == ObjectRef("Node", "n1", "n1")
    assert "another plugin answers" in heard.events[0][2]
