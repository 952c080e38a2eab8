"""Why the devices that a node reaches will not do for claims, with numbers: text made of values, never read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from hami_plugins.engine.claims import capacity
from hami_plugins.engine.claims.constraints import attribute
from hami_plugins.engine.claims.needs import NeededClaim
from hami_plugins.engine.claims.pools import PoolMember
from hami_plugins.engine.claims.search import ClaimedAmounts, NodeDevices, tainted
from hami_plugins.model.claims import ClaimConstraint, ClaimRequest, DeviceChoice
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import quantity

_BINARY_FROM: Final = 1024 * 1024


def elsewhere(claim: NeededClaim) -> str:
    """Of a claim that has its devices where another node cannot use them."""
    devices = claim.given.devices if claim.given is not None else ()
    some = ", ".join(str(each.device) for each in devices[:2]) + (", ..." if len(devices) > 2 else "")
    return f"claim {claim.name}: {claim.claim} has its devices ({some}), which other nodes use"


def why_not(devices: NodeDevices, claims: Sequence[NeededClaim]) -> str:
    """The first request that the free devices are too few for; else what the requests are too much for together."""
    for pool in devices.pools:
        if pool.missing and not devices.rules.takes_incomplete:
            return (
                f"pool {pool.id}: generation {pool.generation} is incomplete, {count(pool.missing, 'slice')} of it not "
                "published yet"
            )
        if pool.wrong:
            return f"pool {pool.id} is invalid: {pool.wrong}"
    if not any(pool.members for pool in devices.pools):
        return "no ResourceSlice has devices for this node"
    judge = _Judge(devices)
    for claim in claims:
        for request in claim.spec.requests:
            lacking = [judge.lacking(claim, request, choice) for choice in request.choices]
            if all(lacking):
                return "; ".join(lacking)
    constraints = [constraint_words(each) for claim in claims for each in claim.spec.constraints]
    held = f" with {' and '.join(constraints)}" if constraints else ""
    names = ", ".join(each.name for each in claims if each.name)
    return f"the devices for all requests of {names or 'the pod'} cannot be had together{held}"


def constraint_words(each: ClaimConstraint) -> str:
    """A constraint as its author wrote it."""
    return f"{'distinctAttribute' if each.distinct else 'matchAttribute'} {each.attribute}"


def amount_words(nano: int) -> str:
    """An amount as people write it: 20Gi, and not 21474836480."""
    whole = nano % NANO == 0
    return quantity.canonical(nano, binary=whole and abs(nano // NANO) >= _BINARY_FROM)


def count(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class _Judge:
    def __init__(self, devices: NodeDevices) -> None:
        pools, self._usage, self._accepts, self._rules = devices
        self._members = [member for pool in pools for member in pool.members]

    def lacking(self, claim: NeededClaim, request: ClaimRequest, choice: DeviceChoice) -> str:
        """Why too few devices are left for a request taken alone; empty where there are enough."""
        found = Counter(self._objection(member, claim, request, choice) for member in self._members)
        usable = found.pop("", 0)
        wanted = choice.count or 1
        if usable >= wanted:
            return ""
        name = f"{request.name}/{choice.name}" if choice.name else request.name
        of = f"claim {claim.name}, request {name}" if claim.name else f"request {name}"
        said = ", ".join(
            f"{number} {why}" for why, number in sorted(found.items(), key=lambda item: (-item[1], item[0]))
        )
        asked = "all devices" if not choice.count else count(wanted, "device")
        had = f"{usable} of {len(self._members)} can be had"
        return f"{of}: {asked} of {choice.class_name} asked, {had}{f': {said}' if said else ''}"

    def _objection(self, member: PoolMember, claim: NeededClaim, request: ClaimRequest, choice: DeviceChoice) -> str:
        taken = ClaimedAmounts(self._usage)
        if not self._accepts(member, choice):
            return "not selected"
        if not choice.admin and taken.in_use(member.id):
            return "in use"
        short = capacity.shortage(member.device.capacity, dict(choice.capacity), taken.used(member.id))
        if short is not None:
            return _short(short)
        taint = tainted(member.device.taints, choice.tolerations, self._rules)
        if taint is not None:
            return f"tainted {taint[0]}{'=' if taint[1] else ''}{taint[1]}:{taint[2]}"
        if member.device.uses:
            taken.count(member, 1)
            over = taken.overdrawn(member.scope, member.id.pool)
            if over is not None:
                return f"short of counter {over[0]}/{over[1]}"
        return next(self._unmatched(member, claim, request, choice), "")

    @staticmethod
    def _unmatched(
        member: PoolMember, claim: NeededClaim, request: ClaimRequest, choice: DeviceChoice
    ) -> Iterator[str]:
        """Attributes that constraints compare and the device has not."""
        for each in claim.spec.constraints:
            concerned = not each.requests or {request.name, f"{request.name}/{choice.name}"} & set(each.requests)
            if concerned and attribute(member, each.attribute) is None:
                yield f"without attribute {each.attribute}"


def _short(short: capacity.CapacityShortage) -> str:
    if short.free is None:
        return f"without capacity {short.name}"
    if short.asked <= short.free:
        return f"whose policy refuses {amount_words(short.asked)} of {short.name}"
    return f"short of {short.name} ({amount_words(short.asked)} asked, {amount_words(short.free)} free)"
