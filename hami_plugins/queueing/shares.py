"""How Volcano's plugin ``proportion`` divides a cluster among queues that ask for more than there is.

Every queue gets by weight, but no more than it asks or may hold, and no less than it is guaranteed; what one leaves
goes to the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

Amounts = Mapping[str, int]


class QueueDemand(NamedTuple):
    """What one queue holds and asks for together, the most it may hold, and the least it is to have (nano units)."""

    queue: str
    weight: int
    request: Amounts
    limit: Amounts
    guarantee: Amounts


def divided(claims: Iterable[QueueDemand], total: Amounts) -> dict[str, dict[str, int]]:
    """The share of each queue. Rounds go on until nothing is left or no queue takes more."""
    listed = list(claims)
    shares: dict[str, dict[str, int]] = {claim.queue: {} for claim in listed}
    left = dict(total)
    while listed and any(left.values()):
        weights = sum(claim.weight for claim in listed)
        before = dict(left)
        open_still: list[QueueDemand] = []
        for claim in listed:
            old = shares[claim.queue]
            new = _raised(claim, old, before, weights)
            for resource, amount in new.items():
                left[resource] += old.get(resource, 0) - amount
            shares[claim.queue] = new
            wants_more = any(amount > new.get(resource, 0) for resource, amount in claim.request.items())
            if wants_more and new != old:
                open_still.append(claim)
        left = {resource: max(amount, 0) for resource, amount in left.items()}
        listed = open_still
        if left == before:
            break
    return shares


def _raised(claim: QueueDemand, old: Amounts, left: Amounts, weights: int) -> dict[str, int]:
    raised: dict[str, int] = {}
    for resource, amount in left.items():
        offered = old.get(resource, 0) + amount * claim.weight // weights
        wanted = min(offered, claim.limit.get(resource, offered), claim.request.get(resource, 0))
        raised[resource] = max(wanted, claim.guarantee.get(resource, 0))
    return raised
