"""The refusals of one question, grouped so that a change is only tried where it could matter."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple

from hami_plugins.engine.bounds import RequestBounds
from hami_plugins.engine.decide import DecisionRequest
from hami_plugins.engine.eligibility import objection
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import UNREGISTERED, Refusal
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.units import VendorName
from hami_plugins.model.verdicts import Fit, NoFit, Reason

_NEARLY: Final = frozenset({Reason.TOO_FEW, Reason.TOPOLOGY, Reason.NUMA})
"""Counts of devices that would have done, had there been more of them."""


class RefusalCause(NamedTuple):
    """Why nodes refuse, without the numbers of any one node: the request that failed and its counted objections."""

    container: int
    vendor: VendorName
    reasons: tuple[tuple[Reason, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """All nodes of a refused question: by cause where devices are the reason, the rest by the node's objection."""

    question: DecisionRequest
    registry: Registry
    uncounted: Collection[str]
    by_cause: Mapping[RefusalCause, Sequence[NodeEntry]] = field(default_factory=dict)
    objecting: Sequence[NodeEntry] = ()

    @classmethod
    def of(
        cls,
        question: DecisionRequest,
        answers: Iterable[tuple[NodeEntry, Fit | Refusal]],
        registry: Registry,
        uncounted: Collection[str],
    ) -> Refusals:
        """Group what the nodes said. Nodes without any devices are left out when devices are asked for."""
        by_cause: dict[RefusalCause, list[NodeEntry]] = {}
        objecting: list[NodeEntry] = []
        for entry, answer in answers:
            if isinstance(answer, NoFit):
                by_cause.setdefault(RefusalCause(answer.container, answer.vendor, answer.reasons), []).append(entry)
            elif not isinstance(answer, Fit) and answer != UNREGISTERED:
                objecting.append(entry)
        return cls(question=question, registry=registry, uncounted=uncounted, by_cause=by_cause, objecting=objecting)

    def nodes(self) -> Iterator[NodeEntry]:
        """All of them."""
        yield from chain.from_iterable(self.by_cause.values())
        yield from self.objecting

    def lifted_by(self, lifts: Collection[Reason], *, fewer: bool = False) -> Iterator[NodeEntry]:
        """Nodes that could fit if nothing objected for these reasons; ``fewer`` says that one device may be enough."""
        for cause, entries in self.by_cause.items():
            if any(reason in lifts for reason, _ in cause.reasons) and (
                sum(count for reason, count in cause.reasons if reason in lifts or reason in _NEARLY)
                >= (1 if fewer else self._needed(cause))
            ):
                yield from entries

    def unlocked_by(self, constraints: NodeConstraints) -> Iterator[NodeEntry]:
        """Nodes that object to the pod as it is, but not under these constraints."""
        if constraints != self.question.demand.constraints:
            for entry in self.objecting:
                if objection(entry, constraints, self.uncounted) is None:
                    yield entry

    def gauges(self, question: DecisionRequest) -> tuple[RequestBounds, ...]:
        """A gauge for every different request of a question."""
        containers = question.demand.devices.containers
        requests = dict.fromkeys(each for container in containers for each in container.requests)
        return tuple(RequestBounds(self.registry[each.vendor], each, question.policy) for each in requests)

    def _needed(self, cause: RefusalCause) -> int:
        if self.registry[cause.vendor].fitting.partitions:
            return 1
        requests = self.question.demand.devices.containers[cause.container].requests
        return next(each.count for each in requests if each.vendor == cause.vendor)
