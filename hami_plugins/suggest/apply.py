"""What changes make of the question that was refused, taking every amount for what it says.

Where a webhook or a vendor turns written amounts into others, only the changed pod itself can tell: see
``changes.Settle``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.engine.decide import DecisionRequest, PodDemand
from hami_plugins.engine.registry import Registry
from hami_plugins.model.pods import NodeConstraints, Requirement, Toleration
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import Absolute, ContainerKind, DeviceDemand, DeviceRequest, DeviceSelector, Percent
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import Headroom, VendorSpec
from hami_plugins.suggest.changes import Change, ChangeKind, Dropped, LessOf, LessPlain, RaisedQuota, Tolerated

_SELECTOR: Final[Mapping[ChangeKind, Callable[[DeviceSelector], DeviceSelector]]] = {
    ChangeKind.USE_IDS: lambda selector: replace(selector, use_ids=None),
    ChangeKind.AVOID_IDS: lambda selector: replace(selector, avoid_ids=None),
    ChangeKind.USE_MODELS: lambda selector: replace(selector, use_models=None),
    ChangeKind.AVOID_MODELS: lambda selector: replace(selector, avoid_models=None),
    ChangeKind.MODES: lambda selector: replace(selector, modes=None),
}

_POLICY: Final[Mapping[ChangeKind, Callable[[Policy], Policy]]] = {
    ChangeKind.EXCLUSIVE: lambda policy: replace(policy, exclusive=False),
    ChangeKind.NEAR: lambda policy: replace(policy, near=False),
    ChangeKind.ONE_NUMA: lambda policy: replace(policy, one_numa=False),
}


def literally(question: DecisionRequest, registry: Registry) -> Callable[[tuple[Change, ...]], DecisionRequest]:
    """The settling of a question whose amounts are not rewritten."""

    def settle(changes: tuple[Change, ...]) -> DecisionRequest:
        result = question
        for change in changes:
            result = changed(result, change, registry)
        return result

    return settle


def changed(question: DecisionRequest, change: Change, registry: Registry) -> DecisionRequest:
    """The question after one change; what only changes the cluster leaves the question as it is."""
    demand, policy = question
    match change:
        case LessOf():
            return question._replace(demand=_with_less(demand, change, registry))
        case Dropped() if change.kind in _POLICY:
            return question._replace(policy=_POLICY[change.kind](policy))
        case Dropped() if change.kind in _SELECTOR:
            return question._replace(demand=replace(demand, devices=_unselective(demand.devices, change)))
        case LessPlain() | Dropped() | Tolerated():
            return question._replace(demand=replace(demand, constraints=loosened(demand.constraints, change)))
        case RaisedQuota():
            return question._replace(demand=replace(demand, headroom=_with_raised(demand.headroom, change, registry)))
        case _:
            return question


def loosened(constraints: NodeConstraints, change: LessPlain | Dropped | Tolerated) -> NodeConstraints:
    """The constraints without the one that a change gives up."""
    match change:
        case LessPlain(resource=resource, after=after):
            requests = tuple((name, after if name == resource else had) for name, had in constraints.requests)
            return replace(constraints, requests=requests)
        case Tolerated(taint=taint):
            toleration = Toleration(key=taint.key, value=taint.value)
            return replace(constraints, tolerations=(*constraints.tolerations, toleration))
        case Dropped(kind=ChangeKind.NODE_SELECTOR):
            selector = tuple((key, value) for key, value in constraints.selector if key != change.key)
            return replace(constraints, selector=selector)
        case Dropped(kind=ChangeKind.NODE_AFFINITY):
            return replace(constraints, affinity=_without_key(constraints.affinity, change.key))
        case _:
            return replace(constraints, node=None)


def _without_key(
    affinity: tuple[tuple[Requirement, ...], ...] | None, key: str
) -> tuple[tuple[Requirement, ...], ...] | None:
    """The terms without their requirements on a key; a term that is left without any lets the pod go anywhere."""
    terms = tuple(tuple(each for each in term if each.key != key) for term in affinity or ())
    return terms if all(terms) else None


def _with_less(demand: PodDemand, change: LessOf, registry: Registry) -> PodDemand:
    spec = registry[change.vendor]

    def less(request: DeviceRequest) -> DeviceRequest:
        match change.kind:
            case ChangeKind.MEMORY:
                memory = change.after // spec.written(1, request.count, memory=True) * spec.memory_factor()
                return replace(request, memory=Absolute(MiB(memory)))
            case ChangeKind.PERCENTAGE:
                return replace(request, memory=Percent(change.after // spec.written(1, request.count)))
            case ChangeKind.CORES:
                return replace(request, cores=CoreShare(change.after // spec.written(1, request.count)))
            case _ if request.slices:
                return replace(request, slices=change.after)
            case _:
                return replace(request, count=change.after)

    containers = tuple(
        replace(
            container,
            requests=tuple(less(each) if each.vendor == change.vendor else each for each in container.requests),
        )
        if at in change.containers
        else container
        for at, container in enumerate(demand.devices.containers)
    )
    constraints = replace(demand.constraints, requests=_booked(demand, change))
    return replace(demand, devices=DeviceDemand(containers), constraints=constraints)


def _booked(demand: PodDemand, change: LessOf) -> tuple[tuple[str, int], ...]:
    """The node sums that go with it, where the resource is one that nodes sum up; init containers are not in them."""
    booked = dict(demand.constraints.requests)
    had = booked.get(change.resource)
    if had is not None and change.before is not None:
        together = sum(1 for at in change.containers if demand.devices.containers[at].kind is not ContainerKind.INIT)
        booked[change.resource] = max(had + (change.after - change.before) * max(together, 1) * NANO, 0)
    return tuple(sorted(booked.items()))


def _unselective(devices: DeviceDemand, change: Dropped) -> DeviceDemand:
    drop = _SELECTOR[change.kind]
    return DeviceDemand(
        tuple(
            replace(
                container,
                requests=tuple(
                    replace(each, selector=drop(each.selector)) if each.vendor == change.vendor else each
                    for each in container.requests
                ),
            )
            for container in devices.containers
        )
    )


def raised(room: Headroom, change: RaisedQuota, spec: VendorSpec) -> Headroom:
    """What a quota leaves once it is raised."""
    if change.kind is ChangeKind.QUOTA_MEMORY:
        return room._replace(memory=MiB(change.needed * spec.memory_factor()))
    return room._replace(cores=CoreShare(change.needed))


def _with_raised(
    left: tuple[tuple[VendorName, Headroom], ...], change: RaisedQuota, registry: Registry
) -> tuple[tuple[VendorName, Headroom], ...]:
    return tuple(
        (vendor, raised(room, change, registry[vendor]) if vendor == change.vendor else room) for vendor, room in left
    )
