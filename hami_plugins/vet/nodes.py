"""HP73x: nodes whose status, register and writers contradict each other, and pods on them that hold what others do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from typing import Final

from hami_plugins.engine.eligibility import REPELLING
from hami_plugins.engine.holdings import InconsistencyKind, flaws_of
from hami_plugins.errors import WireError
from hami_plugins.explain.flaws import flaws_words
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import DeviceId, NodeName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import volcano_releases
from hami_plugins.vet.context import Context
from hami_plugins.vet.findings import Check, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import Subject
from hami_plugins.wire import handshake, objects, volcano
from hami_plugins.wire.handshake import HandshakeState
from hami_plugins.wire.lenient import inside, mappings, text
from hami_plugins.wire.node_devices import RegisteredDevice

KUBELET: Final = "kubelet"
"""The writer of a node's status, who copies what others put into its capacity."""

_LIFECYCLE: Final = "node.kubernetes.io/"
"""Domain of the taints that the node lifecycle controller sets."""

_TWICE: Final = frozenset(
    {
        InconsistencyKind.SLOTS,
        InconsistencyKind.MEMORY,
        InconsistencyKind.CORES,
        InconsistencyKind.OVERLAP,
        InconsistencyKind.STRANGER,
    }
)

_MEANWHILE: Final = "correct it on the node; until then plans use the rest"

NodeCheck = Callable[[VendorSpec, NodeObject, Subject, Context], Iterator[Violation]]


def _each_node(check: NodeCheck) -> Check:
    """A check of nodes that offer cards in Volcano's words as a check of objects."""

    def over_nodes(subject: Subject, context: Context) -> Iterator[Violation]:
        node = subject.node
        if node is None:
            return
        for spec in context.registry:
            if spec.dialect is Dialect.VOLCANO and _offered(node, spec.resources.count):
                yield from check(spec, node, subject, context)

    return over_nodes


def without_cards(spec: VendorSpec, node: NodeObject, _: Subject, context: Context) -> Iterator[Violation]:
    """Nodes that offer slots and of which Volcano knows no card."""
    key, said = spec.keys.register, spec.keys.handshake
    register, shake = node.annotations.get(key), node.annotations.get(said)
    path: tuple[str, ...] = ("metadata", "annotations", key)
    fix = f"start the node's agent, or set {spec.resources.count} in its status to 0"
    if shake is not None and handshake.parse(shake, zone=UTC, dialect=spec.dialect).word is HandshakeState.DELETED:
        path, why = ("metadata", "annotations", said), f"its handshake is {shake[:60]}, so the node is given up"
    elif register is None:
        path, why = ("status", "allocatable", spec.resources.count), f"it has no annotation {key}"
    elif volcano.is_unseen(register):
        why = f"its annotation {key} says no card, or has a record of fewer than 6 fields"
    elif shake is None and context.does(volcano_releases.HANDSHAKE):
        path, why = ("metadata", "annotations"), f"it has no annotation {said} ({volcano_releases.HANDSHAKE})"
        fix = (
            "run volcano-vgpu's agent or volcano-vgpu-device-plugin up to 1.12 there (the plugin's master writes "
            f"none), or Volcano 1.14.3, 1.15.1 or later; until then set {spec.resources.count} in its status to 0"
        )
    elif missing := _missing_sum(spec, node, context):
        path, why = ("status", "allocatable", missing), f"it offers no {missing} ({volcano_releases.SUMS_NEEDED})"
        fix = f"have the node's agent write it, or set {spec.resources.count} in its status to 0"
    else:
        return
    ends = " and the scheduler of 1.14.1 crashes there" if context.does(volcano_releases.CRASH) else ""
    yield Violation(
        path,
        f"the node offers {_offered(node, spec.resources.count)} {spec.resources.count}, and {why}: Volcano knows no "
        f"card of it, so pods that ask for some are bound without one{ends}",
        fix,
    )


def _missing_sum(spec: VendorSpec, node: NodeObject, context: Context) -> str:
    """The resource without which the cluster's Volcano uses no card of the node; empty for none."""
    needed = (spec.resources.memory, spec.resources.cores) if context.does(volcano_releases.SUMS_NEEDED) else ()
    return next((resource for resource in needed if _offered(node, resource) == 0), "")


