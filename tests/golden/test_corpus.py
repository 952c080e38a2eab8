"""Every recorded answer of the real HAMi and the real Volcano is ours, or a rule says why not."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from hami_plugins.vendors import builtin
from tests.golden import corpus
from tests.golden.rules import Case, Rule, all_rules

FOLDER = Path(__file__).parent / "corpus"
FILES = ("hami.jsonl.gz", "hami-more.jsonl.gz", "volcano.jsonl.gz", "volcano-more.jsonl.gz")
"""Those with ``more`` were recorded from the same code as the others, with pods and nodes of their cases put together
anew."""


BEYOND = frozenset({"equal-cards-beyond-twelve"})
"""Rules about upstream's code that no case of these files meets; the whole set of recorded answers is larger."""


@cache
def by_vendor(file: str) -> dict[str, list[Case]]:
    """The cases of a file per vendor."""
    found: dict[str, list[Case]] = defaultdict(list)
    for case in corpus.cases([FOLDER / file]):
        found[case["vendor"]].append(case)
    return dict(found)


@cache
def rules_of(file: str, vendor: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rules that explain a vendor's cases, and the cases that none explains."""
    rules, vendors = all_rules(), builtin()
    used: dict[str, None] = {}
    unexplained: list[str] = []
    for case in by_vendor(file)[vendor]:
        ours = corpus.answer(case, vendors)
        aspects = corpus.differing(case, ours)
        found: list[Rule] | None = corpus.explained(case, ours, aspects, rules) if aspects else []
        if found is None:
            unexplained.append(f"{case['id']} ({', '.join(sorted(aspects))})")
        else:
            used.update(dict.fromkeys(rule.name for rule in found))
    return tuple(used), tuple(unexplained)


ALL = [pytest.param(file, vendor, id=f"{file}-{vendor}") for file in FILES for vendor in sorted(by_vendor(file))]


@pytest.mark.parametrize(("file", "vendor"), ALL)
def test_every_recorded_answer_is_ours_or_explained(file: str, vendor: str) -> None:
    _, unexplained = rules_of(file, vendor)
    assert not unexplained


def test_every_rule_explains_a_recorded_answer() -> None:
    used = {name for file in FILES for vendor in by_vendor(file) for name in rules_of(file, vendor)[0]}
    assert {rule.name for rule in all_rules()} - used <= BEYOND
