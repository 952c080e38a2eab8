"""Snapshots that can be handed to strangers: names become pseudonyms, answers stay the same.

Schedulers decide ties by name, so pseudonyms sort as the names did. Cards that are called after their node are renamed
with it wherever they are written. Uuids of cards stay: they say nothing but which card is which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.report.trimming import ANNOTATIONS, GROUP_KEYS, QUEUE_KEYS, TASK_KEYS, Trimmer
from hami_plugins.wire import objects

_GIVEN: Final = {"namespace": ("default",), "queue": ("default", "root")}
"""Names that everybody has and that mean something; they stay."""

_NODE_KEYS: Final = (
    "hami.io/vgpu-node",
    "volcano.sh/vgpu-node",
    "mthreads.com/predicate-node",
    "aws.amazon.com/predicate-node",
)
"""Annotations and labels of pods that name their node."""

_PLAIN_LABELS: Final = frozenset(
    {
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
    }
)
"""Labels whose values are words of a trade, whatever a node may be called."""

_WORD: Final = re.compile(r"[A-Za-z0-9]+(?:[._-]+[A-Za-z0-9]+)*")
_ID: Final = re.compile(r"[^\s,:;|\"'\[\]{}=]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pseudonyms:
    """What every name became, by what it names. ``device`` are cards that are called after their node."""

    node: Mapping[str, str] = field(default_factory=dict)
    namespace: Mapping[str, str] = field(default_factory=dict)
    pod: Mapping[str, str] = field(default_factory=dict)
    group: Mapping[str, str] = field(default_factory=dict)
    queue: Mapping[str, str] = field(default_factory=dict)
    task: Mapping[str, str] = field(default_factory=dict)
    device: Mapping[str, str] = field(default_factory=dict)


class Redactor:
    """Redacts the objects of one cluster, and whatever belongs to it, always with the same pseudonyms.

    Objects that cannot be read are left out, because nobody knows what is a name in them; ``left_out`` counts them.
    """

    def __init__(self, raws: Iterable[object], registry: Registry) -> None:
        self._trimmer = Trimmer(registry)
        self._registry = registry
        kept = list(self._trimmer.objects(raws))
        self._readable = [raw for raw in kept if _is_readable(raw)]
        self.left_out = len(kept) - len(self._readable)
        self.names = _pseudonyms(self._readable, registry)
        self._anywhere = _runs(self.names)

    def cluster(self) -> tuple[dict[str, object], ...]:
        """The cluster that the redactor was made from."""
        return tuple(self._object(raw) for raw in self._readable)

    def also(self, raws: Iterable[object]) -> tuple[dict[str, object], ...]:
        """Further objects of that cluster, such as pods that are to be planned; new names in them stay."""
        return tuple(self._object(raw) for raw in self._trimmer.objects(raws) if _is_readable(raw))

    def _object(self, raw: Mapping[str, object]) -> dict[str, object]:
        make: dict[str, Callable[[Mapping[str, object]], dict[str, object]]] = {
            "Node": self._node,
            "Pod": self._pod,
            "Queue": self._queue,
            "PodGroup": self._group,
        }
        return make.get(str(raw["kind"]), self._quota)(raw)

    def _node(self, raw: Mapping[str, object]) -> dict[str, object]:
        metadata, spec = _members(raw, "metadata"), _members(raw, "spec")
        taints = [
            {**taint, "value": self._label(str(taint["value"]))} if taint.get("value") else taint
            for taint in _items(spec, "taints")
        ]
        return {
            **raw,
            "metadata": {
                "name": self.names.node[str(metadata["name"])],
                "labels": {
                    key: value if key in _PLAIN_LABELS else self._label(value)
                    for key, value in _texts(metadata, "labels").items()
                },
                ANNOTATIONS: {
                    key: self._ids(value)
                    for key, value in _texts(metadata, ANNOTATIONS).items()
                    if key not in self._locks()
                },
            },
            "spec": {**spec, "taints": taints} if taints else dict(spec),
        }

    def _pod(self, raw: Mapping[str, object]) -> dict[str, object]:
        spec = _members(raw, "spec")
        found: dict[str, object] = {**spec}
        if spec.get("nodeName"):
            found["nodeName"] = self._named(self.names.node, spec["nodeName"])
        if spec.get("nodeSelector"):
            found["nodeSelector"] = self._selector(_texts(spec, "nodeSelector"))
        if spec.get("affinity"):
            found["affinity"] = self._affinity(spec["affinity"])
        if spec.get("tolerations"):
            found["tolerations"] = [
                {**each, "value": self._label(str(each["value"]))} if each.get("value") else each
                for each in _items(spec, "tolerations")
            ]
        if spec.get("schedulingGates"):
            found["schedulingGates"] = [{"name": "gate"} for _ in _items(spec, "schedulingGates")]
        found.pop("priorityClassName", None)
        containers = _container_names(spec)
        for key in ("initContainers", "containers"):
            if key in spec:
                found[key] = [_container(each, containers) for each in _items(spec, key)]
        status = dict(_members(raw, "status"))
        if "initContainerStatuses" in status:
            statuses = _items(status, "initContainerStatuses")
            status["initContainerStatuses"] = [
                {**each, "name": containers.get(str(each.get("name")), "c")} for each in statuses
            ]
        return {**raw, "metadata": self._pod_metadata(raw), "spec": found, "status": status}

    def _pod_metadata(self, raw: Mapping[str, object]) -> dict[str, object]:
        metadata = _members(raw, "metadata")
        found = self._metadata(metadata, self.names.pod)
        for part in ("labels", ANNOTATIONS):
            kept = {}
            for key, value in _texts(metadata, part).items():
                if (changed := self._said(key, value, label=part == "labels")) is not None:
                    kept[key] = changed
            found[part] = kept
        for key in ("creationTimestamp", "deletionTimestamp"):
            if metadata.get(key):
                found[key] = metadata[key]
        return found

    def _said(self, key: str, value: str, *, label: bool) -> str | None:
        """One annotation or label of a pod; ``None`` for one that nothing depends on."""
        for keys, names in (
            (GROUP_KEYS, self.names.group),
            (QUEUE_KEYS, self.names.queue),
            (TASK_KEYS, self.names.task),
            (_NODE_KEYS, self.names.node),
        ):
            if key in keys:
                return self._named(names, value)
        return None if label else self._ids(value)

    def _queue(self, raw: Mapping[str, object]) -> dict[str, object]:
        spec = dict(_members(raw, "spec"))
        if spec.get("parent"):
            spec["parent"] = self._named(self.names.queue, spec["parent"])
        metadata = {"name": self._named(self.names.queue, _members(raw, "metadata")["name"])}
        return {**raw, "metadata": metadata, "spec": spec}

    def _group(self, raw: Mapping[str, object]) -> dict[str, object]:
        spec = dict(_members(raw, "spec"))
        if spec.get("queue"):
            spec["queue"] = self._named(self.names.queue, spec["queue"])
        if spec.get("minTaskMember"):
            tasks = _members(spec, "minTaskMember")
            spec["minTaskMember"] = {self._named(self.names.task, task): least for task, least in tasks.items()}
        spec.pop("priorityClassName", None)
        metadata = self._metadata(_members(raw, "metadata"), self.names.group)
        return {**raw, "metadata": metadata, "spec": spec}

    def _quota(self, raw: Mapping[str, object]) -> dict[str, object]:
        metadata = self._metadata(_members(raw, "metadata"), {})
        return {**raw, "metadata": {**metadata, "name": "quota"}}

    def _metadata(self, metadata: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
        return {
            "name": self._named(names, metadata.get("name", "")),
            "namespace": self._named(self.names.namespace, metadata.get("namespace", "default")),
        }

    def _named(self, names: Mapping[str, str], name: object) -> str:
        return names.get(str(name), str(name))

    def _selector(self, selector: Mapping[str, str]) -> dict[str, str]:
        return {key: value if key in _PLAIN_LABELS else self._label(value) for key, value in selector.items()}

    def _affinity(self, value: object) -> object:
        """Required node affinity; its shape has been read before, so only the values are looked for."""
        if isinstance(value, list):
            return [self._affinity(each) for each in value]
        if not isinstance(value, Mapping):
            return value
        if "operator" in value and "key" in value:
            on_name = value["key"] == "metadata.name"
            plain = value["key"] in _PLAIN_LABELS
            texts = [str(each) for each in _values(value, "values")]
            changed = [
                self._named(self.names.node, text) if on_name else text if plain else self._label(text)
                for text in texts
            ]
            return {**value, "values": changed} if "values" in value else dict(value)
        return {key: self._affinity(each) for key, each in value.items()}

    def _label(self, value: str) -> str:
        """A label's value with the names in it replaced, longest first."""
        return _WORD.sub(lambda found: self._renamed(found[0]), value)

    def _renamed(self, word: str) -> str:
        known = self._anywhere.get(word)
        if known is not None:
            return known
        parts = re.split(r"([._-]+)", word)
        for size in range(len(parts) - 2, 0, -2):
            for start in range(0, len(parts) - size + 1, 2):
                known = self._anywhere.get("".join(parts[start : start + size]))
                if known is not None:
                    before, after = "".join(parts[:start]), "".join(parts[start + size :])
                    return f"{before}{known}{after}"
        return word

    def _ids(self, text: str) -> str:
        """A text with the cards in it renamed that are called after their node, also of nodes that have gone."""
        return _ID.sub(lambda found: self._card(found[0]), text)

    def _card(self, word: str) -> str:
        known = self.names.device.get(word)
        if known is not None:
            return known
        end = word.rfind("-")
        while end > 0:
            node = self.names.node.get(word[:end])
            if node is not None:
                return node + word[end:]
            end = word.rfind("-", 0, end)
        return word

    def _locks(self) -> frozenset[str]:
        return frozenset(key for spec in self._registry for key in (spec.keys.lock,) if key)


