"""What the check of a takeover finds on nodes."""

from __future__ import annotations

import pytest

from hami_plugins.vendors import hygon, nvidia
from tests.unit.allocations.takeover.situations import a_node, a_pod, found, only, told

LOCK = "hami.io/mutex.lock"
REGISTER = "hami.io/node-nvidia-register"


def test_a_healthy_node_is_no_finding() -> None:
    assert found(nodes=[a_node()]) == ()


def test_a_node_that_cannot_be_read_is_named() -> None:
    raw = a_node()
    raw["status"]["allocatable"] = {"nvidia.com/gpu": []}
    each = only(nodes=[raw])
    assert (each.severity, each.object) == ("error", "node n1")
    assert "cannot be read" in each.what


def test_a_register_that_cannot_be_read_is_an_error() -> None:
    assert told(nodes=[a_node(**{REGISTER: "{"})]) == [("error", "node n1")]


def test_a_node_that_offers_cards_without_a_register_gives_none() -> None:
    each = only(nodes=[a_node(without=REGISTER)])
    assert each.severity == "error"
    assert "offers nvidia.com/gpu and has no annotation hami.io/node-nvidia-register" in each.what


def test_a_node_that_registers_cards_and_offers_none_starts_no_pod() -> None:
    first, second = found(nodes=[a_node(offers="0")])
    assert (first.severity, second.severity) == ("warning", "warning")
    assert "offers no nvidia.com/gpu" in first.what
    assert "no device plugin has answered hami.io/node-handshake (Requesting)" in second.what


@pytest.mark.parametrize(
    ("handshake", "count"), [("Reported_1", 1), ("Deleted_2026-11-24 11:00:00", 2), ("Requesting_1", 2)]
)
def test_a_handshake_without_an_answer_counts_where_nothing_is_offered(handshake: str, count: int) -> None:
    assert len(found(nodes=[a_node(offers="0", **{"hami.io/node-handshake": handshake})])) == count
    assert found(nodes=[a_node(**{"hami.io/node-handshake": handshake})]) == ()


def test_vendors_that_are_not_served_are_told_once() -> None:
    dcu = {"hami.io/node-dcu-register": "DCU-1,4,32768,100,DCU-Z100,0,true:"}
    each = only(vendors=[nvidia.SPEC], nodes=[a_node(name, **dcu) for name in ("a", "b")])
    assert (each.severity, each.object) == ("warning", "vendor DCU")
    assert "2 nodes have such devices (a, b)" in each.what
    served = [nvidia.SPEC, hygon.SPEC]
    assert ("warning", "vendor DCU") not in told(vendors=served, nodes=[a_node("a", **dcu)])


@pytest.mark.parametrize(
    ("text", "severity", "what"),
    [
        ("2026-11-24T11:59:30Z,team,p", "info", "is held by pod team/p for 30 s"),
        ("2026-11-24T11:00:00Z,team,p", "warning", "longer than the 300 s"),
        ("2026-11-24T11:59:30Z,team,gone", "warning", "which is gone, for 30 s"),
        ("2026-11-24T11:59:30Z", "info", "is held for 30 s"),
        ("2026-11-24T11:59:30Z,team", "error", "cannot be read"),
    ],
    ids=["held", "old", "dangling", "unnamed", "unreadable"],
)
def test_a_lock_is_told_with_its_pod_and_its_age(text: str, severity: str, what: str) -> None:
    found_ = [each for each in found(nodes=[a_node(**{LOCK: text})], pods=[a_pod()]) if each.object == "node n1"]
    (each,) = found_
    assert (each.severity, what in each.what) == (severity, True)
