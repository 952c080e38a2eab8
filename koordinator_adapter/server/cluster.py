"""What the server knows of its cluster: nodes and their cards, Device objects, pods that hold cards, koordlets.

Watches feed it from their threads; it is asked from others. What cannot be read of one object never hides another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import structlog

from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.units import MEBIBYTE, MiB, NodeName
from hami_plugins.wire import koordinator, koordinator_devices, lenient, objects, pods
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator import ALLOCATED_KEY, GPU_TYPE, MEMORY, AllocatedDevice
from hami_plugins.wire.koordinator_devices import MODEL_LABEL, DeviceObject
from koordinator_adapter.core import injection
from koordinator_adapter.core.admission.policy import ClusterFacts
from koordinator_adapter.core.devices.cards import NodeCards, cards_of
from koordinator_adapter.core.devices.koordlet import Koordlet, koordlet_of
from koordinator_adapter.core.devices.publication import NodeToPublish
from koordinator_adapter.core.injection import PodLimits
from koordinator_adapter.core.translation.vocabulary import DEVICE_ID_LABEL, HAMI_CORE, ISOLATION, PREFIX

_NONE: Final = Koordlet(reports=False, injects=False)

_log = structlog.get_logger(__name__)


class HeldPod(NamedTuple):
    """A placed pod that holds cards: their numbers where a record has them, and what becomes of its limits."""

    name: str
    node: NodeName
    minors: frozenset[int]
    limits: PodLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    raw: Json
    found: NodeCards
    source: object


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    raw: Json
    ids: bool = False
    sizes: frozenset[MiB] = frozenset()


@dataclass(slots=True)
class _State:
    """What is behind the lock."""

    nodes: dict[NodeName, _Node] = field(default_factory=dict)
    devices: dict[NodeName, _Published] = field(default_factory=dict)
    names: dict[str, NodeName] = field(default_factory=dict)
    pods: dict[str, HeldPod] = field(default_factory=dict)
    by_node: dict[NodeName, set[str]] = field(default_factory=dict)
    koordlets: dict[str, tuple[NodeName, Koordlet]] = field(default_factory=dict)
    does: dict[NodeName, Koordlet] = field(default_factory=dict)
    unserved: dict[str, str] = field(default_factory=dict)
    versions: dict[tuple[str, NodeName], int] = field(default_factory=dict)
    facts: ClusterFacts | None = None


class WatchedCluster:
    """``registry`` are the vendors whose registers are read, ``only`` the ones that are published (empty: all).

    ``on_dirty`` hears of each node of which something may have to be written.
    """

    def __init__(
        self, registry: Registry, *, only: Collection[str] = (), on_dirty: Callable[[NodeName], object] = lambda _: None
    ) -> None:
        self._registry = registry
        self._only = frozenset(only)
        self._on_dirty = on_dirty
        self._state = _State()
        self._lock = threading.Lock()
        self.problems = 0

    def node_changed(self, change: ObjectChange) -> None:
        """A node has come, changed or gone."""
        name = self._named(change)
        if name is None:
            return
        self._seen("node", name, change.object)
        if change.kind == "deleted" or change.object is None:
            self._put(self._state.nodes, name, None)
            return
        before = self._state.nodes.get(name)
        source = _source_of(change.object)
        same = before is not None and before.source == source
        found = before.found if before is not None and same else self._cards(change.object, name)
        # A node reports itself every few minutes, and facts are looked up for every node of the cluster.
        self._put(self._state.nodes, name, _Node(raw=change.object, found=found, source=source), same=same)
        self._on_dirty(name)

    def written(self, raw: Json) -> None:
        """A node as it is after a write by this server, so that no decision uses the state before."""
        if not self._is_older("node", NodeName(str(raw["metadata"].get("name"))), raw):
            self.node_changed(ObjectChange("modified", raw, str(raw["metadata"].get("uid"))))

    def device_changed(self, change: ObjectChange) -> None:
        """A Device object has come, changed or gone; it has the name of its node."""
        name = self._named(change)
        if name is None:
            return
        self._seen("device", name, change.object)
        gone = change.kind == "deleted" or change.object is None
        self._put(self._state.devices, name, None if gone else _published(change.object or {}))
        self._on_dirty(name)

    def published(self, node: NodeName, raw: Json) -> None:
        """The Device object of a node as it is after a write of ours."""
        if not self._is_older("device", node, raw):
            self._put(self._state.devices, node, _published(raw))

    def pod_changed(self, change: ObjectChange) -> None:
        """A pod has come, changed or gone."""
        if change.kind == "synced":
            return
        raw = None if change.kind == "deleted" else change.object
        koordlet = None if raw is None else koordlet_of(raw)
        held = None if raw is None else self._held(raw)
        dirty: set[NodeName] = set()
        with self._lock:
            state = self._state
            known = state.koordlets.pop(change.uid, None)
            node = NodeName("" if raw is None else pods.node_of(raw))
            if koordlet is not None and node:
                state.koordlets[change.uid] = (node, koordlet)
            if known != (now := state.koordlets.get(change.uid)):
                state.facts = None
                state.does = _by_node(state.koordlets.values())
                dirty |= {each[0] for each in (known, now) if each is not None}
            before = state.pods.pop(change.uid, None)
            if before is not None:
                state.by_node[before.node].discard(change.uid)
            if held is not None:
                state.pods[change.uid] = held
                state.by_node.setdefault(held.node, set()).add(change.uid)
            if (before.minors if before else None) != (held.minors if held else None):
                dirty |= {each.node for each in (before, held) if each is not None}
        for name in dirty:
            self._on_dirty(name)

    def namespace_changed(self, change: ObjectChange) -> None:
        """A namespace that Koordinator's webhook leaves out has come or gone."""
        if change.kind == "synced":
            return
        with self._lock:
            self._state.facts = None
            if change.kind == "deleted" or change.object is None:
                self._state.unserved.pop(change.uid, None)
            else:
                self._state.unserved[change.uid] = str(change.object["metadata"].get("name"))

    def names(self) -> tuple[NodeName, ...]:
        """Every node, and every node that only a Device object names."""
        with self._lock:
            return tuple({**self._state.nodes, **self._state.devices})

    def site(self, name: NodeName) -> tuple[NodeToPublish, Json, Json | None] | None:
        """A node as publishing sees it, the node itself and its Device object; ``None`` for a missing node."""
        with self._lock:
            node = self._state.nodes.get(name)
            if node is None:
                return None
            published = self._state.devices.get(name)
            held = frozenset(
                minor for uid in self._state.by_node.get(name, ()) for minor in self._state.pods[uid].minors
            )
            uid = lenient.uid(node.raw)
            site = NodeToPublish(
                found=node.found, uid=uid, held=held, reported=self._state.does.get(name, _NONE).reports
            )
            return site, node.raw, None if published is None else published.raw

    def facts(self) -> ClusterFacts:
        """What admission has to know of the cluster."""
        with self._lock:
            if self._state.facts is None:
                self._state.facts = self._looked_up()
            return self._state.facts

    def unlimited(self) -> tuple[tuple[HeldPod, str], ...]:
        """Pods that share a card and run without limits, and why, by name."""
        with self._lock:
            found = [
                (pod, why)
                for pod in self._state.pods.values()
                if (why := _why_unlimited(pod, hooked=self._state.does.get(pod.node, _NONE).injects))
            ]
        return tuple(sorted(found))

    def sizes(self) -> tuple[int, int, int]:
        """How many nodes, Device objects and pods that hold cards there are."""
        with self._lock:
            return len(self._state.nodes), len(self._state.devices), len(self._state.pods)

    def _looked_up(self) -> ClusterFacts:
        """Only under the lock."""
        state = self._state
        labels = [_labels(node.raw) for node in state.nodes.values()]
        published = [each for each in state.devices.values() if each.sizes]
        promising = [name for name, node in state.nodes.items() if _labels(node.raw).get(ISOLATION) == HAMI_CORE]
        injecting = {node for node, koordlet in state.does.items() if koordlet.injects}
        sizes = frozenset[MiB]().union(*(each.sizes for each in published))
        return ClusterFacts(
            models=tuple(sorted({each[MODEL_LABEL] for each in labels if MODEL_LABEL in each})),
            device_labels=bool(published) and all(each.ids for each in published),
            card_memory=max(sizes, default=None),
            card_sizes=sizes,
            unserved=frozenset(state.unserved.values()),
            lacks_hook=not promising or not set(promising) <= injecting,
        )

    def _named(self, change: ObjectChange) -> NodeName | None:
        """The name behind a change: deletions that a list has shown carry no object."""
        with self._lock:
            if change.object is not None and change.kind != "synced":
                name = NodeName(str(lenient.inside(change.object, "metadata").get("name")))
                self._state.names[change.uid] = name
            found = self._state.names.get(change.uid)
            if change.kind == "deleted":
                self._state.names.pop(change.uid, None)
            return found

    def _seen(self, kind: str, name: NodeName, raw: Json | None) -> None:
        """The watched state is of this version, including deletions."""
        with self._lock:
            if raw is None:
                self._state.versions.pop((kind, name), None)
            elif (version := _version(raw)) is not None:
                self._state.versions[kind, name] = version

    def _is_older(self, kind: str, name: NodeName, raw: Json) -> bool:
        """Whether a watch has told something newer, meanwhile, than what came back from a write."""
        version = _version(raw)
        with self._lock:
            return version is not None and version < self._state.versions.get((kind, name), 0)

    def _put(self, into: dict[NodeName, Any], name: NodeName, value: object, *, same: bool = False) -> None:
        with self._lock:
            self._state.facts = self._state.facts if same else None
            if value is None:
                into.pop(name, None)
            else:
                into[name] = value

    def _cards(self, raw: Json, name: NodeName) -> NodeCards:
        try:
            return cards_of(objects.node_object(raw), self._registry, self._only)
        except WireError as error:
            self.problems += 1
            _log.warning("node_unreadable", node=name, error=str(error))
            return NodeCards(node=name, remarks=(str(error),), certain=False)

    def _held(self, raw: Json) -> HeldPod | None:
        metadata, node = lenient.inside(raw, "metadata"), pods.node_of(raw)
        if not node or pods.finished(raw):
            return None
        cards = self._recorded(metadata)
        if cards is None and not _asks(raw):
            return None
        try:
            pod = pods.pod(raw)
        except WireError as error:
            self._unreadable(metadata, error)
            return None
        return HeldPod(
            name=pod.full_name,
            node=NodeName(node),
            minors=frozenset(each.minor for each in cards or ()),
            limits=injection.limits_of(raw, pod, cards),
        )

    def _recorded(self, metadata: Json) -> tuple[AllocatedDevice, ...] | None:
        """The cards allocated to a pod; ``None`` if unknown or unreadable."""
        text = lenient.mapping(metadata.get("annotations")).get(ALLOCATED_KEY)
        try:
            return koordinator.decode(text).get(GPU_TYPE, ()) if isinstance(text, str) else None
        except WireError as error:
            self._unreadable(metadata, error)
            return None

    def _unreadable(self, metadata: Json, error: WireError) -> None:
        self.problems += 1
        _log.warning("record_unreadable", pod=metadata.get("name"), error=str(error))


