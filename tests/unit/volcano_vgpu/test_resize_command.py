"""``volcano-vgpu resize``: what is asked for, and how its answer is waited for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from hami_plugins.errors import ConfigError
from tests.unit.volcano_vgpu.allocated_pods import container, pod
from volcano_vgpu.commands.resize import ResizeOrder, resize

ASK, BOOKED = "hami-plugins.io/resize-memory", "hami-plugins.io/booked-memory"
IN_FORCE, REFUSED = "hami-plugins.io/memory-in-force", "hami-plugins.io/resize-refused"
NOW = datetime(2026, 11, 26, 21, 0, tzinfo=UTC)
WRITTEN = "main=4000 2026-11-26T21:00:00Z"


class Cluster:
    """One pod; ``answer`` is what allocator and agent write once it was looked at so many times."""

    def __init__(self, raw: dict[str, Any], answer: dict[str, str] | None = None, looks: int = 2) -> None:
        self.raw = raw
        self.patches: list[Any] = []
        self.paths: set[str] = set()
        self.seconds = 0.0
        self._answer = answer or {}
        self._looks = looks

    def get(self, path: str) -> Any:
        """The pod."""
        self.paths.add(path)
        self._looks -= 1
        if self._looks < 0:
            self.raw["metadata"]["annotations"].update(self._answer)
        return copy.deepcopy(self.raw)

    def merge_patch(self, path: str, body: Any) -> Any:
        """The pod with what was asked."""
        self.paths.add(path)
        self.patches.append(body)
        self.raw["metadata"]["annotations"].update(body["metadata"]["annotations"])
        return copy.deepcopy(self.raw)

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.seconds += seconds


def running(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return pod(*containers, phase="Running", **more)


def ask(cluster: Cluster, name: str = "pod/team/p", memory: int = 4000, **more: Any) -> int:
    order = ResizeOrder(**{"pod": name, "memory": memory, "container": None, "wait": 5.0, "dry_run": False, **more})
    return resize(cluster, order, now=lambda: NOW, clock=lambda: cluster.seconds, sleep=cluster.sleep)


def test_it_is_asked_on_the_version_that_was_read_and_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(running(), {BOOKED: "main=4000", IN_FORCE: "main=4000"})
    assert ask(cluster) == 0
    assert cluster.patches == [
        {"metadata": {"uid": "uid-p", "resourceVersion": "1", "annotations": {ASK: WRITTEN}}},
    ]
    assert cluster.paths == {"/api/v1/namespaces/team/pods/p"}
    assert capsys.readouterr().out == "4000 MiB are booked and in force in container main\n"


def test_the_first_size_again_is_in_force_as_soon_as_nothing_else_is_booked() -> None:
    assert ask(Cluster(running()), memory=2000) == 0


def test_a_refusal_is_printed_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(running(), {REFUSED: f"{WRITTEN}: card GPU-a has no room"})
    assert ask(cluster) == 1
    assert capsys.readouterr().out == "refused: card GPU-a has no room\n"


def test_what_is_not_in_force_in_time_is_said_with_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(Cluster(running(), {BOOKED: "main=4000"})) == 1
    out = capsys.readouterr().out
    assert "not in force after 5 s: asked main=4000 MiB; booked main=4000 MiB" in out
    assert "does the allocator run, and the agent of its node?" in out


def test_a_later_ask_of_another_user_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(Cluster(running(), {ASK: "main=1"})) == 1
    assert "another ask took the place of this one: main=1" in capsys.readouterr().out


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(running())
    assert ask(cluster, dry_run=True) == 0
    assert not cluster.patches
    assert capsys.readouterr().out == f"would set {ASK}: {WRITTEN}\n"


TWO = (container("a", count=1), container("b", count=1))
IDS_OF_TWO = "GPU-a,NVIDIA,2000,30:;GPU-b,NVIDIA,2000,30:"


def test_the_container_is_named_where_several_have_a_card() -> None:
    cluster = Cluster(running(*TWO, ids=IDS_OF_TWO))
    assert ask(cluster, container="b", wait=0.0) == 1
    assert cluster.patches[0]["metadata"]["annotations"][ASK].startswith("b=4000 ")


@pytest.mark.parametrize(
    ("raw", "more", "words"),
    [
        (lambda: running(*TWO, ids=IDS_OF_TWO), {}, "containers a, b have cards; name one with --container"),
        (running, {"container": "x"}, "--container x: it has no card; main have"),
        (lambda: running(ids=None), {}, "it has no cards of Volcano's vGPU or of NVIDIA"),
        (
            lambda: running(container("main", count=2), ids="GPU-a,NVIDIA,2000,30:GPU-b,NVIDIA,2000,30:"),
            {},
            "container main has 2 cards; only one with a single card can be resized",
        ),
        (lambda: pod(phase="Succeeded"), {}, "the pod does not run"),
        (lambda: running(node=""), {}, "the pod does not run"),
        (running, {"memory": 0}, "--memory 0: expected MiB from 1 to"),
        (running, {"name": "p"}, "p: expected pod/NAMESPACE/NAME"),
    ],
)
def test_what_cannot_be_asked_for_is_an_error_with_a_remedy(
    raw: Callable[[], dict[str, Any]], more: dict[str, Any], words: str
) -> None:
    cluster = Cluster(raw())
    with pytest.raises(ConfigError) as refused:
        ask(cluster, **more)
    assert words in str(refused.value)
    assert not cluster.patches
