"""Why one pod is pending, or why it is where it is: everything that a snapshot can say of it, as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from heapq import nlargest
from typing import Final, NamedTuple

from hami_plugins.engine import static_mig
from hami_plugins.engine.apply import without_pods
from hami_plugins.engine.choice import Choice, choice_of
from hami_plugins.engine.decide import DecisionRequest, PodDemand
from hami_plugins.engine.holdings import Inconsistency, demand_again, flaws_of
from hami_plugins.engine.intake import dialect_of
from hami_plugins.engine.policies import PolicyDefaults, koordinator_policy, policy_of, volcano_policy
from hami_plugins.engine.shortfall import WhyNot, why_not
from hami_plugins.errors import ManifestError
from hami_plugins.explain.counterfactuals import counterfactuals
from hami_plugins.explain.enqueue import EnqueueSuggestions, Freed
from hami_plugins.explain.evicted import Eviction, eviction_of
from hami_plugins.explain.gang_suggestions import GangWays
from hami_plugins.explain.growth import GrowthSearch, PoolGrowth
from hami_plugins.explain.reasons import choice_of_plan, why_of
from hami_plugins.inputs.prices import PriceTable
from hami_plugins.inputs.workloads import gangs
from hami_plugins.model.claims import ResourceClaim
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Decision, Placed
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.nodes import NodeEntry, Problem
from hami_plugins.model.pods import NodeConstraints, Pod, PodRecord
from hami_plugins.model.policy import Policy
from hami_plugins.plan import Plan, Planner, PlanUnit, PodPlan, Stage, claimed, completeness, submission
from hami_plugins.plan.blockers import Blocker
from hami_plugins.plan.completeness import Gap
from hami_plugins.plan.preemption import PlanEvictions
from hami_plugins.preemption.values import NoVictims
from hami_plugins.suggest.changes import Counterfactual
from hami_plugins.vendors import builtin
from hami_plugins.wire.gang_keys import QUEUE_KEY
from hami_plugins.wire.kubernetes_gangs import group_of

MOST_LOOKED_AT: Final = 2_000
"""Names that are compared with a name that does not exist."""

MOST_NEAR: Final = 3
"""Names that are offered instead of one that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingExplanation:
    """A pod without a node: its current plan (it may fit by now), with the numbers and the suggestions.

    ``why`` is set when nodes are the reason, ``choice`` when the pod would fit; ``holders`` block its enqueue admission
    in Volcano, ``freed`` would admit it. ``evictions`` would make room for it and its gang, ``in_vain`` is why none
    does. ``growth`` is what node pools can do for it and its gang.
    """

    plan: PodPlan
    why: WhyNot | None = None
    choice: Choice | None = None
    offers: tuple[Counterfactual, ...] = ()
    holders: tuple[Blocker, ...] = ()
    freed: tuple[Freed, ...] = ()
    growth: tuple[PoolGrowth, ...] = ()
    evictions: PlanEvictions | None = None
    in_vain: NoVictims | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningExplanation:
    """A pod on a node: what it holds, what is wrong with that, and where it would go if it came again.

    ``again`` is the decision for a pod that asks for what this one holds, on the cluster without this one; ``choice``
    or ``why`` go with it. ``claims`` are those that it uses; with them it is not known where it would go.
    """

    record: PodRecord
    node: NodeEntry
    flaws: tuple[Inconsistency, ...]
    again: Decision
    choice: Choice | None = None
    why: WhyNot | None = None
    claims: tuple[ResourceClaim, ...] = ()

    @property
    def stays(self) -> bool:
        """Whether it would go to the same node again."""
        return isinstance(self.again, Placed) and self.again.node == self.node.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All about one pod; ``problems`` are what could not be read of it, ``gaps`` what the listing lacks.

    ``eviction`` is how it was or is evicted, ``None`` where nothing says that it was.
    """

    pod: str
    about: PendingExplanation | RunningExplanation
    asks_nothing: bool
    problems: tuple[Problem, ...] = ()
    gaps: tuple[Gap, ...] = ()
    eviction: Eviction | None = None


def explain(  # noqa: PLR0913 - the pod, and all that may be offered to it
    snapshot: ClusterSnapshot,
    name: str,
    planner: Planner | None = None,
    *,
    limit: int = 3,
    spare_shapes: Sequence[NodeEntry] = (),
    prices: PriceTable | None = None,
) -> Explanation:
    """All about the pod of that name (``namespace/name``; without a namespace, ``default``).

    ``limit`` and ``spare_shapes`` are those of ``relax``; with ``prices`` it is known what further nodes cost. Raises
    ``ManifestError`` when the snapshot has no such pod.
    """
    planner = planner or Planner(builtin())
    full_name = name if "/" in name else f"default/{name}"
    problems = tuple(each for each in snapshot.problems if each.place == f"pod {full_name}")
    for pod in snapshot.pending:
        if pod.full_name == full_name:
            about = _pending(planner, snapshot, pod, Offered(limit, spare_shapes, prices))
            asks = about.plan.intake.demand.devices.wants_devices or _instances(planner, pod.constraints.requests)
            nothing = not about.plan.intake.refusal and not asks and not pod.claims
            gaps = completeness.gaps(snapshot, (pod,))
            was = eviction_of(snapshot, full_name)
            return Explanation(
                pod=full_name, about=about, asks_nothing=nothing, problems=problems, gaps=gaps, eviction=was
            )
    gaps = completeness.gaps(snapshot, ())
    for entry in snapshot.nodes:
        for record in entry.pods:
            if record.full_name == full_name:
                holds = any(allocation.shares for allocation in record.allocations)
                running = _running(planner, snapshot, entry, record)
                nothing = not holds and not running.claims and not _instances(planner, record.requests)
                being = eviction_of(snapshot, full_name, record, entry.name)
                return Explanation(
                    pod=full_name, about=running, asks_nothing=nothing, problems=problems, gaps=gaps, eviction=being
                )
    was = eviction_of(snapshot, full_name)
    gone = _near(full_name, snapshot) if was is None else "".join(f"; {line}" for line in was.lines)
    raise ManifestError(f"no pod {full_name} in this cluster{gone}")


class Offered(NamedTuple):
    """What is offered to a pod that waits: how many changes, which further nodes, and by which prices."""

    limit: int
    spare_shapes: Sequence[NodeEntry]
    prices: PriceTable | None


def _pending(planner: Planner, snapshot: ClusterSnapshot, pod: Pod, offered: Offered) -> PendingExplanation:
    before, unit = _as_created(snapshot, pod), _unit(snapshot, pod)
    whole = planner.plan(before, (unit,))
    plan = next(each for each in whole.pods if each.pod.full_name == pod.full_name)
    keeper = EnqueueSuggestions(whole, planner)
    offers = counterfactuals(planner, plan.before, pod, limit=offered.limit, spare_shapes=offered.spare_shapes)
    evicting = whole if plan.place is not None else planner.plan(before, (unit,), preemption=True)
    noted = next(each for each in evicting.pods if each.pod.full_name == pod.full_name)
    return PendingExplanation(
        plan=_beside_its_gang(replace(plan, notes=noted.notes), whole),
        why=why_of(planner.decider, plan),
        choice=choice_of_plan(planner.decider, plan),
        offers=GangWays(whole, planner).starting(offers, plan),
        holders=keeper.holders(plan),
        freed=keeper.freed(plan, limit=offered.limit),
        growth=GrowthSearch(whole, planner, offered.prices).of(plan),
        evictions=evicting.evictions_for(pod),
        in_vain=evicting.in_vain.get(pod.full_name),
    )


def _instances(planner: Planner, requests: Iterable[tuple[str, int]]) -> bool:
    """Whether plain requests are of MIG instances that NVIDIA's device plugin offers."""
    return bool(static_mig.asked(requests, planner.registry))


