"""A whole pod on one node: every container fitted in turn, init containers alone, the others together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.engine.fit import Affordable, Fitter, RequestRefusal
from hami_plugins.engine.headroom import HeadroomComparison
from hami_plugins.engine.order import arranged
from hami_plugins.engine.quota import counted_cores
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.usage import held_of, peak
from hami_plugins.model.devices import Device, DeviceShare, DeviceUsage
from hami_plugins.model.nodes import NodeState
from hami_plugins.model.policy import NodePolicy, Policy
from hami_plugins.model.requests import ContainerDemand, ContainerKind, DeviceDemand, DeviceRequest
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import Candidate, ContainerRequest, Scoring, Shortfall
from hami_plugins.model.verdicts import ContainerShares, Fit, NoFit, Reason, Verdict

NEUTRAL_WEIGHT: Final = 10_000
"""Weight of vendor scores that rank nodes whatever the policy (HAMi ``policy/node_policy.go``)."""

Mask = Mapping[VendorName, frozenset[int]]
"""Positions that a pod's id lists accept, per vendor that has such lists."""

Given = Sequence[Mapping[VendorName, tuple[int, ...]]]
"""Positions that each container of a pod is to get, per vendor, where they are chosen already."""

_NO_SHARES: Final = ContainerShares()


@dataclass(frozen=True, slots=True)
class _Phase:
    """The allocation so far of containers that run together: usage, arrangement, and positions per vendor."""

    usage: list[DeviceUsage]
    arrangement: dict[VendorName, Sequence[int]]
    held: dict[VendorName, tuple[int, ...]]

    def copy(self) -> _Phase:
        return _Phase(list(self.usage), dict(self.arrangement), dict(self.held))


class _Limits(NamedTuple):
    """What a verdict depends on besides the state."""

    mask: Mask | None
    quota: HeadroomComparison | None


