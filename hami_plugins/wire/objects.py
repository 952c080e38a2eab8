"""Objects of the API server to values: nodes, quotas, budgets, queues, gangs; also the pods of ``wire.pods``.

Each function takes the JSON object as it was read and raises ``WireError`` with the path of what is wrong in it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from hami_plugins.errors import WireError
from hami_plugins.model.cluster import DisruptionBudget, NamespaceQuota, PodGroup, PriorityClass, Queue
from hami_plugins.model.inventory import NodeCondition, NodeObject
from hami_plugins.model.nodes import NodeFacts, Taint
from hami_plugins.model.pods import ResourceList
from hami_plugins.model.units import NodeName
from hami_plugins.wire import fields, managed_taints, neighbours, quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.lenient import inside, seconds, text
from hami_plugins.wire.pods import may_preempt, pod

__all__ = [
    "disruption_budget",
    "eviction",
    "latest_time",
    "node_facts",
    "node_object",
    "pod",
    "pod_group",
    "priority_class",
    "queue",
    "readable_pod_group",
    "readable_queue",
    "resource_quota",
    "seconds",
    "taints",
]

HEAVIEST: Final = 65_535
"""The largest weight that Volcano stores on a queue."""

_OF_KUBELETS: Final = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})

T = TypeVar("T")

_EMPTY: Final[Json] = {}


def node_object(raw: object) -> NodeObject:
    """What inventories are made from: name, annotations, labels, capacity, allocatable and conditions of a Node.

    Unreadable conditions are left out: they are remarks of other components, and the node exists without them.
    """
    body, place = _named(raw, "node")
    metadata = fields.member(body, "metadata", place)
    status = fields.member(body, "status", place)
    return NodeObject(
        name=NodeName(metadata["name"]),
        annotations=fields.text_map(metadata, "annotations", f"{place} metadata"),
        labels=fields.text_map(metadata, "labels", f"{place} metadata"),
        capacity=_amounts(status, "capacity", f"{place} status"),
        allocatable=_amounts(status, "allocatable", f"{place} status"),
        conditions=tuple(_conditions(status)),
    )


def node_facts(raw: object) -> NodeFacts:
    """What the scheduler itself looks at on a Node. One that reports no ``Ready`` condition is taken as ready."""
    body, place = _named(raw, "node")
    spec = fields.member(body, "spec", place)
    status = fields.member(body, "status", place)
    labels = fields.text_map(fields.member(body, "metadata", place), "labels", f"{place} metadata")
    found = taints(spec, f"{place} spec")
    info = status.get("nodeInfo")
    kubelet = str(info.get("kubeletVersion") or "") if isinstance(info, dict) else ""
    return NodeFacts(
        labels=labels,
        taints=found,
        unschedulable=fields.flag(spec, "unschedulable", f"{place} spec"),
        ready=_ready(status, f"{place} status"),
        allocatable=_amounts(status, "allocatable", f"{place} status"),
        tolerated=frozenset(each.key for each in found if managed_taints.tolerated(each.key, labels, kubelet)),
        kubelet=kubelet,
    )


def resource_quota(raw: object) -> NamespaceQuota:
    """The hard limits of a ResourceQuota, keys as written there (``limits.nvidia.com/gpumem``).

    Of one with scopes only HAMi's limits of devices: HAMi does not look at scopes (HAMi 2.10.0
    ``pkg/device/quota.go``), and the pods that the API server holds to the others are unknown here.
    """
    body, place = _named(raw, "resourcequota")
    metadata, spec = (fields.member(body, member, place) for member in ("metadata", "spec"))
    namespace = fields.text(metadata, "namespace", f"{place} metadata") or "default"
    hard = _nano(_amounts(spec, "hard", f"{place} spec"))
    used = _nano(_amounts(fields.member(body, "status", place), "used", f"{place} status"))
    quota = NamespaceQuota(namespace=namespace, hard=hard, used=used)
    if not (spec.get("scopes") or spec.get("scopeSelector")):
        return quota
    return replace(quota.of_devices(), scoped=(str(metadata["name"]),))


def disruption_budget(raw: object) -> DisruptionBudget | None:
    """A PodDisruptionBudget, ``None`` for one without selector, which is about no pod (an empty one is about all).

    One that its controller has not reported on yet allows nothing.
    """
    body, place = _named(raw, "poddisruptionbudget")
    metadata, spec, status = (fields.member(body, member, place) for member in ("metadata", "spec", "status"))
    if spec.get("selector") is None:
        return None
    selector = fields.member(spec, "selector", f"{place} spec")
    return DisruptionBudget(
        namespace=fields.text(metadata, "namespace", f"{place} metadata") or "default",
        name=metadata["name"],
        requirements=tuple(neighbours.requirements(selector, f"{place} spec.selector")),
        allowed=max(fields.number(status, "disruptionsAllowed", f"{place} status"), 0),
    )


def priority_class(raw: object) -> PriorityClass:
    """A PriorityClass."""
    body, place = _named(raw, "priorityclass")
    return PriorityClass(
        name=fields.member(body, "metadata", place)["name"],
        value=fields.number(body, "value", place),
        preempts=may_preempt(body, place),
    )


class EvictionEvent(NamedTuple):
    """The full name of an evicted pod, the event's message, and when it happened last, as the API server writes it."""

    pod: str
    message: str
    at: str


