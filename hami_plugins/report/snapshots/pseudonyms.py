"""What the names of a cluster become, so that it can be shown to strangers.

Schedulers decide ties by name, so pseudonyms sort as the names did. Cards that are called after their node are renamed
with it. Uuids of cards stay: they say nothing but which card is which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.registry import Registry
from hami_plugins.report.snapshots import raws
from hami_plugins.report.snapshots.trimming import ANNOTATIONS, GROUP_KEYS, QUEUE_KEYS, TASK_KEYS
from hami_plugins.wire.objects import node_facts, node_object

NODE_KEYS: Final = (
    "hami.io/vgpu-node",
    "volcano.sh/vgpu-node",
    "mthreads.com/predicate-node",
    "aws.amazon.com/predicate-node",
)
"""Annotations and labels of pods that name their node."""

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label by which selectors of namespaces name one."""

_GIVEN: Final = {
    "namespace": ("default",),
    "queue": ("default", "root"),
    "class": ("system-cluster-critical", "system-node-critical"),
}
"""Names that everybody has and that mean something; they stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pseudonyms:
    """What every name became, by what it names.

    ``value`` are the values of pods' labels, ``device`` the cards that are called after their node.
    """

    node: Mapping[str, str] = field(default_factory=dict)
    namespace: Mapping[str, str] = field(default_factory=dict)
    pod: Mapping[str, str] = field(default_factory=dict)
    group: Mapping[str, str] = field(default_factory=dict)
    queue: Mapping[str, str] = field(default_factory=dict)
    task: Mapping[str, str] = field(default_factory=dict)
    priority_class: Mapping[str, str] = field(default_factory=dict)
    value: Mapping[str, str] = field(default_factory=dict)
    device: Mapping[str, str] = field(default_factory=dict)


_KINDS: Final = ("node", "namespace", "pod", "group", "queue", "task", "class", "value")


def pseudonyms_of(objects: Sequence[Mapping[str, object]], registry: Registry) -> Pseudonyms:
    found: dict[str, set[str]] = {kind: set() for kind in _KINDS}
    for raw in objects:
        _collect(raw, found)
    made = {kind: _ranked(kind, names) for kind, names in found.items()}
    return Pseudonyms(priority_class=made.pop("class"), **made, device=_devices(objects, made["node"], registry))


def _collect(raw: Mapping[str, object], found: Mapping[str, set[str]]) -> None:
    metadata, spec = raws.members(raw, "metadata"), raws.members(raw, "spec")
    kind = _NAMED_BY.get(str(raw["kind"]))
    if kind is not None:
        found[kind].add(str(metadata.get("name", "")))
    for holder, key, into in (
        (metadata, "namespace", "namespace"),
        (spec, "nodeName", "node"),
        (spec, "queue", "queue"),
        (spec, "parent", "queue"),
        (spec, "priorityClassName", "class"),
    ):
        if holder.get(key):
            found[into].add(str(holder[key]))
    found["task"].update(raws.members(spec, "minTaskMember"))
    labels = raws.texts(metadata, "labels")
    said = {**labels, **raws.texts(metadata, ANNOTATIONS)}
    for keys, into in ((GROUP_KEYS, "group"), (QUEUE_KEYS, "queue"), (TASK_KEYS, "task"), (NODE_KEYS, "node")):
        found[into].update(said[key] for key in keys if said.get(key))
    if raw["kind"] == "Pod":
        found["value"].update(labels.values())
        for part in ("affinity", "topologySpreadConstraints"):
            found["value"].update(_selector_values(spec.get(part)))
            found["namespace"].update(_selector_namespaces(spec.get(part)))


_NAMED_BY: Final = {
    "Node": "node",
    "Pod": "pod",
    "Queue": "queue",
    "PodGroup": "group",
    "PriorityClass": "class",
    "Device": "node",
}


def _selector_values(value: object) -> Iterator[str]:
    """The values that selectors of pods' labels look for, wherever they stand."""
    for selector in raws.members_called(value, "labelSelector"):
        yield from raws.texts(selector, "matchLabels").values()
        for each in raws.items(selector, "matchExpressions"):
            yield from (str(text) for text in raws.values(each, "values"))


def _selector_namespaces(value: object) -> Iterator[str]:
    for holder in raws.holders_of(value, "namespaces"):
        yield from (str(name) for name in raws.values(holder, "namespaces"))
    for selector in raws.members_called(value, "namespaceSelector"):
        if NAMESPACE_NAME in raws.members(selector, "matchLabels"):
            yield raws.texts(selector, "matchLabels")[NAMESPACE_NAME]
        for each in raws.items(selector, "matchExpressions"):
            if each.get("key") == NAMESPACE_NAME:
                yield from (str(name) for name in raws.values(each, "values"))


def _ranked(kind: str, names: Iterable[str]) -> dict[str, str]:
    """Pseudonyms that sort as the names do, around the names that stay."""
    given = _GIVEN.get(kind, ())
    secret = sorted(set(names) - {"", *given})
    width = len(str(max(len(secret) - 1, 0)))
    made = {}
    for at, name in enumerate(secret):
        below = sum(1 for each in given if each < name)
        prefix = kind if below else f"a-{kind}"
        if below == len(given) > 1:
            prefix = f"z-{kind}"
        made[name] = f"{prefix if given else kind}-{at:0{width}}"
    return made


def _devices(objects: Sequence[Mapping[str, object]], nodes: Mapping[str, str], registry: Registry) -> dict[str, str]:
    """The cards that are called after their node, as their vendors name them."""
    builder = NodeBuilder(registry)
    published = {raws.members(raw, "metadata").get("name"): raw for raw in objects if raw["kind"] == "Device"}
    found = {}
    for raw in objects:
        if raw["kind"] == "Node":
            node = node_object(raw)
            entry = builder.entry(node._replace(published=published.get(node.name)), node_facts(raw))
            for device in entry.ids:
                if device.startswith(f"{entry.name}-"):
                    found[str(device)] = nodes[entry.name] + device[len(entry.name) :]
    return found
