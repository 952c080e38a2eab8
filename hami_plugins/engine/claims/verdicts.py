"""The answers of nodes to pods with claims, made of those of their other checks and of what they say to the claims.

They are kept for the next pod with the same wish: only nodes that changed are asked again, or whose pools did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import Final, NamedTuple, TypeAlias

from hami_plugins.engine.claims.check import AskedClaims
from hami_plugins.engine.claims.needs import ClaimTrouble
from hami_plugins.engine.claims.search import SearchStoppedError
from hami_plugins.model.claims import PlacedClaim, PoolId, PoolUsage
from hami_plugins.model.decisions import UNREGISTERED, FilterReason, Refusal
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.verdicts import Fit

_OUT: Final = float("-inf")

Answers: TypeAlias = Sequence[Fit | Refusal]
"""What each node says, in node order."""


class OtherAnswers(NamedTuple):
    """What nodes say besides claims. ``bare`` is that without the plain resources that classes stand for.

    It is for nodes without a device plugin for these; the same object as ``counted`` where there are none.
    """

    nodes: tuple[NodeEntry, ...]
    counted: Answers
    bare: Answers


def troubled(trouble: ClaimTrouble) -> FilterReason:
    """The answer of every node to a pod that none is tried for."""
    return FilterReason(trouble.why, event=trouble.event, unknown=trouble.unknown)


class JudgedNodes:
    """What the nodes of the last snapshot said to one wish. With ``spread`` the lowest score is the best."""

    def __init__(self, *, spread: bool) -> None:
        self._spread = spread
        self._others = OtherAnswers((), (), ())
        self._taken: Mapping[PoolId, PoolUsage] = {}
        self._said: list[Fit | Refusal] = []
        self._claims: list[tuple[PlacedClaim, ...]] = []
        self._ranks: list[float] = []
        self._fits: dict[int, Fit] = {}
        self._stops: dict[int, str] = {}
        self._reach: dict[PoolId, set[int]] = {}

    def catch_up(self, asked: AskedClaims, others: OtherAnswers) -> None:
        """Bring the answers up to date."""
        count = len(others.nodes)
        if count != len(self._said):
            self._said, self._claims = [UNREGISTERED] * count, [()] * count
            self._ranks, self._fits, self._stops, self._reach = [_OUT] * count, {}, {}, {}
            changed = set(range(count))
        else:
            changed = set(self._changed(asked, others))
        for at in changed:
            self._renew(at, asked, others)
        counted = tuple(others.counted)
        self._others = OtherAnswers(
            others.nodes, counted, counted if others.bare is others.counted else tuple(others.bare)
        )
        self._taken = asked.taken

    def best(self) -> int | None:
        """The number of the best node that fits, the first of equals; ``None`` where none does."""
        return None if self._stops or not self._fits else self._ranks.index(max(self._ranks))

    def fit(self, at: int) -> tuple[NodeEntry, Fit, tuple[PlacedClaim, ...], int]:
        """A node that fits, with what claims get there and how many nodes fit."""
        return self._others.nodes[at], self._fits[at], self._claims[at], len(self._fits)

    def answers(self) -> list[tuple[NodeEntry, Fit | Refusal]]:
        """What each node says. An error of the scheduler on one node is the answer of all that would fit."""
        said: Answers = self._said
        if self._stops:
            error = self._stops[min(self._stops)]
            why = FilterReason(f"kube-scheduler stops: {error}", event=error)
            said = [why if isinstance(each, Fit) else each for each in said]
        return list(zip(self._others.nodes, said, strict=True))

    def _changed(self, asked: AskedClaims, others: OtherAnswers) -> Iterator[int]:
        places = range(len(others.nodes))
        yield from compress(places, map(is_not, others.nodes, self._others.nodes))
        yield from compress(places, map(is_not, others.counted, self._others.counted))
        if others.bare is not others.counted:
            yield from compress(places, map(is_not, others.bare, self._others.bare))
        now, before = asked.taken, self._taken
        if now is not before:
            for pool in (
                *compress(now, map(is_not, now.values(), map(before.get, now))),
                *(before.keys() - now.keys()),
            ):
                yield from self._reach.get(pool, ())

    def _renew(self, at: int, asked: AskedClaims, others: OtherAnswers) -> None:
        entry = others.nodes[at]
        by_claims = asked.by_claims(entry)
        said = (others.bare if by_claims else others.counted)[at]
        claims: tuple[PlacedClaim, ...] = ()
        self._stops.pop(at, None)
        if isinstance(said, Fit):
            for pool in asked.pools(entry):
                self._reach.setdefault(pool, set()).add(at)
            said, claims = self._asked(at, entry, said, asked)
        elif said is UNREGISTERED and by_claims:
            names = ", ".join(sorted(by_claims))
            why = f"not known: a DeviceClass stands for {names}, of which this node registers none"
            said = FilterReason(why, unknown=True)
        self._said[at], self._claims[at] = said, claims
        if isinstance(said, Fit):
            self._fits[at] = said
            self._ranks[at] = -said.score if self._spread else said.score
        else:
            self._fits.pop(at, None)
            self._ranks[at] = _OUT

    def _asked(
        self, at: int, entry: NodeEntry, fit: Fit, asked: AskedClaims
    ) -> tuple[Fit | Refusal, tuple[PlacedClaim, ...]]:
        try:
            found = asked.answer(entry)
        except SearchStoppedError as error:
            self._stops[at] = str(error)
            return fit, ()
        return (found, ()) if isinstance(found, FilterReason) else (fit, found)
