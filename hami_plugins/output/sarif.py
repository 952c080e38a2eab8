"""Findings as SARIF 2.1.0, the format in which code hosts show CI findings next to the affected lines.

Source: the OASIS standard "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", sections 3.13 to 3.58.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from hami_plugins.inputs.manifests import spelled
from hami_plugins.vet.findings import Replacement, VetFinding, VetRule

VERSION: Final = "2.1.0"
SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
TOOL: Final = "hami-plugins vet"

_Json = Mapping[str, object]


def log(findings: Sequence[VetFinding], rules: Sequence[VetRule], *, version: str, page: str = "") -> _Json:
    """One run with its rules and results; ``version`` is that of the program, ``page`` the address of rules.md."""
    positions = {rule.id: at for at, rule in enumerate(rules)}
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": TOOL,
                        "version": version,
                        "rules": [_rule(rule, page) for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, positions[finding.rule]) for finding in findings],
            }
        ],
    }


def _rule(rule: VetRule, page: str) -> _Json:
    return {
        "id": rule.id,
        **({"helpUri": f"{page}#{rule.id.lower()}"} if page else {}),
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": f"{rule.summary} {rule.why}"},
        "help": {
            "text": f"{rule.why}\n\n{rule.fix}",
            "markdown": f"**Why.** {rule.why}\n\n**Fix.** {rule.fix}",
        },
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _result(finding: VetFinding, position: int) -> _Json:
    result: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": position,
        "level": finding.severity.value,
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(finding.file),
                    "region": {"startLine": finding.line, "startColumn": finding.column},
                },
                "logicalLocations": list(_logical(finding)),
            }
        ],
        "partialFingerprints": {"object/v1": _fingerprint(finding)},
    }
    if finding.replacement is not None:
        result["fixes"] = [_fix(finding, finding.replacement)]
    return result


def _logical(finding: VetFinding) -> Iterable[_Json]:
    if finding.object:
        yield {"fullyQualifiedName": f"{finding.object}: {spelled(finding.path)}", "kind": "member"}


def _fix(finding: VetFinding, found: Replacement) -> _Json:
    return {
        "description": {"text": finding.fix},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(finding.file),
                "replacements": [
                    {
                        "deletedRegion": {
                            "startLine": found.line,
                            "startColumn": found.column,
                            "endLine": found.line,
                            "endColumn": found.end_column,
                        },
                        "insertedContent": {"text": found.new},
                    }
                ],
            }
        ],
    }


def _artifact(file: str) -> _Json:
    """A file name as a URI reference, relative to where the program ran unless it was absolute."""
    absolute = file.startswith("/")
    return {"uri": f"file://{quote(file)}" if absolute else quote(file.removeprefix("./"))}


def _fingerprint(finding: VetFinding) -> str:
    """Stays the same when lines move, so that hosts do not report a finding anew."""
    words = (finding.rule, finding.file, finding.object, spelled(finding.path))
    return hashlib.sha256("\n".join(words).encode("utf-8", "replace")).hexdigest()[:32]
