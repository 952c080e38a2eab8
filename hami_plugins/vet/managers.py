"""Who gives out the devices of a node: what registers, resources, published objects, slices and pods tell.

A register alone does not show a running plugin: it stays when its plugin is gone, and Koordinator's adapter reads it.
So a plugin counts while the node offers its resource, which the kubelet withdraws when the plugin has gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Final, NamedTuple

from hami_plugins.engine import static_mig
from hami_plugins.engine.eligibility import repelling, selected
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.model.claims import ResourceSlice, SliceDevice
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.pods import ANYWHERE, FINISHED, NodeConstraints
from hami_plugins.model.quantity import NANO
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import nvidia
from hami_plugins.vet import known_managers
from hami_plugins.vet.known_managers import KnownManager
from hami_plugins.vet.resources import Subject
from hami_plugins.wire import handshake, koordinator_devices, node_devices, resource_slices
from hami_plugins.wire.handshake import HandshakeState
from hami_plugins.wire.koordinator import GPU_TYPE
from hami_plugins.wire.lenient import mappings, text

_KOORDINATORS: Final = ("koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")
_MAKERS: Final[Mapping[str, str]] = {
    "amd": "AMD",
    "cambricon": "Cambricon",
    "huawei": "Huawei",
    "kunlun": "Kunlunxin",
    "metax": "MetaX",
}
"""Makers by Koordinator's word for them, NVIDIA aside."""

_ONE_PLUGIN: Final[Mapping[str, str]] = {"Enflame": "Enflame's device plugin", "MetaX": "MetaX's device plugin"}
"""Vendors for which one program offers whole devices and slices, which are two vendors to HAMi."""

_UUID: Final = "uuid"
_KUBERNETES: Final = "node.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class NodeManager:
    """A program that allocates devices of a node, its evidence, and the ids of the devices if known."""

    known: KnownManager
    evidence: tuple[str, ...]
    ids: frozenset[str] = frozenset()


class _Program(NamedTuple):
    """A pod of a node, or a DaemonSet with the nodes that it chooses."""

    known: KnownManager
    words: str
    node: str = ""
    constraints: NodeConstraints = ANYWHERE


