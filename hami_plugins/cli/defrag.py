"""The work of ``defrag``: read a cluster, plan moves, print them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hami_plugins.cli import plan as plans
from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import cluster_source
from hami_plugins.cli.kit.options import Form
from hami_plugins.defrag import goals
from hami_plugins.defrag.planner import Defragmenter
from hami_plugins.defrag.running import RunningPods
from hami_plugins.defrag.values import DefragPlan, MoveOptions, RunningCluster
from hami_plugins.engine.decide import Decider
from hami_plugins.explain.messages import counted
from hami_plugins.explain.waiting import asking
from hami_plugins.output import defrag
from hami_plugins.plan import Planner, completeness

if TYPE_CHECKING:
    from hami_plugins.cli.kit.inputs import ClusterSource
    from hami_plugins.cli.option_groups import DefragOptions
    from hami_plugins.defrag.values import NoMoves
    from hami_plugins.engine.registry import Registry
    from hami_plugins.model.cluster import ClusterSnapshot
    from hami_plugins.plan.completeness import Gap


class Planned(NamedTuple):
    """The answer, the cluster that it is about, and what its listing lacks."""

    found: DefragPlan | NoMoves
    before: ClusterSnapshot
    gaps: tuple[Gap, ...]
    registry: Registry


def run(order: DefragOptions) -> int:
    """Plan, print, and say whether the goal is reached."""
    source = cluster_source(order.snapshot, order.fleet, order.context, order.kubeconfig)
    plans.check_page(order.html)
    planned = planned_moves(order, source)
    _answer(order, source, planned)
    return Exit.FINE if isinstance(planned.found, DefragPlan) else Exit.FINDINGS


def planned_moves(order: DefragOptions, source: ClusterSource) -> Planned:
    """The plan for the cluster as it is now."""
    settings = inputs.settings_of(order.settings)
    registry, rules = inputs.registry_of(settings), settings.rules()
    running = RunningPods()
    snapshot = inputs.cluster(source, registry, also=running.feed)
    infos = goals.infos_of(order.goals or (), snapshot, registry, rules, namespace=order.namespace or "default")
    gaps = defrag.gaps_of(snapshot, completeness.gaps(snapshot, (info.pod for info in infos)))
    if order.strict:
        inputs.without_gaps(gaps, source)
    decider = Decider(registry)
    defragmenter = Defragmenter(
        RunningCluster(snapshot, running.found),
        decider,
        rules,
        MoveOptions(most=order.most, sure=order.sure, alone=order.alone),
    )
    with inputs.working("looking for moves"):
        if order.goals:
            found = defragmenter.for_pods(infos)
        else:
            found = defragmenter.for_stranded(asking(snapshot, Planner(registry, rules, decider)))
    return Planned(found, snapshot, gaps, registry)


def _answer(order: DefragOptions, source: ClusterSource, planned: Planned) -> None:
    found = planned.found
    if order.html is not None:
        from hami_plugins.output.page import moves_page

        heading = plans.heading("Defragmentation", source.words())
        page = moves_page(found, planned.before, planned.registry, heading, planned.gaps)
        Path(order.html).write_text(page, encoding="utf-8")
        output.remark(f"page: {Path(order.html).absolute().as_uri()}")
    if order.form is not Form.TABLE:
        output.document(defrag.document(found, planned.gaps), order.form)
        return
    if isinstance(found, DefragPlan) and found.moves:
        output.table(defrag.table(found), headers=not order.no_headers)
        output.line()
    for line in defrag.lines(found):
        plans.print_line(line)
    if isinstance(found, DefragPlan):
        output.line(f"{counted(len(found.moves), 'move')}", "dim")
    plans.print_gaps(planned.gaps)
    plans.tell_problems(planned.before.problems)
