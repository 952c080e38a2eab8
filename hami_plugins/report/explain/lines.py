"""Explanations of single pods in words: what a running pod holds and what is wrong with it, why a pending one waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from hami_plugins.engine.holdings import Flaw, FlawKind
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.units import DeviceId
from hami_plugins.report import drawings, grids, tables
from hami_plugins.report.explain.answers import Answer, Cause, Refusal, causes_of, names_of, ways_out_of, ways_through
from hami_plugins.report.explain.explaining import Explanation, Pending, Running
from hami_plugins.report.explain.wording import choice_words, summary
from hami_plugins.report.rows import Line
from hami_plugins.report.slices import Slice, cards_words, planned_slices, shares_words, slices_of

MOST_ALIKE: Final = 3
"""Devices with the same flaw up to which each is named."""


def is_fine(found: Explanation) -> bool:
    """Whether nothing is wrong: a running pod holds what its node has, or a pending one fits by now."""
    if found.problems:
        return False
    if isinstance(found.about, Running):
        return not found.about.flaws
    return isinstance(found.about.plan.decision, Placed)


def lines(found: Explanation, registry: Registry) -> tuple[Line, ...]:
    """The whole explanation as text."""
    about = found.about
    told = _pending(found, about, registry) if isinstance(about, Pending) else _running(found, about, registry)
    return (*told, *(Line(f"  {problem.what}", "bad") for problem in found.problems))


def answer_of(about: Pending, registry: Registry) -> Answer:
    """A pending pod, answered as a pod of a plan is."""
    names = names_of(about.plan)
    if about.choice is not None:
        why = choice_words(about.choice)
    elif about.why is not None:
        why = summary(about.why, registry, names)
    else:
        why = about.plan.why or about.plan.words
    return Answer(
        plan=about.plan,
        why=why,
        causes=() if about.why is None else causes_of(about.why, registry, names),
        ways_out=(*ways_out_of(about.offers, names, registry), *ways_through(about.freed)),
        holders=about.holders,
    )


def held_slices(about: Running) -> tuple[Slice, ...]:
    """What a running pod holds. Its containers' names are not known."""
    return slices_of(about.record.grants, (), about.node)


def causes_again(about: Running, registry: Registry) -> tuple[Cause, ...]:
    """Why a running pod would find no place if it came again."""
    return () if about.why is None else causes_of(about.why, registry, ())


def flaw_words(flaw: Flaw) -> str:
    """One thing that is wrong with what a pod holds."""
    beside = f", to {', '.join(flaw.others)} as well" if flaw.others else ""
    match flaw.kind:
        case FlawKind.STRANGER:
            return f"holds {flaw.device}, which its node does not report; it is not free anywhere else"
        case FlawKind.UNHEALTHY:
            return f"{flaw.device} is unhealthy"
        case FlawKind.CORDONED:
            return f"{flaw.device} is cordoned"
        case FlawKind.UNPLACED:
            return f"its partition of {flaw.device} is not known: {flaw.why}"
        case FlawKind.OVERLAP:
            return f"its partition of {flaw.device} is promised{beside}"
        case _:
            unit = _UNITS[flaw.kind]
            return f"{flaw.device}: {flaw.promised:,} of {flaw.capacity:,} {unit} are promised{beside}"


def flaws_words(flaws: Iterable[Flaw]) -> Iterator[str]:
    """The same of several: many devices that are promised too often in the same way are counted."""
    for (kind, *_), group in groupby(flaws, key=lambda flaw: (flaw.kind, flaw.promised, flaw.capacity, flaw.others)):
        alike = list(group)
        if (kind in _UNITS or kind is FlawKind.STRANGER) and len(alike) > MOST_ALIKE:
            alike = [replace(alike[0], device=DeviceId(f"{alike[0].device} and {len(alike) - 1} more"))]
        yield from map(flaw_words, alike)


_UNITS = {FlawKind.SLOTS: "slots", FlawKind.MEMORY: "MiB", FlawKind.CORES: "cores"}


def _pending(found: Explanation, about: Pending, registry: Registry) -> Iterator[Line]:
    answer = answer_of(about, registry)
    plan = about.plan
    if isinstance(plan.decision, Placed) and not plan.why:
        yield Line(f"{found.pod}: pending, but it fits now", "good")
        slices = planned_slices(plan)
        what = f": {cards_words(slices)}, {shares_words(slices)}" if slices else ""
        yield Line(f"  {plan.decision.node}{what}")
        yield Line(f"  {answer.why}")
        for drawing in drawings.of_pod(plan, registry):
            yield from (Line(f"    {row}") for row in grids.lines(drawing))
    else:
        first, *rest = tables.refusal(Refusal(answer=answer, pods=(plan,)))
        yield Line(first.words.replace(": ", ": pending, ", 1), first.tone)
        yield from rest
    if found.asks_nothing:
        yield Line("  it asks for no devices", "dim")
    if plan.words and plan.words != answer.why:
        yield Line(f"  as its scheduler says it: {plan.words}", "dim")
    for note in plan.notes:
        yield Line(f"  note: {note}", "warn")


def _running(found: Explanation, about: Running, registry: Registry) -> Iterator[Line]:
    state = "terminating" if about.record.terminating else "running"
    yield Line(f"{found.pod}: {state} on {about.node.name}", "bad" if about.flaws else "good")
    slices = held_slices(about)
    yield Line(f"  holds {cards_words(slices)}: {shares_words(slices)}" if slices else "  it holds no devices")
    for drawing in drawings.of_running(about.record, about.node, registry):
        yield from (Line(f"    {row}") for row in grids.lines(drawing))
    told = [
        flaw for flaw in about.flaws if not (found.problems and flaw.kind is FlawKind.STRANGER)
    ]  # said by its reader
    for words in flaws_words(told):
        yield Line(f"  {words}", "bad")
    if found.asks_nothing:
        return
    if about.choice is not None:
        place = "the same node" if about.stays else about.choice.node
        yield Line(f"  rescheduled now, it would go to {place}: {choice_words(about.choice)}")
        return
    yield Line("  rescheduled now, it would not fit", "warn")
    for cause in causes_again(about, registry):
        yield Line(f"    {cause.tally}: {cause.words}")