def redact(raws: Iterable[object], registry: Registry) -> tuple[dict[str, object], ...]:
    """A cluster's objects under pseudonyms: the same questions get the same answers."""
    return Redactor(raws, registry).cluster()


def _is_readable(raw: Mapping[str, object]) -> bool:
    read: Mapping[str, Callable[[object], object]] = {
        "Node": objects.node_facts,
        "Pod": objects.pod,
        "ResourceQuota": objects.resource_quota,
        "Queue": objects.queue,
        "PodGroup": objects.pod_group,
    }
    try:
        read[str(raw["kind"])](raw)
        if raw["kind"] == "Node":
            objects.node_object(raw)
    except WireError:
        return False
    return True


def _pseudonyms(raws: Sequence[Mapping[str, object]], registry: Registry) -> Pseudonyms:
    found: dict[str, set[str]] = {kind: set() for kind in ("node", "namespace", "pod", "group", "queue", "task")}
    for raw in raws:
        _collect(raw, found)
    made = {kind: _ranked(kind, names) for kind, names in found.items()}
    return Pseudonyms(**made, device=_devices(raws, made["node"], registry))


def _collect(raw: Mapping[str, object], found: Mapping[str, set[str]]) -> None:
    metadata, spec = _members(raw, "metadata"), _members(raw, "spec")
    kind = {"Node": "node", "Pod": "pod", "Queue": "queue", "PodGroup": "group"}.get(str(raw["kind"]))
    if kind is not None:
        found[kind].add(str(metadata.get("name", "")))
    if metadata.get("namespace"):
        found["namespace"].add(str(metadata["namespace"]))
    if spec.get("nodeName"):
        found["node"].add(str(spec["nodeName"]))
    for key in ("queue", "parent"):
        if spec.get(key):
            found["queue"].add(str(spec[key]))
    found["task"].update(_members(spec, "minTaskMember"))
    said = {**_members(metadata, "labels"), **_members(metadata, ANNOTATIONS)}
    for keys, into in ((GROUP_KEYS, "group"), (QUEUE_KEYS, "queue"), (TASK_KEYS, "task"), (_NODE_KEYS, "node")):
        found[into].update(str(said[key]) for key in keys if said.get(key))


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


