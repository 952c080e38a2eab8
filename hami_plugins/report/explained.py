"""An explanation as lines of text, most important first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from hami_plugins.engine.holdings import Flaw, FlawKind
from hami_plugins.engine.registry import Registry
from hami_plugins.report.advice import holding_words, sentence
from hami_plugins.report.explain import Explanation, Pending, Running
from hami_plugins.report.slices import share_words, slices_of
from hami_plugins.report.wording import choice_words, counted, nodes_words, reason_words

_UNITS: Final = {FlawKind.SLOTS: "slots", FlawKind.MEMORY: "MiB", FlawKind.CORES: "cores"}


def lines(found: Explanation, registry: Registry) -> Iterator[str]:
    """Why it is pending and what would help, or what it holds and whether that is as it should be."""
    match found.about:
        case Pending():
            yield from _pending(found.pod, found.about, registry)
        case Running():
            yield from _running(found.pod, found.about, registry)
        case _ as unreachable:
            assert_never(unreachable)
    if found.asks_nothing:
        yield "it asks for no devices, so that only the nodes themselves matter"
    for problem in found.problems:
        yield f"could not be read: {problem.what}"


def flaw_words(flaw: Flaw) -> str:
    """One thing that is wrong with what a pod holds."""
    others = f" with {', '.join(flaw.others)}" if flaw.others else ""
    match flaw.kind:
        case FlawKind.STRANGER:
            return f"holds {flaw.device}, which its node does not report; it is kept, and free nowhere"
        case FlawKind.UNHEALTHY | FlawKind.CORDONED:
            return f"holds {flaw.device}, which is {flaw.kind.value}"
        case FlawKind.UNPLACED:
            return f"holds {flaw.device}, but nobody knows which part of it: {flaw.why}"
        case FlawKind.OVERLAP:
            return f"holds a partition of {flaw.device} that overlaps{others}"
        case _:
            much = f"{flaw.promised:,} of {flaw.capacity:,} {_UNITS[flaw.kind]}"
            return f"holds {flaw.device}, of which {much} are promised{', shared' + others if others else ''}"


def _pending(pod: str, about: Pending, registry: Registry) -> Iterator[str]:
    names = [container.name for container in about.plan.pod.containers]
    if about.choice is not None:
        yield f"pod {pod} is pending, but would fit now: {about.choice.node} is {choice_words(about.choice)}"
    elif about.why is not None:
        yield f"pod {pod} is pending: none of {counted(about.why.nodes, 'node')} takes it"
        for reason in about.why.reasons:
            yield f"{nodes_words(reason, about.why)}: {reason_words(reason, registry, names)}"
    else:
        yield f"pod {pod} is pending ({about.plan.stage.value}): {about.plan.why}"
    for offer in about.offers:
        yield sentence(offer, names)


def _running(pod: str, about: Running, registry: Registry) -> Iterator[str]:
    yield f"pod {pod} holds {holding_words(about.record)} of {about.node.name}"
    for share in slices_of(about.record.grants, (), about.node):
        yield f"{share.device} ({share.model}): {share_words(share)}"
    for flaw in about.flaws:
        yield flaw_words(flaw)
    if about.choice is not None:
        place = "here again" if about.stays else f"on {about.choice.node} now"
        yield f"one that asks for the same would be placed {place}: {choice_words(about.choice)}"
    elif about.why is not None:
        yield f"one that asks for the same would fit on none of {counted(about.why.nodes, 'node')} any more"
        for reason in about.why.reasons:
            yield f"{nodes_words(reason, about.why)}: {reason_words(reason, registry)}"
