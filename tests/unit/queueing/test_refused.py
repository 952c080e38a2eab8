"""Refusals that replicas share: for one state, and no longer."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.plan import PlanUnit, Stage
from hami_plugins.queueing.gangs import Need
from hami_plugins.queueing.jobs import QueuedJob
from hami_plugins.queueing.queues import EnqueueAdmission
from hami_plugins.queueing.refused import RefusalState, RefusedReplicas
from tests.unit.plan.plans import a_plan, asking


def a_job() -> QueuedJob:
    unit = PlanUnit(name="u", pods=())
    return QueuedJob(
        unit=unit,
        at=0,
        priority=0,
        volcano=False,
        known=None,
        need=Need(0),
        members=deque(),
        have=Counter(),
        created=True,
    )


@pytest.fixture
def state() -> RefusalState:
    return RefusalState(a_job(), ClusterSnapshot(), None, {})


def test_a_replica_gets_the_refusal_under_its_own_name(state: RefusalState) -> None:
    (plan,) = a_plan(asking(100_000, name="first")).pods
    known = RefusedReplicas()
    known.keep(state, plan.intake.submitted, plan)
    other = replace(plan.intake.submitted, name="second")
    answer = known.answer(state, other)
    assert answer is not None
    assert (answer.pod.full_name, answer.stage, answer.decision) == ("default/second", plan.stage, plan.decision)
    assert known.answer(state, asking(1, name="third")) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"job": a_job()},
        {"snapshot": ClusterSnapshot()},
        {"gate": EnqueueAdmission(by_weight=True, total={}, most={}, used={}, waited_for={}, accounts={})},
        {"sets": {"request": ((0,),)}},
    ],
)
def test_after_any_change_the_pod_is_decided_again(state: RefusalState, changed: dict[str, Any]) -> None:
    (plan,) = a_plan(asking(100_000)).pods
    known = RefusedReplicas()
    known.keep(state, plan.intake.submitted, plan)
    later = state._replace(**changed)
    assert known.answer(later, plan.intake.submitted) is None
    known.keep(later, asking(100_000, name="x"), plan)
    assert known.answer(state, plan.intake.submitted) is None


def test_placements_and_refusals_that_may_name_the_pod_are_not_kept(state: RefusalState) -> None:
    (placed,) = a_plan(asking()).pods
    (refused,) = a_plan(asking(100_000)).pods
    named = replace(refused, intake=replace(refused.intake, refusal="pod p asks for too much"))
    known = RefusedReplicas()
    for plan in (placed, named):
        known.keep(state, plan.intake.submitted, plan)
        assert known.answer(state, plan.intake.submitted) is None
    assert placed.stage is Stage.PLACED
