"""The differences from HAMi's and Volcano's recorded answers that we mean: one file per vendor, each a list ``RULES``.

A rule is a predicate on the case and our answer. It has to recognise the upstream defect by its mechanism, so that it
cannot hide a defect of ours.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Case = dict[str, Any]
"""One line of the corpus, as its README describes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """This project's verdict on a case, in the corpus' own terms, and its remarks.

    ``refusal`` is our own text when the pod never reached a node; ``problems`` names what of the node and its running
    pods we could not read. ``score`` and ``facts`` are compared where the recorded answer has them (Volcano's).
    """

    allowed: bool
    code: int | None
    message: str
    scheduler: str
    mutated: Any
    fits: bool
    reason: str
    annotations: dict[str, str]
    refusal: str = ""
    problems: tuple[str, ...] = ()
    score: float | None = None
    facts: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A named, reasoned difference. ``aspects`` are the parts of the answer that it may explain.

    ``vendors`` are prefixes of the corpus' vendor names; none means every vendor of HAMi, and not Volcano.

    Aspects: ``admission`` (allowed, code, message, scheduler name), ``mutated``, ``fits``, ``reason``, ``devices``
    (which cards and slices), ``annotations`` (anything else written), ``score`` (of the node), ``facts`` (whether the
    node has devices and the pod asks for some).
    """

    name: str
    reason: str
    aspects: frozenset[str]
    holds: Callable[[Case, Answer], bool]
    vendors: tuple[str, ...] = ()
    examples: tuple[str, ...] = field(default=())

    def explains(self, case: Case, answer: Answer, aspects: set[str]) -> bool:
        """Whether this rule accounts for these differing aspects of a case."""
        if not case["vendor"].startswith(self.vendors or ""):
            return False
        if not self.vendors and case["vendor"].startswith("volcano"):
            return False
        return bool(aspects & self.aspects) and self.holds(case, answer)


def all_rules() -> tuple[Rule, ...]:
    """Every rule of every file of this folder."""
    found: list[Rule] = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        found.extend(importlib.import_module(f"{__name__}.{module.name}").RULES)
    return tuple(found)
