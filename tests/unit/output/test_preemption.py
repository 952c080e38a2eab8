"""Evictions in tables, in documents and on the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.engine.inventory import with_pods
from hami_plugins.model.units import NodeName
from hami_plugins.output import documents, page, tables
from hami_plugins.plan import Plan
from tests.builders import a_device, a_node, a_snapshot
from tests.schema import ADAPTER
from tests.unit.output.test_page import read
from tests.unit.plan.plans import REGISTRY, a_plan, answers_of
from tests.unit.plan.test_preemption import FULL, asking, planned
from tests.unit.preemption.clusters import a_cluster, running


def rows(plan: Plan) -> list[tuple[str, ...]]:
    table = tables.evictions(plan)
    return [] if table is None else [row.cells for row in table.rows]


def test_the_row_of_the_pod_shows_its_place_and_that_it_is_one_after_eviction() -> None:
    table = tables.plan(planned(FULL, asking()), REGISTRY)
    assert [row.cells[:5] for row in table.rows] == [("default/high", "after eviction", "n0", "Acme #0", "10000 MiB")]
    assert [row.tone for row in table.rows] == ["bad"]


def test_a_row_for_each_pod_that_leaves() -> None:
    snapshot = a_cluster([running("ends", 0, 8_000, terminating=True), running("low", 0, 8_000)], cards=1)
    assert rows(planned(snapshot, asking(memory=16_000))) == [
        ("default/low", "n0", "default/high", "priority 0 < 100", "waits"),
        ("default/ends", "n0", "default/high", "terminating already", "-"),
    ]


def test_a_victim_that_fits_elsewhere_says_where() -> None:
    pod = asking("high", 16_000)
    pod = replace(pod, constraints=replace(pod.constraints, node=NodeName("n0")))
    snapshot = a_cluster([running("a", 0, 8_000)], [running("c", 0, 8_000)], cards=1)
    assert rows(planned(snapshot, pod))[0][-1] == "fits on n1"


def test_a_victim_that_is_not_followed_says_nothing_of_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hami_plugins.plan.preemption.MOST_FOLLOWED", 1)
    pods = [asking("high-0"), asking("high-1")]
    assert [row[-1] for row in rows(planned(FULL, *pods))] == ["waits", "-"]


def test_no_evictions_have_no_table() -> None:
    assert tables.evictions(a_plan(asking(), on=FULL)) is None


def test_nodes_are_told_before_and_afterwards() -> None:
    (line,) = tables.nodes_after(planned(FULL, asking(memory=12_000)), REGISTRY)
    assert line.words == "n0: 22,000 of 32,768 MiB on 2 of 2 cards afterwards, 20,000 MiB on 2 before"


def test_devices_without_memory_are_told_by_their_number() -> None:
    bare = a_snapshot(with_pods(a_node("n0", a_device(memory=0), a_device(memory=0)), [running("a", 0, 0)]))
    plan = replace(planned(FULL, asking()), before=bare, after=bare)
    (line,) = tables.nodes_after(plan, REGISTRY)
    assert line.words == "n0: 1 of 2 cards used afterwards, 1 before"


def test_a_gang_is_counted_in_the_rows_of_its_victims() -> None:
    plan = planned(FULL, asking("one"))
    ((_, placed),) = plan.evictions[0].places
    found = replace(plan.evictions[0], places=((asking("one"), placed), (asking("two"), placed)))
    two = replace(plan, evictions=(found,))
    assert rows(two)[0][2] == "default/one and 1 more"


def test_the_summary_counts_them_apart() -> None:
    assert tables.summary(planned(FULL, asking())).words == "0 of 1 pod placed, 1 more after 1 eviction"
    assert tables.summary(a_plan(asking(), on=FULL)).words == "0 of 1 pod placed"


def test_the_document_has_them_as_the_schema_says() -> None:
    plan = planned(FULL, asking("high", 12_000), asking("low", priority=0))
    document = documents.plan(plan, answers_of(plan))
    ADAPTER.validate_python(document)
    assert document["summary"]["placed"] == 0
    assert (document["summary"]["afterEviction"], document["summary"]["evictions"]) == (1, 1)
    (found,) = document["evictions"]
    assert found["pods"] == [{"pod": "default/high", "node": "n0"}]
    (victim,) = found["victims"]
    assert (victim["pod"], victim["node"], victim["priority"], victim["again"]) == ("default/a", "n0", 1, None)
    assert victim["rules"] == [{"rule": "priority", "words": "priority 1 < 100"}]
    assert found["after"] == [
        {"node": "n0", "devices": 2, "devicesUsed": 2, "memoryMiB": 32_768, "memoryUsedMiB": 22_000}
    ]


def test_the_document_of_a_pod_says_what_the_search_found() -> None:
    plan = planned(FULL, asking("high", 12_000), asking("low", priority=0))
    high, low = (each["preemption"] for each in documents.plan(plan, answers_of(plan))["pods"])
    assert high is not None
    assert (high["node"], high["victims"], high["exhaustive"]) == ("n0", ["default/a"], True)
    assert [each["memoryMiB"] for each in high["slices"]] == [12_000]
    assert low is not None
    assert (low["node"], low["victims"], low["slices"]) == (None, [], [])
    assert [(each["pod"], each["rule"], each["pods"]) for each in low["spared"]] == [("default/b", "priority", 2)]


def test_a_pod_with_a_place_by_eviction_is_refused_and_holds_nothing_yet() -> None:
    plan = planned(FULL, asking())
    (pod,) = documents.plan(plan, answers_of(plan))["pods"]
    assert (pod["verdict"], pod["node"], pod["annotations"]) == ("refused", None, {})
    assert pod["containers"][0]["slices"] == []


def test_ending_pods_are_named_in_the_document() -> None:
    plan = planned(a_cluster([running("ends", terminating=True)], cards=1), asking())
    document = documents.plan(plan, answers_of(plan))
    assert document["evictions"][0]["ending"] == [{"pod": "default/ends", "node": "n0"}]
    assert document["pods"][0]["preemption"] is not None
    assert document["pods"][0]["preemption"]["ending"] == ["default/ends"]


def test_the_page_shows_who_leaves_and_the_pods_that_come() -> None:
    plan = planned(FULL, asking())
    found = read(page.answered(answers_of(plan), page.Heading(title="A plan", source="", made_at="")))
    assert {"Pods that leave", "default/a", "priority 1 < 100", "Preemption"} <= set(found.texts)
    assert "would preempt default/a (priority 1 < 100) on n0" in found.texts
    assert "more after 1 eviction" in found.texts
    assert any("n0: " in text and "afterwards" in text for text in found.texts)


def test_a_page_without_evictions_has_no_such_part() -> None:
    found = read(
        page.answered(answers_of(a_plan(asking(), on=FULL)), page.Heading(title="A plan", source="", made_at=""))
    )
    assert "Pods that leave" not in found.texts
