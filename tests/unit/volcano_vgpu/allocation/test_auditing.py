"""What is found wrong with the allocations of bound pods while a replica answers."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from hami_plugins.allocations.answers import AuditFinding, AuditFindingKind
from hami_plugins.allocator.audit import EVERY, Auditor, counts, document
from tests.unit.volcano_vgpu.allocation.cluster import Cluster, a_pod


def test_what_is_wrong_is_looked_for_now_and_then_and_told_once() -> None:
    cluster = Cluster()
    auditor = Auditor(cluster.cache)
    foreign = a_pod("foreign", node="n1", ids="GPU-n9-0,NVIDIA,10000,0:")
    with capture_logs() as logs:
        auditor.look(100.0)
        cluster.shows(foreign)
        auditor.look(101.9)
        assert (auditor.found, logs) == ((), [])
        for turn in (0, 1):
            auditor.look(102.0 + turn * EVERY)
    assert [each.finding for each in auditor.found] == [AuditFindingKind.UNKNOWN_CARD]
    (line,) = logs
    assert (line["event"], line["finding"], line["node"]) == ("allocation_is_wrong", "unknown-card", "n1")
    assert "pod x/foreign" in line["what"]
    cluster.shows(foreign, "deleted")
    auditor.look(100.0 + 3 * EVERY)
    assert auditor.found == ()


def test_while_nothing_changes_it_is_looked_for_twice_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    auditor = Auditor(cluster.cache)
    looked: list[str] = []

    def findings() -> tuple[AuditFinding, ...]:
        looked.append("")
        return ()

    monkeypatch.setattr(cluster.cache, "findings", findings)
    times = []
    for now in (0.0, 2.0, 29.9, 30.0, 59.9, 60.0):
        auditor.look(now)
        times.append(len(looked))
    assert times == [1, 1, 1, 2, 2, 3]


def test_each_kind_of_finding_has_its_number_also_where_that_is_none() -> None:
    cluster = Cluster()
    cluster.shows(a_pod("none", node="n1"))
    found = counts(cluster.cache.findings())
    assert set(found) == set(AuditFindingKind)
    assert {finding: number for finding, number in found.items() if number} == {AuditFindingKind.UNALLOCATED: 1}


def test_findings_as_a_document_name_pod_and_remedy() -> None:
    cluster = Cluster()
    cluster.shows(a_pod("none", node="n1"))
    (finding,) = document(cluster.cache.findings())["findings"]
    assert (finding["finding"], finding["node"], finding["pods"]) == ("no-cards", "n1", ("x/none",))
    assert "Delete it" in finding["text"]