def two_writers(spec: VendorSpec, _: NodeObject, subject: Subject, __: Context) -> Iterator[Violation]:
    """Nodes on which several programs write what cards there are."""
    writers: dict[str, list[str]] = {}
    for keys, paths in (
        ((spec.keys.register,), ("f:metadata", "f:annotations")),
        ((spec.resources.memory, spec.resources.cores), ("f:status", "f:capacity")),
    ):
        for entry in mappings(subject.inside("metadata").get("managedFields")):
            owned = inside(entry, "fieldsV1", *paths)
            for key in keys:
                if f"f:{key}" in owned:
                    writers.setdefault(_writer(entry), []).append(key)
    writers.pop("", None)
    names = {name.partition(" ")[0] for name in writers} - {KUBELET}
    if len(names) > 1:
        listed = "; ".join(
            f"{name}: {', '.join(dict.fromkeys(keys))}"
            for name, keys in sorted(writers.items())
            if name.partition(" ")[0] != KUBELET
        )
        yield Violation(
            ("metadata", "annotations", spec.keys.register),
            f"{len(names)} programs have written what cards the node has ({listed}): where both still run, what one "
            "writes the other undoes, and pods get cards twice",
            "leave one agent on the node; if one is gone, let the other write all of it again",
        )


def sums_differ(spec: VendorSpec, node: NodeObject, _: Subject, __: Context) -> Iterator[Violation]:
    """Sums in the status that the registered cards do not have, or do not reach."""
    cards = _cards(spec, node)
    if not cards or any(card.mode == "mig" for card in cards):
        return
    healthy = [card for card in cards if card.healthy]
    for resource, of, may_be_more in (
        (spec.resources.count, lambda card: card.slots, False),
        (spec.resources.memory, lambda card: card.memory, False),
        (spec.resources.cores, lambda card: card.cores, True),
    ):
        least, most = sum(map(of, healthy)), sum(map(of, cards))
        found = _offered(node, resource)
        if least <= found <= most or (found > most and may_be_more):
            continue
        wrong = "pods wait although a card has room" if found < least else "pods are let in that no card has room for"
        yield Violation(
            ("status", "allocatable", resource),
            f"the node offers {found} {resource}, and its {len(healthy)} healthy cards in {spec.keys.register} have "
            f"{least}: {wrong}",
            "have the node's agent write both again; look for a second writer",
        )


def not_ready(spec: VendorSpec, _: NodeObject, subject: Subject, __: Context) -> Iterator[Violation]:
    """Nodes that are not ready, and to which Volcano gives pods."""
    try:
        facts = objects.node_facts(subject.document.raw)
    except WireError:
        return
    repels = any(taint.effect in REPELLING and taint.key.startswith(_LIFECYCLE) for taint in facts.taints)
    if facts.ready or facts.unschedulable or repels:
        return
    yield Violation(
        ("status", "conditions"),
        f"the node is not ready and has no taint: Volcano goes by taints, and gives it pods that ask for "
        f"{spec.resources.count}",
        "cordon it, or taint it with node.kubernetes.io/not-ready:NoSchedule as the node lifecycle controller does",
    )


def unhealthy(spec: VendorSpec, node: NodeObject, _: Subject, __: Context) -> Iterator[Violation]:
    """Cards that are registered as unhealthy."""
    sick = [card.id for card in _cards(spec, node) if not card.healthy and card.slots]
    if sick:
        yield Violation(
            ("metadata", "annotations", spec.keys.register),
            f"{', '.join(sick[:4])} {'is' if len(sick) == 1 else 'are'} registered as unhealthy, and Volcano gives "
            f"{'it' if len(sick) == 1 else 'them'} out all the same",
            "have volcano-vgpu allocate the cards, or register such cards with 0 slots",
        )


def odd_devices(subject: Subject, context: Context) -> Iterator[Violation]:
    """Vendors' findings about the devices of a node, besides their properties."""
    node = subject.node
    if node is None:
        return
    for spec in context.registry:
        try:
            remarks = spec.inventory(spec, node).remarks
        except WireError as error:
            remarks = (str(error),)
        for each in remarks:
            yield Violation(("metadata",), each, _MEANWHILE, scope=("metadata", "annotations"))


def held_twice(subject: Subject, context: Context) -> Iterator[Violation]:
    """Devices of which pods hold more than there is, and devices that pods hold and the node does not have."""
    if (subject.group, subject.kind) != ("", "Node") or context.snapshot is None:
        return
    entry = context.snapshot.node(NodeName(subject.name))
    if entry is None:
        return
    told: set[tuple[DeviceId, frozenset[str]]] = set()
    for record in entry.pods:
        fresh = []
        for flaw in flaws_of(record, entry):
            about = flaw.device, frozenset((record.full_name, *flaw.others))
            if flaw.kind in _TWICE and about not in told:
                told.add(about)
                fresh.append(flaw)
        for words in flaws_words(fresh):
            yield Violation(
                ("metadata", "name"),
                f"pod {record.full_name}: {words}",
                f"recreate the pod, or write what it really has into {_lists(record, context)}",
            )


