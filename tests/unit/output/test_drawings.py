"""Devices that are linked to each other, drawn: as text and for the page."""

from __future__ import annotations

from hami_plugins.engine.registry import Registry
from hami_plugins.explain import drawings
from hami_plugins.explain.drawings import DeviceMark, Drawing, DrawnDevice, DrawnLink
from hami_plugins.model.device_links import GridPosition as Place
from hami_plugins.model.device_links import WiringLayout, WiringLink
from hami_plugins.model.nodes import NodeShape
from hami_plugins.output import grids
from hami_plugins.output.page import link_drawings
from tests import acme_variants
from tests.builders import a_device, a_node, a_record, a_share, allocated
from tests.unit.plan.plans import a_plan, asking, holding


def a_square(_: NodeShape) -> WiringLayout:
    """Four devices; the first row is not linked, and one link goes from corner to corner."""
    spots = tuple(Place(at, at // 2, at % 2) for at in range(4))
    return WiringLayout(
        title="square", spots=spots, links=(WiringLink(0, 2), WiringLink(2, 3), WiringLink(0, 3, wraps=True))
    )


LINKED = Registry([acme_variants.topology(layout=a_square)])


def drawn(*records: tuple[str, ...]) -> Drawing:
    """A node of four devices with pods on it, each by the devices that it holds."""
    node = a_node("n", *(a_device(index=at) for at in range(4)))
    pods = [a_record(allocated(*(a_share(each) for each in held)), name=f"p{at}") for at, held in enumerate(records)]
    (found,) = drawings.drawings(holding(node, *pods), LINKED)
    return found


def test_neighbours_without_a_link_stand_apart_and_links_across_are_listed() -> None:
    assert grids.lines(drawn(("card-1",))) == (
        "n, square",
        "    0      1a",
        "    |",
        "    2  --  3",
        "  a default/p0: 1",
        "  links that are not drawn: 0-3",
    )


def test_links_across_are_bows_on_the_page() -> None:
    (links,) = link_drawings.picture(drawn()).strokes
    assert (links.path.count("M"), links.path.count("L"), links.path.count("Q")) == (3, 2, 1)


def test_a_pod_that_holds_nothing_of_the_drawing_has_no_order_of_devices() -> None:
    assert drawn(("card-1", "card-0"), (), ("card-9",)).orders == (("default/p0", (1, 0)),)
    assert [spot.mark for spot in drawn(("card-9",)).spots] == [DeviceMark.FREE] * 4


def test_a_pod_that_is_refused_is_not_drawn() -> None:
    node = a_node("n", *(a_device(index=at) for at in range(4)))
    plan = a_plan(asking(count=2, name="two"), asking(count=5, name="five"), on=[node])
    drawings_of = {pod.pod.name: list(drawings.of_pod(pod, LINKED)) for pod in plan.pods}
    assert {name: len(found) for name, found in drawings_of.items()} == {"two": 1, "five": 0}


def test_what_is_left_out_of_a_drawing_is_a_gap_in_it() -> None:
    corners = (DrawnDevice(0, 0, 0, DeviceMark.FREE), DrawnDevice(1, 1, 1, DeviceMark.FREE))
    lonely = Drawing(
        node="n", title="corners", spots=corners, lines=(DrawnLink(0, 1, works=True, wraps=True, inside=False),)
    )
    assert grids.lines(lonely) == (
        "n, corners",
        "    0",
        "",
        "           1",
        "  links that are not drawn: 0-1",
    )
