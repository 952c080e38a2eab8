"""Which devices the claims of one pod get on one node: the first solution in the order of pools, slices and devices.

An exhaustive search with bounded work, request by request and device by device, as kube-scheduler's. Source:
``allocator_experimental.go`` of ``k8s.io/dynamic-resource-allocation`` 0.34.4, ``allocator_incubating.go`` of 0.36.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hami_plugins.engine.claims import capacity
from hami_plugins.engine.claims.constraints import ConstraintState
from hami_plugins.engine.claims.needs import NeededClaim
from hami_plugins.engine.claims.pools import CounterScope, NodePool, PoolMember
from hami_plugins.engine.claims.rules import MOST_DEVICES, ClaimRules
from hami_plugins.engine.eligibility import REPELLING
from hami_plugins.errors import HamiPluginsError
from hami_plugins.model.claims import ClaimedDevice, ClaimRequest, DeviceChoice, PoolDevice, PoolId, PoolUsage
from hami_plugins.model.pods import Toleration

MOST_STEPS: Final = 20_000
"""Devices that one search tries before it gives up; with the real scheduler a node has ten seconds."""

_FREE: Final = PoolUsage()

Accepts = Callable[[PoolMember, DeviceChoice], bool]
"""Whether the selectors of class and request choose a device that the node reaches."""


class SearchStoppedError(HamiPluginsError):
    """The scheduler ends the search with an error: the pod waits, whatever other nodes have."""


class SearchGivenUpError(HamiPluginsError):
    """The search is too long: whether there is a solution is not known."""


class _TooManyError(HamiPluginsError):
    """A claim would get more devices than one can have."""


class WantedDevice(NamedTuple):
    """The next device to find: number ``device`` of a request of a claim, once one of its choices is taken up."""

    claim: int = 0
    request: int = 0
    choice: int | None = None
    device: int = 0


class NodeDevices(NamedTuple):
    """What a node reaches, what claims hold of it, and who can have it."""

    pools: Sequence[NodePool]
    usage: Mapping[PoolId, PoolUsage]
    accepts: Accepts
    rules: ClaimRules


class _Plan(NamedTuple):
    """One choice of one request: how many devices, and which ones where it asks for all."""

    request: ClaimRequest
    choice: DeviceChoice
    wanted: int
    all: tuple[PoolMember, ...] | None


@dataclass(slots=True)
class ClaimedAmounts:
    """What is taken on a node's pools: by claims that have their devices, and by this search."""

    usage: Mapping[PoolId, PoolUsage]
    claims: dict[PoolDevice, set[int]] = field(default_factory=dict)
    amounts: dict[PoolDevice, dict[str, int]] = field(default_factory=dict)
    counters: dict[object, dict[tuple[str, str], int]] = field(default_factory=dict)
    left: dict[object, dict[tuple[str, str], int]] = field(default_factory=dict)

    def in_use(self, device: PoolDevice) -> bool:
        """Whether a device is taken as a whole."""
        return device.name in self.usage.get(device.pool, _FREE).devices or bool(self.claims.get(device))

    def used(self, device: PoolDevice) -> dict[str, int]:
        """What is taken of the capacities of a shared device."""
        found = dict(dict(self.usage.get(device.pool, _FREE).consumed).get(device.name, ()))
        for name, amount in self.amounts.get(device, {}).items():
            found[name] = found.get(name, 0) + amount
        return found

    def shared_in_use(self, device: PoolDevice) -> bool:
        """Whether any pod has a share of a device."""
        return any(name == device.name for name, _ in self.usage.get(device.pool, _FREE).consumed) or any(
            self.amounts.get(device, {}).values()
        )

    def count(self, member: PoolMember, sign: int) -> None:
        """Take what a device uses of its counters, or give it back."""
        taken = self.counters.setdefault(member.scope.name, {})
        for use in member.device.uses:
            for name, amount in use.amounts:
                key = use.counters, name
                taken[key] = taken.get(key, 0) + sign * amount

    def overdrawn(self, scope: CounterScope, pool: PoolId) -> tuple[str, str] | None:
        """The first counter of which more is taken than there is."""
        left = self.left.get(scope.name)
        if left is None:
            left = self.left[scope.name] = self._left(scope, self.usage.get(pool, _FREE).devices)
        taken = self.counters.get(scope.name, {})
        return next((key for key, amount in left.items() if amount < taken.get(key, 0)), None)

    @staticmethod
    def _left(scope: CounterScope, taken: frozenset[str]) -> dict[tuple[str, str], int]:
        left = {(name, counter): has for name, of in scope.counters.items() for counter, has in of.items()}
        for device in scope.devices:
            if device.name in taken:
                for use in device.uses:
                    for counter, amount in use.amounts:
                        if (use.counters, counter) in left:
                            left[use.counters, counter] -= amount
        return left


