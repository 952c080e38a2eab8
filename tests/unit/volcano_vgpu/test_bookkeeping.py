"""What is written to Volcano after serving, as a function of the pod and of what was served."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.volcano_vgpu.allocated_pods import IDS, LEFT, container, pod
from volcano_vgpu.agent.bookkeeper import bound_at, settled
from volcano_vgpu.core.dialects import DONE

A, B = "GPU-a,NVIDIA,2000,0:", "GPU-b,NVIDIA,3000,0:"
PHASE, TIME = "volcano.sh/bind-phase", "volcano.sh/vgpu-time"
TWO = (container("one", count=1), container("plain"), container("two", count=1))
SUCCESS = {PHASE: "success", TIME: DONE}
FAILED = {PHASE: "failed", TIME: DONE}


def after(raw: dict[str, Any], *served: str, failed: bool = False) -> dict[str, str]:
    return dict(settled(raw, served, failed=failed))


def test_the_segment_of_a_served_container_is_erased_and_the_separator_stays() -> None:
    raw = pod(*TWO, ids=f"{A};{B}")
    assert after(raw, "one") == {LEFT: f";{B}"}
    assert after(raw, "two") == {LEFT: f"{A};"}


def test_when_all_are_served_the_pod_is_done() -> None:
    assert after(pod(*TWO, ids=f"{A};{B}"), "one", "two") == {LEFT: ";", **SUCCESS}
    assert after(pod(ids=A), "main") == {LEFT: "", **SUCCESS}


def test_what_is_written_is_not_written_again() -> None:
    assert after(pod(ids=A, devices_to_allocate="", bind_phase="success", vgpu_time=DONE), "main") == {}


def test_every_step_that_got_lost_is_made_up_for() -> None:
    assert after(pod(ids=A, devices_to_allocate=""), "main") == SUCCESS
    assert after(pod(ids=A, devices_to_allocate="", bind_phase="success"), "main") == {TIME: DONE}


def test_a_pod_of_which_nothing_was_served_is_left_alone() -> None:
    assert after(pod(ids=A)) == {}
    assert after(pod(ids=None), "main") == {}
    assert after(pod(ids=None), failed=True) == {}


def test_a_pod_that_can_never_start_is_marked_once() -> None:
    assert after(pod(ids=A), failed=True) == FAILED
    assert after(pod(ids=A, bind_phase="failed", vgpu_time=DONE), failed=True) == {}


def test_a_pod_of_which_a_part_can_never_start_has_failed_although_the_rest_was_served() -> None:
    raw = pod(*TWO, ids=f"{A};{B}")
    assert after(raw, "one", failed=True) == {LEFT: f";{B}", **FAILED}
    assert after(pod(ids=A, bind_phase="failed", vgpu_time=DONE), "main") == {LEFT: ""}


def test_a_pod_that_was_served_once_does_not_fail_later() -> None:
    raw = pod(ids=A, devices_to_allocate="", bind_phase="success", vgpu_time=DONE)
    assert after(raw, "main", failed=True) == {}


def test_the_segment_of_a_container_that_the_kubelet_never_asks_for_goes_with_the_others() -> None:
    raw = pod(container("memory", memory=5), container("main", count=1), ids=f"{A};{B}")
    assert after(raw, "main")[LEFT] == ";"


def test_an_init_container_that_was_served_erases_nothing_by_itself() -> None:
    assert after(pod(ids=A, init=[container("init", count=1)]), "init") == {}


@pytest.mark.parametrize("served", [("one",), ("one", "two")])
def test_the_record_of_who_holds_what_is_never_written(served: tuple[str, ...]) -> None:
    assert IDS not in after(pod(*TWO, ids=f"{A};{B}"), *served)


def test_a_pod_that_cannot_be_read_is_left_alone() -> None:
    assert after({"metadata": 1}, "main") == {}


NOW = datetime(2026, 11, 23, 10, 0, tzinfo=UTC)


def bound(text: str) -> datetime | None:
    return bound_at({"volcano.sh/bind-time": text}, NOW)


@pytest.mark.parametrize("seconds", [-1_000_000, 0, 10])
def test_a_pod_was_bound_when_its_annotation_says_so(seconds: int) -> None:
    at = int(NOW.timestamp()) + seconds
    assert bound(str(at)) == datetime.fromtimestamp(at, UTC)


AHEAD = str(int(NOW.timestamp()) + 11)


@pytest.mark.parametrize("text", ["", "x", "-5", "1.5", "\u0661", AHEAD, "99999999999", "9" * 30])
def test_a_time_in_the_future_and_a_text_that_is_no_time_say_nothing(text: str) -> None:
    assert bound(text) is None


def test_without_the_annotation_the_time_is_not_known() -> None:
    assert bound_at({}, NOW) is None
