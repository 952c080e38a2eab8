"""The page of moves in a browser: nodes before and after, side by side, and nothing that sticks out."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from hami_plugins.output import page
from tests.integration.browser.conftest import Show, faint_words
from tests.unit.defrag.clusters import CARD, REGISTRY, a_cluster, planned, waiting


@cache
def a_document() -> str:
    """A move that is sure and one that is not, in a cluster of a dozen nodes."""
    nodes: dict[str, Any] = {f"other-{at}": [{f"fixed-{at}": CARD}] for at in range(10)}
    spread = {"one": {"annotations": {"hami.io/node-scheduler-policy": "spread"}}}
    cluster = a_cluster(pods=spread, busy=[{"one": 5_000, "two": 4_000}], roomy=[{"fixed": 6_000}], **nodes)
    plan = planned(cluster, waiting(CARD))
    return page.moves_page(plan, plan.before, REGISTRY, page.Heading(title="Pods to move", source="here"))


def test_the_page_asks_nobody_for_anything_and_complains_of_nothing(show: Show) -> None:
    shown = show(a_document())
    assert shown.complaints == []
    assert len(shown.requests) == 1


def test_only_nodes_that_change_are_drawn_before_and_after(show: Show) -> None:
    shown = show(a_document())
    names = shown.page.locator(".node:visible h4").all_text_contents()
    assert names == ["busy: before", "busy: after", "roomy: before", "roomy: after"]


def test_before_and_after_stand_side_by_side(show: Show) -> None:
    shown = show(a_document(), viewport={"width": 1280, "height": 800})
    before, after = (shown.page.locator(f"#n{at}").bounding_box() for at in (0, 1))
    assert before is not None
    assert after is not None
    assert before["y"] == after["y"]
    assert before["x"] < after["x"]


def test_a_pod_that_moves_is_found_where_it_was_and_where_it_goes(show: Show) -> None:
    shown = show(a_document())
    shown.page.fill("#search", "default/two")
    shown.page.keyboard.press("Enter")
    assert shown.page.locator(".node:visible h4").all_text_contents() == ["busy: before", "roomy: after"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(show: Show, scheme: str) -> None:
    assert faint_words(show(a_document(), color_scheme=scheme)) == []


@pytest.mark.parametrize("width", [320, 768, 1280])
def test_nothing_sticks_out_of_the_window(show: Show, width: int) -> None:
    shown = show(a_document(), viewport={"width": width, "height": 800})
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
