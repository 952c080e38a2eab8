"""What all nodes of a cache say to one demand, kept up to date by looking only at the nodes that have changed.

A call about thousands of nodes then costs a few passes over their names. Pods of one demand are asked about in turn
(replicas of a Deployment), and between two calls few nodes change. Used under the lock of the cache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from hami_plugins.engine.headroom import ANY_HEADROOM, HeadroomRange
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import Left

Refusal = TypeVar("Refusal")
Reply = TypeVar("Reply")

MOST_ANSWERS: Final = 100_000
"""Answers of nodes that are kept over all demands, each some 300 bytes: twenty demands at 5,000 nodes."""


class ChangeLog:
    """The names of nodes that changed, in order; no more than the last ``most``."""

    __slots__ = ("_first", "_most", "_names")

    def __init__(self, most: int = 4_096) -> None:
        self._most = most
        self._names: list[NodeName] = []
        self._first = 0

    @property
    def position(self) -> int:
        """How many changes there have been."""
        return self._first + len(self._names)

    def add(self, name: NodeName) -> None:
        """A node changed."""
        self._names.append(name)
        if len(self._names) >= 2 * self._most:
            del self._names[: self._most]
            self._first += self._most

    def since(self, position: int) -> Iterable[NodeName] | None:
        """The nodes that changed since a position; ``None`` if the log no longer reaches back to it."""
        return self._names[position - self._first :] if position >= self._first else None


@dataclass(slots=True)
class KnownAnswers(Generic[Refusal, Reply]):
    """The answers to one demand, in a namespace with a quota those with what is ``left`` of it.

    ``stale`` are the nodes that have to be asked. Of the others, ``scores`` has those that fit, ``untold`` the refusals
    that have no text yet, and ``told`` those that have. A node that is in none of them is not known. ``of_quota`` are
    the refusals whose texts have the numbers of the quota; nodes answer the same with every headroom in ``range``.
    """

    position: int = 0
    left: Left = ()
    range: HeadroomRange = ANY_HEADROOM
    stale: dict[NodeName, None] = field(default_factory=dict)
    scores: dict[NodeName, float] = field(default_factory=dict)
    untold: dict[NodeName, Refusal] = field(default_factory=dict)
    told: dict[NodeName, Reply] = field(default_factory=dict)
    of_quota: dict[NodeName, Refusal] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many answers are kept."""
        return len(self.scores) + len(self.untold) + len(self.told)

    def hold(self, left: Left) -> bool:
        """Whether the answers are those of a namespace that has so much left."""
        return self.left == left and self.range.holds(left)

    def catch_up(self, log: ChangeLog, everything: Callable[[], Iterable[NodeName]], left: Left = ()) -> None:
        """Note which nodes have to be asked again, and which texts have to be made again."""
        changed = log.since(self.position) if self.position and self.range.holds(left) else None
        if changed is None:
            for answers in (self.scores, self.untold, self.told, self.of_quota):
                answers.clear()
            self.range = ANY_HEADROOM
            changed = everything()
        elif left != self.left:
            self.untold.update(self.of_quota)
            for name in self.of_quota:
                self.told.pop(name, None)
        self.stale.update(dict.fromkeys(changed))
        self.position, self.left = log.position, left

    def renew(self, name: NodeName, score: float | None, refusal: Refusal | None, *, of_quota: bool = False) -> None:
        """A node was asked: it fits with a ``score``, or has refused; it is not known any more without either."""
        self.forget(name)
        if score is not None:
            self.scores[name] = score
        elif refusal is not None:
            self.untold[name] = refusal
            if of_quota:
                self.of_quota[name] = refusal

    def forget(self, name: NodeName) -> None:
        """Drop what a node said."""
        for answers in (self.stale, self.scores, self.untold, self.told, self.of_quota):
            answers.pop(name, None)

    def tell(self, texts: Iterable[tuple[NodeName, Refusal, Reply]], left: Left = ()) -> None:
        """Texts of refusals were made, with what is ``left``. One whose node was asked again meanwhile is left out."""
        for name, refusal, text in texts:
            if self.untold.get(name) is refusal and (self.left == left or name not in self.of_quota):
                del self.untold[name]
                self.told[name] = text


class AnswersByDemand(Generic[Refusal, Reply]):
    """The answers to the demands that were asked about last; those asked about longest ago are dropped first.

    ``most`` bounds how many answers are kept in all; the latest demand is kept whatever it takes.
    """

    def __init__(self, most: int = MOST_ANSWERS) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, KnownAnswers[Refusal, Reply]] = OrderedDict()

    def of(self, demand: Hashable) -> KnownAnswers[Refusal, Reply]:
        """The answers to a demand."""
        found = self._kept.get(demand)
        if found is None:
            found = self._kept[demand] = KnownAnswers()
        self._kept.move_to_end(demand)
        while len(self._kept) > 1 and len(self) > self._most:
            self._kept.popitem(last=False)
        return found

    def __len__(self) -> int:
        """How many answers are kept."""
        return sum(map(len, self._kept.values()))
