"""The requested or allocated devices of a pod's claims, device by device, in the words of tables, and for documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hami_plugins.engine.claims.reasons import amount_words
from hami_plugins.model.claims import ClaimedDevice, DynamicResources, PlacedClaim, ResourceClaim
from hami_plugins.plan import PodPlan

WHOLE = "whole device"


class DeviceOfClaim(NamedTuple):
    """A device of one claim of a pod: the claim by its name in the pod (or by its own), and on which node."""

    claim: str
    node: str
    device: ClaimedDevice


def planned_devices(plan: PodPlan) -> tuple[DeviceOfClaim, ...]:
    """The devices that the claims of a pod of a plan get or have."""
    placed = plan.place
    return () if placed is None else tuple(_devices(placed.claims, placed.node))


def _devices(claims: Iterable[PlacedClaim], node: str) -> Iterable[DeviceOfClaim]:
    for claim in claims:
        for device in claim.allocation.devices:
            yield DeviceOfClaim(claim.name or "plain resources", node, device)


def held_by(dynamic: DynamicResources, namespace: str, pod: str) -> tuple[ResourceClaim, ...]:
    """The claims that are reserved for a pod, by name."""
    found = (claim for claim in dynamic.claims.values() if claim.namespace == namespace and pod in claim.users)
    return tuple(sorted(found, key=lambda claim: claim.name))


def held_devices(claims: Iterable[ResourceClaim], node: str) -> tuple[DeviceOfClaim, ...]:
    """The devices of claims that a pod on a node uses."""
    return tuple(
        DeviceOfClaim(claim.name, node, device)
        for claim in claims
        if claim.allocation is not None
        for device in claim.allocation.devices
    )


def names_words(devices: Sequence[DeviceOfClaim]) -> str:
    """Which devices: by name, with the pool before it where that is not called as the node is."""
    return ", ".join(dict.fromkeys(map(_name, devices)))


def shares_words(devices: Sequence[DeviceOfClaim]) -> str:
    """What of each device: ``2 x memory 20Gi``; equal ones are counted."""
    counts: dict[str, int] = {}
    for each in devices:
        words = share_words(each.device)
        counts[words] = counts.get(words, 0) + 1
    return "; ".join(f"{count} x {words}" if count > 1 else words for words, count in counts.items())


def share_words(device: ClaimedDevice) -> str:
    """A claim's part of a device."""
    words = ", ".join(f"{name} {amount_words(amount)}" for name, amount in device.consumed)
    words = words or ("a share" if device.share else WHOLE)
    return f"{words} (admin access)" if device.admin else words


def _name(each: DeviceOfClaim) -> str:
    device = each.device.device
    return device.name if device.pool.name == each.node else f"{device.pool.name}/{device.name}"
