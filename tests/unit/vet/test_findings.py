"""Findings as text, documents, tables and SARIF."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hami_plugins import vet
from hami_plugins.output import findings as answers
from hami_plugins.output import sarif
from hami_plugins.vendors import builtin
from hami_plugins.vet import Replacement, VetFinding, VetSeverity

HERE = Path(__file__).parent
FINDING = VetFinding(
    rule="HP211",
    name="memory-in-bytes",
    severity=VetSeverity.ERROR,
    message="Pod default/a: too much; write 16384",
    what="too much",
    file="jobs/a b.yaml",
    document=2,
    line=11,
    column=9,
    path=("spec", "containers", 0, "resources", "limits", "nvidia.com/gpumem"),
    fix="write 16384",
    object="Pod default/a",
    replacement=Replacement(11, 28, 32, "16Gi", "16384"),
)
NOTE = VetFinding(
    rule="HP002",
    name="not-an-object",
    severity=VetSeverity.NOTE,
    message="no kind; leave it out",
    what="no kind",
    file="values.yaml",
    document=1,
    line=1,
    column=1,
    path=(),
    fix="leave it out",
)
LEVELS = {"none", "note", "warning", "error"}


def everything() -> tuple[VetFinding, ...]:
    found: list[VetFinding] = []
    for file in sorted((HERE / "manifests").glob("*.yaml")):
        sources = vet.read(file.read_text(encoding="utf-8"), source=f"manifests/{file.name}")
        found += vet.vet(sources.documents, builtin(), unreadable=sources.unreadable)
    return tuple(found)


OF_A_TASK = replace(FINDING, object="Job default/j", part="task ps, container main")


def test_a_heading_is_what_editors_jump_from() -> None:
    assert answers.heading(FINDING) == "jobs/a b.yaml:11:9: HP211 error: Pod default/a"
    assert answers.heading(OF_A_TASK) == "jobs/a b.yaml:11:9: HP211 error: Job default/j, task ps, container main"
    assert answers.heading(NOTE) == "values.yaml:1:1: HP002 note"


def test_a_finding_that_tasks_share_is_one_group() -> None:
    other = replace(OF_A_TASK, part="task worker, container main", line=31)
    group = answers.FindingGroup(OF_A_TASK, (other,))
    assert answers.groups((OF_A_TASK, other)) == (group,)
    assert answers.also(group) == "task worker, container main (line 31)"


@pytest.mark.parametrize(
    "change",
    [
        {"object": "Job default/k"},
        {"what": "too little"},
        {"fix": "write 8192"},
        {"rule": "HP212"},
        {"severity": VetSeverity.NOTE},
        {"document": 3},
        {"file": "jobs/c.yaml"},
    ],
)
def test_findings_that_differ_are_told_apart(change: dict[str, Any]) -> None:
    assert len(answers.groups((OF_A_TASK, replace(OF_A_TASK, **change)))) == 2


def test_findings_about_no_object_are_never_grouped() -> None:
    assert len(answers.groups((NOTE, replace(NOTE, line=9)))) == 2


def test_rules_are_counted_in_their_order() -> None:
    table = answers.by_rule((FINDING, NOTE, FINDING), vet.RULES)
    assert [row.cells[:2] for row in table.rows] == [("HP002", "1"), ("HP211", "2")]
    assert all(row.cells[2].endswith(".") for row in table.rows)


def test_a_rule_is_explained_with_its_reason_its_remedy_and_its_releases() -> None:
    rules = {rule.id: rule for rule in vet.RULES}
    plain, of_releases = answers.explanation(rules["HP211"]), answers.explanation(rules["HP408"])
    assert plain[0] == "HP211 error: memory-in-bytes"
    assert plain[1:] == (rules["HP211"].summary, rules["HP211"].why, f"fix: {rules['HP211'].fix}")
    assert of_releases[-1].startswith("holds for: Volcano before 1.16.0")


def test_what_is_wrong_and_the_remedy_are_the_message() -> None:
    for finding in everything():
        told = finding.message.removesuffix(f"; {finding.fix}").removeprefix(f"{finding.object}: ")
        assert finding.fix
        assert finding.what
        assert told in {finding.what, f"{finding.part}: {finding.what}", f"{finding.part}, {finding.what}"}


def test_tasks_and_containers_are_the_part_of_a_finding() -> None:
    parts = {finding.part for finding in everything()}
    assert {"container main", "task worker, container main", "task worker", ""} <= parts


@pytest.mark.parametrize(
    ("findings", "files", "cluster", "words"),
    [
        ((), 1, False, "no findings in 1 file"),
        ((FINDING,), 2, False, "1 error in 2 files"),
        ((NOTE, FINDING, FINDING), 1, False, "2 errors, 1 note in 1 file"),
        ((FINDING,), 1, True, "1 error in 1 file and 1 cluster"),
        ((), 0, True, "no findings in 1 cluster"),
    ],
)
def test_the_summary_counts_by_severity(
    findings: tuple[VetFinding, ...], files: int, cluster: bool, words: str
) -> None:
    assert answers.summary(findings, files, cluster=cluster) == words


def test_notes_alone_do_not_fail() -> None:
    assert not answers.fails(())
    assert not answers.fails((NOTE,))
    assert answers.fails((NOTE, FINDING))


def test_a_document_has_every_finding_with_its_fix() -> None:
    assert answers.document((FINDING, NOTE)) == {
        "apiVersion": "hami-plugins.io/v1alpha1",
        "kind": "VetReport",
        "summary": {"errors": 1, "warnings": 0, "notes": 1},
        "findings": [
            {
                "rule": "HP211",
                "name": "memory-in-bytes",
                "severity": "error",
                "message": "Pod default/a: too much; write 16384",
                "object": "Pod default/a",
                "file": "jobs/a b.yaml",
                "document": 2,
                "line": 11,
                "column": 9,
                "path": 'spec.containers[0].resources.limits["nvidia.com/gpumem"]',
                "holdsFor": "",
                "fix": {
                    "text": "write 16384",
                    "replacement": {"line": 11, "column": 28, "endColumn": 32, "old": "16Gi", "new": "16384"},
                },
            },
            {
                "rule": "HP002",
                "name": "not-an-object",
                "severity": "note",
                "message": "no kind; leave it out",
                "object": "",
                "file": "values.yaml",
                "document": 1,
                "line": 1,
                "column": 1,
                "path": "",
                "holdsFor": "",
                "fix": {"text": "leave it out", "replacement": None},
            },
        ],
    }


def test_the_rules_are_a_document() -> None:
    listed = answers.rules_document(vet.RULES)
    assert listed["kind"] == "VetRuleList"
    assert [item["id"] for item in listed["items"]] == [rule.id for rule in vet.RULES]


def run_of(log: Any) -> Any:
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return run


def test_sarif_describes_every_rule_with_help() -> None:
    driver = run_of(sarif.log((), vet.RULES, version="1.2.3"))["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("hami-plugins vet", "1.2.3")
    assert [rule["id"] for rule in driver["rules"]] == [rule.id for rule in vet.RULES]
    for rule in driver["rules"]:
        assert set(rule) == {"id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration"}
        assert rule["name"].isalnum()
        assert rule["help"]["text"]
        assert rule["help"]["markdown"]
        assert rule["defaultConfiguration"]["level"] in LEVELS


def test_sarif_rules_link_to_their_heading_on_the_page_that_was_named() -> None:
    page = "https://docs.example.com/reference/rules/"
    driver = run_of(sarif.log((), vet.RULES, version="1", page=page))["tool"]["driver"]
    assert {rule["id"]: rule["helpUri"] for rule in driver["rules"]}["HP305"] == f"{page}#hp305"
    headings = (HERE.parents[2] / "docs" / "reference" / "rules.md").read_text().splitlines()
    assert {f"## {rule['helpUri'].partition('#')[2].upper()}" for rule in driver["rules"]} <= set(headings)


def test_sarif_results_point_to_their_rule_line_and_fix() -> None:
    (result,) = run_of(sarif.log((FINDING,), vet.RULES, version="1"))["results"]
    assert (result["ruleId"], result["level"]) == ("HP211", "error")
    assert vet.RULES[result["ruleIndex"]].id == "HP211"
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "jobs/a%20b.yaml"},
        "region": {"startLine": 11, "startColumn": 9},
    }
    (fix,) = result["fixes"]
    assert fix["description"] == {"text": "write 16384"}
    (change,) = fix["artifactChanges"]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 11, "startColumn": 28, "endLine": 11, "endColumn": 32},
            "insertedContent": {"text": "16384"},
        }
    ]


def test_sarif_gives_absolute_files_as_file_uris() -> None:
    absolute = VetFinding(**{name: getattr(NOTE, name) for name in NOTE.__slots__} | {"file": "/srv/a.yaml"})
    (result,) = run_of(sarif.log((absolute,), vet.RULES, version="1"))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "file:///srv/a.yaml"}
    assert "fixes" not in result


def test_sarif_of_real_findings_keeps_to_the_structure() -> None:
    findings = everything()
    run = run_of(sarif.log(findings, vet.RULES, version="1"))
    assert run["columnKind"] == "unicodeCodePoints"
    assert len(run["results"]) == len(findings) > 60
    for result in run["results"]:
        assert result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"]
        assert result["level"] in LEVELS - {"none"}
        assert result["message"]["text"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] >= 1
        assert region["startColumn"] >= 1
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())


def test_sarif_knows_a_finding_again_when_lines_move() -> None:
    text = (HERE / "manifests" / "memory.yaml").read_text(encoding="utf-8")

    def prints(text: str) -> list[str]:
        findings = vet.vet(vet.read(text, source="f").documents, builtin())
        return [result["partialFingerprints"]["object/v1"] for result in _results(findings)]

    assert prints(text) == prints(f"# one more line\n{text}")
    assert len(set(prints(text))) == len(prints(text))


def _results(findings: tuple[VetFinding, ...]) -> Any:
    return run_of(sarif.log(findings, vet.RULES, version="1"))["results"]
