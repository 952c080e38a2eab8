"""What a pod asks of Dynamic Resource Allocation, and what that comes to in a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.engine.registry import Registry
from hami_plugins.model.claims import (
    ClaimAllocation,
    ClaimRequest,
    ClaimSpec,
    DeviceChoice,
    DynamicResources,
    ResourceClaim,
)
from hami_plugins.model.pods import Pod, PodClaim

LISTED: Final = "resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates"
"""What to list so that claims can be decided."""


class PlainRequest(NamedTuple):
    """A container's request of a plain resource with a domain: ``amount`` devices where a class stands for it.

    ``request`` is what kube-scheduler's claim calls it, but for a number at its end.
    """

    request: str
    resource: str
    amount: int


class ClaimNeeds(NamedTuple):
    """The part of a pod that is about claims: those it names, and resources that a class may stand for."""

    namespace: str
    claims: tuple[PodClaim, ...] = ()
    plain: tuple[PlainRequest, ...] = ()


class NeededClaim(NamedTuple):
    """A claim of a pod. ``name`` is its name in the pod (empty for plain resources), ``claim`` its full name where it
    exists, ``given`` what it has already."""

    name: str
    claim: str
    spec: ClaimSpec
    given: ClaimAllocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTrouble:
    """Why no node is tried; ``unknown`` where it is not known here. ``event`` is the scheduler's word."""

    why: str
    event: str = ""
    unknown: bool = False


def wish_of(pod: Pod, registry: Registry) -> ClaimNeeds | None:
    """The wish of a pod; ``None`` for a pod that has nothing to do with claims."""
    plain = tuple(_plain(pod, registry))
    return ClaimNeeds(pod.namespace, pod.claims, plain) if pod.claims or plain else None


def _plain(pod: Pod, registry: Registry) -> Iterator[PlainRequest]:
    for at, container in enumerate(pod.containers):
        for name, amount in container.requests.items():
            if "/" in name and registry.owner_of(name) is None and amount.nano > 0 and amount.whole is not None:
                yield PlainRequest(f"container-{at}-{name}", name, amount.whole)


def needed(wish: ClaimNeeds, dynamic: DynamicResources) -> tuple[NeededClaim, ...] | ClaimTrouble:
    """The claims that a pod needs, in its order; or why it cannot be placed whatever the nodes have."""
    found: list[NeededClaim] = []
    for wanted in wish.claims:
        known = _needed(wish.namespace, wanted, dynamic)
        if isinstance(known, ClaimTrouble):
            return known
        if known is not None:
            found.append(known)
    for each in found:
        if each.given is None and (trouble := _trouble(each, dynamic)) is not None:
            return trouble
    return tuple(found)


def of_plain(requests: Iterable[PlainRequest], classes: Mapping[str, str]) -> NeededClaim | None:
    """The claim that kube-scheduler makes for plain resources for which classes stand; ``None`` for no resources."""
    made = tuple(
        ClaimRequest(name=each.request, choices=(DeviceChoice(class_name=classes[each.resource], count=each.amount),))
        for each in sorted(requests, key=lambda one: (one.resource, one.request))
    )
    return NeededClaim("", "", ClaimSpec(requests=made)) if made else None


def _needed(namespace: str, wanted: PodClaim, dynamic: DynamicResources) -> NeededClaim | ClaimTrouble | None:
    if wanted.claim or wanted.made:
        full_name = f"{namespace}/{wanted.claim or wanted.made}"
        claim = dynamic.claims.get(full_name)
        if claim is not None:
            return _existing(wanted.name, claim)
        why = f"claim {wanted.name}: there is no ResourceClaim {full_name}"
        return _absent(why, "ResourceClaim", dynamic, f'resourceclaim "{full_name.partition("/")[2]}" not found')
    if wanted.made == "":
        return None  # its controller has reported that none is needed
    if wanted.template:
        full_name = f"{namespace}/{wanted.template}"
        template = dynamic.templates.get(full_name)
        if template is not None:
            return NeededClaim(wanted.name, "", template.spec)
        why = f"claim {wanted.name}: there is no ResourceClaimTemplate {full_name}"
        return _absent(why, "ResourceClaimTemplate", dynamic, "ResourceClaim not created yet")
    return ClaimTrouble(why=f"claim {wanted.name}: it names neither a claim nor a template", unknown=True)


def _existing(name: str, claim: ResourceClaim) -> NeededClaim | ClaimTrouble:
    if claim.ending:
        return ClaimTrouble(
            why=f"claim {name}: ResourceClaim {claim.full_name} is being deleted",
            event=f'resourceclaim "{claim.name}" is being deleted',
        )
    return NeededClaim(name, claim.full_name, claim.spec, claim.allocation)


def _absent(why: str, kind: str, dynamic: DynamicResources, event: str) -> ClaimTrouble:
    """A missing object does not exist, unless the source may have omitted it."""
    if dynamic.empty:
        return ClaimTrouble(
            why=f"{why} among what was read, and no other object of claims; list {LISTED} as well", unknown=True
        )
    if dynamic.unread.get(kind):
        return ClaimTrouble(why=f"{why} among those that could be read", unknown=True)
    return ClaimTrouble(why=why, event=event)


def _trouble(claim: NeededClaim, dynamic: DynamicResources) -> ClaimTrouble | None:
    """Defects of a claim that do not depend on nodes."""
    place = f"claim {claim.name}"
    if claim.spec.not_read:
        return ClaimTrouble(why=f"{place}: {claim.spec.not_read} is not understood", unknown=True)
    for request in claim.spec.requests:
        for choice in request.choices:
            where = f"{place}, request {request.name}{'/' if choice.name else ''}{choice.name}"
            if choice.not_read:
                return ClaimTrouble(why=f"{where}: {choice.not_read} is not understood", unknown=True)
            known = dynamic.classes.get(choice.class_name)
            if known is None:
                said = f"{request.name}{'/' if choice.name else ''}{choice.name}"
                event = f"request {said}: device class {choice.class_name} does not exist"
                return _absent(f"{where}: there is no DeviceClass {choice.class_name}", "DeviceClass", dynamic, event)
            if known.not_read:
                why = f"{where}: {known.not_read} of DeviceClass {known.name} is not understood"
                return ClaimTrouble(why=why, unknown=True)
    return None