def eviction(raw: object) -> EvictionEvent | None:
    """The eviction that an event reports; ``None`` for other events.

    The reason of kube-scheduler and the allocator is ``Preempted``, Volcano's ``Evict``.
    """
    body = fields.whole(raw, "event")
    about = inside(body, "involvedObject")
    if about.get("kind") != "Pod" or not text(body.get("reason")).startswith(("Preempted", "Evict")):
        return None
    times = (body.get("lastTimestamp"), body.get("eventTime"), inside(body, "metadata").get("creationTimestamp"))
    return EvictionEvent(
        pod=f"{text(about.get('namespace')) or 'default'}/{text(about.get('name'))}",
        message=text(body.get("message")),
        at=next(filter(None, map(text, times)), ""),
    )


def queue(raw: object) -> Queue:
    """A Volcano Queue. Without weight it weighs 1; it takes pods unless it is closed or closing."""
    found, wrong = readable_queue(raw)
    for each in wrong:
        raise each
    return found


def readable_queue(raw: object) -> tuple[Queue, tuple[WireError, ...]]:
    """A Volcano Queue as far as it can be read, and what is wrong with the rest, which counts as not set.

    Raises ``WireError`` for what has no name. Pods of a queue with a mistake in it are not pods without a queue.
    """
    body, place = _named(raw, "queue")
    tolerant = _Tolerant()
    spec = tolerant.read(lambda: fields.member(body, "spec", place), _EMPTY)
    status = tolerant.read(lambda: fields.member(body, "status", place), _EMPTY)
    inside = f"{place} spec"
    guarantee = tolerant.read(lambda: fields.member(spec, "guarantee", inside), _EMPTY)
    weight = tolerant.read(lambda: _count(spec, "weight", inside, most=HEAVIEST), 1)
    found = Queue(
        name=body["metadata"]["name"],
        weight=weight or 1,
        capability=tolerant.amounts(spec, "capability", inside),
        guarantee=tolerant.amounts(guarantee, "resource", f"{inside}.guarantee"),
        deserved=tolerant.amounts(spec, "deserved", inside),
        parent=tolerant.read(lambda: fields.text(spec, "parent", inside), ""),
        open=tolerant.read(lambda: fields.text(status, "state", f"{place} status"), "") not in ("Closed", "Closing"),
        reclaimable=spec.get("reclaimable") is not False,
        priority=tolerant.read(lambda: fields.number(spec, "priority", inside), 0),
        made_at=seconds(body["metadata"].get("creationTimestamp")),
    )
    return found, tuple(tolerant.errors)


def pod_group(raw: object) -> PodGroup:
    """A Volcano PodGroup. The API leaves out a ``minMember`` of 0, which is "no gang"."""
    found, wrong = readable_pod_group(raw)
    for each in wrong:
        raise each
    return found


