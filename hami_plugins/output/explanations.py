"""Explanations of single pods in words: what a running pod holds and what is wrong with it, why a pending one waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from hami_plugins.engine import static_mig
from hami_plugins.engine.holdings import InconsistencyKind
from hami_plugins.engine.registry import Registry
from hami_plugins.explain import drawings, preemption
from hami_plugins.explain.answers import (
    CountedReason,
    PodAnswer,
    WorkloadRefusal,
    causes_of,
    names_of,
    ways_out_of,
    ways_through,
)
from hami_plugins.explain.explanation import Explanation, PendingExplanation, RunningExplanation
from hami_plugins.explain.flaws import flaws_words
from hami_plugins.explain.messages import choice_words, summary
from hami_plugins.model.decisions import Placed
from hami_plugins.output import grids, tables
from hami_plugins.output.rows import TextLine
from hami_plugins.plan import claimed
from hami_plugins.plan.claimed import DeviceOfClaim, held_devices, planned_devices
from hami_plugins.plan.slices import PlannedSlice, cards_words, planned_slices, shares_words, slices_of


def is_fine(found: Explanation) -> bool:
    """Whether nothing is wrong: a running pod holds what its node has, or a pending one fits by now."""
    if found.problems:
        return False
    if isinstance(found.about, RunningExplanation):
        return not found.about.flaws
    return isinstance(found.about.plan.decision, Placed)


def lines(found: Explanation, registry: Registry) -> tuple[TextLine, ...]:
    """The whole explanation as text."""
    about = found.about
    told = (
        _pending(found, about, registry) if isinstance(about, PendingExplanation) else _running(found, about, registry)
    )
    left = () if found.eviction is None else tuple(TextLine(f"  {line}", "warn") for line in found.eviction.lines)
    return (*told, *left, *(TextLine(f"  {problem.what}", "bad") for problem in found.problems))


def answer_of(about: PendingExplanation, registry: Registry) -> PodAnswer:
    """A pending pod, answered as a pod of a plan is."""
    names = names_of(about.plan)
    if about.choice is not None:
        why = choice_words(about.choice)
    elif about.why is not None:
        why = summary(about.why, registry, names)
    else:
        why = about.plan.why or about.plan.words
    return PodAnswer(
        plan=about.plan,
        why=why,
        causes=() if about.why is None else causes_of(about.why, registry, names),
        ways_out=(*ways_out_of(about.offers, names, registry), *ways_through(about.freed)),
        holders=about.holders,
        growth=about.growth,
        evictions=about.evictions,
        in_vain=about.in_vain,
    )


def held_slices(about: RunningExplanation) -> tuple[PlannedSlice, ...]:
    """What a running pod holds. Its containers' names are not known."""
    return slices_of(about.record.allocations, (), about.node)


def causes_again(about: RunningExplanation, registry: Registry) -> tuple[CountedReason, ...]:
    """Why a running pod would find no place if it came again."""
    return () if about.why is None else causes_of(about.why, registry, ())


def _pending(found: Explanation, about: PendingExplanation, registry: Registry) -> Iterator[TextLine]:
    answer = answer_of(about, registry)
    plan = about.plan
    if isinstance(plan.decision, Placed) and not plan.why:
        yield TextLine(f"{found.pod}: pending, but it fits now", "good")
        slices = planned_slices(plan)
        what = f": {cards_words(slices)}, {shares_words(slices)}" if slices else ""
        yield TextLine(f"  {plan.decision.node}{what}")
        yield from _claimed("gets", planned_devices(plan))
        yield TextLine(f"  {answer.why}")
        for drawing in drawings.of_pod(plan, registry):
            yield from (TextLine(f"    {row}") for row in grids.lines(drawing))
    else:
        told = tuple(preemption.lines(about.evictions, about.in_vain))
        first, *rest = tables.refusal(WorkloadRefusal(answer=answer, pods=(plan,), preemption=told))
        yield TextLine(first.words.replace(": ", ": pending, ", 1), first.tone)
        yield from rest
    if plan.pod.nominated is not None:
        yield TextLine(f"  nominated for {plan.pod.nominated}: room is made for it there")
    if found.asks_nothing:
        yield TextLine("  it asks for no devices", "dim")
    for note in plan.notes:
        yield TextLine(f"  note: {note}", "warn")


def _claimed(verb: str, devices: Sequence[DeviceOfClaim]) -> Iterator[TextLine]:
    """The devices of each claim of a pod."""
    for name, found in groupby(devices, key=lambda each: each.claim):
        of_claim = tuple(found)
        words = f"{claimed.names_words(of_claim)}: {claimed.shares_words(of_claim)}"
        yield TextLine(f"  {verb} by claim {name} {words}")


def _running(found: Explanation, about: RunningExplanation, registry: Registry) -> Iterator[TextLine]:
    state = "terminating" if about.record.terminating else "running"
    yield TextLine(f"{found.pod}: {state} on {about.node.name}", "bad" if about.flaws else "good")
    slices = held_slices(about)
    instances = static_mig.asked(about.record.requests, registry)
    devices = held_devices(about.claims, about.node.name)
    yield from _claimed("holds", devices)
    if slices or not (instances or devices):
        yield TextLine(f"  holds {cards_words(slices)}: {shares_words(slices)}" if slices else "  it holds no devices")
    for name, number in instances.items():
        yield TextLine(f"  holds {name}={number}: MIG instances; which of them, only the kubelet of its node knows")
    if about.record.resize:
        yield TextLine(f"  resize: {about.record.resize}", "warn" if "refused" in about.record.resize else "")
    for drawing in drawings.of_running(about.record, about.node, registry):
        yield from (TextLine(f"    {row}") for row in grids.lines(drawing))
    told = [
        flaw for flaw in about.flaws if not (found.problems and flaw.kind is InconsistencyKind.STRANGER)
    ]  # said by its reader
    for words in flaws_words(told):
        yield TextLine(f"  {words}", "bad")
    if found.asks_nothing or about.claims or (found.eviction is not None and found.eviction.successors):
        return  # of a place that is promised to another pod, or of claims, nothing follows for this one
    if about.choice is not None:
        place = "the same node" if about.stays else about.choice.node
        yield TextLine(f"  rescheduled now, it would go to {place}: {choice_words(about.choice)}")
        return
    yield TextLine("  rescheduled now, it would not fit", "warn")
    for cause in causes_again(about, registry):
        yield TextLine(f"    {cause.tally}: {cause.words}")
