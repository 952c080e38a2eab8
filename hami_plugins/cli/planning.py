"""The work of ``plan``: read, ask, print."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hami_plugins.cli import inputs, output
from hami_plugins.cli.edge import Exit
from hami_plugins.cli.inputs import Source
from hami_plugins.cli.options import Form, Words
from hami_plugins.errors import ManifestError
from hami_plugins.model.vendor import Dialect
from hami_plugins.report import documents, submission, tables, what_if, workloads
from hami_plugins.report.plan import Planner, Stage

if TYPE_CHECKING:
    from hami_plugins.engine.registry import Registry
    from hami_plugins.report.plan import Plan
    from hami_plugins.report.workloads import Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What somebody wants to have planned, and how the answer is to be given."""

    files: tuple[str, ...]
    recursive: bool
    source: Source
    namespace: str
    without: tuple[str, ...]
    add_nodes: tuple[str, ...]
    policy: str
    annotations: Words | None
    html: str | None
    form: Form
    headers: bool
    settings: str | None


def run(order: Order) -> int:
    """Plan, print, and say whether every pod found a place."""
    if not order.files:
        raise ManifestError("nothing to plan; give manifests with -f FILE, a folder, or - for stdin")
    if order.files.count(inputs.STDIN) + order.source.snapshots.count(inputs.STDIN) > 1:
        raise ManifestError("stdin can be read once: only one of -f and --snapshot may be -")
    settings = inputs.settings_of(order.settings)
    registry, rules = settings.registry(), settings.rules()
    read = inputs.documents(order.files, recursive=order.recursive)
    snapshot = inputs.cluster(order.source, registry)
    snapshot = what_if.with_nodes(what_if.without(snapshot, order.without), order.add_nodes, registry)
    submitted = workloads.read(read, namespace=order.namespace, pod_groups=snapshot.pod_groups)
    snapshot = submission.with_objects(snapshot, submitted)
    planner = Planner(registry, what_if.with_policy(rules, order.policy))
    found = planner.plan(snapshot, submission.units(submitted, snapshot), now_ns=time.time_ns())
    _answer(order, found, submitted, registry)
    return Exit.FINE if found.complete else Exit.FINDINGS


def _answer(order: Order, found: Plan, submitted: Submission, registry: Registry) -> None:
    if order.html is not None:
        write_page(order.html, found, registry, title=_title(found), source=order.source.words())
    dialect = None if order.annotations is None else Dialect(order.annotations)
    if order.form is not Form.TABLE:
        output.document(documents.plan(found, ignored=submitted.ignored, dialect=dialect), order.form)
        return
    if dialect is not None:
        _print_annotations(found, dialect)
        return
    output.table(tables.plan(found), headers=order.headers)


def _print_annotations(found: Plan, dialect: Dialect) -> None:
    """One YAML document per pod that the dialect's scheduler places; the others as comments that say why not."""
    for each in found.pods:
        document = documents.written(each, dialect)
        if document is not None:
            output.line("---")
            output.line(output.as_yaml(document).rstrip())
        elif each.stage is Stage.PLACED:
            output.line(f"# {each.pod.full_name}: asks in the words of {each.intake.dialect}")
        else:
            output.line(f"# {each.pod.full_name}: {tables.status(each)}")


def tell(found: Plan, registry: Registry) -> None:
    """In words: how many fit, and of every other pod why not and what would help."""
    placed = sum(1 for each in found.pods if each.stage is Stage.PLACED)
    output.line(f"{placed} of {len(found.pods)} pods fit.", "good" if found.complete else "bad")


def write_page(path: str, found: Plan, registry: Registry, *, title: str, source: str) -> None:
    """The plan as a page in a file; folders on the way are made."""
    from hami_plugins.report import page

    made_at = datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = page.render(found, registry, page.Heading(title=title, source=source, made_at=made_at))
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _title(found: Plan) -> str:
    count = len(found.pods)
    return f"Plan of {count} pod{'' if count == 1 else 's'}"
