"""Snapshots that can be handed to strangers: names become pseudonyms wherever they stand, answers stay the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.report.snapshots import raws
from hami_plugins.report.snapshots.pseudonyms import NAMESPACE_NAME, NODE_KEYS, Pseudonyms, pseudonyms_of
from hami_plugins.report.snapshots.trimming import ANNOTATIONS, GROUP_KEYS, QUEUE_KEYS, TASK_KEYS, Trimmer
from hami_plugins.wire import koordinator_devices, objects

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


class Redactor:
    """Redacts the objects of one cluster, and whatever belongs to it, always with the same pseudonyms.

    Objects that cannot be read are left out, because nobody knows what is a name in them; ``left_out`` counts them.
    """

    def __init__(self, listing: Iterable[object], registry: Registry) -> None:
        self._trimmer = Trimmer(registry)
        self._registry = registry
        kept = list(self._trimmer.objects(listing))
        self._readable = [raw for raw in kept if _is_readable(raw)]
        self.left_out = len(kept) - len(self._readable)
        self.names = pseudonyms_of(self._readable, registry)
        self._anywhere = _runs(self.names)

    def cluster(self) -> tuple[dict[str, object], ...]:
        """The cluster that the redactor was made from."""
        return tuple(self._object(raw) for raw in self._readable)

    def also(self, more: Iterable[object]) -> tuple[dict[str, object], ...]:
        """Further objects of that cluster, such as pods that are to be planned; new names in them stay."""
        return tuple(self._object(raw) for raw in self._trimmer.objects(more) if _is_readable(raw))

    def _object(self, raw: Mapping[str, object]) -> dict[str, object]:
        make: dict[str, Callable[[Mapping[str, object]], dict[str, object]]] = {
            "Node": self._node,
            "Pod": self._pod,
            "Queue": self._queue,
            "PodGroup": self._group,
            "PriorityClass": self._class,
            "Device": self._published,
        }
        return make.get(str(raw["kind"]), self._quota)(raw)

    def _node(self, raw: Mapping[str, object]) -> dict[str, object]:
        metadata, spec = raws.members(raw, "metadata"), raws.members(raw, "spec")
        taints = [
            {**taint, "value": self._label(str(taint["value"]))} if taint.get("value") else taint
            for taint in raws.items(spec, "taints")
        ]
        return {
            **raw,
            "metadata": {
                "name": self.names.node[str(metadata["name"])],
                "labels": {
                    key: value if key in _PLAIN_LABELS else self._label(value)
                    for key, value in raws.texts(metadata, "labels").items()
                },
                ANNOTATIONS: {
                    key: self._ids(value)
                    for key, value in raws.texts(metadata, ANNOTATIONS).items()
                    if key not in self._locks()
                },
            },
            "spec": {**spec, "taints": taints} if taints else dict(spec),
        }

    def _pod(self, raw: Mapping[str, object]) -> dict[str, object]:
        spec = raws.members(raw, "spec")
        containers = _container_names(spec)
        found = {**spec, **self._where(spec)}
        if spec.get("schedulingGates"):
            found["schedulingGates"] = [{"name": "gate"} for _ in raws.items(spec, "schedulingGates")]
        if spec.get("priorityClassName"):
            found["priorityClassName"] = self._named(self.names.priority_class, spec["priorityClassName"])
        for key in ("initContainers", "containers"):
            if key in spec:
                found[key] = [_container(each, containers) for each in raws.items(spec, key)]
        status = dict(raws.members(raw, "status"))
        if "initContainerStatuses" in status:
            status["initContainerStatuses"] = [
                {**each, "name": containers.get(str(each.get("name")), "c")}
                for each in raws.items(status, "initContainerStatuses")
            ]
        return {**raw, "metadata": self._pod_metadata(raw), "spec": found, "status": status}

    def _where(self, spec: Mapping[str, object]) -> dict[str, object]:
        """What a pod says of where it is and where it may go."""
        found: dict[str, object] = {}
        if spec.get("nodeName"):
            found["nodeName"] = self._named(self.names.node, spec["nodeName"])
        if spec.get("nodeSelector"):
            found["nodeSelector"] = self._selector(raws.texts(spec, "nodeSelector"))
        affinity = raws.members(spec, "affinity")
        if affinity:
            found["affinity"] = {
                kind: self._node_terms(terms) if kind == "nodeAffinity" else self._pod_terms(terms)
                for kind, terms in affinity.items()
            }
        if spec.get("topologySpreadConstraints"):
            found["topologySpreadConstraints"] = self._pod_terms(spec["topologySpreadConstraints"])
        if spec.get("tolerations"):
            found["tolerations"] = [
                {**each, "value": self._label(str(each["value"]))} if each.get("value") else each
                for each in raws.items(spec, "tolerations")
            ]
        return found

    def _pod_metadata(self, raw: Mapping[str, object]) -> dict[str, object]:
        metadata = raws.members(raw, "metadata")
        found = self._metadata(metadata, self.names.pod)
        for part in ("labels", ANNOTATIONS):
            texts = raws.texts(metadata, part)
            found[part] = {key: self._said(key, value, label=part == "labels") for key, value in texts.items()}
        for key in ("creationTimestamp", "deletionTimestamp"):
            if metadata.get(key):
                found[key] = metadata[key]
        return found

    def _said(self, key: str, value: str, *, label: bool) -> str:
        """One annotation or label of a pod."""
        for keys, names in (
            (GROUP_KEYS, self.names.group),
            (QUEUE_KEYS, self.names.queue),
            (TASK_KEYS, self.names.task),
            (NODE_KEYS, self.names.node),
        ):
            if key in keys:
                return self._named(names, value)
        return self._named(self.names.value, value) if label else self._ids(value)

    def _class(self, raw: Mapping[str, object]) -> dict[str, object]:
        name = self._named(self.names.priority_class, raws.members(raw, "metadata")["name"])
        return {**raw, "metadata": {"name": name}}

    def _published(self, raw: Mapping[str, object]) -> dict[str, object]:
        """The cards of a node; those that are called after it are renamed with it."""
        metadata, spec = raws.members(raw, "metadata"), raws.members(raw, "spec")
        labels = {key: self._label(value) for key, value in raws.texts(metadata, "labels").items()}
        devices = [
            {
                **each,
                "id": self._ids(str(each.get("id", ""))),
                "labels": {key: self._ids(value) for key, value in raws.texts(each, "labels").items()},
            }
            for each in raws.items(spec, "devices")
        ]
        name = self._named(self.names.node, metadata["name"])
        return {**raw, "metadata": {"name": name, "labels": labels}, "spec": {"devices": devices}}

    def _queue(self, raw: Mapping[str, object]) -> dict[str, object]:
        spec = dict(raws.members(raw, "spec"))
        if spec.get("parent"):
            spec["parent"] = self._named(self.names.queue, spec["parent"])
        metadata = raws.members(raw, "metadata")
        named = {"name": self._named(self.names.queue, metadata["name"]), **_made(metadata)}
        return {**raw, "metadata": named, "spec": spec}

    def _group(self, raw: Mapping[str, object]) -> dict[str, object]:
        spec = dict(raws.members(raw, "spec"))
        if spec.get("queue"):
            spec["queue"] = self._named(self.names.queue, spec["queue"])
        if spec.get("minTaskMember"):
            tasks = raws.members(spec, "minTaskMember")
            spec["minTaskMember"] = {self._named(self.names.task, task): least for task, least in tasks.items()}
        if spec.get("priorityClassName"):
            spec["priorityClassName"] = self._named(self.names.priority_class, spec["priorityClassName"])
        metadata = raws.members(raw, "metadata")
        named = {**self._metadata(metadata, self.names.group), **_made(metadata)}
        return {**raw, "metadata": named, "spec": spec}

    def _quota(self, raw: Mapping[str, object]) -> dict[str, object]:
        metadata = self._metadata(raws.members(raw, "metadata"), {})
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

    def _node_terms(self, value: object) -> object:
        """Terms about labels and names of nodes. Their shape has been read before, so only values are looked for."""
        if isinstance(value, list):
            return [self._node_terms(each) for each in value]
        if not isinstance(value, Mapping):
            return value
        if "operator" not in value or "values" not in value:
            return {key: self._node_terms(each) for key, each in value.items()}
        texts = _texts(value)
        if value.get("key") == "metadata.name":
            return {**value, "values": [self._named(self.names.node, text) for text in texts]}
        plain = value.get("key") in _PLAIN_LABELS
        return {**value, "values": texts if plain else [self._label(text) for text in texts]}

    def _pod_terms(self, value: object) -> object:
        """Terms about other pods: their labels, and their namespaces by name."""
        if isinstance(value, list):
            return [self._pod_terms(each) for each in value]
        if not isinstance(value, Mapping):
            return value
        found = {key: self._pod_terms(each) for key, each in value.items()}
        if "labelSelector" in value:
            found["labelSelector"] = self._pod_selector(raws.members(value, "labelSelector"))
        if "namespaces" in value:
            names = raws.values(value, "namespaces")
            found["namespaces"] = [self._named(self.names.namespace, name) for name in names]
        if "namespaceSelector" in value:
            found["namespaceSelector"] = self._pod_selector(raws.members(value, "namespaceSelector"))
        return found

    def _pod_selector(self, selector: Mapping[str, object]) -> dict[str, object]:
        found = dict(selector)
        if "matchLabels" in selector:
            labels = raws.texts(selector, "matchLabels")
            found["matchLabels"] = {key: self._selected(key, value) for key, value in labels.items()}
        if "matchExpressions" in selector:
            found["matchExpressions"] = [
                {
                    **each,
                    "values": [
                        self._selected(str(each.get("key")), str(value)) for value in raws.values(each, "values")
                    ],
                }
                for each in raws.items(selector, "matchExpressions")
            ]
        return found

    def _selected(self, key: str, value: str) -> str:
        if key == NAMESPACE_NAME:
            return self._named(self.names.namespace, value)
        return self._said(key, value, label=True)

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


def redact(listing: Iterable[object], registry: Registry) -> tuple[dict[str, object], ...]:
    """A cluster's objects under pseudonyms: the same questions get the same answers."""
    return Redactor(listing, registry).cluster()


