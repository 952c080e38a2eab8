"""Drawings of linked devices in a browser: seen on any screen, told to those who cannot see them."""

from __future__ import annotations

import pytest

from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.registry import Registry
from hami_plugins.explain.answers import Answers
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.output import page
from hami_plugins.plan import Planner, PlanUnit
from neuron_topology.core.names import DEVICES
from neuron_topology.core.nodes import HEALTH_KEY
from neuron_topology.core.vendor import SPEC
from tests.builders import a_container, a_pod, a_snapshot
from tests.integration.browser.conftest import Show, faint_words
from tests.unit.neuron_topology.nodes import a_neuron_node

REGISTRY = Registry([SPEC])


def a_document() -> str:
    """A torus with a broken device and a dead link, on which two pods get sets and one finds none."""
    health = {HEALTH_KEY: '{"devices": [15], "links": [[4, 5], [0, 12]]}'}
    entry = NodeBuilder(REGISTRY).entry(a_neuron_node(annotations=health), NodeFacts())
    pods = [a_pod(a_container({DEVICES: count}), name=f"p{at}") for at, count in enumerate((4, 1, 4, 1, 4))]
    planner = Planner(REGISTRY)
    plan = planner.plan(a_snapshot(entry), [PlanUnit(name=f"pod/{pod.full_name}", pods=(pod,)) for pod in pods])
    heading = page.Heading(title="Linked")
    return page.answered(Answers(plan, planner), heading)


def test_every_drawing_says_what_it_shows(show: Show) -> None:
    shown = show(a_document())
    pictures = shown.page.locator("svg[role=img]")
    assert pictures.count() == 2
    for at in range(2):
        label = pictures.nth(at).get_attribute("aria-label") or ""
        assert label.startswith("4x4 torus of n; ")
        assert "links that do not work 0-12, 4-5" in label
        assert pictures.nth(at).locator("circle").count() == 16
    assert "the nearest set" in (pictures.first.get_attribute("aria-label") or "")
    assert shown.complaints == []


@pytest.mark.parametrize("width", [320, 1280])
def test_no_drawing_is_wider_than_its_panel(show: Show, width: int) -> None:
    shown = show(a_document(), viewport={"width": width, "height": 900})
    box = shown.page.locator(".node svg").first.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_numbers_of_devices_stand_out(show: Show, scheme: str) -> None:
    assert faint_words(show(a_document(), color_scheme=scheme)) == []
