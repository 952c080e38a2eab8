"""Findings and rules as text lines, as JSON-able documents, and as a Markdown table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from typing_extensions import TypedDict

from hami_plugins.report import schema
from hami_plugins.report.manifests import spelled
from hami_plugins.report.vet.findings import Finding, Replacement, Rule, Severity


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


def line(finding: Finding) -> str:
    """``file:line:column: HP101 error: what is wrong; what to do``, the form that editors and CI jump from."""
    return f"{finding.file}:{finding.line}:{finding.column}: {finding.rule} {finding.severity}: {finding.message}"


def summary(findings: Sequence[Finding], files: int, *, cluster: bool = False) -> str:
    """One line that ends the text form: findings in so many manifest files, and in a cluster."""
    counts = Counter(finding.severity for finding in findings)
    parts = [f"{counts[each]} {each}{'' if counts[each] == 1 else 's'}" for each in Severity if counts[each]]
    where = [f"{files} file{'' if files == 1 else 's'}"] if files or not cluster else []
    where += ["1 cluster"] if cluster else []
    return f"{', '.join(parts) if parts else 'no findings'} in {' and '.join(where)}"


def document(findings: Sequence[Finding]) -> VetDocument:
    """All findings."""
    counts = Counter(finding.severity for finding in findings)
    return {
        "apiVersion": schema.API_VERSION,
        "kind": "VetReport",
        "summary": {
            "errors": counts[Severity.ERROR],
            "warnings": counts[Severity.WARNING],
            "notes": counts[Severity.NOTE],
        },
        "findings": [_finding(each) for each in findings],
    }


def rules_document(rules: Iterable[Rule]) -> RulesDocument:
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


def rules_table(rules: Iterable[Rule]) -> str:
    """The rules as a Markdown table, for documentation."""
    rows = (f"| {rule.id} | {rule.name} | {rule.severity} | {rule.summary} | {rule.holds_for} |" for rule in rules)
    head = ("| id | name | severity | finds | holds for |", "| --- | --- | --- | --- | --- |")
    return "\n".join((*head, *rows)) + "\n"


def fails(findings: Iterable[Finding]) -> bool:
    """Whether a run with these findings fails: notes alone do not make it."""
    return any(finding.severity.fails for finding in findings)


def _finding(finding: Finding) -> FindingDocument:
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
