"""What a request takes of a device's capacities: rounding and limits of consumable capacity, in nano units.

Source: ``consumable_capacity.go`` of ``k8s.io/dynamic-resource-allocation`` 0.34.4 and 0.36.1, which agree; KEP-5075.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hami_plugins.model.claims import CapacityPolicy, DeviceCapacity
from hami_plugins.model.quantity import NANO


class CapacityShortage(NamedTuple):
    """A capacity of which a device has too little, or which it has not at all (``free`` is then ``None``)."""

    name: str
    asked: int
    free: int | None


def taken(capacity: DeviceCapacity, asked: int | None) -> int:
    """What a request of this amount takes: the default or all of it without an amount, else the amount rounded up."""
    policy = capacity.policy
    if asked is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    if policy.least is not None:
        return _rounded(asked, policy.least, policy.step)
    return next((value for value in policy.values if asked <= value), asked)


def allowed(amount: int, policy: CapacityPolicy | None) -> bool:
    """Whether a policy lets a request take this amount."""
    if policy is None or amount == policy.default:
        return True
    if policy.ranged or policy.step is not None:
        return (policy.most is None or amount <= policy.most) and _on_step(amount, policy)
    return not policy.values or amount in policy.values


def shortage(
    capacities: Mapping[str, DeviceCapacity], asked: Mapping[str, int], used: Mapping[str, int]
) -> CapacityShortage | None:
    """The first capacity of a device that is too little for a request; ``used`` is what is taken of each already."""
    for name in asked:
        if name not in capacities:
            return CapacityShortage(name, asked[name], None)
    for name, capacity in capacities.items():
        amount, free = taken(capacity, asked.get(name)), capacity.value - used.get(name, 0)
        if amount > free or not allowed(amount, capacity.policy):
            return CapacityShortage(name, amount, free)
    return None


def _rounded(asked: int, least: int, step: int | None) -> int:
    """Up to the least amount, then in whole steps from there; with steps the arithmetic is in whole units."""
    if asked < least:
        return least
    if step is None or _ceiling(step) == 0:
        return asked
    start, by = _ceiling(least), _ceiling(step)
    return (start + -(-(_ceiling(asked) - start) // by) * by) * NANO


def _on_step(amount: int, policy: CapacityPolicy) -> bool:
    if policy.step is None or _ceiling(policy.step) == 0:
        return True
    return (_ceiling(amount) - _ceiling(policy.least or 0)) % _ceiling(policy.step) == 0


def _ceiling(nano: int) -> int:
    return -(-nano // NANO)
