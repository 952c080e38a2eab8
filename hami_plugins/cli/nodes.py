"""The work of ``nodes``: read a cluster, or follow it, and print its devices."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_plugins.cli import plan
from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import cluster_source
from hami_plugins.cli.kit.options import Form, TableForm
from hami_plugins.errors import ManifestError
from hami_plugins.explain.messages import counted
from hami_plugins.explain.waiting import asking, waiting
from hami_plugins.occupancy.report import NodeSelection, report_of
from hami_plugins.output import nodes
from hami_plugins.output import waiting as waiting_output
from hami_plugins.plan import Planner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_plugins.cli.kit.inputs import ClusterSource
    from hami_plugins.cli.option_groups import NodesOptions
    from hami_plugins.engine.registry import Registry
    from hami_plugins.model.cluster import ClusterSnapshot
    from hami_plugins.model.units import VendorName
    from hami_plugins.occupancy.report import ClusterReport

_OTHER_LINES: Final = 6
"""Lines of a terminal that show neither a device nor a model."""


def run(order: NodesOptions) -> int:
    """Print the devices, and say whether everything could be read."""
    source = cluster_source(order.snapshot, order.fleet, order.context, order.kubeconfig)
    if order.watch and (source.snapshots or source.fleet is not None):
        raise ManifestError("--watch follows a live cluster; leave out --snapshot and --fleet")
    plan.check_page(order.html)
    settings = inputs.settings_of(order.settings)
    registry = inputs.registry_of(settings)
    planner = Planner(registry, settings.rules())
    wanted = NodeSelection(
        names=tuple(order.names or ()), vendors=_vendors(order.vendors or (), registry), free=order.free
    )
    if order.watch:
        return _watch(order, source, planner, wanted)
    report = _report(inputs.cluster(source, registry), planner, wanted)
    if order.strict:
        inputs.without_gaps(report.gaps, source)
    _answer(order, source, report, registry)
    return Exit.FINDINGS if report.problems else Exit.FINE


def _vendors(given: Sequence[str], registry: Registry) -> frozenset[VendorName]:
    """The vendors of these names, whatever the case."""
    known = {spec.name.lower(): spec.name for spec in registry}
    for name in given:
        if name.lower() not in known:
            raise ManifestError(f"--vendor {name}: unknown vendor; known are {', '.join(known.values())}")
    return frozenset(known[name.lower()] for name in given)


def _report(snapshot: ClusterSnapshot, planner: Planner, wanted: NodeSelection) -> ClusterReport:
    return report_of(snapshot, planner.registry, wanted, waiting(asking(snapshot, planner), snapshot, planner))


def _watch(order: NodesOptions, source: ClusterSource, planner: Planner, wanted: NodeSelection) -> int:
    from hami_plugins.cli.live.followed import followed

    shown: list[object] = []
    registry = planner.registry

    def show(snapshot: ClusterSnapshot, trouble: str) -> None:
        report = _report(snapshot, planner, wanted)
        now = [nodes.document(report, registry), trouble]
        if now == shown:
            return
        if shown:
            _begin_again(order.form)
        shown[:] = now
        _answer(order, source, report, registry)
        if trouble:
            output.remark(f"not up to date: {trouble}")
        sys.stdout.flush()

    followed(source, registry, show)
    return Exit.FINE


def _begin_again(form: TableForm) -> None:
    """Separate an answer from the one before it: by an empty screen on a terminal, else by a line."""
    if form is TableForm.JSON:
        return
    if form is TableForm.YAML:
        output.line("---")
    elif sys.stdout.isatty():
        from rich.console import Console

        Console().clear()
    else:
        output.line()


def _answer(order: NodesOptions, source: ClusterSource, report: ClusterReport, registry: Registry) -> None:
    if order.html is not None:
        from hami_plugins.output.page import report_page

        title = "Nodes and devices"
        page = report_page(
            report,
            plan.heading(title, source.words()),
            waiting=waiting_output.panels(report.waiting),
            waiting_more=waiting_output.more_words(report.waiting),
        )
        Path(order.html).write_text(page, encoding="utf-8")
        output.remark(f"page: {Path(order.html).absolute().as_uri()}")
    if order.form in {TableForm.JSON, TableForm.YAML}:
        output.document(nodes.streamed(report, registry), Form(order.form.value))
        return
    if report.nodes:
        most = most_rows(watched=order.watch, below=len(report.totals))
        devices, more = nodes.devices(report, wide=order.form is TableForm.WIDE, most=most)
        output.table(devices, headers=not order.no_headers)
        if more:
            output.line(f"and {counted(more, 'more node')}; -o json has all devices", "dim")
        output.line()
        output.table(nodes.totals(report), headers=not order.no_headers)
        output.line()
    output.line(nodes.summary(report).words)
    for line in waiting_output.lines(report.waiting):
        plan.print_line(line)
    plan.print_gaps(report.gaps)
    plan.tell_problems(report.problems)


def most_rows(*, watched: bool, below: int) -> int:
    """How many rows are printed: of a table that is printed again and again, those that a terminal has lines for."""
    if not watched or not sys.stdout.isatty():
        return plan.MOST_ROWS
    return max(shutil.get_terminal_size().lines - below - _OTHER_LINES, 1)
