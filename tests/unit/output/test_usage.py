"""Containers' usage compared with their allocations: as a table, in explanations and on the page."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.model.units import DeviceId, NodeName, PodUid
from hami_plugins.output import page
from hami_plugins.output.usage import LEAST_UNUSED, Usages, table
from hami_plugins.wire.usage import CardUsage, ContainerUsage, MemoryUse, NodeUsage, ReadStatus, UsageDoubt
from tests.builders import a_device, a_node, a_record, a_share, allocated
from tests.unit.plan.plans import REGISTRY, a_plan, holding

GIB = 1 << 30


def a_container(name: str = "main", *cards: CardUsage, **facts: Any) -> ContainerUsage:
    plain: dict[str, Any] = {"pod_uid": PodUid("u"), "namespace": "ml", "pod": "p", "container": name, "cards": cards}
    return ContainerUsage(**{**plain, **facts})


def a_card(allocated: int | None, used: int | None, **facts: Any) -> CardUsage:
    booked = None if used is None else MemoryUse(0, 0, used, 0)
    return CardUsage(card=DeviceId("GPU-a"), allocated=allocated, used=booked, **facts)


def rows(*containers: ContainerUsage) -> list[tuple[str, ...]]:
    return [row.cells for row in table(containers).rows]


def test_whoever_leaves_most_unused_comes_first() -> None:
    found = rows(
        a_container("fine", a_card(2 * GIB, 2 * GIB)),
        a_container("idle", a_card(80 * GIB, None), reading=ReadStatus.NO_FILE),
        a_container("some", a_card(4 * GIB, GIB)),
        a_container("most", a_card(20 * GIB, 2 * GIB)),
    )
    assert [row[1] for row in found] == ["most", "some", "fine", "idle"]


def test_a_row_says_what_was_allocated_and_what_is_used_of_it() -> None:
    card = a_card(20 * GIB, 2 * GIB, utilization=0.25)
    (row,) = rows(a_container("main", card, processes=3, last_kernel_age=200.0))
    assert row == ("ml/p", "main", "GPU-a", "20 GiB", "2 GiB", "25%", "3 min ago", "3", "")


def test_what_is_not_known_is_a_dash() -> None:
    (row,) = rows(a_container("main", reading=ReadStatus.NOT_READY, problem="being made"))
    assert row == ("ml/p", "main", "-", "-", "-", "-", "-", "-", "not ready; being made")
    (row,) = rows(a_container("main", a_card(None, None)))
    assert row[3:6] == ("-", "-", "-")


def test_a_limit_that_is_not_what_is_allocated_is_remarked() -> None:
    """As while a slice is resized."""
    (row,) = rows(a_container("main", a_card(20 * GIB, GIB, limit=10 * GIB)))
    assert row[-1] == "limit in force 10 GiB"
    (row,) = rows(a_container("main", a_card(20 * GIB, GIB, limit=20 * GIB)))
    assert row[-1] == ""


def test_doubts_and_killed_processes_are_remarked() -> None:
    (row,) = table((a_container("main", doubts=frozenset(UsageDoubt), gone=2),)).rows
    assert row.tone == "warn"
    assert row.cells[-1] == (
        "wrong counters left out; may count killed processes; a card without a name left out; was being written; "
        "2 killed processes not counted"
    )


def test_what_cannot_be_read_stands_out() -> None:
    (row,) = table((a_container("main", reading=ReadStatus.UNREADABLE, problem="3 bytes"),)).rows
    assert (row.tone, row.cells[-1]) == ("bad", "cannot be read; 3 bytes")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "now"),
        (1, "1 s ago"),
        (59.4, "59 s ago"),
        (60, "1 min ago"),
        (7200, "2 h ago"),
        (200_000, "2 d ago"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, words: str) -> None:
    assert rows(a_container("main", last_kernel_age=seconds))[0][6] == words


def usages(*containers: ContainerUsage) -> Usages:
    return Usages.of([NodeUsage(node=NodeName("n"), time="", containers=containers)])


def test_what_a_pod_uses_of_a_card_is_the_sum_over_its_containers() -> None:
    found = usages(
        a_container("a", a_card(None, GIB)), a_container("b", a_card(None, GIB)), a_container("c", a_card(None, None))
    )
    assert found.on_card("ml/p", DeviceId("GPU-a")) == "uses 2 GiB"
    assert found.on_card("ml/p", DeviceId("GPU-b")) == ""
    assert usages(a_container("c", a_card(None, None))).on_card("ml/p", DeviceId("GPU-a")) == ""
    assert Usages().on_card("ml/p", DeviceId("GPU-a")) == ""


def test_the_wasteful_are_told_worst_first_and_crumbs_are_not() -> None:
    names = [("some", 3), ("most", 9), ("more", 5), ("less", 2)]
    found = usages(
        *(a_container(name, a_card(gib * GIB, 0)) for name, gib in names),
        a_container("crumb", a_card(LEAST_UNUSED - 1, 0)),
    )
    assert [each.container for each in found.wasteful()] == ["most", "more", "some"]
    assert [each.container for each in found.wasteful(9)] == ["most", "more", "some", "less"]


def test_the_words_for_a_card_say_what_is_known() -> None:
    card = a_card(20 * GIB, 2 * GIB, utilization=0.25)
    (pair,) = usages(a_container("main", card, last_kernel_age=7200.0, gone=1)).unused(9)
    assert pair == (
        "ml/p, container main",
        "uses 2 GiB of 20 GiB on GPU-a, 25% busy, last kernel 2 h ago, 1 killed processes not counted",
    )


def test_the_words_for_a_card_leave_out_what_is_not_known() -> None:
    other = CardUsage(card=DeviceId("GPU-b"), allocated=GIB)
    found = usages(a_container("main", a_card(20 * GIB, 2 * GIB), other, doubts=frozenset({UsageDoubt.STALE})))
    assert [words for _, words in found.unused(9)] == [
        "uses 2 GiB of 20 GiB on GPU-a, may count killed processes",
        "1 GiB of GPU-b are allocated, use is not known (may count killed processes)",
    ]


def test_the_page_tells_what_a_pod_uses_and_who_leaves_much_unused() -> None:
    entry = holding(a_node("n", a_device()), a_record(allocated(a_share("card-0", 4096)), name="old"))
    card = CardUsage(card=DeviceId("card-0"), allocated=4 * GIB, used=MemoryUse(0, 0, GIB, 0))
    found = usages(a_container("main", card, namespace="default", pod="old"))
    plan, heading = a_plan(on=[entry]), page.Heading()
    text = page.render(plan, REGISTRY, heading, usages=found)
    assert "default/old (running)\n4096 MiB (4 GiB) of 16 GiB\nuses 1 GiB" in text
    assert "Allocated and not used" in text
    assert "<b>default/old, container main</b> uses 1 GiB of 4 GiB on card-0" in text
    for nothing in (Usages(), None):
        assert "Allocated and not used" not in page.render(plan, REGISTRY, heading, usages=nothing)
