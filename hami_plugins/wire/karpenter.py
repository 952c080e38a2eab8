"""NodePools and EC2NodeClasses of Karpenter.

Source: ``karpenter.sh/v1`` (kubernetes-sigs/karpenter ``pkg/apis/v1/nodepool.go``, ``nodepool_status.go``) and
``karpenter.k8s.aws/v1`` (aws/karpenter-provider-aws ``pkg/apis/v1/ec2nodeclass_status.go``), both of August 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from hami_plugins.model.node_pools import AutoscaledPool, Autoscaler, BlockingReason, Reservation
from hami_plugins.model.pods import Requirement
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import fields, lenient, objects, pods, quantity
from hami_plugins.wire.fields import Json

GROUP: Final = "karpenter.sh"
POOL_LABEL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
RESERVATION_ID: Final = "karpenter.k8s.aws/capacity-reservation-id"
RESERVATION_TYPE: Final = "karpenter.k8s.aws/capacity-reservation-type"

NODE_CLASSES: Final = {"karpenter.k8s.aws": "EC2NodeClass", "eks.amazonaws.com": "NodeClass"}
"""The node classes of AWS, by group: Karpenter's own, and that of EKS Auto Mode."""

NODES: Final = "nodes"
"""The resource of a limit that counts nodes."""

_EXCLUSIVE: Final = {"Gte": ("Gt", -1), "Lte": ("Lt", 1)}


class NodeClassName(NamedTuple):
    """Which node class a pool refers to; the group is that of a cloud."""

    group: str
    name: str


class NodeClass(NamedTuple):
    """What a node class found in the account: the zones of its subnets, and the reservations that are active."""

    name: NodeClassName
    zones: tuple[str, ...]
    reservations: tuple[Reservation, ...]
    obstacle: BlockingReason | None


def is_pool(kind: str, raw: Json) -> bool:
    """Whether an object is a NodePool of Karpenter; other products have some of the same name."""
    return kind == "NodePool" and lenient.text(raw.get("apiVersion")).startswith(f"{GROUP}/")


def is_class(kind: str, raw: Json) -> bool:
    """Whether an object is a node class of AWS."""
    return NODE_CLASSES.get(lenient.text(raw.get("apiVersion")).partition("/")[0]) == kind


def node_pool(raw: Json) -> tuple[AutoscaledPool, NodeClassName]:
    """A NodePool, and its node class. Raises ``WireError`` with the place of what cannot be read."""
    name = fields.needed(fields.member(raw, "metadata", "nodepool ?:"), "name", "nodepool ?: metadata")
    place = f"nodepool {name}:"
    spec, status = fields.member(raw, "spec", place), fields.member(raw, "status", place)
    template = fields.member(spec, "template", f"{place} spec")
    inner = fields.member(template, "spec", f"{place} spec.template")
    labels = fields.text_map(
        fields.member(template, "metadata", f"{place} spec.template"), "labels", f"{place} spec.template.metadata"
    )
    of_class = fields.member(inner, "nodeClassRef", f"{place} spec.template.spec")
    group = lenient.text(of_class.get("group")) or lenient.text(of_class.get("apiVersion")).partition("/")[0]
    present = fields.natural(status, "nodes", f"{place} status")
    used = _nano(status, "resources", f"{place} status")
    pool = AutoscaledPool(
        name=name,
        autoscaler=Autoscaler.KARPENTER,
        member=(POOL_LABEL, name),
        requirements=tuple(_requirements(inner, f"{place} spec.template.spec")),
        labels={**labels, POOL_LABEL: name},
        taints=objects.taints(inner, f"{place} spec.template.spec"),
        present=present or used.get(NODES, 0) // NANO,
        limits=_nano(spec, "limits", f"{place} spec"),
        used=used,
        knows_cloud=group in NODE_CLASSES,
        obstacle=_obstacle(f"NodePool {name}", raw, spec),
    )
    return pool, NodeClassName(group, lenient.text(of_class.get("name")))


def node_class(raw: Json) -> NodeClass:
    """An EC2NodeClass, or a NodeClass of EKS Auto Mode."""
    kind = lenient.text(raw.get("kind"))
    name = fields.needed(fields.member(raw, "metadata", f"{kind} ?:"), "name", f"{kind} ?: metadata")
    status = lenient.inside(raw, "status")
    zones = dict.fromkeys(lenient.text(each.get("zone")) for each in lenient.mappings(status.get("subnets")))
    return NodeClass(
        NodeClassName(lenient.text(raw.get("apiVersion")).partition("/")[0], name),
        tuple(filter(None, zones)),
        tuple(_reservation(each) for each in lenient.mappings(status.get("capacityReservations"))),
        _not_ready(f"{kind} {name}", raw),
    )


def with_class(pool: AutoscaledPool, found: NodeClass) -> AutoscaledPool:
    """The pool with what its node class found."""
    return replace(
        pool,
        zones=found.zones,
        reservations=found.reservations,
        obstacle=pool.obstacle if pool.obstacle is not None else found.obstacle,
    )


def _requirements(inner: Json, place: str) -> Iterator[Requirement]:
    """``Gte`` and ``Lte`` say the same of whole numbers as ``Gt`` and ``Lt`` of their neighbours."""
    listed = [_exclusive(each) for each in fields.items(inner, "requirements", place)]
    yield from pods.node_requirements({"requirements": listed}, "requirements", place, on_field=False)


def _exclusive(raw: object) -> object:
    operator, step = _EXCLUSIVE.get(lenient.text(lenient.mapping(raw).get("operator")), ("", 0))
    if not operator:
        return raw
    requirement = lenient.mapping(raw)
    values = [str(int(text) + step) for text in map(str, lenient.items(requirement.get("values"))) if text.isdigit()]
    return {**requirement, "operator": operator, "values": values}


def _reservation(raw: Json) -> Reservation:
    """Only reservations that are active are listed; one that expires takes no more instances."""
    return Reservation(
        id=lenient.text(raw.get("id")),
        instance_type=lenient.text(raw.get("instanceType")),
        zone=lenient.text(raw.get("availabilityZone")),
        block=raw.get("reservationType") == "capacity-block",
        usable=raw.get("state") != "expiring",
        ends=lenient.seconds(raw.get("endTime")),
    )


def _obstacle(what: str, raw: Json, spec: Json) -> BlockingReason | None:
    if lenient.inside(raw, "metadata").get("deletionTimestamp"):
        return BlockingReason(f"{what} is being deleted", "create it again, or use another one")
    if spec.get("replicas") is not None:
        return BlockingReason(
            f"{what} has a fixed number of nodes (spec.replicas: {spec['replicas']}) and ignores waiting pods",
            "raise spec.replicas by the number of nodes",
        )
    return _not_ready(what, raw)


def _not_ready(what: str, raw: Json) -> BlockingReason | None:
    conditions = lenient.mappings(lenient.inside(raw, "status").get("conditions"))
    failed = [each for each in conditions if each.get("status") == "False"]
    if not any(each.get("type") == "Ready" for each in failed):
        return None
    why = "; ".join(
        f"{lenient.text(each.get('type'))}: {lenient.text(each.get('message')) or lenient.text(each.get('reason'))}"
        for each in failed
        if each.get("type") != "Ready"
    )
    return BlockingReason(
        f"{what} is not ready ({why or 'no reason is reported'})", "put right what its status reports"
    )


def _nano(holder: Json, name: str, place: str) -> dict[str, int]:
    """Amounts of resources in nano units."""
    found = quantity.amounts(fields.member(holder, name, place), key=fields.path(place, name))
    return {key: amount.nano for key, amount in found.items()}
