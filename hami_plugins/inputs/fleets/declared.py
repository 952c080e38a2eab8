"""Declared fleets: so many nodes of each shape, as the Node objects that a cluster of them would show.

::

    name: lab
    nodes:
    - {shape: a100-80x8, count: 4, labels: {team: research}}
    - {shape: t4x1, name: edge, taints: [{key: dedicated, value: edge, effect: NoSchedule}], unhealthy: [0]}
    - {devices: 4, model: NVIDIA A40, memoryMiB: 46068, count: 2}
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests
from hami_plugins.inputs.fleets import described
from hami_plugins.inputs.fleets.shapes import SHAPES, Cards, FleetShape, HostShape, Identity
from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.nodes import Taint
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import NodeName
from hami_plugins.wire import koordinator_devices, quantity

MAX_NODES: Final = 20_000
"""Most nodes of one fleet."""

MADE_AT: Final = "2026-01-01T00:00:00Z"
"""When every node of every fleet was made: a plan must not depend on the day."""


COMMON: Final[Mapping[str, str]] = {
    "count": "Number of nodes. Default: 1.",
    "name": "Names of the nodes: `NAME-0` and so on. Default: made from the shape or the model.",
    "labels": "Further labels of each node.",
    "taints": "Taints of each node, as in a Node: `[{key: dedicated, value: edge, effect: NoSchedule}]`.",
    "advertise": "Further extended resources of each node, such as `{example.com/fpga: 2}`.",
    "unhealthy": "Numbers of the devices that have failed on each node, such as `[0]`.",
    "unschedulable": "`true` for cordoned nodes.",
    "agents": "Whose node agents run on NVIDIA nodes: `hami` (default), `volcano`, `both` or `koordinator`.",
}
"""Members of every group, and what each means: the reference page prints this table."""

_AGENTS: Final[Mapping[str, tuple[Dialect, ...]]] = {
    "hami": (Dialect.HAMI,),
    "volcano": (Dialect.VOLCANO,),
    "both": (Dialect.HAMI, Dialect.VOLCANO),
    "koordinator": (Dialect.KOORDINATOR,),
}
"""What ``agents`` may be in a fleet file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of one shape, called ``name-0`` and so on. ``described`` is the shape of a group that names no known one.

    ``advertise`` are further extended resources of each node, ``unhealthy`` the numbers of failed devices on each,
    ``agents`` whose node agent runs on NVIDIA nodes: one of them counts a card's uses, so a cluster runs both only by
    mistake.
    """

    shape: str
    count: int = 1
    described: FleetShape | None = None
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    advertise: Mapping[str, int] = field(default_factory=dict)
    unhealthy: frozenset[int] = frozenset()
    unschedulable: bool = False
    agents: Collection[Dialect] = (Dialect.HAMI,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A declared fleet; device ids depend on its name."""

    name: str
    groups: tuple[NodeGroup, ...]


def shape_names() -> tuple[str, ...]:
    """The shapes that a fleet can be made of, in the order of the documentation."""
    return tuple(SHAPES)


def parse(text: str, *, source: str) -> Fleet:
    """A fleet file. Raises ``ManifestError`` with the place of what is wrong: one mapping, known members and shapes."""
    documents = manifests.mappings(text, source=source)
    if len(documents) != 1:
        raise ManifestError(f"{source}: a fleet file is one document, this has {len(documents)}")
    top = Field.top(documents[0])
    _known(top, "apiVersion", "kind", "name", "description", "nodes")
    groups = tuple(_group(entry) for entry in top.items("nodes"))
    if not groups:
        raise top.fault("a fleet needs nodes")
    total = sum(group.count for group in groups)
    if total > MAX_NODES:
        raise top.fault(f"{total} nodes are more than {MAX_NODES}, the most that is read", "nodes")
    return Fleet(name=top.text("name") or "fleet", groups=groups)