def _devices(raws: Iterable[Mapping[str, object]], nodes: Mapping[str, str], registry: Registry) -> dict[str, str]:
    """The cards that are called after their node, as their vendors name them."""
    builder = NodeBuilder(registry)
    found = {}
    for raw in raws:
        if raw["kind"] == "Node":
            entry = builder.entry(objects.node_object(raw), objects.node_facts(raw))
            for device in entry.ids:
                if device.startswith(f"{entry.name}-"):
                    found[str(device)] = nodes[entry.name] + device[len(entry.name) :]
    return found


def _runs(names: Pseudonyms) -> dict[str, str]:
    """What is looked for in labels: every name that is secret, and the first part of a node's domain name."""
    found: dict[str, str] = {}
    for node, pseudonym in names.node.items():
        found.setdefault(node.partition(".")[0], pseudonym)
    for kind in (names.task, names.queue, names.group, names.pod, names.namespace, names.node):
        found.update(kind)
    return found


def _container_names(spec: Mapping[str, object]) -> dict[str, str]:
    names = [str(each.get("name", "")) for key in ("initContainers", "containers") for each in _items(spec, key)]
    return {name: f"c{at}" for at, name in enumerate(dict.fromkeys(names))}


def _container(raw: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    found = {**raw, "name": names[str(raw.get("name", ""))]}
    if "image" in raw:
        found["image"] = "image"
    return found


def _members(raw: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}


def _texts(raw: Mapping[str, object], key: str) -> Mapping[str, str]:
    return {name: value for name, value in _members(raw, key).items() if isinstance(value, str)}


def _values(raw: Mapping[str, object], key: str) -> Sequence[object]:
    value = raw.get(key)
    return value if isinstance(value, list) else ()


def _items(raw: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    return [each for each in _values(raw, key) if isinstance(each, Mapping)]
