"""Differences from Volcano 1.14.1: each a defect of its scheduler, found by giving our rules the defect."""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.rules import Answer, Case, Rule

ALL = frozenset({"fits", "reason", "devices", "annotations", "score", "facts"})

_found: dict[str, frozenset[str]] = {}


def behind(case: Case) -> frozenset[str]:
    """The smallest set of defects with which we would say exactly what Volcano said; empty when there is none."""
    from tests.golden import corpus, upstream_volcano  # noqa: PLC0415 - the judge imports the rules

    if case["id"] not in _found:
        _found[case["id"]] = next(
            (
                frozenset(map(str, defects))
                for defects in upstream_volcano.explanations(case)
                if not corpus.differing(case, upstream_volcano.answer(case, defects))
            ),
            frozenset(),
        )
    return _found[case["id"]]


def _due_to(defect: str) -> Callable[[Case, Answer], bool]:
    def holds(case: Case, ours: Answer) -> bool:
        return defect in behind(case)

    return holds


def _rule(name: str, defect: str, reason: str, examples: tuple[str, ...]) -> Rule:
    return Rule(name=name, reason=reason, aspects=ALL, holds=_due_to(defect), vendors=("volcano",), examples=examples)


RULES = (
    _rule(
        "one-pod-gets-each-slot-once",
        "slots that the pod's earlier containers got count as free",
        "Volcano marks a MIG slot only when the pod comes back from the API server, so two containers of a pod get the "
        "same slot, or slots of two geometries of one card. We mark it at once.",
        ("volcano-mig-2ctr-011", "volcano-mig-044"),
    ),
    _rule(
        "every-slot-of-a-group-can-be-had",
        "in a group in force, only slices of profiles in use can be had",
        "On a card that is cut already, Volcano finds free slots only of profiles of which one is taken.",
        ("volcano-mig-085", "volcano-more-035"),
    ),
    _rule(
        "a-pod-holds-every-slot-it-names",
        "a pod on a MIG card holds only the first slot that it names there",
        "Volcano counts a pod once per MIG card, so the slots of its other containers there are given away again.",
        ("volcano-mig-082", "volcano-more-000"),
    ),
    _rule(
        "unregistered-node-has-no-cards",
        "a node without registered cards is not checked",
        "A node whose register does not decode, or whose handshake is missing or says Deleted, passes Volcano's device "
        "check, and the pod is bound without a card. We refuse it, or count the cards that it does register.",
        ("volcano-core-009", "volcano-core-032", "volcano-core-056", "volcano-mig-071"),
    ),
    _rule(
        "unusable-amounts-are-refused",
        "amounts are cast to int32, and what does not parse counts as 0",
        "Volcano reads an amount that means nothing as zero or wraps it: the pod is bound without a card, with a whole "
        "one, or with cores below zero. We refuse the pod and say why.",
        ("volcano-core-022", "volcano-core-065", "volcano-core-cm-013", "volcano-mig-075"),
    ),
    _rule(
        "requests-count-too",
        "amounts that only requests name are not looked at",
        "Volcano looks at limits alone to tell whether a pod wants cards.",
        ("volcano-core-044", "volcano-core-077"),
    ),
    _rule(
        "init-containers-get-cards",
        "init containers get no cards",
        "Volcano passes over init containers: the node's sums count them, the cards do not.",
        ("volcano-more-055", "volcano-more-060"),
    ),
    _rule(
        "id-lists-are-honoured",
        "id lists are not looked at",
        "Volcano 1.14 does not know the annotations that name cards.",
        ("volcano-core-016",),
    ),
    _rule(
        "unhealthy-cards-are-left-alone",
        "health is not looked at",
        "Volcano gives out cards that their node reports as unhealthy.",
        ("volcano-core-046", "volcano-core-106"),
    ),
)
