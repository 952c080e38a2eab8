"""The devices of a cluster as one HTML page that needs nothing else: every node, every card as a bar of parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final

from hami_plugins.occupancy.devices import NodeUse
from hami_plugins.occupancy.report import ClusterReport
from hami_plugins.occupancy.totals import noun_of, shape_of
from hami_plugins.output.page import frame
from hami_plugins.output.page.bars import Panels
from hami_plugins.output.page.cluster import (
    MOST_ROWS,
    ClusterPage,
    Heading,
    PageTile,
    PlanRemark,
    RefusalPanel,
    bare_words,
    fleet_rows,
    further,
    groups_of,
    usage_tiles,
)

WAITING: Final = "What waits, and why"
SERVED: Final = "Made by hami-plugins. Read-only; it loads itself again while nothing is searched or selected."
SCRIPTS: Final = ("page.js",)
SERVED_SCRIPTS: Final = (*SCRIPTS, "refresh.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageService:
    """How a page differs that a server makes.

    It draws at most ``most`` nodes, and says where to find the others. ``refresh`` are the seconds after which it
    loads itself again.
    """

    most: int
    elsewhere: str
    refresh: int


def report_page(
    report: ClusterReport,
    heading: Heading,
    *,
    waiting: Sequence[RefusalPanel] = (),
    waiting_more: str = "",
    service: PageService | None = None,
) -> str:
    """The page of a report. ``waiting`` are pods without a node, which are shown first."""
    drawn = report.nodes if service is None else some_of_each(report.nodes, service.most)
    groups = groups_of(drawn, Panels())
    page = ClusterPage(
        title=heading.title,
        subtitle=heading.words,
        warnings=(*(gap.message for gap in report.gaps), *_undrawn(report, service)),
        tiles=(*_unread(report), *_waiting(report), *usage_tiles(report.nodes)),
        refusals=tuple(waiting),
        refusals_title=WAITING,
        refusals_more=waiting_more,
        fleet=tuple(fleet_rows(report.totals)),
        groups=groups,
        noun=noun_of(report.nodes),
        bare=bare_words(report.bare, more=bool(groups)),
        remarks=tuple(PlanRemark(each.place, each.what) for each in report.problems[:MOST_ROWS]),
        remarks_more=further(len(report.problems), "remarks"),
        wired=any(use.drawings for use in drawn),
        refresh=0 if service is None else service.refresh,
        footer=frame.FOOTER if service is None else SERVED,
    )
    return frame.rendered(page, "page.html.j2", scripts=SCRIPTS if service is None else SERVED_SCRIPTS)


def some_of_each(nodes: Sequence[NodeUse], most: int) -> Sequence[NodeUse]:
    """At most so many nodes in their order, as many of each shape as of every other one, as long as there are some."""
    if len(nodes) <= most:
        return nodes
    shapes: dict[object, list[int]] = {}
    for at, use in enumerate(nodes):
        shapes.setdefault(shape_of(use.entry), []).append(at)
    turns = (at for turn in zip_longest(*shapes.values()) for at in turn if at is not None)
    return [nodes[at] for at in sorted(islice(turns, most))]


def _undrawn(report: ClusterReport, service: PageService | None) -> Iterable[str]:
    """How many nodes are not drawn, and where they are."""
    if service is not None and len(report.nodes) > service.most:
        yield f"{service.most:,} of {len(report.nodes):,} nodes are drawn, some of each kind; {service.elsewhere}"


def _unread(report: ClusterReport) -> Iterable[PageTile]:
    """First of all what the page cannot show."""
    number = len(report.problems)
    if number:
        words = "thing in the cluster" if number == 1 else "things in the cluster"
        yield PageTile(figure=f"{number:,}", words=f"{words} could not be read: see the remarks", css="bad")


def _waiting(report: ClusterReport) -> Iterable[PageTile]:
    """How many pods wait."""
    number = report.waiting.pods
    if number:
        words = "pod waits for devices" if number == 1 else "pods wait for devices"
        yield PageTile(figure=f"{number:,}", words=words, css="bad")
