"""Amounts beyond 32 bits, which most of upstream's vendors cast without looking."""

from __future__ import annotations

import copy

from hami_plugins.wire import quantity
from tests.golden.rules import Answer, Case, Rule
from tests.golden.rules.common import ADMITTED, answers_after, containers, registry

_HALF = 2**31


def _wraps(case: Case, ours: Answer) -> bool:
    """We refuse the amount; with what is left of it in 32 bits, our answer is theirs."""
    return bool(ours.refusal) and answers_after(case, _wrapped, ADMITTED)


def _wrapped(case: Case) -> None:
    """The pod as the webhook left it, counts and cores as upstream then reads them."""
    admitted = containers(case["mutated"] or case["pod"])
    for container, seen in zip(containers(case["pod"]), admitted, strict=True):
        if "resources" not in seen:
            continue
        container["resources"] = copy.deepcopy(seen["resources"])
        for amounts in container["resources"].values():
            for spec in registry():
                for name in filter(None, (spec.resources.count, spec.resources.cores)):
                    if name in amounts:
                        amounts[name] = _in_32_bits(amounts[name])


def _in_32_bits(text: str) -> str:
    whole = quantity.parse(text, key="amount").whole
    if whole is None or -_HALF <= whole < _HALF:
        return text
    return str((whole + _HALF) % (2 * _HALF) - _HALF)


RULES = (
    Rule(
        name="amounts-beyond-32-bits-are-refused",
        reason="HAMi casts counts and cores to int32 unchecked for most vendors, so that 4294967297 cards are one. "
        "We deny the pod and say why.",
        aspects=frozenset({"admission", "mutated", "fits", "reason", "devices", "annotations"}),
        holds=_wraps,
    ),
)
