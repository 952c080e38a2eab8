"""ResourceClaims and ResourceClaimTemplates of ``resource.k8s.io`` to values.

``v1``, ``v1beta2`` and ``v1beta1`` are read; the last has the members of ``exactly`` in the request itself. Errors and
what is not known: as in ``resource_slices``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.model.claims import (
    ClaimAllocation,
    ClaimConstraint,
    ClaimedDevice,
    ClaimRequest,
    ClaimSpec,
    ClaimTemplate,
    DeviceChoice,
    PoolDevice,
    PoolId,
    ResourceClaim,
)
from hami_plugins.model.pods import Toleration
from hami_plugins.wire import fields, resource_slices
from hami_plugins.wire.fields import Json
from hami_plugins.wire.lenient import mappings, text
from hami_plugins.wire.pods import node_terms

ALL: Final = 0
"""``DeviceChoice.count`` for ``allocationMode: All``."""

_MODES: Final = ("ExactCount", "All")
_OF_CHOICES: Final = frozenset(
    {"name", "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"}
)
_OF_REQUESTS: Final = frozenset({"name", "exactly", "firstAvailable"})
_OF_CONSTRAINTS: Final = frozenset({"requests", "matchAttribute", "distinctAttribute"})


def resource_claim(raw: object) -> ResourceClaim:
    """A ResourceClaim. Raises ``WireError``."""
    body, namespace, name = _named(raw, "resourceclaim")
    place = f"resourceclaim {namespace}/{name}:"
    metadata = fields.member(body, "metadata", place)
    status = fields.member(body, "status", place)
    return ResourceClaim(
        namespace=namespace,
        name=name,
        uid=fields.text(metadata, "uid", f"{place} metadata"),
        spec=claim_spec(fields.member(body, "spec", place), f"{place} spec"),
        allocation=_allocation(status, f"{place} status") if status.get("allocation") is not None else None,
        users=tuple(_users(status, f"{place} status")),
        pod=next((text(each.get("name")) for each in mappings(metadata.get("ownerReferences")) if _is_pod(each)), ""),
        ending=metadata.get("deletionTimestamp") is not None,
    )


def claim_template(raw: object) -> ClaimTemplate:
    """A ResourceClaimTemplate. Raises ``WireError``."""
    body, namespace, name = _named(raw, "resourceclaimtemplate")
    place = f"resourceclaimtemplate {namespace}/{name}: spec"
    spec = fields.member(body, "spec", f"resourceclaimtemplate {namespace}/{name}:")
    return ClaimTemplate(
        namespace=namespace, name=name, spec=claim_spec(fields.member(spec, "spec", place), f"{place}.spec")
    )


def claim_spec(spec: Json, place: str) -> ClaimSpec:
    """What a claim asks for. Raises ``WireError``."""
    devices = fields.member(spec, "devices", place)
    inside = f"{place}.devices"
    requests = tuple(
        _request(each, f"{inside}.requests[{at}]") for at, each in enumerate(fields.items(devices, "requests", inside))
    )
    constraints, not_read = [], resource_slices.other_members(spec, {"devices"})
    not_read = not_read or resource_slices.other_members(devices, {"requests", "constraints", "config"})
    for at, raw in enumerate(fields.items(devices, "constraints", inside)):
        found, unknown = _constraints(raw, f"{inside}.constraints[{at}]")
        constraints.extend(found)
        not_read = not_read or unknown
    return ClaimSpec(requests=requests, constraints=tuple(constraints), not_read=not_read)


def _named(raw: object, kind: str) -> tuple[Json, str, str]:
    body = fields.whole(raw, kind)
    metadata = fields.member(body, "metadata", f"{kind} ?:")
    name = fields.needed(metadata, "name", f"{kind} ?: metadata")
    return body, fields.text(metadata, "namespace", f"{kind} {name}: metadata") or "default", name


def _is_pod(owner: Json) -> bool:
    return owner.get("kind") == "Pod" and owner.get("controller") is True


def _users(status: Json, place: str) -> Iterator[str]:
    for at, raw in enumerate(fields.items(status, "reservedFor", place)):
        inside = f"{place}.reservedFor[{at}]"
        yield fields.text(fields.whole(raw, inside), "name", inside)


def _request(raw: object, place: str) -> ClaimRequest:
    body = fields.whole(raw, place)
    name = fields.needed(body, "name", place)
    listed = fields.items(body, "firstAvailable", place)
    if listed:
        choices = tuple(_choice(each, f"{place}.firstAvailable[{at}]", listed=True) for at, each in enumerate(listed))
        return ClaimRequest(name=name, choices=choices, listed=True)
    if "exactly" in body:
        choice = _choice(fields.member(body, "exactly", place), f"{place}.exactly", listed=False)
    else:
        choice = _choice({key: value for key, value in body.items() if key != "name"}, place, listed=False)
    return ClaimRequest(name=name, choices=(choice,))


def _choice(raw: object, place: str, *, listed: bool) -> DeviceChoice:
    body = fields.whole(raw, place)
    mode = fields.text(body, "allocationMode", place) or _MODES[0]
    expressions, not_read = resource_slices.selectors(body, place)
    wanted = resource_slices.other_members(body, _OF_CHOICES - (_OF_REQUESTS & {"exactly"}))
    if mode not in _MODES:
        not_read = not_read or f"allocationMode {mode}"
    capacity = fields.member(body, "capacity", place)
    other = resource_slices.other_members(capacity, {"requests"})
    return DeviceChoice(
        class_name=fields.needed(body, "deviceClassName", place),
        name=fields.needed(body, "name", place) if listed else "",
        selectors=expressions,
        count=ALL if mode == "All" else fields.natural(body, "count", place) or 1,
        admin=fields.flag(body, "adminAccess", place),
        tolerations=tuple(_tolerations(body, place)),
        capacity=tuple(sorted(resource_slices.named_amounts(capacity, "requests", f"{place}.capacity").items())),
        not_read=not_read or wanted or other,
    )


def _tolerations(body: Json, place: str) -> Iterator[Toleration]:
    for at, raw in enumerate(fields.items(body, "tolerations", place)):
        inside = f"{place}.tolerations[{at}]"
        each = fields.whole(raw, inside)
        key, operator, value, effect = (
            fields.text(each, name, inside) for name in ("key", "operator", "value", "effect")
        )
        yield Toleration(key, operator or "Equal", value, effect)


def _constraints(raw: object, place: str) -> tuple[list[ClaimConstraint], str]:
    """The constraints of one item (both attributes may stand in it), and a member that is not known here."""
    body = fields.whole(raw, place)
    requests = tuple(fields.texts(body, "requests", place))
    found = [
        ClaimConstraint(fields.text(body, name, place), requests, distinct=name.startswith("distinct"))
        for name in ("matchAttribute", "distinctAttribute")
        if body.get(name) is not None
    ]
    unknown = resource_slices.other_members(body, _OF_CONSTRAINTS)
    return found, unknown or ("" if found else "constraint without matchAttribute and distinctAttribute")


def _allocation(status: Json, place: str) -> ClaimAllocation:
    body = fields.member(status, "allocation", place)
    inside = f"{place}.allocation"
    devices = fields.member(body, "devices", inside)
    results = fields.items(devices, "results", f"{inside}.devices")
    return ClaimAllocation(
        devices=tuple(_result(each, f"{inside}.devices.results[{at}]") for at, each in enumerate(results)),
        terms=node_terms(fields.member(body, "nodeSelector", inside), f"{inside}.nodeSelector")
        if body.get("nodeSelector") is not None
        else None,
    )


def _result(raw: object, place: str) -> ClaimedDevice:
    body = fields.whole(raw, place)
    pool = PoolId(fields.needed(body, "driver", place), fields.needed(body, "pool", place))
    return ClaimedDevice(
        device=PoolDevice(pool, fields.needed(body, "device", place)),
        request=fields.text(body, "request", place),
        share=fields.text(body, "shareID", place),
        consumed=tuple(sorted(resource_slices.named_amounts(body, "consumedCapacity", place).items())),
        admin=fields.flag(body, "adminAccess", place),
    )
