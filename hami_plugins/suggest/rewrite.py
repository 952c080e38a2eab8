"""Changes written into the pod itself, so that the webhook and the vendor have their say about every amount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.engine.decide import DecisionRequest
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.suggest.apply import loosened, raised
from hami_plugins.suggest.changes import (
    Change,
    ChangeKind,
    Dropped,
    LessOf,
    LessPlain,
    RaisedQuota,
    Settle,
    Tolerated,
)
from hami_plugins.wire import quantity
from hami_plugins.wire.pods import booked_for

NO_POLICY: Final = "spread"
"""What is left of a device policy that had nothing but the wish that was dropped (HAMi's own default)."""

_IN_LISTS: Final = frozenset({ChangeKind.EXCLUSIVE, ChangeKind.NEAR})
_ON_NODES: Final = frozenset({ChangeKind.NODE_SELECTOR, ChangeKind.NODE_AFFINITY, ChangeKind.NODE_NAME})


def settled(pod: Pod, registry: Registry, rules: Rules, left: Mapping[VendorName, Headroom] | None = None) -> Settle:
    """What a submitted pod's question becomes once changes are written into it and it is submitted so.

    ``left`` is what the namespace's quota leaves, per vendor.
    """

    def settle(changes: tuple[Change, ...]) -> DecisionRequest | None:
        other, room = pod, dict(left or {})
        for change in changes:
            other = rewritten(other, change)
            if isinstance(change, RaisedQuota):
                room[change.vendor] = raised(room[change.vendor], change, registry[change.vendor])
        intake = take_in(other, registry, rules, room or None)
        return None if intake.refusal else DecisionRequest(intake.demand, intake.policy)

    return settle


def rewritten(pod: Pod, change: Change) -> Pod:
    """The pod with one change written into it; what changes only the cluster leaves the pod as it is."""
    match change:
        case LessOf():
            return _with_amount(pod, change)
        case Dropped(kind=kind) if kind in _IN_LISTS:
            words = pod.annotations.get(change.key, "").split(",")
            rest = ",".join(word for word in words if word.strip() != change.value)
            return replace(pod, annotations={**pod.annotations, change.key: rest or NO_POLICY})
        case Dropped(kind=kind) if kind not in _ON_NODES:
            gone = change.key.split(",")
            kept = {key: text for key, text in pod.annotations.items() if key not in gone}
            return replace(pod, annotations=kept)
        case LessPlain() | Dropped() | Tolerated():
            constraints = loosened(pod.constraints, change)
            return replace(pod, constraints=constraints, node=constraints.node)
        case _:
            return pod


def _with_amount(pod: Pod, change: LessOf) -> Pod:
    containers = [
        _container(each, change) if at in change.containers else each for at, each in enumerate(pod.containers)
    ]
    sums = dict(pod.constraints.requests)
    before, after = booked_for(pod.containers), booked_for(containers)
    for resource in {**before, **after}:
        sums[resource] = sums.get(resource, 0) + after.get(resource, 0) - before.get(resource, 0)
    constraints = replace(pod.constraints, requests=tuple(sorted(sums.items())))
    return replace(pod, containers=tuple(containers), constraints=constraints)


def _container(container: Container, change: LessOf) -> Container:
    """The amount goes where it stands; as a new limit it also becomes a request if the API server has made it so."""
    amount = quantity.parse(change.after, key=change.resource)
    limits, requests = dict(container.limits), dict(container.requests)
    if change.resource in limits or change.resource not in requests:
        if limits.keys() <= requests.keys():
            requests[change.resource] = amount
        limits[change.resource] = amount
    else:
        requests[change.resource] = amount
    return replace(container, limits=limits, requests=requests)
