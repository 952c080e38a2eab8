"""Constraints between the devices of one claim: one value of an attribute for all, or a different one for each.

Source: ``allocator_*.go`` and ``constraint.go`` of ``k8s.io/dynamic-resource-allocation`` 0.34.4 and 0.36.1.
"""

from __future__ import annotations

from hami_plugins.engine.claims.pools import PoolMember
from hami_plugins.engine.claims.rules import ClaimRules
from hami_plugins.model.claims import AttributeValue, ClaimConstraint


class ConstraintState:
    """What devices that were chosen so far say to one constraint, by the rules of a release."""

    __slots__ = ("_by_device", "_chosen", "_forgets", "_number", "_of", "_requests")

    def __init__(self, of: ClaimConstraint, rules: ClaimRules) -> None:
        self._of = of
        self._requests = frozenset(of.requests)
        self._by_device = rules.distinct_devices and of.distinct
        self._forgets = rules.forgets_values and of.distinct
        self._chosen: dict[object, list[object]] = {}
        self._number = 0

    def add(self, request: str, choice: str, member: PoolMember) -> bool:
        """Whether a device may be added for a request (and alternative); it then counts."""
        if not self._concerns(request, choice):
            return True
        value = attribute(member, self._of.attribute)
        if value is None:
            return False
        key: object = member.id if self._by_device else (type(value), value)
        among = any(key in values for values in self._chosen.values())
        if self._number and among is self._of.distinct:
            return False
        if self._forgets:
            self._chosen[request] = [key]
        else:
            self._chosen.setdefault(request, []).append(key)
        self._number += 1
        return True

    def remove(self, request: str, choice: str) -> None:
        """Take the device back that was added last."""
        if not self._concerns(request, choice):
            return
        self._number -= 1
        if self._forgets:
            self._chosen.pop(request, None)
        else:
            self._chosen[request].pop()

    def _concerns(self, request: str, choice: str) -> bool:
        if not self._requests:
            return True
        return request in self._requests or (bool(choice) and f"{request}/{choice}" in self._requests)


def attribute(member: PoolMember, name: str) -> AttributeValue | None:
    """The value of an attribute by its full name; a device may leave out the domain that is its driver's."""
    found = member.device.attributes.get(name)
    if found is not None:
        return found
    domain, slash, key = name.partition("/")
    return member.device.attributes.get(key) if slash and domain == member.id.pool.driver else None
