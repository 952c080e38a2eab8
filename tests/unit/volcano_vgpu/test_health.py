"""Changes of a card's health, and their messages."""

from __future__ import annotations

import pytest

from tests.unit.volcano_vgpu.cards import card, inventory, sick, uuid
from volcano_vgpu.core import health
from volcano_vgpu.core.health import APPLICATIONS, AffectedContainer, HealthEventReason, Transition, XidFilter

HOLDER = AffectedContainer("default", "train-0", "u1", "main")


@pytest.mark.parametrize(
    ("disabled", "enabled", "off", "on"),
    [
        ("", "", {13, 31, 43, 45, 68, 109}, {48, 79}),
        ("79", "", {13, 79}, {48}),
        (" 79 ,x,-48", "", {13, 79}, {48}),
        ("all", "", {13, 48, 79}, set()),
        ("xids", "79", {13, 48}, {79}),
        ("68", "68", {13}, {68, 79}),
        ("all", "all", set(), {13, 48, 79}),
        ("", "13", {31}, {13, 79}),
    ],
)
def test_which_errors_count(disabled: str, enabled: str, off: set[int], on: set[int]) -> None:
    found = XidFilter.of(disabled, enabled)
    assert {xid for xid in off | on if found.counts(xid)} == on


def test_without_settings_all_count_but_those_of_applications() -> None:
    assert XidFilter.of("", "") == XidFilter()
    assert not any(XidFilter().counts(xid) for xid in APPLICATIONS)


def test_at_first_sight_only_what_is_wrong_is_told() -> None:
    assert health.transitions(None, inventory(card(0), *sick(1))) == (Transition(HealthEventReason.FAILED, *sick(1)),)


def test_what_changed_is_told_card_by_card() -> None:
    before = inventory(card(0), card(1), *sick(2), card(3), *sick(5))
    after = inventory(card(0), *sick(1), card(2), card(4), *sick(5, 6))
    assert [(each.turn, each.card.uuid) for each in health.transitions(before, after)] == [
        (HealthEventReason.FAILED, uuid(1)),
        (HealthEventReason.RECOVERED, uuid(2)),
        (HealthEventReason.CAME, uuid(4)),
        (HealthEventReason.CAME, uuid(6)),
        (HealthEventReason.FAILED, uuid(6)),
        (HealthEventReason.GONE, uuid(3)),
    ]


def test_a_card_with_another_problem_is_told_again_and_one_with_another_field_is_not() -> None:
    worse = card(0, problems=("hot", "lost"))
    assert health.transitions(inventory(card(0, problems=("hot",))), inventory(worse)) == (
        Transition(HealthEventReason.FAILED, worse),
    )
    assert health.transitions(inventory(card(0)), inventory(card(0, unreadable=("name",)))) == ()


@pytest.mark.parametrize(
    ("turn", "kind", "on_node", "on_pod"),
    [
        (
            HealthEventReason.FAILED,
            "Warning",
            "is not offered any more: hot; lost; on it: default/train-0",
            "is unhealthy: hot; lost",
        ),
        (
            HealthEventReason.GONE,
            "Warning",
            "no longer reported by the driver; on it: default/train-0; check",
            "no longer reported",
        ),
        (HealthEventReason.RECOVERED, "Normal", "is healthy again", "is healthy again"),
    ],
)
def test_the_node_and_the_pods_on_the_card_are_told(
    turn: HealthEventReason, kind: str, on_node: str, on_pod: str
) -> None:
    change = Transition(turn, card(3, problems=("hot", "lost")))
    node, pod = health.sayings([change], lambda found: [HOLDER] if found == uuid(3) else [])
    assert (node.holder, node.reason, node.type) == (None, turn, kind)
    assert (pod.holder, pod.reason, pod.type) == (HOLDER, turn, kind)
    assert on_node in node.message
    assert on_pod in pod.message
    for saying in (node, pod):
        assert f"card {uuid(3)} (NVIDIA A100-SXM4-40GB, index 3)" in saying.message
    assert ("delete the pod" in pod.message) is (kind == "Warning")


def test_a_card_that_came_is_told_on_the_node_alone() -> None:
    (saying,) = health.sayings([Transition(HealthEventReason.CAME, card(0))], lambda _: [HOLDER])
    assert (saying.holder, saying.type) == (None, "Normal")


def test_a_card_without_pods_names_none_and_one_with_many_names_some() -> None:
    (alone,) = health.sayings([Transition(HealthEventReason.FAILED, *sick(0))], lambda _: [])
    assert "on it" not in alone.message
    many = [AffectedContainer("ns", f"p{at}", f"u{at}", "c") for at in range(8)]
    node, *pods = health.sayings([Transition(HealthEventReason.FAILED, *sick(0))], lambda _: many)
    assert node.message.endswith("on it: ns/p0, ns/p1, ns/p2, ns/p3, ns/p4 and 3 more")
    assert len(pods) == 8
