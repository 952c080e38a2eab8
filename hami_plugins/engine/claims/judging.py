"""The answers of nodes to pods with claims, made of those of their other checks and of what they say to the claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from hami_plugins.engine.claims.check import AskedClaims, ClaimsStopError
from hami_plugins.engine.claims.wishes import ClaimTrouble
from hami_plugins.model.claims import PlacedClaim
from hami_plugins.model.decisions import UNREGISTERED, FilterReason, Refusal
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.verdicts import Fit

JudgedNode: TypeAlias = tuple[NodeEntry, Fit | Refusal, tuple[PlacedClaim, ...]]
"""A node, what it says, and what the pod's claims would get there."""

Answers: TypeAlias = Sequence[tuple[NodeEntry, Fit | Refusal]]


def troubled(trouble: ClaimTrouble, answers: Answers) -> list[JudgedNode]:
    """The answers for a pod that no node is tried for."""
    why = FilterReason(trouble.why, event=trouble.event, unknown=trouble.unknown)
    return [(entry, why, ()) for entry, _ in answers]


def with_claims(asked: AskedClaims, answers: Answers, bare: Answers) -> list[JudgedNode]:
    """The answers with those to the claims. ``bare`` are the answers where plain resources of classes do not count.

    They are for nodes without a device plugin for these. An error of the scheduler on one node is the answer of all.
    """
    judged: list[JudgedNode] = []
    for (entry, counted), (_, uncounted) in zip(answers, bare, strict=True):
        by_claims = asked.by_claims(entry)
        answer = uncounted if by_claims else counted
        if not isinstance(answer, Fit):
            judged.append((entry, _of_both(answer, by_claims), ()))
            continue
        try:
            found = asked.answer(entry)
        except ClaimsStopError as error:
            why = FilterReason(f"kube-scheduler stops: {error}", event=str(error))
            return [(each, why if isinstance(said, Fit) else said, ()) for each, said in answers]
        judged.append((entry, found, ()) if isinstance(found, FilterReason) else (entry, answer, found))
    return judged


def _of_both(answer: Refusal, by_claims: frozenset[str]) -> Refusal:
    """A refusal for want of registered devices, where a class may stand for the very resource."""
    if answer is UNREGISTERED and by_claims:
        names = ", ".join(sorted(by_claims))
        return FilterReason(
            f"not known: a DeviceClass stands for {names}, of which this node registers none", unknown=True
        )
    return answer
