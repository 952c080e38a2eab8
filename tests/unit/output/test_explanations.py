"""Explanations in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.engine.holdings import Inconsistency, InconsistencyKind
from hami_plugins.explain import explain, flaws
from hami_plugins.model.units import DeviceId
from hami_plugins.output import documents, explanations
from hami_plugins.output.rows import TextLine
from hami_plugins.plan import Planner
from tests.builders import a_container, a_device, a_node, a_pod, a_record, a_share, a_snapshot, allocated
from tests.unit.plan.plans import REGISTRY, holding

CARD = DeviceId("card-7")


@pytest.mark.parametrize(
    ("flaw", "words"),
    [
        (Inconsistency(kind=InconsistencyKind.STRANGER, device=CARD), "holds card-7, which its node does not report"),
        (Inconsistency(kind=InconsistencyKind.UNHEALTHY, device=CARD), "card-7 is unhealthy"),
        (Inconsistency(kind=InconsistencyKind.CORDONED, device=CARD), "card-7 is cordoned"),
        (
            Inconsistency(
                kind=InconsistencyKind.MEMORY, device=CARD, promised=2000, capacity=1000, others=("a/b", "c/d")
            ),
            "card-7: 2,000 of 1,000 MiB are promised, to a/b, c/d as well",
        ),
        (
            Inconsistency(kind=InconsistencyKind.SLOTS, device=CARD, promised=2, capacity=1),
            "card-7: 2 of 1 slots are promised",
        ),
        (
            Inconsistency(kind=InconsistencyKind.CORES, device=CARD, promised=2, capacity=1),
            "card-7: 2 of 1 cores are promised",
        ),
        (
            Inconsistency(kind=InconsistencyKind.UNPLACED, device=CARD, why="no text"),
            "its partition of card-7 is not known: no text",
        ),
        (
            Inconsistency(kind=InconsistencyKind.OVERLAP, device=CARD, others=("a/b",)),
            "partition of card-7 is promised, to a/b as well",
        ),
    ],
    ids=lambda value: value.kind.value if isinstance(value, Inconsistency) else "",
)
def test_flaws_are_told_with_their_numbers(flaw: Inconsistency, words: str) -> None:
    assert words in flaws.flaw_words(flaw)


def told(name: str, *records: object, devices: int = 1) -> list[str]:
    node = holding(a_node("n", *(a_device(index=at) for at in range(devices))), *records)  # type: ignore[arg-type]
    found = explain(a_snapshot(node), name, Planner(REGISTRY))
    return [line.words for line in explanations.lines(found, REGISTRY)]


def test_a_running_pod_that_would_find_no_place_again_says_why() -> None:
    full = a_record(allocated(a_share(memory=16_384)), name="full")
    more = a_record(allocated(a_share(memory=16_384)), name="more")
    lines = told("default/more", full, more)
    assert lines[0] == "default/more: running on n"
    assert "  card-0: 32,768 of 16,384 MiB are promised, to default/full as well" in lines
    assert lines[-2] == "  rescheduled now, it would not fit"
    assert "1 of 1 node: memory: asked 16,384 MiB" in lines[-1]


def test_a_pod_without_devices_is_soon_explained() -> None:
    assert told("default/plain", a_record(allocated(), name="plain")) == [
        "default/plain: running on n",
        "  it holds no devices",
    ]


@pytest.mark.parametrize(("resize", "tone"), [("asked main=2 MiB", ""), ("asked main=2 MiB; refused: full", "warn")])
def test_a_running_pod_says_how_far_its_resize_is(resize: str, tone: str) -> None:
    record = replace(a_record(name="p"), resize=resize)
    found = explain(a_snapshot(holding(a_node("n"), record)), "default/p", Planner(REGISTRY))
    assert TextLine(f"  resize: {resize}", tone) in explanations.lines(found, REGISTRY)
    running = documents.explanation(found, REGISTRY)["running"]
    assert running is not None
    assert running["resize"] == resize


def test_a_pending_pod_that_asks_for_nothing_says_so() -> None:
    snapshot = replace(a_snapshot(), pending=(a_pod(a_container(), name="idle"),))
    found = explain(snapshot, "default/idle", Planner(REGISTRY))
    assert [line.words for line in explanations.lines(found, REGISTRY)][-1] == "  it asks for no devices"
