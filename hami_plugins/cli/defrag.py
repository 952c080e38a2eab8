"""The work of ``defrag``: read a cluster, plan moves, print them, and carry them out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hami_plugins.cli import plan as plans
from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import cluster_source
from hami_plugins.cli.kit.options import Form
from hami_plugins.defrag import goals
from hami_plugins.defrag.planner import Defragmenter
from hami_plugins.defrag.running_pods import RunningPods
from hami_plugins.defrag.values import DefragPlan, Move, MoveOptions, RunningCluster
from hami_plugins.engine.decide import Decider
from hami_plugins.errors import ManifestError
from hami_plugins.explain.messages import counted
from hami_plugins.explain.waiting import asking
from hami_plugins.output import defrag
from hami_plugins.plan import Planner, completeness

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_plugins.cli.defrag_journal import DefragJournal, DefragStep
    from hami_plugins.cli.kit.inputs import ClusterSource
    from hami_plugins.cli.option_groups import DefragOptions
    from hami_plugins.config.settings import Settings
    from hami_plugins.defrag.values import NoMoves
    from hami_plugins.engine.registry import Registry
    from hami_plugins.kube.client import KubeClient
    from hami_plugins.model.cluster import ClusterSnapshot
    from hami_plugins.plan.completeness import Gap

_CLUSTER: Final = "/api/v1/namespaces/default"


class PlannedMoves(NamedTuple):
    """The answer, the cluster that it is about, and what its listing lacks."""

    found: DefragPlan | NoMoves
    before: ClusterSnapshot
    gaps: tuple[Gap, ...]
    registry: Registry


class _Question(NamedTuple):
    """A cluster as it is now, and all that a plan for it takes."""

    cluster: RunningCluster
    decider: Decider
    settings: Settings

    def defragmenter(self, order: DefragOptions) -> Defragmenter:
        options = MoveOptions(most=order.most, sure=order.sure or order.apply or order.resume, alone=order.alone)
        return Defragmenter(self.cluster, self.decider, self.settings.rules(), options)


def run(order: DefragOptions) -> int:
    """Plan, print, carry out if asked, and say whether the goal is reached."""
    source = cluster_source(order.snapshot, order.fleet, order.context, order.kubeconfig)
    _check(order, source)
    if order.resume:
        return _resume(order, source)
    planned = _planned(order, source)
    _answer(order, source, planned)
    if not isinstance(planned.found, DefragPlan):
        return Exit.FINDINGS
    return _apply(order, source, planned.found) if order.apply and planned.found.moves else Exit.FINE


def _check(order: DefragOptions, source: ClusterSource) -> None:
    """Raises ``ManifestError`` for options that do not go together."""
    plans.check_page(order.html)
    writes = "--apply" if order.apply else "--resume" if order.resume else ""
    if not writes:
        return
    if source.snapshots or source.fleet is not None:
        raise ManifestError(f"{writes} cannot be combined with --snapshot or --fleet")
    if order.alone:
        raise ManifestError(f"{writes} cannot be combined with --alone: nothing creates such pods again")
    if order.apply and order.resume:
        raise ManifestError("--resume carries out a journal's moves; leave out --apply")
    if order.form is not Form.TABLE:
        raise ManifestError(f"{writes} prints lines as moves end; leave out --output")
    if order.apply and order.journal.exists():
        raise ManifestError(
            f"{order.journal}: this journal already exists; --resume goes on, or give another --journal"
        )
    if order.resume and not order.journal.exists():
        raise ManifestError(f"--resume: no journal {order.journal}; give its --journal")


def _asked(order: DefragOptions, source: ClusterSource) -> _Question:
    settings = inputs.settings_of(order.settings)
    registry = inputs.registry_of(settings)
    running = RunningPods()
    snapshot = inputs.cluster(source, registry, also=running.feed)
    return _Question(RunningCluster(snapshot, running.found), Decider(registry), settings)


def _planned(order: DefragOptions, source: ClusterSource) -> PlannedMoves:
    question = _asked(order, source)
    snapshot, registry, rules = question.cluster.snapshot, question.decider.registry, question.settings.rules()
    infos = goals.infos_of(order.goals or (), snapshot, registry, rules, namespace=order.namespace or "default")
    gaps = defrag.gaps_of(snapshot, completeness.gaps(snapshot, (info.pod for info in infos)))
    if order.strict:
        inputs.without_gaps(gaps, source)
    defragmenter = question.defragmenter(order)
    with inputs.working("looking for moves"):
        if order.goals:
            found = defragmenter.for_pods(infos)
        else:
            found = defragmenter.for_stranded(asking(snapshot, Planner(registry, rules, question.decider)))
    return PlannedMoves(found, snapshot, gaps, registry)


def _answer(order: DefragOptions, source: ClusterSource, planned: PlannedMoves) -> None:
    found = planned.found
    if order.html is not None:
        from hami_plugins.output.page import moves_page

        heading = plans.heading("Pods to move", source.words())
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
    if isinstance(found, DefragPlan) and not order.apply:
        output.line(f"{counted(len(found.moves), 'move')}; nothing is written without --apply", "dim")
    plans.print_gaps(planned.gaps)
    plans.tell_problems(planned.before.problems)


def _apply(order: DefragOptions, source: ClusterSource, found: DefragPlan) -> int:
    from hami_plugins.cli import defrag_journal as journals

    api = _connected(source)
    steps = [journals.DefragStep.of(move, _owner(api, move)) for move in found.moves]
    goal = ", ".join(order.goals or ()) or "stranded memory"
    journal = journals.begin(order.journal, cluster=_cluster_uid(api), goal=goal, steps=steps)
    return _carry_out(order, source, api, journal)


def _resume(order: DefragOptions, source: ClusterSource) -> int:
    from hami_plugins.cli import defrag_journal as journals

    api, journal = _connected(source), journals.read(order.journal)
    if journal.cluster != _cluster_uid(api):
        raise ManifestError(f"{order.journal}: these moves are for another cluster; check --context")
    ended = [journal.steps[at] for at, mark in journal.marks.items() if mark is journals.DefragMark.ENDED]
    if ended:
        raise ManifestError(
            f"{order.journal}: {ended[0].full_name} did not land as planned, so later moves may not fit; plan again "
            "with another --journal"
        )
    return _carry_out(order, source, api, journal)


def _carry_out(order: DefragOptions, source: ClusterSource, api: KubeClient, journal: DefragJournal) -> int:
    from hami_plugins.cli.defrag_steps import MoveExecutor
    from hami_plugins.engine.inventory import RecordReader

    registry = inputs.registry_of(inputs.settings_of(order.settings))
    executor = MoveExecutor(
        api=api,
        evicting=replace(api, attempts=1),
        records=RecordReader(registry),
        objection=_objection(order, source),
        patience=order.patience,
    )
    well = False
    try:
        outcomes = []
        for each in executor.carry_out(journal):
            output.line(f"{each.number + 1:4}  {each.step.full_name}: {each.words}", "" if each.well else "bad")
            outcomes.append(each.well)
        well = all(outcomes)
    finally:
        if not well:
            output.remark(f"{journal.path} records the moves; --resume carries out those that are left")
    return Exit.FINE if well else Exit.FINDINGS


def _objection(order: DefragOptions, source: ClusterSource) -> Callable[[DefragStep], str]:
    """Why a pod would not land as planned if it were evicted now."""
    from hami_plugins.cli.defrag_journal import devices_of

    def objection(step: DefragStep) -> str:
        found = _asked(order, source).defragmenter(order).move_of(step.full_name)
        if found is None:
            return "it would not land anywhere else now"
        if not isinstance(found, Move):
            return str(found)
        devices = devices_of(found.placed.containers)
        if (found.placed.node, devices) != (step.target, step.devices):
            ids = ", ".join(each for container in devices for each in container)
            return f"it would land on {found.placed.node} ({ids}) now instead of {step.target}; plan again"
        return ""

    return objection


def _connected(source: ClusterSource) -> KubeClient:
    from hami_plugins.kube.client import connect

    return connect(kubeconfig=source.kubeconfig, context=source.context)


def _owner(api: KubeClient, move: Move) -> str:
    from hami_plugins.cli.defrag_steps import owner_of
    from hami_plugins.kube import paths

    found = owner_of(api.get(paths.pod(move.pod.namespace, move.pod.name)))
    if not found:
        raise ManifestError(f"pod {move.pod.full_name} has no controller any more; plan again")
    return found


def _cluster_uid(api: KubeClient) -> str:
    return str(api.get(_CLUSTER)["metadata"]["uid"])
