"""The devices of a cluster as one HTML page that needs nothing else: every node, every card as a bar of parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hami_plugins.occupancy.report import ClusterReport
from hami_plugins.occupancy.totals import noun_of
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


def report_page(
    report: ClusterReport, heading: Heading, *, waiting: Sequence[RefusalPanel] = (), waiting_more: str = ""
) -> str:
    """The page of a report. ``waiting`` are pods without a node, which are shown first."""
    groups = groups_of(report.nodes, Panels())
    page = ClusterPage(
        title=heading.title,
        subtitle=heading.words,
        warnings=tuple(gap.message for gap in report.gaps),
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
        wired=any(use.drawings for use in report.nodes),
    )
    return frame.rendered(page, "page.html.j2", scripts=["page.js"])


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
