"""The table of what containers use."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.model.units import DeviceId, PodUid
from hami_plugins.wire.usage import CardUsage, ContainerUsage, Doubt, MemoryUse, Reading
from volcano_vgpu.monitor.command import table

GIB = 1 << 30


def a_container(name: str = "main", *cards: CardUsage, **facts: Any) -> ContainerUsage:
    plain: dict[str, Any] = {"pod_uid": PodUid("u"), "namespace": "ml", "pod": "p", "container": name, "cards": cards}
    return ContainerUsage(**{**plain, **facts})


def a_card(granted: int | None, used: int | None, **facts: Any) -> CardUsage:
    booked = None if used is None else MemoryUse(0, 0, used, 0)
    return CardUsage(card=DeviceId("GPU-a"), granted=granted, used=booked, **facts)


def rows(*containers: ContainerUsage) -> list[tuple[str, ...]]:
    return [row.cells for row in table(containers).rows]


def test_whoever_leaves_most_unused_comes_first() -> None:
    found = rows(
        a_container("fine", a_card(2 * GIB, 2 * GIB)),
        a_container("idle", a_card(80 * GIB, None), reading=Reading.NO_FILE),
        a_container("some", a_card(4 * GIB, GIB)),
        a_container("most", a_card(20 * GIB, 2 * GIB)),
    )
    assert [row[1] for row in found] == ["most", "some", "fine", "idle"]


def test_a_row_says_what_was_granted_and_what_is_used_of_it() -> None:
    card = a_card(20 * GIB, 2 * GIB, utilization=0.25)
    (row,) = rows(a_container("main", card, processes=3, last_kernel_age=200.0))
    assert row == ("ml/p", "main", "GPU-a", "20 GiB", "2 GiB", "25%", "3 min", "3", "")


def test_what_is_not_known_is_a_dash() -> None:
    (row,) = rows(a_container("main", reading=Reading.NOT_READY, problem="being made"))
    assert row == ("ml/p", "main", "-", "-", "-", "-", "-", "-", "not ready; being made")
    (row,) = rows(a_container("main", a_card(None, None)))
    assert row[3:6] == ("-", "-", "-")


def test_doubts_and_killed_processes_are_remarked() -> None:
    (row,) = table((a_container("main", doubts=frozenset(Doubt), gone=2),)).rows
    assert row.tone == "warn"
    assert row.cells[-1] == (
        "wrong counters left out; may count killed processes; a card without a name left out; was being written; "
        "2 killed processes not counted"
    )


def test_what_cannot_be_read_stands_out() -> None:
    (row,) = table((a_container("main", reading=Reading.UNREADABLE, problem="3 bytes"),)).rows
    assert (row.tone, row.cells[-1]) == ("bad", "cannot be read; 3 bytes")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "now"), (1, "1 s"), (59.4, "59 s"), (60, "1 min"), (7200, "2 h"), (200_000, "2 d")]
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, words: str) -> None:
    assert rows(a_container("main", last_kernel_age=seconds))[0][6] == words
