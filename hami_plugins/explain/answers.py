"""What a plan says of each pod beyond where it goes: why this node, or why none, and what would help.

Pods that ask for the same on the same cluster get the same answer, so it is worked out once. Ways out are looked for
only for so many different refusals: a plan of a thousand of them has one cause, and the first ones show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hami_plugins.engine.decide import PodDemand
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.shortfall import CardShortage, NodeShortage, WhyNot
from hami_plugins.explain import advice, drawings, enqueue, messages, preemption
from hami_plugins.explain.counterfactuals import counterfactuals
from hami_plugins.explain.drawings import Drawing
from hami_plugins.explain.enqueue import EnqueueSuggestions, Freed
from hami_plugins.explain.gang_suggestions import GangWays
from hami_plugins.explain.growth import GrowthSearch, PoolGrowth
from hami_plugins.explain.reasons import choice_of_plan, refusal_of
from hami_plugins.inputs.prices import PriceTable
from hami_plugins.model.decisions import Placed, Refused
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.policy import NodePolicy, Policy
from hami_plugins.model.verdicts import Reason
from hami_plugins.plan import Plan, Planner, PodPlan, Stage, replica_rows
from hami_plugins.plan.blockers import Blocker
from hami_plugins.plan.preemption import PlanEvictions
from hami_plugins.preemption.values import NoVictims
from hami_plugins.suggest.changes import ChangeKind, Counterfactual

MOST_ADVISED: Final = 24
"""Different refusals for which suggestions are computed."""

MOST_LOOKS: Final = 3_000_000
"""Up to this product of pods and nodes, the choice of each node is explained in full."""

_CHANGEABLE: Final = frozenset({Stage.NODES, Stage.ADMISSION, Stage.QUOTA})
"""Where a pod stops for what it asks for, so that another pod, quota or cluster would help it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedReason:
    """One reason for a refusal: how many nodes gave it, as a number and in words, what it is, and some of the nodes.

    ``drawing`` shows the node that is nearest, where devices are linked.
    """

    nodes: int
    tally: str
    words: str
    examples: tuple[str, ...] = ()
    drawing: Drawing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """Changes with which the pod would fit, as words and as one sentence, and the node that would take it then."""

    changes: tuple[str, ...]
    sentence: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAnswer:
    """A pod of a plan, explained. ``why`` is one sentence: why this node, or why none.

    ``holders`` are the pods that block its enqueue admission in Volcano. ``evictions`` make room for it, ``in_vain`` is
    why none does; neither is set unless requested. ``growth`` is what node pools can do for its workload.
    """

    plan: PodPlan
    why: str
    causes: tuple[CountedReason, ...] = ()
    ways_out: tuple[WayOut, ...] = ()
    holders: tuple[Blocker, ...] = ()
    growth: tuple[PoolGrowth, ...] = ()
    evictions: PlanEvictions | None = None
    in_vain: NoVictims | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRefusal:
    """Pods of one workload that are refused for the same reasons, in the order of the plan.

    ``preemption`` are the lines about evictions that make room for them, or why none does.
    """

    answer: PodAnswer
    pods: tuple[PodPlan, ...]
    preemption: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The names of the pods, or the first of them and how many more there are."""
        first, *others = replica_rows.ranged_plans(self.pods)
        if not others:
            return first
        alike = replica_rows.size(plan for plan in self.pods if replica_rows.is_among(plan.pod.full_name, first))
        return f"{first} and {messages.counted(self.size - alike, 'more pod')}"

    @property
    def size(self) -> int:
        """How many pods are refused."""
        return replica_rows.size(self.pods)


_Asked: TypeAlias = tuple[PodDemand, Policy, str, int]
"""Demand, policy, namespace, and which cluster: all that a refusal by the nodes depends on."""

_Told: TypeAlias = tuple[str, Stage, str, bool]
"""Workload, stage, reason, and whether evictions help: pods with equal ones are reported together."""


class Answers:
    """Explains the pods of one plan with the planner that made it."""

    def __init__(
        self,
        plan: Plan,
        planner: Planner,
        *,
        spare_shapes: Sequence[NodeEntry] = (),
        prices: PriceTable | None = None,
    ) -> None:
        self.plan = plan
        self.prices = prices
        self.registry = planner.registry
        self._planner = planner
        self._spare_shapes = spare_shapes
        self._reasons: dict[_Asked, tuple[tuple[CountedReason, ...], str]] = {}
        self._advice: dict[_Told, tuple[WayOut, ...]] = {}
        self._keeper = EnqueueSuggestions(plan, planner)
        self._gang_ways = GangWays(plan, planner)
        self._growth = GrowthSearch(plan, planner, prices)
        self._evictions = {pod.full_name: each for each in plan.evictions for pod, _ in each.places}
        self._in_full = len(plan.pods) * len(plan.before.nodes) <= MOST_LOOKS
        self.all = tuple(self._answer(each) for each in plan.pods)

    @property
    def grows(self) -> bool:
        """Whether some node pool can get the nodes for each workload that is refused now."""
        refused = [each for each in self.all if each.plan.stage is not Stage.PLACED]
        return all(any(growth.fits for growth in each.growth) for each in refused)

    def refusals(self) -> tuple[WorkloadRefusal, ...]:
        """The pods that are not placed, those of one workload with the same reasons together."""
        found: dict[_Told, list[PodAnswer]] = {}
        for answer in self.all:
            if answer.plan.stage is not Stage.PLACED:
                found.setdefault(_told(answer.plan, answer.why), []).append(answer)
        return tuple(
            WorkloadRefusal(
                answer=answers[0],
                pods=tuple(answer.plan for answer in answers),
                preemption=tuple(
                    dict.fromkeys(line for each in answers for line in preemption.lines(each.evictions, each.in_vain))
                ),
            )
            for answers in found.values()
        )

    def _answer(self, plan: PodPlan) -> PodAnswer:
        if isinstance(plan.decision, Placed):
            return PodAnswer(plan=plan, why=self._choice(plan))
        causes, why = (
            self._refused(plan, plan.decision) if isinstance(plan.decision, Refused) else ((), plan.why or plan.words)
        )
        changeable = plan.by_eviction is None and (plan.stage in _CHANGEABLE or plan.hold is not None)
        name = plan.pod.full_name
        return PodAnswer(
            plan=plan,
            why=why,
            causes=causes,
            ways_out=self._ways_out(plan, why) if changeable else (),
            holders=self._keeper.holders(plan),
            growth=self._growth.of(plan) if plan.by_eviction is None else (),
            evictions=self._evictions.get(name),
            in_vain=self.plan.in_vain.get(name),
        )

    def _choice(self, plan: PodPlan) -> str:
        choice = choice_of_plan(self._planner.decider, plan) if self._in_full else None
        return briefly(plan) if choice is None else messages.choice_words(choice)

    def _refused(self, plan: PodPlan, refused: Refused) -> tuple[tuple[CountedReason, ...], str]:
        intake = plan.intake
        key = (intake.demand, intake.policy, plan.pod.namespace, id(plan.before))
        known = self._reasons.get(key)
        if known is not None:
            return known
        registry = self._planner.registry
        why = refusal_of(self._planner.decider, plan.before, intake, refused)
        names = names_of(plan)
        found = self._reasons[key] = (causes_of(why, registry, names), messages.summary(why, registry, names))
        return found

    def _ways_out(self, plan: PodPlan, why: str) -> tuple[WayOut, ...]:
        key = _told(plan, why)
        known = self._advice.get(key)
        if known is not None:
            return known
        if len(self._advice) >= MOST_ADVISED:
            return ()
        if plan.hold is not None:
            made = self._advice[key] = ways_through(self._keeper.freed(plan))
            return made
        found = counterfactuals(self._planner, plan.before, plan.intake.submitted, spare_shapes=self._spare_shapes)
        found = self._gang_ways.starting(found, plan)
        if plan.unit.startswith("daemonset/"):  # its controller names the node, and no manifest can take that back
            found = tuple(each for each in found if ChangeKind.NODE_NAME not in each.kinds)
        made = self._advice[key] = ways_out_of(found, names_of(plan), self.registry)
        return made


def causes_of(why: WhyNot, registry: Registry, names: Sequence[str]) -> tuple[CountedReason, ...]:
    """The counted reasons in words; ``names`` are the names of the pod's containers."""
    return tuple(
        CountedReason(
            nodes=each.nodes,
            tally=messages.nodes_words(each, why),
            words=messages.reason_words(each, registry, names),
            examples=tuple(map(str, each.examples)),
            drawing=_drawn(each, registry),
        )
        for each in why.reasons
    )