def _texts(requirement: Mapping[str, object]) -> list[str]:
    return [str(value) for value in raws.values(requirement, "values")]


def _made(metadata: Mapping[str, object]) -> dict[str, object]:
    """When an object was made, which decides between equal queues and tells how long a group has waited."""
    return {key: metadata[key] for key in ("creationTimestamp",) if metadata.get(key)}


def _is_readable(raw: Mapping[str, object]) -> bool:
    read: Mapping[str, Callable[[object], object]] = {
        "Node": objects.node_facts,
        "Pod": objects.pod,
        "ResourceQuota": objects.resource_quota,
        "Queue": objects.queue,
        "PodGroup": objects.pod_group,
        "PriorityClass": objects.priority_class,
        "Device": koordinator_devices.decode,
    }
    try:
        read[str(raw["kind"])](raw)
        if raw["kind"] == "Node":
            objects.node_object(raw)
    except WireError:
        return False
    return True


def _runs(names: Pseudonyms) -> dict[str, str]:
    """What is looked for in labels: every name that is secret, and the first part of a node's domain name."""
    found: dict[str, str] = {}
    for node, pseudonym in names.node.items():
        found.setdefault(node.partition(".")[0], pseudonym)
    for kind in (names.task, names.queue, names.group, names.pod, names.namespace, names.node):
        found.update(kind)
    return found


def _container_names(spec: Mapping[str, object]) -> dict[str, str]:
    names = [str(each.get("name", "")) for key in ("initContainers", "containers") for each in raws.items(spec, key)]
    return {name: f"c{at}" for at, name in enumerate(dict.fromkeys(names))}


def _container(raw: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    found = {**raw, "name": names[str(raw.get("name", ""))]}
    if "image" in raw:
        found["image"] = "image"
    return found
