"""Charges from answers of Prometheus: a sample is a minute, and missing samples are reported."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from hami_plugins.model.charges import ChargeKey
from hami_plugins.model.units import VendorName
from hami_plugins.occupancy.charge_queries import ChargeQuery, QueryWindow, charges_of, windows
from hami_plugins.occupancy.charges import ChargeReport, IdlePod, TimeSpan, UsedMemory
from hami_plugins.wire.prometheus import Series

HOUR: Final = TimeSpan(0, 3_600_000)
GIB: Final = 1 << 30
TRAIN: Final = {"pod_namespace": "team", "queue": "gold", "owner": "Job/train", "vendor": "NVIDIA"}
TRAIN_KEY: Final = ChargeKey("team", "gold", "Job/train", VendorName("NVIDIA"))


def answers(**given: list[tuple[Mapping[str, str], int | str]]) -> dict[ChargeQuery, tuple[Series, ...]]:
    """One window of an hour in which an allocator always answered."""
    told: dict[str, list[tuple[Mapping[str, str], int | str]]] = {"ANSWERED": [({}, 60)], **given}
    return {
        query: tuple(Series(labels, Fraction(value)) for labels, value in told.get(query.name, ()))
        for query in ChargeQuery
    }


def charged(*given: dict[ChargeQuery, tuple[Series, ...]], span: TimeSpan = HOUR) -> ChargeReport:
    return charges_of(given, span, idle_below=Fraction(5, 100))


def pod(name: str = "p", namespace: str = "team", **more: str) -> dict[str, str]:
    return {"namespace": namespace, "pod": name, **more}


def used(allocated: int, memory: str | None, busy: str | None, minutes: int = 60) -> ChargeReport:
    """The charges of one pod that had so many GiB for so many minutes, and of its sums over them."""
    given = {
        "ALLOCATED": [(pod(), allocated * GIB * minutes)],
        "USED": [] if memory is None else [(pod(), Fraction(memory) * GIB * minutes)],
        "BUSY": [] if busy is None else [(pod(), Fraction(busy) * minutes)],
        "MINUTES": [(pod(), minutes)],
    }
    return charged(answers(**given))  # type: ignore[arg-type]


def test_a_minute_of_half_a_device_is_a_hundred_and_twentieth_of_a_device_hour() -> None:
    found = charged(answers(DEVICES=[(TRAIN, "0.5")], MEMORY=[(TRAIN, 30 * GIB)]))
    assert {key: (amount.device_hours, amount.gib_hours) for key, amount in found.charged.items()} == {
        TRAIN_KEY: (Fraction(1, 120), Fraction(1, 2))
    }
    assert found.is_complete


def test_windows_add_up_and_a_key_of_memory_alone_counts() -> None:
    found = charged(
        answers(DEVICES=[(TRAIN, 60)]),
        answers(DEVICES=[(TRAIN, 60)], MEMORY=[({}, 60 * GIB)]),
        span=TimeSpan(0, 7200_000),
    )
    nobody = ChargeKey("", "", "", VendorName(""))
    assert {key: (amount.device_hours, amount.gib_hours) for key, amount in found.charged.items()} == {
        TRAIN_KEY: (Fraction(2), Fraction(0)),
        nobody: (Fraction(0), Fraction(1)),
    }


def test_minutes_without_an_allocator_are_a_defect() -> None:
    found = charged(answers(ANSWERED=[({}, 45)]))
    assert found.defects == (
        "no allocator answered in 15 of 60 minutes, or Prometheus did not scrape it; nothing is charged for them",
    )
    assert not found.is_complete


def test_without_node_agents_use_is_not_known() -> None:
    found = charged(answers())
    assert (found.used, found.idle) == (None, None)
    assert found.remarks == (
        "no node agent reports what containers use, so that used memory and idle pods are not known",
    )


def test_used_memory_is_summed_by_namespace_whatever_prometheus_has_renamed() -> None:
    agent = pod("agent-7", "kube-system", exported_namespace="team", exported_pod="q")
    found = charged(
        answers(
            ALLOCATED=[(pod(), 60 * GIB), (agent, 120 * GIB), (pod("z", "other"), 60 * GIB)],
            USED=[(pod(), 30 * GIB)],
            MINUTES=[(pod(), 60), (agent, 60), (pod("z", "other"), 60)],
        )
    )
    assert found.used == (
        UsedMemory(namespace="other", allocated_gib_hours=Fraction(1), used_gib_hours=Fraction(0)),
        UsedMemory(namespace="team", allocated_gib_hours=Fraction(3), used_gib_hours=Fraction(1, 2)),
    )
    assert [each.pod for each in found.idle or ()] == ["q", "z"]


def test_a_pod_that_uses_little_memory_and_little_time_is_idle() -> None:
    assert used(10, "0.4", "0.01").idle == (
        IdlePod(
            namespace="team", pod="p", hours=Fraction(1), gib=Fraction(10), used=Fraction(4, 100), busy=Fraction(1, 100)
        ),
    )


def test_a_pod_that_uses_its_memory_or_computes_does_not_idle() -> None:
    assert used(10, "0.5", "0").idle == ()
    assert used(10, "0.4", "0.05").idle == ()


def test_a_pod_whose_use_was_never_measured_is_listed_without_shares() -> None:
    (found,) = used(10, None, None).idle or ()
    assert (found.used, found.busy) == (None, None)


def test_a_pod_that_has_hardly_begun_or_holds_no_memory_is_not_idle() -> None:
    assert used(10, None, None, minutes=9).idle == ()
    assert used(0, None, None).idle == ()


def test_a_span_is_asked_for_in_days_half_a_minute_after_its_last_minute() -> None:
    assert list(windows(1_000_000_019, 3000)) == [
        QueryWindow(999_999_930, 1440),
        QueryWindow(999_999_930 - 86_400, 1440),
        QueryWindow(999_999_930 - 172_800, 120),
    ]


def test_a_query_sums_minutes() -> None:
    assert ChargeQuery.ANSWERED.text(1440) == "sum_over_time((max(hami_allocator_active) == 1)[1440m:1m])"