def readable_pod_group(raw: object) -> tuple[PodGroup, tuple[WireError, ...]]:
    """A Volcano PodGroup as far as it can be read, and what is wrong with the rest, which counts as not set.

    Raises ``WireError`` for what has no name.
    """
    body, place = _named(raw, "podgroup")
    tolerant = _Tolerant()
    metadata: Json = body["metadata"]
    spec = tolerant.read(lambda: fields.member(body, "spec", place), _EMPTY)
    status = tolerant.read(lambda: fields.member(body, "status", place), _EMPTY)
    inside = f"{place} spec"
    least = tolerant.amounts(spec, "minResources", inside)
    found = PodGroup(
        namespace=fields.text(metadata, "namespace", f"{place} metadata") or "default",
        name=metadata["name"],
        min_member=tolerant.read(lambda: _count(spec, "minMember", inside), 0),
        min_by_task=tolerant.read(lambda: fields.number_map(spec, "minTaskMember", inside), dict[str, int]()),
        queue=tolerant.read(lambda: fields.text(spec, "queue", inside), "") or "default",
        min_resources=least or None,
        phase=tolerant.read(lambda: fields.text(status, "phase", f"{place} status"), "") or "Pending",
        priority_class=tolerant.read(lambda: fields.text(spec, "priorityClassName", inside), ""),
        made_at=seconds(metadata.get("creationTimestamp")),
        annotations=tolerant.read(lambda: fields.text_map(metadata, "annotations", f"{place} metadata"), {}),
    )
    return found, tuple(tolerant.errors)


def latest_time(raw: Mapping[str, object]) -> str:
    """The latest time that an object names as the API server writes it: when it was made, or last reported on.

    Such texts compare as the times do. Empty where there is none.
    """
    metadata, status = raw.get("metadata"), raw.get("status")
    stamps = [metadata.get("creationTimestamp")] if isinstance(metadata, dict) else []
    conditions = status.get("conditions") if isinstance(status, dict) else None
    for each in conditions if isinstance(conditions, list) else ():
        if isinstance(each, dict):
            stamps += [each.get("lastHeartbeatTime"), each.get("lastTransitionTime")]
    return max((stamp for stamp in stamps if isinstance(stamp, str) and stamp.endswith("Z")), default="")


class _Tolerant:
    """Reads members one by one; of what is wrong it keeps the error and goes on."""

    def __init__(self) -> None:
        self.errors: list[WireError] = []

    def read(self, reader: Callable[[], T], otherwise: T) -> T:
        """What a member says, or the value that stands for one that cannot be read."""
        try:
            return reader()
        except WireError as error:
            self.errors.append(error)
            return otherwise

    def amounts(self, holder: Json, name: str, place: str) -> dict[str, int]:
        """The amounts of a resource list (nano units), without those that no cluster can hold."""
        where = fields.path(place, name)
        found: dict[str, int] = {}
        for resource, amount in self.read(lambda: fields.member(holder, name, place), _EMPTY).items():
            try:
                found |= _nano(quantity.amounts({resource: amount}, key=where))
            except WireError as error:
                self.errors.append(error)
            else:
                if found[resource] < 0:
                    del found[resource]
                    self.errors.append(WireError(f"{where}[{resource}]", str(amount), "an amount below 0"))
        return found


def _count(holder: Json, name: str, place: str, *, most: int | None = None) -> int:
    number = fields.number(holder, name, place)
    if number < 0 or (most is not None and number > most):
        upper = "" if most is None else f" and at most {most}"
        raise fields.wrong(fields.path(place, name), number, f"a number of at least 0{upper}")
    return number


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


def taints(spec: Json, place: str) -> tuple[Taint, ...]:
    """The taints of a node, or of the nodes that will be made from a template."""
    found = []
    for at, raw in enumerate(fields.items(spec, "taints", place)):
        inside = f"{place}.taints[{at}]"
        body = fields.whole(raw, inside)
        key, value, effect = (fields.text(body, name, inside) for name in ("key", "value", "effect"))
        found.append(Taint(key, value, effect))
    return tuple(found)


def _conditions(status: Json) -> Iterator[NodeCondition]:
    """The node's conditions besides those that every kubelet reports."""
    listed = status.get("conditions")
    for raw in listed if isinstance(listed, list) else ():
        if isinstance(raw, dict) and isinstance(kind := raw.get("type"), str) and kind not in _OF_KUBELETS:
            said, reason = raw.get("status"), raw.get("reason")
            yield NodeCondition(kind, said if isinstance(said, str) else "", reason if isinstance(reason, str) else "")


def _ready(status: Json, place: str) -> bool:
    for at, raw in enumerate(fields.items(status, "conditions", place)):
        inside = f"{place}.conditions[{at}]"
        body = fields.whole(raw, inside)
        if fields.text(body, "type", inside) == "Ready":
            return fields.text(body, "status", inside) == "True"
    return True