def add_nodes(*words: str, agents: Dialect = Dialect.HAMI) -> Fleet:
    """The nodes that ``shape=N`` (or ``shape``, or several with commas) asks for, called ``added-<shape>-0`` and so on.

    ``agents`` is whose node agent runs on NVIDIA nodes among them. Raises ``ManifestError`` for an unknown shape or a
    count that is none.
    """
    counts: Counter[str] = Counter()
    for word in ",".join(words).split(","):
        name, equals, count = word.strip().partition("=")
        if name not in SHAPES:
            raise ManifestError(f"{word.strip()!r}: {_unknown(name)}")
        if equals and not (count.isascii() and count.isdigit() and len(count) <= 6):
            raise ManifestError(f"{word.strip()!r}: the count has to be a whole number up to {MAX_NODES}")
        counts[name] += int(count) if equals else 1
    if counts.total() > MAX_NODES:
        raise ManifestError(f"{counts.total()} nodes are more than {MAX_NODES}, the most that can be added")
    return Fleet(
        name="added",
        groups=tuple(
            NodeGroup(shape=name, count=count, name=f"added-{_dns(name)}", agents=(agents,))
            for name, count in counts.items()
        ),
    )


def nodes_of(fleet: Fleet) -> list[dict[str, object]]:
    """The Node objects of a fleet, as its cluster's API server would list them. The same fleet gives the same nodes."""
    return [_node(fleet.name, shape_of(group), group, name) for group, name in _names(fleet)]


def shape_of(group: NodeGroup) -> FleetShape:
    """The shape of a group's nodes."""
    return SHAPES[group.shape] if group.described is None else group.described


def objects_of(fleet: Fleet) -> list[dict[str, object]]:
    """The Node objects, and the objects that publish the cards of nodes."""
    published = (_cards(fleet.name, group, name).published for group, name in _names(fleet))
    names = (name for _, name in _names(fleet))
    return nodes_of(fleet) + [
        koordinator_devices.encode(replace(each, node=NodeName(name)))
        for each, name in zip(published, names, strict=True)
        if each is not None
    ]


def _names(fleet: Fleet) -> Iterator[tuple[NodeGroup, str]]:
    """Node names; groups of one name count on."""
    taken: Counter[str] = Counter()
    for group in fleet.groups:
        prefix = group.name or _dns(group.shape)
        for _ in range(group.count):
            yield group, f"{prefix}-{taken[prefix]}"
            taken[prefix] += 1


def _dns(shape: str) -> str:
    return shape.replace(".", "-")


def _group(entry: Field) -> NodeGroup:
    shape = _shape(entry)
    advertise = entry.amounts("advertise")
    if fractional := sorted(key for key, amount in advertise.items() if amount % NANO):
        raise entry.fault("extended resources are whole numbers", "advertise", fractional[0])
    agents = entry.text("agents", Dialect.HAMI)
    if agents not in _AGENTS:
        raise entry.fault(f"{agents[:40]!r} is none of {', '.join(_AGENTS)}", "agents")
    return NodeGroup(
        shape=shape.name,
        described=None if entry.has("shape") else shape,
        count=entry.count("count", 1, most=MAX_NODES),
        name=entry.text("name"),
        labels=entry.texts("labels"),
        taints=tuple(_taint(taint) for taint in entry.items("taints")),
        advertise={key: amount // NANO for key, amount in advertise.items()},
        unhealthy=_numbers(entry, shape.devices),
        unschedulable=entry.flag("unschedulable"),
        agents=_AGENTS[agents],
    )


def _shape(entry: Field) -> FleetShape:
    """The shape that a group names, or describes."""
    if not entry.has("shape"):
        _known(entry, "shape", *COMMON, *described.FIELDS)
        if not entry.has("devices"):
            raise entry.fault("neither a shape nor devices; write shape: t4x1, or devices, model and memoryMiB")
        return described.shape_of(entry)
    _known(entry, "shape", *COMMON)
    name = entry.text("shape")
    if name not in SHAPES:
        raise entry.fault(_unknown(name), "shape")
    return SHAPES[name]


def _taint(entry: Field) -> Taint:
    _known(entry, "key", "value", "effect")
    effect = entry.text("effect")
    if effect not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
        raise entry.fault("effect has to be NoSchedule, PreferNoSchedule or NoExecute")
    return Taint(entry.text("key"), entry.text("value"), effect)


def _numbers(entry: Field, devices: int) -> frozenset[int]:
    numbers = entry.members.get("unhealthy") or []
    if not isinstance(numbers, list):
        raise entry.fault("has to be a list", "unhealthy")
    for at, number in enumerate(numbers):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < devices:
            raise entry.fault(f"has to be the number of a device, 0 to {devices - 1}", "unhealthy", at)
    return frozenset(numbers)


def _known(entry: Field, *names: str) -> None:
    for key in entry.members:
        if key not in names:
            raise entry.fault(f"means nothing here; known are {', '.join(names)}", key)


def _unknown(shape: str) -> str:
    return f"no shape {shape[:60]!r}; known are {', '.join(SHAPES)}"


def _node(fleet: str, shape: FleetShape, group: NodeGroup, name: str) -> dict[str, object]:
    seed = f"{fleet}/{name}"
    cards = _cards(fleet, group, name)
    spec: dict[str, object] = {}
    if group.taints:
        spec["taints"] = [_written(taint) for taint in group.taints]
    if group.unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, seed)),
            "resourceVersion": "1",
            "creationTimestamp": MADE_AT,
            "labels": {**_host_labels(shape.host, name), **cards.labels, **group.labels},
            "annotations": dict(cards.annotations),
        },
        "spec": spec,
        "status": {
            "addresses": [{"type": "Hostname", "address": name}],
            "capacity": _resources(shape, cards, group, shape.devices),
            "allocatable": _resources(shape, cards, group, shape.devices - len(group.unhealthy))
            | _left_for_pods(shape.host),
            "conditions": [_condition(*each) for each in _CONDITIONS],
            "nodeInfo": _node_info(shape.host, seed),
        },
    }


