"""Why a planned pod is where it is, or nowhere: the numbers behind a ``PodPlan``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_plugins.engine.choice import Choice, choice_of
from hami_plugins.engine.decide import Decider, DecisionRequest
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.shortfall import WhyNot, why_not
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed, Refused

if TYPE_CHECKING:
    from hami_plugins.plan import PodPlan


def refusal_of(decider: Decider, snapshot: ClusterSnapshot, intake: PodInfo, refused: Refused) -> WhyNot:
    """The counted reasons of a refusal that was decided on this snapshot."""
    answers = ((snapshot.nodes[snapshot.position[name]], refusal) for name, refusal in refused.by_node)
    return why_not(DecisionRequest(intake.demand, intake.policy), answers, decider.registry, decider.uncounted)


def why_of(decider: Decider, plan: PodPlan) -> WhyNot | None:
    """The counted reasons why no node takes a planned pod; ``None`` when nodes are not the reason."""
    if not isinstance(plan.decision, Refused):
        return None
    return refusal_of(decider, plan.before, plan.intake, plan.decision)


def choice_of_plan(decider: Decider, plan: PodPlan) -> Choice | None:
    """Why a planned pod goes where it goes; ``None`` when it goes nowhere."""
    if not isinstance(plan.decision, Placed):
        return None
    intake = plan.intake
    return choice_of(decider.answers(plan.before, intake.demand, intake.policy), plan.decision, intake.policy)