def _drawn(reason: CardShortage | NodeShortage, registry: Registry) -> Drawing | None:
    """The node whose set of devices the fewest pods keep from the one that asks."""
    if isinstance(reason, NodeShortage) or reason.reason is not Reason.TOPOLOGY or reason.blocked is None:
        return None
    return drawings.of_blocked(reason.blocked, registry[reason.vendor]) if reason.blocked.holders else None


def ways_out_of(found: Iterable[Counterfactual], names: Sequence[str], registry: Registry) -> tuple[WayOut, ...]:
    """The changes that would help, in words."""
    return tuple(
        WayOut(
            changes=tuple(advice.change_words(change, names, registry) for change in each.changes),
            sentence=advice.sentence(each, names, registry),
            node=each.placed.node,
        )
        for each in found
    )


def ways_through(found: Iterable[Freed]) -> tuple[WayOut, ...]:
    """Messages for the changes with which Volcano would enqueue a pod."""
    return tuple(
        WayOut(
            changes=tuple(map(enqueue.change_words, each.changes)), sentence=enqueue.freed_words(each), node=each.node
        )
        for each in found
    )


def names_of(plan: PodPlan) -> tuple[str, ...]:
    """The names of a pod's containers."""
    return tuple(container.name for container in plan.pod.containers)


def briefly(plan: PodPlan) -> str:
    """Why this node, in a few words: ``fullest of 3``."""
    placed = plan.decision
    if not isinstance(placed, Placed):
        return ""
    if placed.candidates == 1:
        return "the only one that fits" if len(plan.before.nodes) > 1 else ""
    better = "emptiest" if plan.intake.policy.node is NodePolicy.SPREAD else "fullest"
    return f"{better} of {placed.candidates:,}"


def _told(plan: PodPlan, why: str) -> _Told:
    return plan.unit, plan.stage, why, plan.by_eviction is not None
