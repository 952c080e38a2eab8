"""Every rule on manifests whose lines say what is wrong with them.

A comment ``# want: HP101`` behind a line names the rules with a finding there. All other lines have to be fine, so that
each file holds the near misses next to the mistakes.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from hami_plugins import vet
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.vendors import builtin
from hami_plugins.vet import VetFinding
from tests.unit.vet import clusters

HERE = Path(__file__).parent
OFFLINE = sorted((HERE / "manifests").glob("*.yaml"))
WITH_CLUSTER = sorted((HERE / "cluster").glob("*.yaml"))
WANT = re.compile(r"# want: (?P<rules>[A-Z0-9 ]+)$")

Marks = Counter[tuple[int, str]]


def marks(text: str) -> Marks:
    return Counter(
        (number, rule)
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := WANT.search(line))
        for rule in match["rules"].split()
    )


def said(findings: Iterable[VetFinding]) -> Marks:
    return Counter({(finding.line, finding.rule) for finding in findings})


def found_in(text: str, *, cluster: bool = False) -> tuple[VetFinding, ...]:
    registry = builtin()
    sources = vet.read(text, source="manifest.yaml")
    snapshot = snapshot_of(clusters.OBJECTS, registry) if cluster else None
    return vet.vet(sources.documents, registry, None, snapshot, unreadable=sources.unreadable)


@pytest.mark.parametrize("file", OFFLINE, ids=lambda file: file.stem)
def test_rules_find_the_marked_lines_and_no_others(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert said(found_in(text)) == marks(text)


@pytest.mark.parametrize("file", WITH_CLUSTER, ids=lambda file: file.stem)
def test_rules_about_a_cluster_find_the_marked_lines_and_no_others(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert said(found_in(text, cluster=True)) == marks(text)


def test_every_rule_is_marked_somewhere() -> None:
    marked = {rule for file in (*OFFLINE, *WITH_CLUSTER) for _, rule in marks(file.read_text(encoding="utf-8"))}
    assert marked == {rule.id for rule in vet.RULES}


@pytest.mark.parametrize("file", [*OFFLINE, *WITH_CLUSTER], ids=lambda file: file.stem)
def test_every_message_names_its_object_and_ends_with_the_fix(file: Path) -> None:
    for finding in found_in(file.read_text(encoding="utf-8"), cluster=file in WITH_CLUSTER):
        assert finding.message.startswith(f"{finding.object}: " if finding.object else ""), finding
        assert finding.message.endswith(f"; {finding.fix}"), finding
        assert finding.fix, finding