class ClaimSearch:
    """One search. ``accepts`` may raise what ends it; ``steps`` counts the devices that were tried."""

    def __init__(self, devices: NodeDevices, claims: Sequence[NeededClaim], *, most_steps: int = MOST_STEPS) -> None:
        self.pools, usage, self._accepts, self._rules = devices
        self.taken = ClaimedAmounts(usage)
        self.steps = 0
        self._claims = claims
        self._most_steps = most_steps
        self._constraints = [[ConstraintState(of, devices.rules) for of in claim.spec.constraints] for claim in claims]
        self._plans = [[self._planned(claim, request) for request in claim.spec.requests] for claim in claims]
        self.results: list[list[ClaimedDevice]] = [[] for _ in claims]

    def found(self) -> bool:
        """Whether there is a solution, which is then in ``results``."""
        if any(sum(min(plan.wanted for plan in plans) for plans in of) > MOST_DEVICES for of in self._plans):
            raise SearchStoppedError(f"number of requested devices exceeds the claim limit of {MOST_DEVICES}")
        return self._solved(WantedDevice(), 0)  # the least devices fit, so that not all choices are too many

    def _planned(self, claim: NeededClaim, request: ClaimRequest) -> list[_Plan]:
        return [
            _Plan(request, choice, choice.count, None) if choice.count else self._of_all(claim, request, choice)
            for choice in request.choices
        ]

    def _of_all(self, claim: NeededClaim, request: ClaimRequest, choice: DeviceChoice) -> _Plan:
        """Every device that the request may have; a pool that is not understood as a whole ends the search."""
        found: list[PoolMember] = []
        for pool in self.pools:
            if pool.missing or pool.wrong:
                state = "being updated" if pool.missing else "invalid"
                raise SearchStoppedError(
                    f"claim {claim.claim or claim.name}, request {request.name}: asks for all devices, but resource "
                    f"pool {pool.id} is currently {state}"
                )
            found.extend(
                each for each in pool.members if self._accepts(each, choice) and self.short_of(each, choice) is None
            )
        return _Plan(request, choice, len(found), tuple(found))

    def short_of(self, member: PoolMember, choice: DeviceChoice) -> capacity.CapacityShortage | None:
        """The capacity of which a device has too little left for a request."""
        return capacity.shortage(member.device.capacity, dict(choice.capacity), self.taken.used(member.id))

    def _solved(self, unit: WantedDevice, start: int) -> bool:
        """Whether the rest can be found; ``start`` is the first candidate for the next device of the same request."""
        if unit.claim == len(self._claims):
            return True
        plans = self._plans[unit.claim]
        if unit.request == len(plans):
            return self._solved(WantedDevice(unit.claim + 1), 0)
        if unit.choice is None:
            return self._any_choice(unit, plans[unit.request])
        return self._next_device(unit, plans[unit.request][unit.choice], start)

    def _next_device(self, unit: WantedDevice, plan: _Plan, start: int) -> bool:
        if not plan.wanted:
            return False
        if unit.device >= plan.wanted:
            return self._solved(WantedDevice(unit.claim, unit.request + 1), 0)
        if len(self.results[unit.claim]) + plan.wanted - unit.device > MOST_DEVICES:
            raise _TooManyError
        if plan.all is not None:
            return self._tried(unit, plan, plan.all[unit.device], must=True, following=0)
        return any(
            self._tried(unit, plan, member, must=False, following=at + 1)
            for at, member in self._candidates(plan, unit, start)
        )

    def _any_choice(self, unit: WantedDevice, plans: list[_Plan]) -> bool:
        """The first choice that goes; too many devices for one leave the others, and for all of them end it."""
        exceeded = True
        for at, plan in enumerate(plans):
            try:
                if self._solved(unit._replace(choice=at), 0):
                    return True
            except _TooManyError:
                if not plan.request.listed:
                    raise
                continue
            exceeded = False
        if exceeded:
            raise _TooManyError
        return False

    def _candidates(self, plan: _Plan, unit: WantedDevice, start: int) -> Iterator[tuple[int, PoolMember]]:
        """The devices that the request may have as far as they can be told apart from others by themselves."""
        first, at = (0 if self._rules.same_share_twice else start), -1
        for pool in self.pools:
            if pool.wrong and self._rules.invalid_stops:
                raise SearchStoppedError(f"pool {pool.id.name} is invalid: {pool.wrong}")
            for member in pool.members:  # none of a pool that is invalid or incomplete
                at += 1
                if at < first:
                    continue
                self.steps += 1
                if self.steps > self._most_steps:
                    raise SearchGivenUpError(f"not decided after {self._most_steps:,} tried devices")
                if self._can_be_had(member, plan.choice, unit.claim):
                    yield at, member

    def _can_be_had(self, member: PoolMember, choice: DeviceChoice, claim: int) -> bool:
        free = self._is_free(member.id, choice, claim)
        return free and self._accepts(member, choice) and self.short_of(member, choice) is None

    def _is_free(self, device: PoolDevice, choice: DeviceChoice, claim: int) -> bool:
        if choice.admin:
            return claim not in self.taken.claims.get(device, ())
        return not self.taken.in_use(device)

    def _tried(self, unit: WantedDevice, plan: _Plan, member: PoolMember, *, must: bool, following: int) -> bool:
        """Whether the rest goes with this device; without that everything is as before."""
        if not self._taken_up(unit, plan, member, must=must):
            return False
        try:
            done = self._solved(unit._replace(device=unit.device + 1), following)
        except HamiPluginsError:
            self._given_back(unit, plan, member)
            raise
        if not done:
            self._given_back(unit, plan, member)
        return done

    def _taken_up(self, unit: WantedDevice, plan: _Plan, member: PoolMember, *, must: bool) -> bool:
        device, choice = member.device, plan.choice
        if must and not device.shared and not self._is_free(member.id, choice, unit.claim):
            return False
        counted = self._counts(member)
        if counted and not self._has_counters(member):
            return False
        if tainted(device.taints, choice.tolerations, self._rules) is not None:
            self._uncounted(member, counted=counted)
            return False
        if not self._constrained(unit, plan, member, must=must):
            self._uncounted(member, counted=counted)
            return False
        if not device.shared:
            self.taken.claims.setdefault(member.id, set()).add(unit.claim)
        if not self._has_room(unit, plan, member):
            return False
        consumed: dict[str, int] = {}
        if device.shared:
            asked = dict(choice.capacity)
            consumed = {name: capacity.taken(of, asked.get(name)) for name, of in device.capacity.items()}
            amounts = self.taken.amounts.setdefault(member.id, {})
            for name, amount in consumed.items():
                amounts[name] = amounts.get(name, 0) + amount
        name = f"{plan.request.name}/{choice.name}" if choice.name else plan.request.name
        share = f"share-{unit.claim}-{len(self.results[unit.claim])}" if device.shared else ""
        self.results[unit.claim].append(
            ClaimedDevice(member.id, name, share, tuple(sorted(consumed.items())), choice.admin)
        )
        return True

    def _given_back(self, unit: WantedDevice, plan: _Plan, member: PoolMember) -> None:
        last = self.results[unit.claim].pop()
        for state in self._constraints[unit.claim]:
            state.remove(plan.request.name, plan.choice.name)
        if member.device.shared:
            amounts = self.taken.amounts[member.id]
            for name, amount in last.consumed:
                amounts[name] -= amount
            return
        self.taken.claims[member.id].discard(unit.claim)
        if member.device.uses:
            self.taken.count(member, -1)

    def _counts(self, member: PoolMember) -> bool:
        if not member.device.uses:
            return False
        shared = member.device.shared and not self._rules.counters_by_slice
        return not (shared and self.taken.shared_in_use(member.id))

    def _has_counters(self, member: PoolMember) -> bool:
        self.taken.count(member, 1)
        if self.taken.overdrawn(member.scope, member.id.pool) is None:
            return True
        self.taken.count(member, -1)
        return False

    def _uncounted(self, member: PoolMember, *, counted: bool) -> None:
        if counted and not self._rules.keeps_counters:
            self.taken.count(member, -1)

    def _constrained(self, unit: WantedDevice, plan: _Plan, member: PoolMember, *, must: bool) -> bool:
        states = self._constraints[unit.claim]
        for at, state in enumerate(states):
            if state.add(plan.request.name, plan.choice.name, member):
                continue
            if must:
                claim = self._claims[unit.claim]
                raise SearchStoppedError(
                    f"claim {claim.claim or claim.name}, request {plan.choice.name or plan.request.name}: cannot add "
                    f"device {member.id} because a claim constraint would not be satisfied"
                )
            for before in states[:at]:
                before.remove(plan.request.name, plan.choice.name)
            return False
        return True

    def _has_room(self, unit: WantedDevice, plan: _Plan, member: PoolMember) -> bool:
        """The second look at capacities: of the device itself or, in 1.34, of one that has nothing to do with it."""
        if not self._rules.checks_by_position:
            return True
        if unit.device >= len(member.beside):
            raise SearchGivenUpError("kube-scheduler 1.34 ends with a panic where it compares capacities")
        other = member.beside[unit.device]
        used = self.taken.used(member.id._replace(name=other.name))
        return capacity.shortage(other.capacity, dict(plan.choice.capacity), used) is None


def tainted(
    taints: Sequence[tuple[str, str, str]], tolerations: Sequence[Toleration], rules: ClaimRules
) -> tuple[str, str, str] | None:
    """The first taint that keeps a request away from a device."""
    for taint in taints:
        if (rules.any_taint or taint[2] in REPELLING) and not any(_tolerates(each, taint) for each in tolerations):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.effect not in ("", effect) or toleration.key not in ("", key):
        return False
    return toleration.operator == "Exists" or (toleration.operator == "Equal" and toleration.value == value)
