"""The work of ``plan``: read, ask, print."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hami_plugins.cli import prices
from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import ClusterSource, cluster_source
from hami_plugins.cli.kit.options import Form
from hami_plugins.engine import static_mig
from hami_plugins.errors import ManifestError
from hami_plugins.explain.answers import Answers
from hami_plugins.explain.messages import counted
from hami_plugins.inputs import workloads
from hami_plugins.model.dialect import Dialect
from hami_plugins.output import costs, documents, tables
from hami_plugins.plan import Planner, Stage, completeness, replica_rows, submission, what_if
from hami_plugins.queueing import releases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_plugins.cli.option_groups import PlanOptions
    from hami_plugins.engine.registry import Registry
    from hami_plugins.explain.drawings import Drawing
    from hami_plugins.inputs.prices import PriceTable
    from hami_plugins.inputs.workloads import Submission
    from hami_plugins.model.cluster import ClusterSnapshot
    from hami_plugins.model.nodes import NodeEntry, Problem
    from hami_plugins.output.page import Heading
    from hami_plugins.output.rows import Table, TextLine
    from hami_plugins.plan import Plan, PlanUnit, PodPlan
    from hami_plugins.plan.completeness import Gap

NANOSECONDS: Final = 10**9

MOST_ROWS: Final = 1_000
"""Rows of the table that are printed."""

MOST_PROBLEMS: Final = 10
"""Unreadable cluster objects that are listed with a table."""


def run(order: PlanOptions) -> int:
    """Plan, print, and say whether every pod found a place; workloads that are skipped have found none."""
    files, table = order.files or (), prices.table_of(order.prices)
    source = cluster_source(order.snapshot, order.fleet, order.context, order.kubeconfig)
    source = replace(source, node_groups=tuple(order.node_groups or ()))
    if not files:
        raise ManifestError("nothing to plan; give manifests with -f FILE, a folder, or - for stdin")
    if order.usage and order.html is None:
        raise ManifestError("--usage is shown on the page; also give --html FILE")
    check_page(order.html)
    if files.count(inputs.STDIN) + source.snapshots.count(inputs.STDIN) > 1:
        raise ManifestError("stdin can be read once: only one of -f and --snapshot may be -")
    settings = inputs.settings_of(order.settings)
    registry, rules = inputs.registry_of(settings), settings.rules()
    read = inputs.documents(files, recursive=order.recursive)
    if not read:
        names = ", ".join("stdin" if each == inputs.STDIN else each for each in files)
        raise ManifestError(f"{names}: nothing to plan; it has no objects")
    snapshot = inputs.cluster(source, registry)
    known = what_if.without(snapshot, order.without or ())
    snapshot = what_if.with_nodes(known, order.add_nodes or (), registry)
    added = [entry for entry in snapshot.nodes if entry.name not in known.position]
    submitted = workloads.read(
        read, namespace=order.namespace or "default", pod_groups=snapshot.pod_groups, skip_faulty=True
    )
    snapshot = submission.with_objects(snapshot, submitted)
    registry = static_mig.scheduled(snapshot, registry)
    release = releases.release_of(order.scheduler) if order.scheduler else None
    assigner = releases.assigner_of(order.assigner) if order.assigner else settings.volcano.assigner
    now_ns, rules = time.time_ns(), what_if.with_policy(rules, order.policy)
    planner = Planner(registry, rules, release=release, assigner=assigner, now=now_ns / NANOSECONDS)
    units = submission.units(submitted, snapshot)
    found = _planned(planner, snapshot, units, now_ns, preemption=order.preemption)
    if order.strict:
        inputs.without_gaps(found.gaps, source)
    _answer(order, source, found, submitted, planner, Priced(table, added))
    return Exit.FINE if found.complete and not submitted.skipped and not submitted.faulty else Exit.FINDINGS


def check_page(path: str | None) -> None:
    """Raises ``ManifestError`` for a page in a folder that does not exist."""
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise ManifestError(f"--html {path}: folder {Path(path).absolute().parent} does not exist; create it first")


def _planned(
    planner: Planner, snapshot: ClusterSnapshot, units: tuple[PlanUnit, ...], now_ns: int, *, preemption: bool
) -> Plan:
    pods = sum(unit.size for unit in units)
    with inputs.advancing(f"planning {counted(pods, 'pod')}", pods) as progress:
        return planner.plan(snapshot, units, now_ns=now_ns, progress=progress, preemption=preemption)


class Priced(NamedTuple):
    """The prices, ``None`` unless costs are requested, and the added nodes."""

    table: PriceTable | None
    added: Sequence[NodeEntry]


def _answer(  # noqa: PLR0917 - what was asked, and all that is known of it
    order: PlanOptions, source: ClusterSource, found: Plan, submitted: Submission, planner: Planner, priced: Priced
) -> None:
    dialect = order.annotations
    if dialect is not None and order.form is Form.TABLE and order.html is None:
        _print_annotations(found, dialect)
        for gap in found.gaps:
            output.remark(gap.message)
        return
    with inputs.working("looking for reasons and changes", when=len(found.pods) >= MOST_ROWS):
        answers = Answers(found, planner, prices=priced.table)
    if order.html is not None:
        title = f"Plan of {counted(found.size, 'pod')}"
        write_page(order.html, answers, submitted, title=title, source=source.words(), usage=order.usage or ())
        output.remark(f"page: {Path(order.html).absolute().as_uri()}")
    if order.form is not Form.TABLE:
        cost = None if priced.table is None else costs.plan_document(found, priced.added, priced.table)
        made = documents.streamed_plan(found, answers, submitted=submitted, dialect=dialect, cost=cost)
        output.document(made, order.form)
    elif dialect is not None:
        _print_annotations(found, dialect)
    else:
        print_table(tables.plan(found, planner.registry), headers=not order.no_headers)
        tell(found, answers, submitted)
        if priced.table is not None:
            prices.tell(found, priced.added, priced.table)
        _tell_what_was_left_out(found, submitted)


def _print_annotations(found: Plan, dialect: Dialect) -> None:
    """One YAML document per pod that the dialect's scheduler places; the others as comments that say why not."""
    for each in found.pods:
        document = documents.written(each, dialect)
        if document is not None:
            output.line("---")
            output.lines(output.as_yaml(document).rstrip())
        elif not each.annotations and each.stage is Stage.PLACED:
            output.line(f"# {each.pod.full_name}: asks for no devices, so nothing is written")
        elif each.stage is Stage.PLACED:
            output.line(f"# {each.pod.full_name}: requests resources of {each.intake.dialect}")
        else:
            (name,) = replica_rows.ranged_plans([each])
            output.line(f"# {name}: {tables.status(each)}")


