"""The page of a simulation in a browser: it looks like the others, and everybody can read its drawings."""

from __future__ import annotations

import random

import pytest

from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.simulation import comparison, page
from neuron_topology.core.simulation.comparison import SimulationSetting, Study
from neuron_topology.core.simulation.jobs import FOURS_AND_EIGHTS, PAIRS, Poisson
from neuron_topology.core.simulation.policies import SelectionPolicy
from tests.integration.browser.conftest import Show, background, faint_words

TRN1 = INSTANCE_TYPES["trn1.32xlarge"]


@pytest.fixture(scope="module")
def document() -> str:
    """Two settings, each run a few times."""
    settings = tuple(
        SimulationSetting(instance=TRN1, nodes=nodes, workload=Poisson(mix, 1.1, 400))
        for mix, nodes in ((FOURS_AND_EIGHTS, 1), (PAIRS, 2))
    )
    study = Study(settings=settings, policies=tuple(SelectionPolicy), runs=3)
    return page.render(study, list(comparison.compare(study, random.Random)), source="ours", made_at="today")


def test_the_page_asks_nobody_for_anything_and_complains_of_nothing(show: Show, document: str) -> None:
    shown = show(document)
    shown.page.click("#theme")
    assert shown.complaints == []
    assert len(shown.requests) == 1


def test_the_theme_is_that_of_every_page(show: Show, document: str) -> None:
    shown = show(document, color_scheme="light")
    light = background(shown)
    shown.page.click("#theme")
    shown.page.click("#theme")
    assert background(shown) != light
    assert background(show(document, color_scheme="dark")) == background(shown)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(show: Show, document: str, scheme: str) -> None:
    shown = show(document, color_scheme=scheme)
    assert shown.page.locator("svg text").count() > 100
    assert faint_words(shown) == []


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_sticks_out_of_the_window(show: Show, document: str, width: int) -> None:
    shown = show(document, viewport={"width": width, "height": 800})
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width


def test_nothing_sticks_out_of_a_drawing_and_no_words_lie_on_each_other(show: Show, document: str) -> None:
    assert show(document).page.evaluate(_COLLISIONS) == []


def test_drawings_are_images_with_a_text_for_those_who_do_not_see_them(show: Show, document: str) -> None:
    shown = show(document)
    images = shown.page.get_by_role("img", name="fragmentation rejects: aws")
    assert images.count() == 2
    assert "linked-first-fit" in (images.first.get_attribute("aria-label") or "")


def test_the_tab_key_reaches_the_skip_link_and_the_tables(show: Show, document: str) -> None:
    shown = show(document)
    shown.page.keyboard.press("Tab")
    shown.page.keyboard.press("Enter")
    assert shown.page.evaluate("location.hash") == "#s0"
    shown.page.keyboard.press("Tab")
    assert shown.page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Figures of fours")


def test_paper_is_light(show: Show, document: str) -> None:
    shown = show(document, color_scheme="dark")
    shown.page.emulate_media(media="print")
    assert background(shown) == "rgb(255, 255, 255)"
    assert not shown.page.locator("#theme").is_visible()


_COLLISIONS = """
() => {
  const found = [];
  const before = (end, start, slack) => end <= start + slack;
  const apart = (a, b) => before(a.right, b.left, 0.5) || before(b.right, a.left, 0.5)
    || before(a.bottom, b.top, 2) || before(b.bottom, a.top, 2);
  document.querySelectorAll(".chart svg").forEach((svg) => {
    const frame = svg.getBoundingClientRect();
    const parts = Array.from(svg.querySelectorAll("text, circle, .interval"));
    parts.forEach((part, at) => {
      const box = part.getBoundingClientRect();
      if (box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom) {
        found.push("outside: " + svg.getAttribute("aria-label") + " " + part.outerHTML);
      }
      if (part.tagName !== "text") { return; }
      parts.forEach((other, place) => {
        if (place !== at && !apart(box, other.getBoundingClientRect())) {
          found.push(part.textContent + " on " + (other.textContent || other.tagName));
        }
      });
    });
  });
  return found;
}
"""
