"""The page about the rules of ``vet``: ``python -m tests.golden.rules_page`` writes it anew."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final

from hami_plugins.vet import RULES
from hami_plugins.vet.findings import VetRule

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "rules.md"
INTRODUCTION = """\
# Rules of vet

For users and operators with a finding of `hami-plugins vet`: what each rule finds, why it matters, what to do. An id
never changes its meaning. `hami-plugins vet --explain HP305` prints the same; [Lint in CI](../tasks/lint-in-ci.md) says
how to overlook a finding.

| ids | about |
| --- | --- |
"""
THEMES: Final = {
    "HP0": "documents",
    "HP1": "resource names",
    "HP2": "amounts",
    "HP3": "shapes of requests",
    "HP4": "annotations",
    "HP5": "schedulers and vendors",
    "HP6": "safety and allocations",
    "HP7": "queues, gangs, quotas and nodes",
    "HP8": "what the cluster can give",
    "HP9": "Koordinator",
}


def page() -> str:
    """The page with the rules as the program has them."""
    themes = [(key, tuple(rules)) for key, rules in groupby(sorted(RULES, key=lambda rule: rule.id), _theme)]
    rows = "".join(f"| {_linked(rules)} | {THEMES[key]} |\n" for key, rules in themes)
    return INTRODUCTION + rows + "".join(_section(rule) for _, rules in themes for rule in rules)


def _theme(rule: VetRule) -> str:
    return rule.id[:3]


def _linked(rules: tuple[VetRule, ...]) -> str:
    return ", ".join(f"[{rule.id}](#{rule.id.lower()})" for rule in rules)


def _section(rule: VetRule) -> str:
    holds = f"\n\nHolds for: {rule.holds_for}." if rule.holds_for else ""
    return (
        f"\n## {rule.id}\n\n`{rule.name}`, {rule.severity}. {rule.summary}\n\n"
        f"Why: {rule.why}\n\nFix: {rule.fix}{holds}\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
