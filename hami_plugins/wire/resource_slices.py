"""ResourceSlices and DeviceClasses of ``resource.k8s.io`` to values.

``v1``, ``v1beta2`` and ``v1beta1`` are read; the last has a device's members inside ``basic``. What cannot be read
raises ``WireError`` with its path. A member that decides about a device and is not known here is named in the value
(``not_read``), so that a decision about it is *unknown* and never *fits*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.claims import (
    AttributeValue,
    CapacityPolicy,
    CounterUse,
    DeviceCapacity,
    DeviceClass,
    DeviceNodes,
    DeviceTaint,
    PoolId,
    ResourceSlice,
    SemanticVersion,
    SliceDevice,
)
from hami_plugins.model.units import NodeName
from hami_plugins.wire import fields, quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.lenient import seconds
from hami_plugins.wire.pods import node_terms

GROUP: Final = "resource.k8s.io"
"""The API group of Dynamic Resource Allocation."""

VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Its versions that are read, newest first."""

_OF_DEVICES: Final = frozenset(
    {
        "name", "basic", "attributes", "capacity", "consumesCounters", "nodeName", "nodeSelector", "allNodes", "taints",
        "bindsToNode", "bindingConditions", "bindingFailureConditions", "allowMultipleAllocations",
    }
)  # fmt: skip
_WITHOUT_EFFECT: Final = frozenset({"nodeAllocatableResourceMappings"})
"""Members of devices that change what a pod takes of its node, and not which devices it may have (1.36, alpha)."""

_OF_ATTRIBUTES: Final = ("int", "bool", "string", "version")


def is_of_group(raw: Json) -> bool:
    """Whether an object is of the API group; one without a version may be."""
    version = raw.get("apiVersion")
    return not isinstance(version, str) or not version or version.partition("/")[0] == GROUP


def resource_slice(raw: object) -> ResourceSlice:
    """A ResourceSlice. Raises ``WireError``."""
    body = fields.whole(raw, "resourceslice")
    name = fields.needed(fields.member(body, "metadata", "resourceslice ?:"), "name", "resourceslice ?: metadata")
    place = f"resourceslice {name}:"
    spec = fields.member(body, "spec", place)
    inside = f"{place} spec"
    pool = fields.member(spec, "pool", inside)
    in_pool = f"{inside}.pool"
    per_device = fields.flag(spec, "perDeviceNodeSelection", inside)
    return ResourceSlice(
        name=name,
        pool=PoolId(fields.needed(spec, "driver", inside), fields.needed(pool, "name", in_pool)),
        generation=fields.number(pool, "generation", in_pool),
        slices=fields.number(pool, "resourceSliceCount", in_pool, default=1),
        nodes=_nodes(spec, inside),
        per_device=per_device,
        devices=tuple(
            _device(each, f"{inside}.devices[{at}]", per_device=per_device)
            for at, each in enumerate(fields.items(spec, "devices", inside))
        ),
        counters=dict(_counter_sets(spec, inside)),
    )


def device_class(raw: object) -> DeviceClass:
    """A DeviceClass. Raises ``WireError``."""
    body = fields.whole(raw, "deviceclass")
    metadata = fields.member(body, "metadata", "deviceclass ?:")
    name = fields.needed(metadata, "name", "deviceclass ?: metadata")
    place = f"deviceclass {name}: spec"
    spec = fields.member(body, "spec", f"deviceclass {name}:")
    found, not_read = selectors(spec, place)
    return DeviceClass(
        name=name,
        selectors=found,
        resource=fields.text(spec, "extendedResourceName", place),
        made_at=seconds(metadata.get("creationTimestamp")),
        not_read=not_read,
    )


def selectors(holder: Json, place: str) -> tuple[tuple[str, ...], str]:
    """The CEL expressions of a list of selectors, and the first selector that is none."""
    found: list[str] = []
    for at, raw in enumerate(fields.items(holder, "selectors", place)):
        inside = f"{place}.selectors[{at}]"
        body = fields.whole(raw, inside)
        if "cel" not in body:
            return tuple(found), f"selectors[{at}] is not a CEL expression"
        found.append(fields.needed(fields.member(body, "cel", inside), "expression", f"{inside}.cel"))
    return tuple(found), ""


def named_amounts(holder: Json, name: str, place: str) -> dict[str, int]:
    """A map of amounts, in nano units."""
    found = quantity.amounts(fields.member(holder, name, place), key=fields.path(place, name))
    return {key: amount.nano for key, amount in found.items()}