def _lists(record: PodRecord, context: Context) -> str:
    """The annotations that say what a pod holds."""
    vendors = dict.fromkeys(share.vendor for allocation in record.allocations for share in allocation.shares)
    return " and ".join(context.registry[vendor].keys.allocated for vendor in vendors)


def _cards(spec: VendorSpec, node: NodeObject) -> tuple[RegisteredDevice, ...]:
    """The registered cards, none where the register cannot be read."""
    try:
        return volcano.decode_register(spec.keys.register, node.annotations.get(spec.keys.register, ""))
    except WireError:
        return ()


def _offered(node: NodeObject, resource: str) -> int:
    """How much of a resource the node's status offers to pods."""
    amount = node.allocatable.get(resource)
    return 0 if amount is None else amount.nano // NANO


def _writer(entry: Mapping[str, object]) -> str:
    """A writer and the time of its last write, which distinguishes one that is gone from one that still runs."""
    name, at = text(entry.get("manager")), text(entry.get("time"))
    return f"{name} at {at}" if name and at else name


RULES: Final = (
    VetRule(
        id="HP731",
        name="node-without-cards",
        severity=VetSeverity.ERROR,
        summary="A node offers vGPU slots in its status, and no valid register says which cards they are of.",
        why="The register is missing, empty or has a short record, the handshake is Deleted, or the node lacks what "
        "the release needs besides the register: a handshake, which the master of volcano-vgpu-device-plugin does not "
        "write, or memory and cores in the status. The slots let pods in, and with no card to look at they are bound "
        "without one; the scheduler of 1.14.1 crashes at the first.",
        fix="Start the node's agent, or set vgpu-number in the node's status to 0.",
        check=_each_node(without_cards),
        quirk=volcano_releases.NO_REGISTER,
    ),
    VetRule(
        id="HP732",
        name="two-writers",
        severity=VetSeverity.WARNING,
        summary="Several programs have written a node's register or the sums of its cards (managedFields).",
        why="Two agents for the same cards do not see each other's slices.",
        fix="Leave one agent on the node.",
        check=_each_node(two_writers),
    ),
    VetRule(
        id="HP733",
        name="sums-differ",
        severity=VetSeverity.WARNING,
        summary="The sums in a node's status are not those of its registered cards.",
        why="Pods have to fit the sums before the cards are looked at: smaller sums keep pods waiting although a card "
        "has room, larger ones let in pods that no card has room for.",
        fix="Have the node's agent write both again.",
        check=_each_node(sums_differ),
        quirk=volcano_releases.SUMS,
    ),
    VetRule(
        id="HP734",
        name="not-ready-untainted",
        severity=VetSeverity.WARNING,
        summary="A node with vGPUs is not ready and has no taint.",
        why="Volcano looks at taints and at spec.unschedulable, not at the Ready condition.",
        fix="Cordon or taint it.",
        check=_each_node(not_ready),
        quirk=volcano_releases.READY_IGNORED,
    ),
    VetRule(
        id="HP735",
        name="unhealthy-card",
        severity=VetSeverity.WARNING,
        summary="A card is registered as unhealthy, and the cluster's Volcano does not look at that.",
        why="The sums leave the card out, and it is given to pods like any other.",
        fix="Have volcano-vgpu allocate the cards, or register such cards with 0 slots.",
        check=_each_node(unhealthy),
        quirk=volcano_releases.HEALTH_IGNORED,
    ),
    VetRule(
        id="HP736",
        name="odd-devices",
        severity=VetSeverity.WARNING,
        summary="A node's report of its devices is unreadable, unknown, or contradicts itself.",
        why="An unknown instance type, links that differ from those of the type, a health list with a slip, a map of "
        "AWS's extension that is half written: it is ignored, and devices may be allocated singly.",
        fix="Correct the label or the annotation that is named.",
        check=odd_devices,
    ),
    VetRule(
        id="HP737",
        name="held-twice",
        severity=VetSeverity.ERROR,
        summary="Pods of a node hold more of a device than it has, or devices that the node does not have.",
        why="Lists written by hand, a node that came back with fewer devices or another type, a scheduler that did not "
        "know of an allocation: both pods use the device.",
        fix="Recreate one of the pods.",
        check=held_twice,
    ),
)