def _beside_its_gang(plan: PodPlan, whole: Plan) -> PodPlan:
    """The plan of a pod that fits no node, with a note on members of its gang that would fit."""
    held = next((each.why for each in whole.pods if each.unit == plan.unit and each.stage is Stage.GANG), "")
    if not held or plan.stage is not Stage.NODES:
        return plan
    return replace(plan, notes=(*plan.notes, f"{held}; their devices count as in use"))


def _as_created(snapshot: ClusterSnapshot, pod: Pod) -> ClusterSnapshot:
    """The cluster just before a waiting pod was created.

    The API server has admitted it, whatever its quota shows by now: only limits on devices remain, which HAMi checks
    when it places a pod. The usage that HAMi counted then is unknown.
    """
    quotas = {name: replace(quota.of_devices(), used={}) for name, quota in snapshot.quotas.items()}
    return replace(snapshot, quotas=quotas, pending=tuple(each for each in snapshot.pending if each is not pod))


def _unit(snapshot: ClusterSnapshot, pod: Pod) -> PlanUnit:
    """The pod as something to plan, with the gang that it names; members that wait are known to the cluster."""
    alone = PlanUnit(name=f"pod/{pod.full_name}", pods=(pod,), queue=pod.annotations.get(QUEUE_KEY, ""))
    named = group_of(pod)
    if not named:
        return alone
    group = f"{pod.namespace}/{named}"
    return submission.in_gang(alone, gangs.of_group(group, gangs.known_group(group, snapshot.pod_groups)))


