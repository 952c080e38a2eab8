"""Reports of waiting pods: as lines, as a document, and on the page."""

from __future__ import annotations

from dataclasses import replace

from hami_plugins.explain.waiting import WaitingReport, waiting
from hami_plugins.output import waiting as told
from hami_plugins.plan import Planner
from tests.builders import a_node, a_snapshot
from tests.unit.explain.test_waiting import intakes, made
from tests.unit.plan.plans import REGISTRY, asking

AT = 1_764_100_800  # 2025-11-25 20:00


def report(*pods: str, memory: int = 20_000, since: int | None = AT) -> WaitingReport:
    found = intakes(*(made(asking(memory, name=name), since) for name in pods))
    return waiting(found, a_snapshot(a_node("a")), Planner(REGISTRY))


def test_nothing_is_said_where_no_pod_waits() -> None:
    assert list(told.lines(WaitingReport())) == []
    assert told.panels(WaitingReport()) == ()
    assert told.more_words(WaitingReport()) == ""
    assert told.document(WaitingReport()) == {"pods": 0, "more": 0, "groups": []}


def test_a_line_says_who_since_when_and_why_and_the_next_what_helps() -> None:
    first, group, change = told.lines(report("b"))
    assert first.words == "1 pod waits for devices:"
    assert group.words.startswith("  default/b since 2025-11-25 20:00 UTC: 1 of 1 node: ")
    assert "largest free 16,384 MiB" in group.words
    assert change.words.startswith("    -> fits with ")


def test_pods_of_one_group_share_a_line() -> None:
    lines = [each.words for each in told.lines(report("b", "other", since=None))]
    assert lines[0] == "2 pods wait for devices:"
    assert lines[1].startswith("  default/b and 1 more pod: 1 of 1 node")
    lines = [each.words for each in told.lines(report("b-0", "b-1", "b-2", since=None))]
    assert lines[1].startswith("  default/b-[0-2]: 1 of 1 node")


def test_what_is_not_explained_is_counted() -> None:
    more = replace(report("b"), pods=31, more=30)
    assert [each.words for each in told.lines(more)][
        -1
    ] == "  and 30 more pods; hami-plugins explain pod -A explains all"


def test_the_document_has_numbers_names_and_times() -> None:
    document = told.document(report("b", "c"))
    (group,) = document["groups"]
    assert (document["pods"], document["more"], group["pods"]) == (2, 0, 2)
    assert group["names"] == ["default/b", "default/c"]
    assert group["since"] == "2025-11-25T20:00:00Z"
    assert group["reasons"][0]["nodes"] == 1
    assert group["reasons"][0]["examples"] == ["a"]
    assert group["suggestions"]
    (unknown,) = told.document(report("b", since=None))["groups"]
    assert unknown["since"] == ""


def test_the_document_names_ten_pods_of_a_group() -> None:
    (group,) = told.document(report(*(f"p{at:02}" for at in range(12))))["groups"]
    assert (group["pods"], len(group["names"])) == (12, 10)


def test_the_page_shows_reasons_and_changes_and_what_would_fit() -> None:
    (panel,) = told.panels(report("b", "c"))
    assert (panel.title, panel.stage, panel.why) == ("default/b", "waits", "")
    assert panel.more == "and 1 more pod since 2025-11-25 20:00 UTC"
    assert panel.reasons[0].tally == "1 of 1 node"
    assert panel.changes
    (fits,) = told.panels(report("b", memory=1000, since=None))
    assert (fits.stage, fits.more) == ("room is free", "")
    assert "has room for it now" in fits.why