def _by_node(koordlets: Iterable[tuple[NodeName, Koordlet]]) -> dict[NodeName, Koordlet]:
    found: dict[NodeName, Koordlet] = {}
    for node, koordlet in koordlets:
        other = found.get(node, _NONE)
        found[node] = Koordlet(other.reports or koordlet.reports, other.injects or koordlet.injects)
    return found


def _source_of(raw: Json) -> object:
    """All of a node that its cards are read from."""
    metadata, status = lenient.inside(raw, "metadata"), lenient.inside(raw, "status")
    return metadata.get("annotations"), metadata.get("labels"), status.get("capacity"), status.get("allocatable")


def _version(raw: Json) -> int | None:
    """Versions of one object grow; ``None`` if they are not numbers."""
    text = str(lenient.inside(raw, "metadata").get("resourceVersion"))
    return int(text) if text.isdecimal() else None


def _labels(raw: Json) -> Mapping[str, str]:
    return lenient.inside(raw, "metadata", "labels")


def _published(raw: Json) -> _Published:
    try:
        found: DeviceObject = koordinator_devices.decode(raw)
    except WireError:
        return _Published(raw=raw)
    sizes = [MiB(each.resources[MEMORY].ceiling // MEBIBYTE) for each in found.cards if MEMORY in each.resources]
    return _Published(
        raw=raw,
        ids=bool(found.cards) and all(each.labels.get(DEVICE_ID_LABEL) == each.id for each in found.cards),
        sizes=frozenset(sizes),
    )


def _asks(raw: Json) -> bool:
    """Whether some container asks for something of Koordinator's: looked at first, for most pods ask for nothing."""
    return any(
        koordinator.current(name).startswith(PREFIX)
        for container, _ in pods.containers_of(raw)
        for part in ("limits", "requests")
        for name in pods.written(container, part)
    )


def _why_unlimited(pod: HeldPod, *, hooked: bool) -> str:
    """Why a pod runs without limits; empty where it does not. ``hooked`` is whether its node's koordlet sets them."""
    limits = pod.limits
    if not limits.shares or limits.injected:
        return ""
    if not limits.labelled:
        return f"shares a card and lacks the label {ISOLATION}: {HAMI_CORE}; recreate it with the label"
    if limits.not_hooked:
        return (
            f"promises limits by its label, and {limits.not_hooked}; see that {pod.node} has a Device object, or "
            "have limits injected (injection.mode), then recreate the pod"
        )
    if hooked:
        return ""
    return (
        f"promises limits by its label, and neither koordlet on {pod.node} (gate GPUEnvInject) nor this server has "
        "set them; switch one of the two on, then recreate the pod"
    )