def _running(planner: Planner, snapshot: ClusterSnapshot, entry: NodeEntry, record: PodRecord) -> RunningExplanation:
    """What a running pod holds, and where a pod that asks for that would go if this one were not there."""
    decider, policies = planner.decider, planner.rules.policies
    without = snapshot.with_node(without_pods(entry, lambda each: each is record))
    devices = demand_again(record)
    policy = _policy(dialect_of(devices, planner.registry), policies)
    question = DecisionRequest(PodDemand(devices, NodeConstraints(requests=record.requests)), policy)
    again = decider.decide(without, *question)
    answers = decider.answers(without, *question)
    placed = isinstance(again, Placed)
    return RunningExplanation(
        record=record,
        node=entry,
        flaws=flaws_of(record, entry),
        again=again,
        claims=claimed.held_by(snapshot.dynamic, record.namespace, record.name),
        choice=choice_of(answers, again, policy) if isinstance(again, Placed) else None,
        why=None if placed else why_not(question, answers, planner.registry, decider.uncounted),
    )


def _policy(dialect: Dialect, defaults: PolicyDefaults) -> Policy:
    """The preferences of a pod that says nothing of them itself."""
    match dialect:
        case Dialect.VOLCANO:
            return volcano_policy(defaults)
        case Dialect.KOORDINATOR:
            return koordinator_policy({}, defaults)
        case _:
            return policy_of({}, defaults)


def _near(full_name: str, snapshot: ClusterSnapshot) -> str:
    """Pods that could have been meant: those of the same name elsewhere, else those with a like name."""
    known = [(pod.name, pod.full_name) for pod in snapshot.pending]
    known += [(record.name, record.full_name) for entry in snapshot.nodes for record in entry.pods]
    names: dict[str, list[str]] = {}
    for short, full in known:
        names.setdefault(short, []).append(full)
    name = full_name.partition("/")[2]
    alike = [name] if name in names else get_close_matches(name, _likely(name, names), n=MOST_NEAR)
    found = [full for each in alike for full in names[each]][:MOST_NEAR]
    return f"; is it {' or '.join(found)}?" if found else ""


def _likely(name: str, names: Iterable[str]) -> list[str]:
    """The names that begin most like a name, as many as are worth comparing."""

    def alike(other: str) -> int:
        return next((at for at, (one, two) in enumerate(zip(name, other, strict=False)) if one != two), len(other))

    return nlargest(MOST_LOOKED_AT, names, key=alike)