@dataclass(frozen=True, slots=True)
class ManagerSigns:
    """What objects other than nodes tell: pods and DaemonSets of device plugins, Device objects, slices, by node."""

    pods: Mapping[str, tuple[_Program, ...]] = field(default_factory=dict)
    daemon_sets: tuple[_Program, ...] = ()
    devices: Mapping[str, Subject] = field(default_factory=dict)
    slices: Mapping[str, tuple[ResourceSlice, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, subjects: Iterable[Subject]) -> ManagerSigns:
        """The signs among some objects."""
        pods: dict[str, list[_Program]] = {}
        daemon_sets: list[_Program] = []
        devices: dict[str, Subject] = {}
        slices: dict[str, list[ResourceSlice]] = {}
        for each in subjects:
            if each.kind == "Pod" and (running := _running(each)) is not None:
                pods.setdefault(running.node, []).append(running)
            elif each.kind == "DaemonSet":
                daemon_sets.extend(_started(each))
            elif each.kind == koordinator_devices.KIND and koordinator_devices.is_one(each.document.raw):
                devices[each.name] = each
            elif each.kind == "ResourceSlice" and (found := _sliced(each)) is not None:
                for node in _nodes_of(found):
                    slices.setdefault(node, []).append(found)
        return cls(
            pods={node: tuple(held) for node, held in pods.items()},
            daemon_sets=tuple(daemon_sets),
            devices=devices,
            slices={node: tuple(held) for node, held in slices.items()},
        )


def managers_of(node: NodeObject, facts: NodeFacts, registry: Registry, signs: ManagerSigns) -> tuple[NodeManager, ...]:
    """The programs that give out devices of a node, each once with all its evidence, by vendor and name."""
    found: dict[tuple[str, str], NodeManager] = {}
    for sign in (
        *(NodeManager(each.known, (each.words,)) for each in signs.pods.get(node.name, ())),
        *_of_daemon_sets(node, facts, signs.daemon_sets),
        *_of_vendors(node, registry),
        *_of_resources(node),
        *_of_koordinator(node, signs.devices.get(node.name)),
        *_of_slices(signs.slices.get(node.name, ()), node.name),
    ):
        known = sign.known
        if known is known_managers.NVIDIA and known[:2] not in found and known_managers.GPU_OPERATOR[:2] in found:
            known = known_managers.GPU_OPERATOR  # resources do not tell who runs the plugin, a pod does
        before = found.setdefault(known[:2], NodeManager(known, ()))
        evidence = tuple(dict.fromkeys((*before.evidence, *sign.evidence)))
        found[known[:2]] = NodeManager(known, evidence, before.ids | sign.ids)
    return tuple(found[name] for name in sorted(found))


def _of_vendors(node: NodeObject, registry: Registry) -> Iterator[NodeManager]:
    for spec in registry:
        offered = _offered(node, spec.resources.count)
        if spec.dialect is Dialect.KOORDINATOR or not offered:
            continue
        words = f"{offered} {spec.resources.count}"
        register = node.annotations.get(spec.keys.register, "") if _is_alive(spec, node) else ""
        if not spec.keys.register:
            yield NodeManager(_of_facts(spec), (words,))
        elif not register:
            yield NodeManager(_own(spec), (f"{words} without a register",))
        else:
            ids = _ids(spec, node)
            if spec.name == nvidia.SPEC.name and _counts_cards(register, offered):
                cards = f"{words}, one for each card, where {spec.keys.register} has more slots"
                yield NodeManager(known_managers.NVIDIA, (cards,), ids)
                words = "its slots"
            yield NodeManager(_registering(spec, node, register), (f"annotation {spec.keys.register}, {words}",), ids)


def _is_alive(spec: VendorSpec, node: NodeObject) -> bool:
    """Whether the scheduler has not given the node's agent up."""
    said = node.annotations.get(spec.keys.handshake, "") if spec.keys.handshake else ""
    return handshake.parse(said, zone=UTC, dialect=spec.dialect).word is not HandshakeState.DELETED


def _registering(spec: VendorSpec, node: NodeObject, register: str) -> KnownManager:
    if spec.vendor != nvidia.SPEC.vendor:
        return _of_facts(spec)
    if spec.dialect is Dialect.VOLCANO:
        ours = node_devices.AGENTS_KEY in node.annotations
        return known_managers.OUR_AGENT if ours else known_managers.VOLCANO
    return known_managers.OUR_AGENT if _names_an_agent(spec, register) else known_managers.HAMI_NVIDIA


def _names_an_agent(spec: VendorSpec, register: str) -> bool:
    try:
        return bool(node_devices.agent_of(spec.keys.register, register))
    except WireError:
        return False


def _counts_cards(register: str, offered: int) -> bool:
    """Whether the node offers cards where HAMi's plugin would offer slots of them, of which there are more."""
    try:
        cards = node_devices.decode_json(nvidia.SPEC.keys.register, register)
    except WireError:
        return False
    return offered == len(cards) < sum(card.slots for card in cards)


def _ids(spec: VendorSpec, node: NodeObject) -> frozenset[str]:
    try:
        return frozenset(spec.inventory(spec, node).ids)
    except WireError:
        return frozenset()


def _of_facts(spec: VendorSpec) -> KnownManager:
    """The program that offers a vendor's devices to HAMi."""
    name = (
        _ONE_PLUGIN.get(spec.vendor)
        or spec.facts.plugin.words.partition(",")[0].partition(" (")[0]
        or f"the device plugin of {spec.title}"
    )
    return KnownManager(spec.vendor, name, f"take the node out of the nodeSelector of {name}")


def _own(spec: VendorSpec) -> KnownManager:
    """The program that offers a resource of that name where nothing has registered devices for HAMi or Volcano."""
    if spec.name == nvidia.SPEC.name:
        return known_managers.NVIDIA
    if spec.dialect is Dialect.VOLCANO:
        return known_managers.VOLCANO
    name = f"{spec.vendor}'s own device plugin"
    return KnownManager(spec.vendor, name, f"take the node out of the nodeSelector of {name}")


def _of_resources(node: NodeObject) -> Iterator[NodeManager]:
    for resource in sorted({*node.capacity, *node.allocatable}):
        offered = _offered(node, resource)
        if not offered:
            continue
        known = known_managers.RESOURCES.get(resource)
        if resource.startswith(static_mig.PREFIX):
            known = known_managers.NVIDIA
        if known is not None:
            yield NodeManager(known, (f"{offered} {resource}",))


def _of_koordinator(node: NodeObject, published: Subject | None) -> Iterator[NodeManager]:
    offered = [f"{amount} {name}" for name in _KOORDINATORS if (amount := _offered(node, name))]
    cards = [] if published is None else mappings(published.inside("spec").get("devices"))
    cards = [each for each in cards if each.get("type") == GPU_TYPE]
    if not offered and not cards:
        return
    word = "" if published is None else published.labels.get(koordinator_devices.VENDOR_LABEL, "")
    vendor = _MAKERS.get(word.lower(), nvidia.SPEC.vendor)
    told = [f"Device object with {len(cards)} card{'' if len(cards) == 1 else 's'}"] if cards else []
    yield NodeManager(
        known_managers.KOORDINATOR._replace(vendor=vendor),
        (*told, *offered[:1]),
        frozenset(text(each.get("id")) for each in cards) - {""},
    )


def _of_slices(slices: Iterable[ResourceSlice], node: str) -> Iterator[NodeManager]:
    for each in slices:
        devices = [device for device in each.devices if not each.per_device or _reaches(device, node)]
        known = known_managers.DRIVERS.get(each.pool.driver)
        if known is not None and devices:
            ids = frozenset(str(value) for device in devices for value in _uuids(device))
            yield NodeManager(known, (f"ResourceSlice {each.name}",), ids)


def _reaches(device: SliceDevice, node: str) -> bool:
    return device.nodes is not None and device.nodes.node == node


def _uuids(device: SliceDevice) -> Iterator[object]:
    """The attribute ``uuid`` of a device, with the driver's domain or without one."""
    return (value for name, value in device.attributes.items() if name.rpartition("/")[2] == _UUID)


def _sliced(subject: Subject) -> ResourceSlice | None:
    """A slice, ``None`` for one that cannot be read; its reader says so."""
    try:
        return resource_slices.resource_slice(subject.document.raw)
    except WireError:
        return None


def _nodes_of(found: ResourceSlice) -> Iterator[str]:
    """The nodes that a slice names; one that is reached over a network belongs to none of them."""
    selections = [device.nodes for device in found.devices] if found.per_device else [found.nodes]
    return iter({each.node for each in selections if each is not None and each.node is not None})


def _running(subject: Subject) -> _Program | None:
    """The program that a pod is, unless it has ended, is about to, or has no node."""
    known = known_managers.program_of(subject.document.raw)
    node = text(subject.inside("spec").get("nodeName"))
    leaving = bool(subject.inside("metadata").get("deletionTimestamp"))
    if known is None or not node or leaving or subject.inside("status").get("phase") in FINISHED:
        return None
    return _Program(known, f"pod {subject.full_name}", node)


def _started(subject: Subject) -> Iterator[_Program]:
    """The program that a DaemonSet starts, with the nodes that it chooses."""
    known = known_managers.program_of(subject.inside("spec", "template"))
    for pod in subject.pods:
        if known is not None and pod.pod is not None:
            yield _Program(known, f"DaemonSet {subject.full_name}", constraints=pod.pod.constraints)


def _of_daemon_sets(node: NodeObject, facts: NodeFacts, programs: Iterable[_Program]) -> Iterator[NodeManager]:
    for each in programs:
        chosen = selected(node.name, facts.labels, each.constraints)
        if chosen and repelling(_for_daemons(facts), each.constraints) is None:
            yield NodeManager(each.known, (each.words,))


def _for_daemons(facts: NodeFacts) -> NodeFacts:
    """The node as pods of DaemonSets find it: their controller has them tolerate what Kubernetes itself taints, cordons
    included."""
    taints = tuple(taint for taint in facts.taints if not taint.key.startswith(_KUBERNETES))
    return replace(facts, unschedulable=False, taints=taints)


def _offered(node: NodeObject, resource: str) -> int:
    """How much of a resource the kubelet has of some plugin, in use or not."""
    found = node.capacity.get(resource) or node.allocatable.get(resource)
    return 0 if found is None else found.nano // NANO