def _cards(fleet: str, group: NodeGroup, name: str) -> Cards:
    return shape_of(group).cards(Identity(f"{fleet}/{name}", group.unhealthy, group.agents))


def _written(taint: Taint) -> dict[str, str]:
    written = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return {key: text for key, text in written.items() if text}


def _host_labels(host: HostShape, name: str) -> dict[str, str]:
    return {
        "kubernetes.io/arch": host.arch,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": host.instance,
    }


_MAX_PODS: Final = 110
_DISK_GIB: Final = 1000


def _resources(shape: FleetShape, cards: Cards, group: NodeGroup, devices: int) -> dict[str, str]:
    resources = {name: amount * devices for name, amount in cards.each.items()}
    resources |= dict(cards.once) | dict(group.advertise)
    return {
        "cpu": str(shape.host.cpus),
        "ephemeral-storage": f"{_DISK_GIB << 20}Ki",
        "memory": f"{shape.host.memory_gib << 20}Ki",
        "pods": str(_MAX_PODS),
        **{name: quantity.canonical(amount * NANO) for name, amount in sorted(resources.items())},
    }


def _left_for_pods(host: HostShape) -> dict[str, str]:
    """The kubelet's reservations for the system and for eviction are the EKS values: 390m of 128 CPUs, 1.5 GiB for 110
    pods.
    """
    millis = 60 + 10 * (host.cpus > 1) + 5 * min(max(host.cpus - 2, 0), 2) + max(host.cpus - 4, 0) * 5 // 2
    kept = 255 + 11 * _MAX_PODS + 100
    return {
        "cpu": f"{host.cpus * 1000 - millis}m",
        "ephemeral-storage": str((_DISK_GIB << 30) * 9 // 10),
        "memory": f"{(host.memory_gib << 20) - (kept << 10)}Ki",
    }


_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    times = {"lastHeartbeatTime": MADE_AT, "lastTransitionTime": MADE_AT}
    return {"type": kind, "status": status, "reason": reason, "message": message, **times}


def _node_info(host: HostShape, seed: str) -> dict[str, str]:
    machine = uuid.uuid5(uuid.NAMESPACE_OID, seed)
    return {
        "architecture": host.arch,
        "bootID": str(uuid.uuid5(machine, "boot")),
        "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.8.0-60-generic",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.34.4",
        "machineID": machine.hex,
        "operatingSystem": "linux",
        "osImage": "Ubuntu 24.04.2 LTS",
        "systemUUID": str(machine),
    }
