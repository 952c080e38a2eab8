"""The one fit for all vendors: choose devices for one container's request on one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from hami_plugins.engine.checks import card_checks, clamped, cores_on, memory_left, memory_on, room_checks
from hami_plugins.model.devices import DeviceShare
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.policy import Policy
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.vendor import Candidate, Check, ContainerRequest, Shortfall, Unselectable, VendorSpec
from hami_plugins.model.verdicts import Reason

Affordable = Callable[[Sequence[DeviceShare]], bool]
"""Whether the namespace's quota allows these shares of the current request together."""


class RequestRefusal(NamedTuple):
    """The counted objections to one request, and HAMi's words for them."""

    reasons: tuple[tuple[Reason, int], ...]
    devices: int
    words: str


@dataclass(frozen=True, slots=True)
class Fitter:
    """A request made ready for many nodes: the checks that can object to it, picked once."""

    spec: VendorSpec
    request: DeviceRequest
    policy: Policy
    card: tuple[Check, ...]
    room: tuple[Check, ...]
    one_numa: bool
    collects: bool
    before_quota: int

    @classmethod
    def of(cls, spec: VendorSpec, request: DeviceRequest, policy: Policy) -> Fitter:
        """Make one request ready."""
        cores = clamped(spec, request)
        if cores != request.cores:
            request = replace(request, cores=cores)
        room = room_checks(spec, request, exclusive=policy.exclusive)
        return cls(
            spec=spec,
            request=request,
            policy=policy,
            card=card_checks(spec, request),
            room=room,
            one_numa=spec.fitting.binds_numa and policy.one_numa,
            collects=spec.fitting.select is not None and (policy.near or not spec.fitting.select_when_near),
            before_quota=room.index(memory_left),
        )

    def on(self, shape: NodeShape) -> Fitter:
        """The same for the request as it is on nodes of a shape."""
        if self.spec.requests.on_node is None:
            return self
        request = self.spec.requests.on_node(self.request, shape)
        return self if request is self.request else replace(self, request=request)

    def fit(
        self, candidates: Sequence[Candidate], ask: ContainerRequest, affordable: Affordable | None = None
    ) -> tuple[DeviceShare, ...] | RequestRefusal:
        """Choose ``request.count`` devices from candidates in the order in which they are to be tried."""
        tally: dict[Reason, int] = {}
        chosen: list[Candidate] = []
        shares: list[DeviceShare] = []
        numa = -1
        room = self.room if affordable is None else self._room_within(affordable, shares)
        for candidate in candidates:
            why = _first(self.card, candidate, ask)
            if why is None and self.one_numa and candidate.device.numa != numa:
                if chosen:
                    tally[Reason.NUMA] = tally.get(Reason.NUMA, 0) + len(chosen)
                chosen.clear()
                shares.clear()
                numa = candidate.device.numa
            if why is None:
                why = self._take(candidate, ask, room, chosen, shares)
                if len(chosen) == self.request.count and not self.collects:
                    return tuple(shares)
            if why is not None:
                tally[why] = tally.get(why, 0) + 1
        return self._selected(chosen, shares, tally, candidates, ask)

    def _take(
        self,
        candidate: Candidate,
        ask: ContainerRequest,
        room: tuple[Check, ...],
        chosen: list[Candidate],
        shares: list[DeviceShare],
    ) -> Reason | None:
        """Take a share of a device, of a partitioned one as many as are wanted; the objection that ends it, if any.

        HAMi does not count the slots of shares that the same request got; we do, after everything that it looks at.
        """
        taken = 0
        while True:
            why = _first(room, candidate, ask)
            if why is not None:
                return why
            if taken and candidate.used.slots + taken >= candidate.device.slots:
                return Reason.SLOTS
            share = self._share(candidate, ask)
            chosen.append(candidate)
            shares.append(share)
            taken += 1
            if not (self.spec.fitting.partitions and share.mark is not None):
                return None
            if len(chosen) == self.request.count and not self.collects:
                return None
            candidate = candidate._replace(used=candidate.used._replace(marks=(*candidate.used.marks, share.mark)))

    def _room_within(self, affordable: Affordable, shares: Sequence[DeviceShare]) -> tuple[Check, ...]:
        """The room checks with the quota among them: after sharing, before memory, where HAMi asks it."""

        def within_quota(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
            share = DeviceShare(candidate.position, memory_on(candidate, ask), cores_on(candidate, ask))
            return None if affordable([*shares, share]) else Reason.QUOTA

        return (*self.room[: self.before_quota], within_quota, *self.room[self.before_quota :])

    def _selected(
        self,
        chosen: Sequence[Candidate],
        shares: Sequence[DeviceShare],
        tally: dict[Reason, int],
        candidates: Sequence[Candidate],
        ask: ContainerRequest,
    ) -> tuple[DeviceShare, ...] | RequestRefusal:
        count = self.request.count
        if self.spec.fitting.select is not None and chosen and len(chosen) >= count:
            selected = self.spec.fitting.select(chosen, ask)
            if isinstance(selected, Unselectable):
                tally[selected.reason] = selected.cards
                return self.refusal(Shortfall(tally, candidates, chosen), ask)
            if len(selected) >= count:
                by_candidate = {id(candidate): share for candidate, share in zip(chosen, shares, strict=True)}
                return tuple(by_candidate[id(candidate)] for candidate in selected[:count])
        if chosen:
            tally[Reason.TOO_FEW] = len(chosen)
        return self.refusal(Shortfall(tally, candidates, chosen), ask)

    def refusal(self, shortfall: Shortfall, ask: ContainerRequest) -> RequestRefusal:
        """The refusal of a shortfall, in the upstream scheduler's words."""
        tally, devices = shortfall.tally, len(shortfall.devices)
        words = self.spec.fitting.message(shortfall, ask) if self.spec.fitting.message is not None else None
        return RequestRefusal(tuple(sorted(tally.items())), devices, words or spelled(self._told(tally), devices))

    def _told(self, tally: Mapping[Reason, int]) -> Mapping[Reason, int]:
        """The reasons that HAMi counts: none of the cards it collected and gave up for another NUMA node."""
        return {why: cards for why, cards in tally.items() if not (self.collects and why is Reason.NUMA)}

    def _share(self, candidate: Candidate, ask: ContainerRequest) -> DeviceShare:
        if self.spec.fitting.share_of is not None:
            return self.spec.fitting.share_of(candidate, ask)
        return DeviceShare(candidate.position, memory_on(candidate, ask), cores_on(candidate, ask))


def spelled(tally: Mapping[Reason, int], devices: int) -> str:
    """HAMi's text for counted reasons: ``k/n Reason`` sorted as strings, so ``10/12`` comes before ``2/12``."""
    return ", ".join(sorted(f"{count}/{devices} {reason}" for reason, count in tally.items()))


def _first(checks: tuple[Check, ...], candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    for check in checks:
        why = check(candidate, ask)
        if why is not None:
            return why
    return None
