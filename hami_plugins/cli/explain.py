"""The work of ``explain``: one pod, or all that wait."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hami_plugins.cli import plan, prices
from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import cluster_source
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.plan import NANOSECONDS
from hami_plugins.engine import static_mig
from hami_plugins.errors import ManifestError
from hami_plugins.explain import explain
from hami_plugins.explain.jobs import KINDS, pods_of
from hami_plugins.output import documents, explanations
from hami_plugins.plan import Planner
from hami_plugins.queueing import releases

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hami_plugins.cli.option_groups import ExplainOptions
    from hami_plugins.explain import Explanation
    from hami_plugins.model.cluster import ClusterSnapshot
    from hami_plugins.output.rows import TextLine
    from hami_plugins.wire.usage import ContainerUsage


class UsageReport(NamedTuple):
    """What containers use: as values, and in words."""

    containers: tuple[ContainerUsage, ...] = ()
    lines: tuple[TextLine, ...] = ()


def run(order: ExplainOptions) -> int:
    """Explain, print, and say whether everything is as it should be."""
    settings = inputs.settings_of(order.settings)
    registry = inputs.registry_of(settings)
    beside = _beside(order.usage)
    source = cluster_source(order.snapshot, order.fleet, order.context, order.kubeconfig)
    source = replace(source, evictions=True, node_groups=tuple(order.node_groups or ()))
    table = prices.table_of(order.prices)
    snapshot = inputs.cluster(source, registry)
    registry = static_mig.scheduled(snapshot, registry)
    release = releases.release_of(order.scheduler) if order.scheduler else None
    assigner = releases.assigner_of(order.assigner) if order.assigner else settings.volcano.assigner
    now = time.time_ns() / NANOSECONDS
    planner = Planner(registry, settings.rules(), release=release, assigner=assigner, now=now)
    kind, named = _named(order)
    jobs = [pods_of(snapshot, each, planner.rules, kind) for each in named] if kind != "pod" else []
    names = [pod for each in jobs for pod in each.explained] or named or _waiting(order, snapshot)
    found = [explain(snapshot, name, planner, prices=table) for name in names]
    gaps = tuple(dict.fromkeys(gap for each in found for gap in each.gaps))
    if order.strict:
        inputs.without_gaps(gaps, source)
    if order.form is not Form.TABLE:
        items = [documents.explanation(each, registry, beside(each).containers) for each in found]
        single = len(named) == 1 and not jobs
        output.document(items[0] if single else documents.explanation_list(items), order.form)
    else:
        for job in jobs:
            output.line(str(job))
        for at, each in enumerate(found):
            if at:
                output.line()
            for line in (*explanations.lines(each, registry), *beside(each).lines):
                plan.print_line(line)
        if not found:
            output.line("no pod waits", "good")
        plan.print_gaps(gaps)
    return Exit.FINE if all(map(explanations.is_fine, found)) else Exit.FINDINGS


def _beside(paths: Sequence[str] | None) -> Callable[[Explanation], UsageReport]:
    """The usage that is printed with an explanation, if --usage is given."""
    if not paths:
        return lambda _found: UsageReport()
    from hami_plugins.output import usage

    usages = inputs.usages(paths)
    return lambda found: UsageReport(usage.told_beside(found, usages), usage.lines(found, usages))


def _named(order: ExplainOptions) -> tuple[str, list[str]]:
    """The kind, and full names of it. As with kubectl the kind may stand before each name: ``pod/train-0``."""
    written, slash, first = order.kind.partition("/")
    kind, names = KINDS.get(written.lower().partition(".")[0]), order.names or []
    if kind is None:
        some = ", ".join(dict.fromkeys(KINDS.values()))
        raise ManifestError(f"{order.kind!r} cannot be explained; write: explain pod NS/NAME. Kinds: {some}")
    if slash:
        names = [first, *(name.removeprefix(f"{written}/") for name in names)]
    if kind != "pod" and not names:
        raise ManifestError(f"name the {kind} to explain: explain {kind} NS/NAME")
    if names and order.everywhere:
        raise ManifestError("-A explains all pods that wait; leave out the names")
    return kind, [name if "/" in name else f"{order.namespace or 'default'}/{name}" for name in names]


def _waiting(order: ExplainOptions, snapshot: ClusterSnapshot) -> list[str]:
    namespace = order.namespace or "default"
    return [pod.full_name for pod in snapshot.pending if order.everywhere or pod.namespace == namespace]
