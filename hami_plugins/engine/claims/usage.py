"""What the claims of a cluster hold of its pools, and how that changes when pods are placed or go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.model.claims import (
    ClaimAllocation,
    ClaimTemplate,
    DeviceClass,
    DynamicResources,
    PlacedClaim,
    PoolDevice,
    PoolId,
    PoolUsage,
    ResourceClaim,
    ResourceSlice,
)
from hami_plugins.model.pods import Pod

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class: the plain resource that it stands for where it names none (1.34)."""

EXTENDED: Final = "extended-resources"
"""Part of the name of the claim that kube-scheduler makes for a pod's plain resources."""


def resources_of(
    *,
    slices: Iterable[ResourceSlice] = (),
    classes: Iterable[DeviceClass] = (),
    claims: Iterable[ResourceClaim] = (),
    templates: Iterable[ClaimTemplate] = (),
    unread: Mapping[str, int] | None = None,
) -> DynamicResources:
    """Everything that was read, with what the claims hold."""
    by_name = {each.full_name: each for each in claims}
    known = {each.name: each for each in classes}
    return DynamicResources(
        slices=tuple(slices),
        classes=known,
        stands_for=_stands_for(known.values()),
        claims=by_name,
        templates={each.full_name: each for each in templates},
        taken=_taken(by_name.values()),
        unread=unread or {},
    )


def together(known: DynamicResources, other: DynamicResources) -> DynamicResources:
    """Both; of objects with one name those of ``other`` count."""
    if other.empty:
        return known
    newer = {each.name for each in other.slices}
    return resources_of(
        slices=(*(each for each in known.slices if each.name not in newer), *other.slices),
        classes={**known.classes, **other.classes}.values(),
        claims={**known.claims, **other.claims}.values(),
        templates={**known.templates, **other.templates}.values(),
        unread=known.unread,
    )


def given(dynamic: DynamicResources, pod: Pod, placed: Iterable[PlacedClaim]) -> DynamicResources:
    """The same after a pod got its claims: they hold their devices, and are reserved for the pod."""
    claims, taken = dict(dynamic.claims), dict(dynamic.taken)
    for each in placed:
        made = f"{pod.namespace}/{pod.name}-{each.name or EXTENDED}"
        known = claims.get(each.claim) if each.claim else None
        if known is None:
            namespace, _, name = (each.claim or made).partition("/")
            known = ResourceClaim(namespace=namespace, name=name, spec=each.spec, pod="" if each.claim else pod.name)
        users = known.users if pod.name in known.users else (*known.users, pod.name)
        claims[known.full_name] = replace(known, allocation=each.allocation, users=users)
        if each.new:
            _take(taken, each.allocation)
    return replace(dynamic, claims=claims, taken=taken)


def without_users(dynamic: DynamicResources, leaves: Callable[[str], bool]) -> DynamicResources:
    """The same without pods (``leaves`` takes ``namespace/name``): unused claims are free.

    Kubernetes' controller deletes those that were made for a pod, and takes their devices from others.
    """
    claims: dict[str, ResourceClaim] = {}
    changed = False
    for name, claim in dynamic.claims.items():
        staying = tuple(user for user in claim.users if not leaves(f"{claim.namespace}/{user}"))
        if len(staying) == len(claim.users):
            claims[name] = claim
            continue
        changed = True
        if staying:
            claims[name] = replace(claim, users=staying)
        elif not claim.pod:
            claims[name] = replace(claim, users=(), allocation=None)
    return replace(dynamic, claims=claims, taken=_taken(claims.values())) if changed else dynamic


def _stands_for(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """The class of each plain resource; of two with one name the newer, then the later by name."""
    found: dict[str, DeviceClass] = {}
    for each in classes:
        resource = each.resource or f"{IMPLICIT}{each.name}"
        known = found.get(resource)
        if known is None or (each.made_at or 0, each.name) >= (known.made_at or 0, known.name):
            found[resource] = each
    return {resource: each.name for resource, each in found.items()}


def _taken(claims: Iterable[ResourceClaim]) -> dict[PoolId, PoolUsage]:
    whole: defaultdict[PoolId, set[str]] = defaultdict(set)
    shares: defaultdict[PoolId, defaultdict[str, defaultdict[str, int]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(int))
    )
    for claim in claims:
        for device, share, consumed in _held(claim.allocation):
            if not share:
                whole[device.pool].add(device.name)
                continue
            of_device = shares[device.pool][device.name]
            for name, amount in consumed:
                of_device[name] += amount
    return {
        pool: PoolUsage(
            frozenset(whole.get(pool, ())),
            tuple(sorted((name, tuple(sorted(of.items()))) for name, of in shares.get(pool, {}).items())),
        )
        for pool in (*whole, *(pool for pool in shares if pool not in whole))
    }


def _take(taken: dict[PoolId, PoolUsage], allocation: ClaimAllocation) -> None:
    for device, share, consumed in _held(allocation):
        used = taken.get(device.pool, PoolUsage())
        if not share:
            taken[device.pool] = used._replace(devices=used.devices | {device.name})
            continue
        amounts = {name: dict(of) for name, of in used.consumed}
        of_device = amounts.setdefault(device.name, {})
        for name, amount in consumed:
            of_device[name] = of_device.get(name, 0) + amount
        ordered = tuple(sorted((name, tuple(sorted(of.items()))) for name, of in amounts.items()))
        taken[device.pool] = used._replace(consumed=ordered)


def _held(allocation: ClaimAllocation | None) -> Iterator[tuple[PoolDevice, str, tuple[tuple[str, int], ...]]]:
    """Device, share and consumed amounts of what counts as taken: not what was given with admin access."""
    for each in () if allocation is None else allocation.devices:
        if not each.admin:
            yield each.device, each.share, each.consumed
