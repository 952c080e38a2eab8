"""The work of ``demo``: the shipped workloads on the shipped fleet ``mixed``, told step by step."""

from __future__ import annotations

from pathlib import Path

from hami_plugins import examples
from hami_plugins.cli import inputs, output, planning
from hami_plugins.cli.edge import Exit
from hami_plugins.cli.inputs import Source
from hami_plugins.report import manifests, tables, workloads
from hami_plugins.report.explain.answers import Answers
from hami_plugins.report.plan import Planner, submission

FLEET = "mixed"


def run(html: str) -> int:
    """Tell the story. It ends well even though one of its jobs does not fit: that is what it shows."""
    settings = inputs.settings_of(None)
    registry = inputs.registry_of(settings)
    snapshot = inputs.cluster(Source(fleet=FLEET), registry)
    cards = sum(len(entry.ids) for entry in snapshot.nodes)
    files = examples.workload_files()
    documents = [each for name, text in files for each in manifests.read(text, source=name)]
    submitted = workloads.read(documents, pod_groups=snapshot.pod_groups)
    output.line(f"A cluster of {len(snapshot.nodes)} nodes with {cards} cards of many makers (fleet {FLEET}), idle.")
    output.line(f"{len(submitted.workloads)} workloads are submitted to it, from {len(files)} files.")
    output.line()
    snapshot = submission.with_objects(snapshot, submitted)
    planner = Planner(registry, settings.rules())
    found = planner.plan(snapshot, submission.units(submitted, snapshot))
    answers = Answers(found, planner)
    output.table(tables.plan(found))
    planning.tell(found, answers)
    planning.write_page(html, answers, submitted, title="Demo: many makers, one plan", source=f"fleet {FLEET}")
    output.line()
    output.line(f"Every card with what it holds: {Path(html).absolute().as_uri()}")
    output.line(f"The same by hand: hami-plugins plan --fleet {FLEET} -f YOUR.yaml")
    return Exit.FINE