class Placer:
    """A pod's demand made ready for many nodes. Calling it answers for one state; it keeps nothing between calls."""

    __slots__ = ("_demand", "_fitters", "_plain", "_policy", "_registry")

    def __init__(self, demand: DeviceDemand, policy: Policy, registry: Registry) -> None:
        self._demand = demand
        self._policy = policy
        self._registry = registry
        self._fitters = tuple(
            tuple(Fitter.of(registry[request.vendor], request, policy) for request in container.requests)
            for container in demand.containers
        )
        self._plain = all(container.kind is ContainerKind.APP for container in demand.containers)

    def __call__(
        self,
        state: NodeState,
        mask: Mask | None = None,
        given: Given | None = None,
        quota: HeadroomComparison | None = None,
    ) -> Verdict:
        """Place the pod on a node in this state, or say what is missing first.

        With ``given`` no other positions are considered, so the answer is whether an existing choice is allowed.
        ``quota`` applies to a pod in a namespace that has one.
        """
        limits = _Limits(mask, quota)
        running = _Phase(list(state.usage), {}, {})
        placed: list[ContainerShares] = []
        for at, container in enumerate(self._demand.containers):
            if not container.requests:
                placed.append(_NO_SHARES)
                continue
            phase = running if self._plain or container.kind is not ContainerKind.INIT else running.copy()
            if given is not None:
                phase.arrangement.update(given[at])
            answer = self._container(at, state, phase, placed, limits)
            if isinstance(answer, NoFit):
                return answer
            placed.append(answer)
        containers = tuple(placed)
        return Fit(containers, self._score(state, containers))

    def _container(
        self, at: int, state: NodeState, phase: _Phase, placed: Sequence[ContainerShares], limits: _Limits
    ) -> ContainerShares | NoFit:
        demand = self._demand.containers[at]
        given: list[tuple[VendorName, tuple[DeviceShare, ...]]] = []
        for fitter in self._fitters[at]:
            vendor = fitter.request.vendor
            answer = self._request(fitter, demand, state, phase, (*placed, ContainerShares(tuple(given))), limits)
            if isinstance(answer, RequestRefusal):
                return NoFit(answer.reasons, answer.devices, at, vendor, answer.words)
            for share in answer:
                phase.usage[share.position] = phase.usage[share.position].plus(
                    share.memory, share.cores, () if share.mark is None else (share.mark,)
                )
            phase.held[vendor] = phase.held.get(vendor, ()) + tuple(share.position for share in answer)
            given.append((vendor, answer))
        return ContainerShares(tuple(given))

    def _request(  # noqa: PLR0913, PLR0917 - one request, the node it is for, and what came before it
        self,
        fitter: Fitter,
        demand: ContainerDemand,
        state: NodeState,
        phase: _Phase,
        placed: Sequence[ContainerShares],
        limits: _Limits,
    ) -> tuple[DeviceShare, ...] | RequestRefusal:
        shape = state.shape
        fitter = fitter.on(shape)
        request, spec = fitter.request, fitter.spec
        vendor = request.vendor
        positions = phase.arrangement.get(vendor) or shape.positions.get(vendor, ())
        too_few = request.count > len(positions) and not _may_repeat(fitter, shape.devices, positions)
        if too_few and not spec.fitting.message_when_too_few:
            return RequestRefusal(((Reason.TOO_FEW_CARDS, 1),), len(positions), Reason.TOO_FEW_CARDS)
        tried = arranged(positions, shape.devices, phase.usage, self._policy, demand.requests)
        phase.arrangement[vendor] = tried[::-1]
        wanted = None if limits.mask is None else limits.mask.get(vendor)
        candidates = [Candidate(at, shape.devices[at], phase.usage[at], wanted is None or at in wanted) for at in tried]
        ask = ContainerRequest(
            request,
            self._policy,
            shape,
            phase.held.get(vendor, ()),
            spec.fitting.cores_of,
            spec.fitting.memory_of,
            phase.usage,
        )
        if too_few:
            return fitter.refusal(Shortfall({Reason.TOO_FEW_CARDS: 1}, candidates, ()), ask)
        return fitter.fit(candidates, ask, self._affordable(limits.quota, request, placed, shape.devices))

    def _affordable(
        self,
        quota: HeadroomComparison | None,
        request: DeviceRequest,
        placed: Sequence[ContainerShares],
        devices: Sequence[Device],
    ) -> Affordable | None:
        if quota is None:
            return None

        def within(shares: Sequence[DeviceShare]) -> bool:
            current = ContainerShares(((request.vendor, tuple(shares)),))
            last = placed[-1]
            merged = ContainerShares((*last.by_vendor, *current.by_vendor))
            return quota.allows(request.vendor, *self._booked(request.vendor, (*placed[:-1], merged), devices))

        return within

    def _booked(
        self, vendor: VendorName, placed: Sequence[ContainerShares], devices: Sequence[Device]
    ) -> tuple[int, int]:
        """What these containers hold of a vendor at their peak, summed over devices as a quota counts it."""
        held = peak(
            (
                container.kind,
                (
                    (share.position, held_of(share.memory, share.cores, share.mark))
                    for name, shares in given.by_vendor
                    if name == vendor
                    for share in shares
                ),
            )
            for container, given in zip(self._demand.containers, placed, strict=False)
        )
        spec = self._registry[vendor]
        cores = sum(counted_cores(spec, devices[at], each.cores) for at, each in held.items())
        return sum(each.memory for each in held.values()), cores

    def _score(self, state: NodeState, containers: tuple[ContainerShares, ...]) -> float:
        vendors = dict.fromkeys(name for container in containers for name, _ in container.by_vendor)
        score = 0.0 if any(self._registry[vendor].scoring.is_whole for vendor in vendors) else state.base_score
        for vendor in vendors:
            spec = self._registry[vendor]
            if spec.scoring.score_node is None:
                continue
            more = spec.scoring.score_node(self._scoring(vendor, state, containers))
            if spec.scoring.is_neutral:
                more *= -NEUTRAL_WEIGHT if self._policy.node is NodePolicy.SPREAD else NEUTRAL_WEIGHT
            score += more
        return score

    def _scoring(self, vendor: VendorName, state: NodeState, containers: tuple[ContainerShares, ...]) -> Scoring:
        return Scoring(
            state=state,
            requests=tuple(
                request
                for container in self._demand.containers
                for request in container.requests
                if request.vendor == vendor
            ),
            containers=tuple(
                tuple(share for name, shares in container.by_vendor if name == vendor for share in shares)
                for container in containers
            ),
            policy=self._policy,
        )


def _may_repeat(fitter: Fitter, devices: Sequence[Device], positions: Sequence[int]) -> bool:
    """Whether one card may serve several of the requested count: it is partitioned, and the pod accepts its mode."""
    modes = fitter.request.selector.modes
    return fitter.spec.fitting.partitions and any(
        devices[at].profiles and (modes is None or devices[at].mode in modes) for at in positions
    )