def other_members(body: Json, known: Iterable[str]) -> str:
    """A member that is not known here; empty where there is none."""
    return min(body.keys() - set(known), default="")


def _device(raw: object, place: str, *, per_device: bool) -> SliceDevice:
    outer = fields.whole(raw, place)
    body = fields.member(outer, "basic", place) if "basic" in outer else outer
    return SliceDevice(
        name=fields.needed(outer, "name", place),
        attributes={
            key: _attribute(value, f"{place}.attributes[{key}]")
            for key, value in fields.member(body, "attributes", place).items()
        },
        capacity={
            key: _capacity(value, f"{place}.capacity[{key}]")
            for key, value in fields.member(body, "capacity", place).items()
        },
        shared=fields.flag(body, "allowMultipleAllocations", place),
        uses=tuple(_counter_uses(body, place)),
        taints=tuple(_taints(body, place)),
        nodes=_nodes(body, place) if per_device else None,
        waits=bool(fields.items(body, "bindingConditions", place)),
        not_read=other_members(body, _OF_DEVICES | _WITHOUT_EFFECT),
    )


def _attribute(raw: object, place: str) -> AttributeValue:
    body = fields.whole(raw, place)
    kind = next((each for each in _OF_ATTRIBUTES if body.get(each) is not None), "")
    match kind:
        case "int":
            return fields.number(body, kind, place)
        case "bool":
            return fields.flag(body, kind, place)
        case "string":
            return fields.text(body, kind, place)
        case "version":
            return SemanticVersion(fields.text(body, kind, place))
    raise fields.wrong(place, raw, f"one of {', '.join(_OF_ATTRIBUTES)}")


def _capacity(raw: object, place: str) -> DeviceCapacity:
    body = fields.whole(raw, place)
    policy = fields.member(body, "requestPolicy", place) if body.get("requestPolicy") is not None else None
    return DeviceCapacity(_needed_amount(body, "value", place), None if policy is None else _policy(policy, place))


def _policy(body: Json, place: str) -> CapacityPolicy:
    inside = f"{place}.requestPolicy"
    allowed = fields.member(body, "validRange", inside)
    in_range = f"{inside}.validRange"
    return CapacityPolicy(
        default=_amount(body, "default", inside),
        least=_amount(allowed, "min", in_range),
        most=_amount(allowed, "max", in_range),
        step=_amount(allowed, "step", in_range),
        values=tuple(
            quantity.parse(each, key=f"{inside}.validValues").nano for each in fields.items(body, "validValues", inside)
        ),
    )


def _amount(holder: Json, name: str, place: str) -> int | None:
    value = holder.get(name)
    return None if value is None else quantity.parse(value, key=fields.path(place, name)).nano


def _needed_amount(holder: Json, name: str, place: str) -> int:
    found = _amount(holder, name, place)
    if found is None:
        raise WireError(fields.path(place, name), "", "is missing")
    return found


def _nodes(body: Json, place: str) -> DeviceNodes:
    node = fields.text(body, "nodeName", place)
    return DeviceNodes(
        node=NodeName(node) if node else None,
        everywhere=fields.flag(body, "allNodes", place),
        terms=node_terms(fields.member(body, "nodeSelector", place), f"{place}.nodeSelector")
        if body.get("nodeSelector") is not None
        else None,
    )


def _counter_sets(spec: Json, place: str) -> Iterator[tuple[str, Mapping[str, int]]]:
    for at, raw in enumerate(fields.items(spec, "sharedCounters", place)):
        inside = f"{place}.sharedCounters[{at}]"
        body = fields.whole(raw, inside)
        yield fields.needed(body, "name", inside), dict(_counters(body, inside))


def _counter_uses(body: Json, place: str) -> Iterator[CounterUse]:
    for at, raw in enumerate(fields.items(body, "consumesCounters", place)):
        inside = f"{place}.consumesCounters[{at}]"
        use = fields.whole(raw, inside)
        yield CounterUse(fields.needed(use, "counterSet", inside), tuple(sorted(_counters(use, inside))))


def _counters(body: Json, place: str) -> Iterator[tuple[str, int]]:
    for key, raw in fields.member(body, "counters", place).items():
        inside = f"{place}.counters[{key}]"
        yield str(key), _needed_amount(fields.whole(raw, inside), "value", inside)


def _taints(body: Json, place: str) -> Iterator[DeviceTaint]:
    for at, raw in enumerate(fields.items(body, "taints", place)):
        inside = f"{place}.taints[{at}]"
        taint = fields.whole(raw, inside)
        yield DeviceTaint(*(fields.text(taint, name, inside) for name in ("key", "value", "effect")))
