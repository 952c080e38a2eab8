"""The work of ``neuron simulate``: read, run, print."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.progress import Advancing
from hami_plugins.config import texts
from hami_plugins.errors import ConfigError
from neuron_topology.commands import study_reader
from neuron_topology.commands.options import SimulateOptions
from neuron_topology.core.simulation import answers, comparison, page
from neuron_topology.core.simulation.comparison import PolicyResult, Study
from neuron_topology.core.simulation.jobs import Trace

OF_MIXES: Final = {"loads": "--load", "jobs": "--jobs", "runs": "--runs", "seed": "--seed"}
"""Words about jobs that are drawn; a trace has its own, and is run once."""

MOST_PROBLEMS: Final = 10
"""Jobs of a trace that are left out and named; further ones are counted."""


def run(request: SimulateOptions) -> int:
    """Simulate and print; jobs of a trace that had to be left out are findings."""
    traces = request.traces or ()
    if [request.file, *traces].count(inputs.STDIN) > 1:
        raise ConfigError("stdin can be read once: only one of -f and --trace may be -")
    raw = {} if request.file is None else texts.mapping(inputs.read_text(request.file), request.file)
    source = request.file or "options"
    order = study_reader.order({**raw, **request.words}, source)
    read = [study_reader.trace(inputs.read_text(path), _name(path), order.machine) for path in traces]
    study = study_reader.study(order, source, tuple(each.trace for each in read))
    problems = [problem for each in read for problem in each.problems]
    _tell_what_was_left_out(problems)
    if all(isinstance(each.workload, Trace) for each in study.settings):
        _tell_what_changes_nothing([said for name, said in OF_MIXES.items() if name in request.words])
    with Advancing("simulating", study.jobs) as advance:
        found = list(comparison.compare(study, random.Random, advance))
    _answer(request, study, found, [*filter(None, (request.file,)), *traces])
    return Exit.FINDINGS if problems else Exit.FINE


def _answer(
    request: SimulateOptions, study: Study, found: Sequence[Sequence[PolicyResult]], files: Sequence[str]
) -> None:
    if request.html is not None:
        _write_page(request.html, study, found, ", ".join(map(_name, files)))
    if request.form is not Form.TABLE:
        output.document(answers.document(study, found), request.form)
        return
    for number, findings in enumerate(found):
        if number:
            output.line()
        output.line(f"{answers.title(findings[0].setting)} ({answers.effort(study, findings[0].setting)})")
        output.table(answers.table(findings), headers=not request.no_headers)
        gained = answers.gain(findings)
        if gained is not None:
            output.line(" ".join(gained))


def _write_page(path: str, study: Study, found: Sequence[Sequence[PolicyResult]], source: str) -> None:
    made_at = datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page.render(study, found, source=source, made_at=made_at), encoding="utf-8")


def _tell_what_was_left_out(problems: Sequence[str]) -> None:
    for problem in problems[:MOST_PROBLEMS]:
        output.remark(problem)
    if len(problems) > MOST_PROBLEMS:
        output.remark(f"and {len(problems) - MOST_PROBLEMS:,} more jobs are left out")


def _tell_what_changes_nothing(options: Sequence[str]) -> None:
    if options:
        output.remark(
            f"{', '.join(options)}: only for mixes; a trace has its own jobs and is run once (--mix adds a mix)"
        )


def _name(path: str) -> str:
    return "stdin" if path == inputs.STDIN else Path(path).name
