"""The plans of members of a job: of all their pods, and of those that wait for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hami_plugins.queueing import gangs
from hami_plugins.queueing.jobs import JobMember
from hami_plugins.queueing.stages import PodPlan, Stage


def about(plan: PodPlan, member: JobMember) -> PodPlan:
    """The answer of the first pod of a member as that of all of its pods."""
    return replace(plan, count=member.count) if member.count > 1 else plan


def incomplete(missing: Sequence[gangs.Missing], what: str) -> str:
    """Why a gang waits: too few of it altogether, or else of some of its tasks."""
    whole = [each for each in missing if not each.task]
    parts = [
        f"{each.needed} {f'of task {each.task} ' if each.task else ''}have to start together and {each.have} {what}"
        for each in whole or missing
    ]
    return f"its gang waits: {', '.join(parts)}"


def held_back(plan: PodPlan, why: str) -> PodPlan:
    """A gang member that would have fitted, or not, but must wait for the others either way."""
    if plan.stage is not Stage.PLACED:
        return plan
    return PodPlan(unit=plan.unit, intake=plan.intake, stage=Stage.GANG, before=plan.before, why=why, count=plan.count)
