"""Objects of the API server to values: nodes, quotas, queues, gangs; pods are in ``wire.pods`` and offered here, too.

Each function takes the JSON object as it was read and raises ``WireError`` with the path of what is wrong in it.
"""

from hami_plugins.model.cluster import NamespaceQuota, PodGroup, Queue
from hami_plugins.model.nodes import NodeFacts, Taint
from hami_plugins.model.pods import ResourceList
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import NodeObject
from hami_plugins.wire import fields, quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import pod

__all__ = ["node_facts", "node_object", "pod", "pod_group", "priority_class", "queue", "resource_quota"]


def node_object(raw: object) -> NodeObject:
    """What inventories are made from: name, annotations, labels, capacity and allocatable of a Node."""
    body, place = _named(raw, "node")
    metadata = fields.member(body, "metadata", place)
    status = fields.member(body, "status", place)
    return NodeObject(
        name=NodeName(metadata["name"]),
        annotations=fields.text_map(metadata, "annotations", f"{place} metadata"),
        labels=fields.text_map(metadata, "labels", f"{place} metadata"),
        capacity=_amounts(status, "capacity", f"{place} status"),
        allocatable=_amounts(status, "allocatable", f"{place} status"),
    )


def node_facts(raw: object) -> NodeFacts:
    """What the scheduler itself looks at on a Node. One that reports no ``Ready`` condition is taken as ready."""
    body, place = _named(raw, "node")
    spec = fields.member(body, "spec", place)
    status = fields.member(body, "status", place)
    return NodeFacts(
        labels=fields.text_map(fields.member(body, "metadata", place), "labels", f"{place} metadata"),
        taints=_taints(spec, f"{place} spec"),
        unschedulable=fields.flag(spec, "unschedulable", f"{place} spec"),
        ready=_ready(status, f"{place} status"),
        allocatable=_amounts(status, "allocatable", f"{place} status"),
    )


def resource_quota(raw: object) -> NamespaceQuota:
    """The hard limits of a ResourceQuota, keys as written there (``limits.nvidia.com/gpumem``). Scopes are ignored."""
    body, place = _named(raw, "resourcequota")
    namespace = fields.text(fields.member(body, "metadata", place), "namespace", f"{place} metadata") or "default"
    hard = _amounts(fields.member(body, "spec", place), "hard", f"{place} spec")
    used = _amounts(fields.member(body, "status", place), "used", f"{place} status")
    return NamespaceQuota(namespace=namespace, hard=_nano(hard), used=_nano(used))


def priority_class(raw: object) -> tuple[str, int]:
    """The name and the value of a PriorityClass."""
    body, place = _named(raw, "priorityclass")
    return fields.member(body, "metadata", place)["name"], fields.number(body, "value", place)


def queue(raw: object) -> Queue:
    """A Volcano Queue. Without weight it weighs 1; it takes pods unless it is closed or closing."""
    body, place = _named(raw, "queue")
    spec = fields.member(body, "spec", place)
    inside = f"{place} spec"
    return Queue(
        name=fields.member(body, "metadata", place)["name"],
        weight=fields.number(spec, "weight", inside) or 1,
        capability=_nano(_amounts(spec, "capability", inside)),
        guarantee=_nano(_amounts(fields.member(spec, "guarantee", inside), "resource", f"{inside}.guarantee")),
        deserved=_nano(_amounts(spec, "deserved", inside)),
        parent=fields.text(spec, "parent", inside),
        open=fields.text(fields.member(body, "status", place), "state", f"{place} status") not in ("Closed", "Closing"),
    )


def pod_group(raw: object) -> PodGroup:
    """A Volcano PodGroup. The API leaves out a ``minMember`` of 0, which is "no gang"."""
    body, place = _named(raw, "podgroup")
    metadata = fields.member(body, "metadata", place)
    spec = fields.member(body, "spec", place)
    inside = f"{place} spec"
    least = _amounts(spec, "minResources", inside)
    return PodGroup(
        namespace=fields.text(metadata, "namespace", f"{place} metadata") or "default",
        name=metadata["name"],
        min_member=fields.number(spec, "minMember", inside),
        min_by_task=fields.number_map(spec, "minTaskMember", inside),
        queue=fields.text(spec, "queue", inside) or "default",
        min_resources=_nano(least) if least else None,
        phase=fields.text(fields.member(body, "status", place), "phase", f"{place} status") or "Pending",
        priority_class=fields.text(spec, "priorityClassName", inside),
    )


def _named(raw: object, kind: str) -> tuple[Json, str]:
    """The object and how messages call it; the name must be there."""
    body = fields.whole(raw, kind)
    metadata = fields.member(body, "metadata", f"{kind} ?:")
    name = fields.text(metadata, "name", f"{kind} ?: metadata")
    if not name:
        raise fields.wrong(f"{kind} ?: metadata.name", metadata.get("name"), "a name")
    namespace = fields.text(metadata, "namespace", f"{kind} {name}: metadata")
    return body, f"{kind} {namespace}/{name}:" if namespace else f"{kind} {name}:"


def _amounts(holder: Json, name: str, place: str) -> ResourceList:
    return quantity.amounts(fields.member(holder, name, place), key=fields.path(place, name))


def _nano(amounts: ResourceList) -> dict[str, int]:
    return {name: amount.nano for name, amount in amounts.items()}


def _taints(spec: Json, place: str) -> tuple[Taint, ...]:
    found = []
    for at, raw in enumerate(fields.items(spec, "taints", place)):
        inside = f"{place}.taints[{at}]"
        body = fields.whole(raw, inside)
        key, value, effect = (fields.text(body, name, inside) for name in ("key", "value", "effect"))
        found.append(Taint(key, value, effect))
    return tuple(found)


def _ready(status: Json, place: str) -> bool:
    for at, raw in enumerate(fields.items(status, "conditions", place)):
        inside = f"{place}.conditions[{at}]"
        body = fields.whole(raw, inside)
        if fields.text(body, "type", inside) == "Ready":
            return fields.text(body, "status", inside) == "True"
    return True
