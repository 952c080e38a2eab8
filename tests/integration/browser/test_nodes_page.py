"""The page of a cluster's devices in a browser: what a plan's page can do, without a plan."""

from __future__ import annotations

from functools import cache

import pytest

from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.occupancy.report import report_of
from hami_plugins.output import page
from tests.builders import a_device, a_node, a_record, a_share, allocated
from tests.integration.browser.conftest import Show, faint_words
from tests.unit.plan.plans import REGISTRY, cordoned, holding


@cache
def a_document() -> str:
    """200 cards, with every kind of room."""
    entries = []
    for at in range(25):
        ids = [f"GPU-{at}-{index}" for index in range(8)]
        cards = [a_device(index=index, healthy=index != 7, slots=1 if index == 6 else 10) for index in range(8)]
        entry = a_node(f"box-{at}", *cards, ids=ids)
        pods = [a_record(allocated(a_share(ids[index], 4096, 20)), name=f"pod-{at}-{index}") for index in range(3, 7)]
        entries.append(holding(entry, *pods))
    report = report_of(ClusterSnapshot(nodes=(*entries, cordoned(a_node("closed")))), REGISTRY)
    waiting = page.RefusalPanel(title="default/big", stage="does not fit", why="too large", changes=("ask for less",))
    return page.report_page(report, page.Heading(title="Nodes and devices", source="here"), waiting=[waiting])


def test_the_page_asks_nobody_for_anything_and_complains_of_nothing(show: Show) -> None:
    shown = show(a_document())
    shown.page.fill("#search", "pod-3-4")
    shown.page.keyboard.press("Enter")
    assert shown.page.locator(".node:visible h4").all_text_contents() == ["box-3"]
    assert shown.complaints == []
    assert len(shown.requests) == 1


def test_a_card_is_found_by_its_id(show: Show) -> None:
    shown = show(a_document())
    shown.page.fill("#search", "gpu-12-5")
    shown.page.keyboard.press("Enter")
    assert shown.page.locator(".node:visible h4").all_text_contents() == ["box-12"]


def test_nodes_with_stranded_parts_can_be_chosen_but_none_with_planned_pods(show: Show) -> None:
    shown = show(a_document())
    assert shown.page.locator("#show option").all_text_contents() == [
        "All nodes",
        "With free room",
        "With stranded parts",
        "With unavailable parts",
    ]
    shown.page.select_option("#show", "s")
    assert shown.page.locator(".node:visible").count() == 25


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(show: Show, scheme: str) -> None:
    assert faint_words(show(a_document(), color_scheme=scheme)) == []


@pytest.mark.parametrize("width", [320, 768, 1280])
def test_nothing_sticks_out_of_the_window(show: Show, width: int) -> None:
    shown = show(a_document(), viewport={"width": width, "height": 800})
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width


@cache
def a_served_document() -> str:
    """As a server makes it: it loads itself again, and does not draw all nodes."""
    kinds = [a_device(model="A", index=0)], [a_device(model="B", index=0)]
    nodes = [a_node(f"{model}-{at}", *kinds[model == "b"]) for model in "ab" for at in range(20)]
    report = report_of(ClusterSnapshot(nodes=tuple(nodes)), REGISTRY)
    service = page.PageService(most=10, elsewhere="ask for others", refresh=1)
    return page.report_page(report, page.Heading(title="Nodes and devices"), service=service)


def test_a_served_page_draws_some_nodes_of_each_kind_and_says_so(show: Show) -> None:
    shown = show(a_served_document())
    assert shown.page.locator("[role=note]").all_inner_texts() == [
        "note 10 of 40 nodes are drawn, some of each kind; ask for others"
    ]
    names = shown.page.locator(".node h4").all_text_contents()
    assert sorted({name[0] for name in names}) == ["a", "b"]
    assert len(names) == 10
    assert "40" in shown.page.locator(".tile").first.inner_text()


def test_a_served_page_loads_itself_again_unless_somebody_searches(show: Show) -> None:
    shown = show(a_served_document())
    with shown.page.expect_event("load"):
        shown.page.locator("details.group summary").first.click()
    assert shown.page.locator("details.group[open]").count() == 1
    shown.page.fill("#search", "a-1")
    shown.page.evaluate("window.kept = true")
    shown.page.wait_for_timeout(1500)
    assert shown.page.evaluate("window.kept") is True
    assert shown.complaints == []
