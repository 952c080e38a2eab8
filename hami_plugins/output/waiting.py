"""What waits for devices, and why: as lines, as a document, and as panels of the page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hami_plugins.explain.messages import counted
from hami_plugins.output.page.cluster import ReasonLine, RefusalPanel
from hami_plugins.output.rows import TextLine
from hami_plugins.plan import replica_rows

if TYPE_CHECKING:
    from hami_plugins.explain.waiting import WaitingGroup, WaitingReport
    from hami_plugins.output import node_schema

MOST_NAMED: Final = 10
"""Pods of one group that the document names; the others are counted."""

_FITS, _WAITS = "room is free", "waits"


def lines(report: WaitingReport) -> Iterator[TextLine]:
    """Nothing where no pod waits."""
    if not report.pods:
        return
    yield TextLine(f"{_pods(report.pods)} for devices:", "bad")
    for each in report.groups:
        title, more = _named(each)
        yield TextLine(f"  {title}{more}{_since(each)}: {each.why}")
        yield from (TextLine(f"    -> {way_out.sentence}", "good") for way_out in each.ways_out)
    if report.more:
        yield TextLine(f"  {more_words(report)}", "dim")


def panels(report: WaitingReport) -> tuple[RefusalPanel, ...]:
    """The same for the page."""
    return tuple(map(_panel, report.groups))


def document(report: WaitingReport) -> node_schema.WaitingDocument:
    """All of it."""
    return {
        "pods": report.pods,
        "more": report.more,
        "groups": [
            {
                "pods": len(each.pods),
                "names": [pod.full_name for pod in each.pods[:MOST_NAMED]],
                "scheduler": each.pods[0].scheduler,
                "since": "" if each.since is None else _moment(each.since).isoformat().replace("+00:00", "Z"),
                "why": each.why,
                "fittingNodes": each.fitting,
                "reasons": [
                    {"nodes": cause.nodes, "words": cause.words, "examples": list(cause.examples)}
                    for cause in each.causes
                ],
                "suggestions": [way_out.sentence for way_out in each.ways_out],
            }
            for each in report.groups
        ],
    }


def more_words(report: WaitingReport) -> str:
    """How many are not explained; empty where all are."""
    return f"and {counted(report.more, 'more pod')}; hami-plugins explain pod -A explains all" if report.more else ""


def _panel(group: WaitingGroup) -> RefusalPanel:
    title, more = _named(group)
    return RefusalPanel(
        title=title,
        more=f"{more}{_since(group)}".strip(),
        stage=_FITS if group.fitting else _WAITS,
        why="" if group.causes else group.why,
        reasons=tuple(ReasonLine(cause.tally, cause.words) for cause in group.causes),
        changes=tuple(way_out.sentence for way_out in group.ways_out),
    )


def _pods(number: int) -> str:
    return f"{counted(number, 'pod')} {'waits' if number == 1 else 'wait'}"


def _named(group: WaitingGroup) -> tuple[str, str]:
    """The pods as one range of replicas, or the first of them and how many others there are."""
    first, *others = replica_rows.ranged(pod.full_name for pod in group.pods)
    if not others:
        return first, ""
    return group.pods[0].full_name, f" and {counted(len(group.pods) - 1, 'more pod')}"


def _since(group: WaitingGroup) -> str:
    return "" if group.since is None else f" since {_moment(group.since):%Y-%m-%d %H:%M} UTC"


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
