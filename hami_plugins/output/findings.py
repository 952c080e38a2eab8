"""Findings and rules as text lines, as JSON-able documents, and as a Markdown table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from typing_extensions import TypedDict

from hami_plugins.inputs.manifests import spelled
from hami_plugins.output import schema
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.vet.findings import Replacement, VetFinding, VetRule, VetSeverity


class ReplacementDocument(TypedDict):
    """A change of the text: from ``column`` up to ``endColumn`` on ``line``."""

    line: int
    column: int
    endColumn: int
    old: str
    new: str


class FixDocument(TypedDict):
    """What to do; ``replacement`` is null where a person has to decide."""

    text: str
    replacement: ReplacementDocument | None


class FindingDocument(TypedDict):
    """One finding. ``holdsFor`` names the releases of Volcano that it is about, empty for all clusters alike."""

    rule: str
    name: str
    severity: str
    message: str
    object: str
    file: str
    document: int
    line: int
    column: int
    path: str
    holdsFor: str
    fix: FixDocument


class VetDocument(TypedDict):
    """What ``vet -o json`` prints."""

    apiVersion: str
    kind: str
    summary: dict[str, int]
    findings: list[FindingDocument]


class RuleDocument(TypedDict):
    """One rule; ``holdsFor`` as with findings."""

    id: str
    name: str
    severity: str
    summary: str
    why: str
    fix: str
    holdsFor: str


class RulesDocument(TypedDict):
    """What ``vet --list-rules -o json`` prints."""

    apiVersion: str
    kind: str
    items: list[RuleDocument]


class FindingGroup(NamedTuple):
    """A finding, and the other places of the same object where it holds word for word."""

    first: VetFinding
    others: tuple[VetFinding, ...] = ()


def groups(findings: Iterable[VetFinding]) -> tuple[FindingGroup, ...]:
    """The findings in their order, each at its first place in an object."""
    found: dict[tuple[object, ...], list[VetFinding]] = {}
    for each in findings:
        key = (each.file, each.document, each.object, each.rule, each.severity, each.what, each.fix)
        found.setdefault(key if each.object else (id(each),), []).append(each)
    return tuple(FindingGroup(first, tuple(others)) for first, *others in found.values())


def heading(finding: VetFinding) -> str:
    """``file:line:column: HP101 error: object, container``, the form that editors and CI jump from."""
    place = f"{finding.file}:{finding.line}:{finding.column}: {finding.rule} {finding.severity}"
    about = ", ".join(each for each in (finding.object, finding.part) if each)
    return f"{place}: {about}" if about else place


def also(group: FindingGroup) -> str:
    """Where else a finding holds; empty where it does not."""
    return ", ".join(f"{each.part} (line {each.line})".lstrip() for each in group.others)


def by_rule(findings: Sequence[VetFinding], rules: Iterable[VetRule]) -> Table:
    """How many findings each rule has, the rules in their order."""
    counts = Counter(finding.rule for finding in findings)
    rows = tuple(TableRow((rule.id, str(counts[rule.id]), rule.summary)) for rule in rules if counts[rule.id])
    return Table(columns=("RULE", "", "FINDS"), rows=rows, whole=frozenset({0, 1}))


def explanation(rule: VetRule) -> tuple[str, ...]:
    """A rule in full, paragraph by paragraph."""
    paragraphs = (f"{rule.id} {rule.severity}: {rule.name}", rule.summary, rule.why, f"fix: {rule.fix}")
    return (*paragraphs, f"holds for: {rule.holds_for}") if rule.holds_for else paragraphs


def summary(findings: Sequence[VetFinding], files: int, *, cluster: bool = False) -> str:
    """One line that ends the text form: findings in so many manifest files, and in a cluster."""
    counts = Counter(finding.severity for finding in findings)
    parts = [f"{counts[each]} {each}{'' if counts[each] == 1 else 's'}" for each in VetSeverity if counts[each]]
    where = [f"{files} file{'' if files == 1 else 's'}"] if files or not cluster else []
    where += ["1 cluster"] if cluster else []
    return f"{', '.join(parts) if parts else 'no findings'} in {' and '.join(where)}"


def document(findings: Sequence[VetFinding]) -> VetDocument:
    """All findings."""
    counts = Counter(finding.severity for finding in findings)
    return {
        "apiVersion": schema.API_VERSION,
        "kind": "VetReport",
        "summary": {
            "errors": counts[VetSeverity.ERROR],
            "warnings": counts[VetSeverity.WARNING],
            "notes": counts[VetSeverity.NOTE],
        },
        "findings": [_finding(each) for each in findings],
    }


def rules_document(rules: Iterable[VetRule]) -> RulesDocument:
    """All rules."""
    return {
        "apiVersion": schema.API_VERSION,
        "kind": "VetRuleList",
        "items": [
            {
                "id": rule.id,
                "name": rule.name,
                "severity": rule.severity.value,
                "summary": rule.summary,
                "why": rule.why,
                "fix": rule.fix,
                "holdsFor": rule.holds_for,
            }
            for rule in rules
        ],
    }


def fails(findings: Iterable[VetFinding]) -> bool:
    """Whether a run with these findings fails: notes alone do not make it."""
    return any(finding.severity.fails for finding in findings)


def _finding(finding: VetFinding) -> FindingDocument:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity.value,
        "message": finding.message,
        "object": finding.object,
        "file": finding.file,
        "document": finding.document,
        "line": finding.line,
        "column": finding.column,
        "path": spelled(finding.path),
        "holdsFor": finding.holds_for,
        "fix": {
            "text": finding.fix,
            "replacement": None if finding.replacement is None else _replacement(finding.replacement),
        },
    }


def _replacement(found: Replacement) -> ReplacementDocument:
    return {
        "line": found.line,
        "column": found.column,
        "endColumn": found.end_column,
        "old": found.old,
        "new": found.new,
    }
