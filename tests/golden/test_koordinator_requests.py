"""What Koordinator's scheduler and webhook make of a request, against the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hami_plugins.engine import koordinator
from hami_plugins.engine.koordinator import BITS, CARD_NAMES, CardRequest, Illegal, IllegalRequest
from hami_plugins.model.pods import ResourceList
from hami_plugins.wire import quantity
from hami_plugins.wire.koordinator import CORE, FPGA, MEMORY, RATIO, RDMA, SHARED
from tests.golden.cases import Case, each, of

NAMES_ALONE: Mapping[str, int] = {RATIO: 100, CORE: 100, SHARED: 1}
"""Amounts that meet every predicate, for vectors that give names alone."""

DEVIATIONS = {
    "mutate-085": "requests without limits make the webhook panic; one list of amounts is looked at here, whole",
}


def amounts_of(raw: ResourceList | Mapping[str, str]) -> dict[str, int]:
    """Amounts as the scheduler takes them: fractions rounded up."""
    return {name: quantity.parse(str(text), key=name).ceiling for name, text in raw.items()}


def verdict(amounts: Mapping[str, int]) -> CardRequest | IllegalRequest | int:
    """What becomes of a request; those for network cards and FPGAs are only validated."""
    if amounts and set(amounts) <= {FPGA, RDMA}:
        return koordinator.validated(amounts)
    return koordinator.request_of(amounts)


def same(found: CardRequest | IllegalRequest | int, expect: Mapping[str, Any]) -> None:
    """Holds a verdict against what a vector says of it."""
    assert isinstance(found, IllegalRequest) is not expect.get("ok", True)
    if isinstance(found, IllegalRequest):
        assert found.kind == expect.get("error_kind", found.kind)
        assert found.words == expect.get("error", found.words)
        assert found.words.startswith(expect.get("error_prefix", ""))
        assert all(name in found.words for name in expect.get("error_names", ()))
        return
    bits = found if isinstance(found, int) else found.bits
    assert bits == expect.get("bits", bits)
    if isinstance(found, CardRequest):
        assert found.count == expect.get("count", found.count)
        assert found.shared is expect.get("shared", found.shared)
        assert found.per_card == amounts_of(expect.get("per_card", found.per_card))
        assert found.total == amounts_of(expect.get("converted", found.total))


@each("koordinator/requests.yaml")
def test_a_request_is_counted_as_the_scheduler_counts_it(case: Case) -> None:
    found = verdict(amounts_of(case.given["requests"]))
    same(found, case.expect)
    same(found, {"ok": case.expect.get("ok", True), **case.about.get("expect_inferred", {})})


@each("koordinator/request-sets.yaml")
def test_sets_of_names_are_legal_or_not(case: Case) -> None:
    names = case.given["names"]
    found = koordinator.validated({name: NAMES_ALONE.get(name, 1) for name in names})
    assert isinstance(found, int) is case.expect["legal"]
    assert sum(BITS[name] for name in names) == case.expect.get("bits", sum(BITS[name] for name in names))


@each("koordinator/webhook-mutate.yaml", without=("mutate-121", *(name for name in DEVIATIONS if "mutate" in name)))
def test_the_webhook_completes_requests(case: Case) -> None:
    """``mutate-121`` is about the webhook that is switched off."""
    given = case.given["requests"]
    found = koordinator.normalised(amounts_of(given))
    assert (found != amounts_of(given)) is case.expect.get("changed", found != amounts_of(given))
    assert found == amounts_of(case.expect.get("requests", found))
    assert koordinator.normalised(found) == found
    if "scheduler" in case.expect:
        same(verdict(found), case.expect["scheduler"])


def test_requests_that_the_webhook_panics_at_are_completed_all_the_same() -> None:
    panics = next(case for case in of("koordinator/webhook-mutate.yaml") if case.id == "mutate-085")
    assert koordinator.normalised(amounts_of(panics.given["requests"]))[SHARED] == 1


def named(case: Case) -> dict[str, str]:
    """What a refused pod names, with amounts where the vector has none."""
    return case.given.get("requests") or dict.fromkeys(case.given.get("names", ()), "50")


def only_nodes_say(case: Case) -> bool:
    """Whether the text is about nodes, or about other devices."""
    return "situation" in case.given or not set(named(case)) <= CARD_NAMES or "invalid" not in case.expect["text"]


REAL = "koordinator/refusals-real.yaml"


@each("koordinator/refusals-real.yaml", without=[case.id for case in of(REAL) if only_nodes_say(case)])
def test_refusals_are_worded_as_the_real_scheduler_words_them(case: Case) -> None:
    """It does not sort the names; whatever only nodes can say is not asked here."""
    given = named(case)
    # The vector with three names gives two of its amounts.
    amounts = amounts_of(given) | ({CORE: 30} if case.id == "refusal-04" else {})
    found = koordinator.request_of(amounts)
    assert isinstance(found, IllegalRequest)
    assert _words(found.words) == _words(case.expect["text"].removesuffix("."))


def _words(text: str) -> list[str]:
    return sorted(text.replace("[", "").replace("]", "").split())


@each("koordinator/conversions.yaml")
def test_percent_and_bytes_are_converted_as_the_scheduler_does(case: Case) -> None:
    given = case.given
    total = quantity.parse(given.get("total", "1Gi"), key="total").ceiling
    match given["op"]:
        case "ratio_to_bytes":
            assert koordinator.bytes_of(given["percent"], total) == case.expect["bytes"]
        case "bytes_to_ratio":
            memory = quantity.parse(given["memory"], key="memory").ceiling
            assert koordinator.percent_of(memory, total) == case.expect["percent"]
        case "roundtrip":
            every = range(1, 101)
            ceil = sum(koordinator.percent_of(-(-p * total // 100), total) == p for p in every)
            floor = sum(koordinator.percent_of(koordinator.bytes_of(p, total), total) != p for p in every)
            assert (ceil, floor) == (case.expect["ceil_survives"], case.expect["floor_fails"])
        case "fill_memory":
            _filled(case, total)
        case _:
            assert total // 2**20 * given["percent"] // 100 == case.expect["mib"]


def _filled(case: Case, total: int) -> None:
    if "error_contains" in case.expect:
        with pytest.raises(ZeroDivisionError):
            koordinator.percent_of(1, total)
        return
    given, expect = amounts_of(case.given["requests"]), amounts_of(case.expect["allocation"])
    assert given.get(MEMORY, koordinator.bytes_of(given.get(RATIO, 0), total)) == expect[MEMORY]
    assert given.get(RATIO, koordinator.percent_of(given.get(MEMORY, 0), total)) == expect[RATIO]


@each("koordinator/names.yaml")
def test_names_have_the_bits_of_the_scheduler(case: Case) -> None:
    assert BITS.get(case.given["name"]) == case.expect.get("bit")


CARD = 81559 << 20
"""What each card of the real runs had."""


@each("koordinator/placements-real.yaml")
def test_the_real_scheduler_recorded_what_a_request_promises_on_each_card(case: Case) -> None:
    given = case.given["request"]
    every = given.get("containers") or given.get("sequence", [given])[:1]  # of a sequence the first is printed
    total: dict[str, int] = {}
    for each_one in every:
        for name, amount in amounts_of(each_one).items():
            total[name] = total.get(name, 0) + amount
    found = koordinator.request_of(total)
    assert isinstance(found, CardRequest)
    assert found.count == case.expect.get("count", len(case.expect.get("items", [None] * found.count)))
    recorded = dict(found.per_card)
    recorded.setdefault(MEMORY, koordinator.bytes_of(recorded.get(RATIO, 0), CARD))
    recorded.setdefault(RATIO, koordinator.percent_of(recorded[MEMORY], CARD))
    for item in case.expect.get("items", ()):
        assert recorded.items() >= amounts_of(item["resources"]).items()
    assert not set(case.expect.get("absent", ())) & set(recorded)
    assert case.expect.get("each_percent") in {None, recorded[RATIO]}


def test_empty_requests_are_refused_like_the_rest() -> None:
    found = koordinator.request_of({})
    assert isinstance(found, IllegalRequest)
    assert found.kind is Illegal.EMPTY


def test_no_card_at_all_is_no_combination() -> None:
    assert isinstance(koordinator.request_of({SHARED: 0, RATIO: 50}), IllegalRequest)
