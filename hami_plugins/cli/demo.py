"""The work of ``demo``: the shipped workloads planned on the shipped fleet ``mixed``, then a small cluster for real."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_plugins import examples
from hami_plugins.cli import plan
from hami_plugins.cli.kit import inputs, output, plugins
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import ClusterSource
from hami_plugins.explain.answers import Answers
from hami_plugins.inputs import manifests, workloads
from hami_plugins.model.decisions import Placed
from hami_plugins.output import tables
from hami_plugins.plan import Planner, submission

if TYPE_CHECKING:
    from hami_plugins.cli.live.cluster import DemoCluster
    from hami_plugins.cli.live.signals import DemoError, Ending
    from hami_plugins.config.settings import Settings
    from hami_plugins.engine.registry import Registry
    from hami_plugins.model.cluster import ClusterSnapshot

FLEET: Final = "mixed"
CARRIED: Final = "05-notebooks"
"""The workload that goes from HAMi's words to Koordinator's."""

URGENT: Final = "urgent"
"""The pod for which others leave."""

KOORDINATOR: Final = "koordinator"


def run(html: str, *, live: bool = True) -> int:
    """Tell the story. It ends well even though one of its jobs does not fit: that is what it shows.

    Raises ``DemoError`` when everything that can be shown here has been, and the live part is not among it.
    """
    began = time.monotonic()
    Path(html).parent.mkdir(parents=True, exist_ok=True)
    settings = inputs.settings_of(None)
    registry = inputs.registry_of(settings)
    if not live:
        _plan(html, settings, registry)
        _carry(settings, registry)
        output.line()
        _pages(html)
        return Exit.FINE
    _plan_and_live(html, settings, registry, lambda: time.monotonic() - began)
    return Exit.FINE


def _plan_and_live(html: str, settings: Settings, registry: Registry, seconds: Callable[[], float]) -> None:
    """Both parts. The agents start up while the plan is made."""
    # gRPC reads it at import; its messages about calls that end with their agent would clutter the demo.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from hami_plugins.cli.live.demo_script import DemoScript
    from hami_plugins.cli.live.signals import Ending

    page, before = _beside(html, "live"), _beside(html, "alone")
    with Ending() as ending, ExitStack() as stack:
        cluster, blocking_reason = _staged(stack, ending)
        _plan(html, settings, registry)
        ending.check()
        _carry(settings, registry)
        ending.check()
        output.line()
        if cluster is not None:
            output.line(
                "Live: an embedded cluster, the real node agents and the real allocator, on 127.0.0.1 and in a "
                "temporary directory."
            )
            DemoScript(cluster, registry, seconds).tell(page, before)
    if blocking_reason is not None:
        _pages(html)
        sys.stdout.flush()
        raise blocking_reason
    output.line(f"{seconds():5.1f} s  agents, server and cluster have ended; nothing is left")
    output.line()
    _pages(html, page, before)


def _staged(stack: ExitStack, ending: Ending) -> tuple[DemoCluster | None, DemoError | None]:
    """The cluster, for as long as the stack, or why it cannot be had."""
    from hami_plugins.cli.live.cluster import staged
    from hami_plugins.cli.live.signals import DemoError

    try:
        return stack.enter_context(staged(ending)), None
    except DemoError as error:
        return None, error


def _plan(html: str, settings: Settings, registry: Registry) -> None:
    """The first part: many vendors, one plan."""
    snapshot = inputs.cluster(ClusterSource(fleet=FLEET), registry)
    cards = sum(len(entry.ids) for entry in snapshot.nodes)
    files = examples.workload_files()
    documents = [each for name, text in files for each in manifests.read(text, source=name)]
    submitted = workloads.read(documents, pod_groups=snapshot.pod_groups)
    output.line(
        f"Planned: {len(submitted.workloads)} workloads from {len(files)} files, on an idle cluster of "
        f"{len(snapshot.nodes)} nodes with {cards} cards of many vendors (fleet {FLEET})."
    )
    output.line()
    snapshot = submission.with_objects(snapshot, submitted)
    planner = Planner(registry, settings.rules())
    found = planner.plan(snapshot, submission.units(submitted, snapshot))
    answers = Answers(found, planner)
    plan.print_table(tables.plan(found, registry))
    plan.tell(found, answers)
    plan.write_page(html, answers, submitted, title="Demo: many vendors, one plan", source=f"fleet {FLEET}")
    _preempt(found.standing, planner, registry)
    sys.stdout.flush()


def _preempt(standing: ClusterSnapshot, planner: Planner, registry: Registry) -> None:
    """A pod that matters more than those placed: who leaves for it, and why."""
    documents = manifests.read(examples.live_text(URGENT), source=f"{URGENT}.yaml")
    submitted = workloads.read(documents, pod_groups=standing.pod_groups)
    snapshot = submission.with_objects(standing, submitted)
    found = planner.plan(snapshot, submission.units(submitted, snapshot), preemption=True)
    output.line()
    output.line(
        f"Then {found.pods[0].pod.full_name}, of priority {found.pods[0].pod.priority:,}, as plan --preemption and the "
        "allocator make room:"
    )
    plan.tell_evictions(found, registry)


def _carry(settings: Settings, registry: Registry) -> None:
    """Translate one workload for Koordinator and place it; left out where the command is not installed."""
    if not plugins.has_command(KOORDINATOR):
        return
    text = _translated(examples.workload_text(CARRIED))
    snapshot = inputs.cluster(ClusterSource(fleet=KOORDINATOR), registry)
    submitted = workloads.read(manifests.read(text, source=f"{CARRIED}.yaml"), pod_groups=snapshot.pod_groups)
    planner = Planner(registry, settings.rules())
    first = planner.plan(snapshot, submission.units(submitted, snapshot)).pods[0]
    placed = first.decision
    if not isinstance(placed, Placed):
        return
    resources = first.pod.containers[0].limits
    asked = ", ".join(f"{name}: {amount}" for name, amount in resources.items() if name.startswith(KOORDINATOR))
    output.line()
    output.line(
        f"Carried over: {CARRIED}.yaml, written for HAMi, on nodes that Koordinator schedules (fleet {KOORDINATOR})."
    )
    output.line(f"         koordinator translate --to koordinator: {asked}")
    output.line(f"         {first.pod.full_name} fits on {placed.node}, where Koordinator's scheduler would write:")
    for key, value in first.annotations.items():
        output.line(f"         {key}: {value}")


def _translated(text: str) -> str:
    """The manifests in Koordinator's words, by the command itself."""
    from hami_plugins.cli import main

    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(out):
        file = Path(folder) / f"{CARRIED}.yaml"
        file.write_text(text, encoding="utf-8")
        main([KOORDINATOR, "translate", "-f", str(file), "--to", KOORDINATOR])
    return out.getvalue()


def _pages(html: str, live: str = "", alone: str = "") -> None:
    output.line(f"Every card with what it holds: {_uri(html)}")
    if live:
        output.line(f"The live cluster's cards:      {_uri(live)}")
        output.line(f"The gang by Volcano alone:     {_uri(alone)}")
    output.line(f"The same by hand: hami-plugins plan --fleet {FLEET} -f YOUR.yaml")


def _uri(path: str) -> str:
    return Path(path).absolute().as_uri()


def _beside(html: str, name: str) -> str:
    """Where a further page goes."""
    file = Path(html)
    return str(file.with_name(f"{file.stem}-{name}{file.suffix}"))