def tell(found: Plan, answers: Answers, submitted: Submission | None = None) -> None:
    """In words: of every pod that is not placed why not and what would help, and how many are."""
    for line in tables.pictures(found, answers.registry):
        print_line(line)
    drawn: set[Drawing] = set()
    for refusal in answers.refusals():
        output.line()
        for line in tables.refusal(refusal, drawn):
            print_line(line)
    tell_evictions(found, answers.registry)
    _note(found)
    print_gaps(found.gaps)
    output.line()
    last = tables.summary(found, submitted)
    output.line(last.words, last.tone)


def tell_evictions(found: Plan, registry: Registry) -> None:
    """The victims of each pod, and the nodes afterwards."""
    table = tables.evictions(found)
    if table is not None:
        output.line()
        print_table(table)
        for line in tables.nodes_after(found, registry):
            print_line(line)


def print_table(table: Table, *, headers: bool = True) -> None:
    """The first rows of a table; the others are counted."""
    output.table(replace(table, rows=table.rows[:MOST_ROWS]), headers=headers)
    if len(table.rows) > MOST_ROWS:
        output.line(f"and {counted(len(table.rows) - MOST_ROWS, 'more row')}; -o json has all pods", "dim")


def print_line(line: TextLine) -> None:
    """A sentence, or a line of a drawing."""
    if line.fixed:
        output.line(line.words, line.tone)
    else:
        output.prose(line.words, line.tone)


def print_gaps(gaps: Sequence[Gap]) -> None:
    """What the listing of the cluster lacks, so that the answer may be about another cluster."""
    for at, gap in enumerate(gaps):
        if not at:
            output.line()
        output.prose(f"note: {gap.why}", "warn")
    if gaps:
        output.prose(f"  -> {completeness.REMEDY}", "good")


def _note(found: Plan) -> None:
    """Where the upstream scheduler may do otherwise, each once with the pods that it is about."""
    pods: dict[str, list[PodPlan]] = {}
    for each in found.pods:
        for note in each.notes:
            pods.setdefault(note, []).append(each)
    if pods:
        output.line()
    for note, noted in pods.items():
        first, *others = replica_rows.ranged_plans(noted)
        more = f" and {len(others)} more" if others else ""
        output.prose(f"note: {first}{more}: {note}", "warn")


def write_page(
    path: str, answers: Answers, submitted: Submission, *, title: str, source: str, usage: Sequence[str] = ()
) -> None:
    """The plan as a page in a file. ``usage`` are files that say what containers use."""
    from hami_plugins.output import page

    usages = inputs.usages(usage) if usage else None
    text = page.answered(answers, heading(title, source), submitted=submitted, usages=usages)
    Path(path).write_text(text, encoding="utf-8")


def heading(title: str, source: str) -> Heading:
    """The heading of a page that is made now."""
    from hami_plugins.output.page import Heading

    return Heading(title=title, source=source, made_at=datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC"))


def _tell_what_was_left_out(found: Plan, submitted: Submission) -> None:
    """On stderr, because it is about the input: skipped documents, and what could not be read."""
    for each in submitted.ignored:
        if each.silent:
            continue
        place = f"{each.document.source} line {each.document.line}"
        output.remark(f"{place}: {each.kind} {each.name} is left out: {each.why}")
    tell_problems(found.before.problems)


def tell_problems(problems: Sequence[Problem]) -> None:
    """The first unreadable things of a cluster, on stderr."""
    for problem in problems[:MOST_PROBLEMS]:
        output.remark(f"{problem.place}: {problem.what}")
    if len(problems) > MOST_PROBLEMS:
        output.remark(f"and {len(problems) - MOST_PROBLEMS:,} more; -o json has all of them")
