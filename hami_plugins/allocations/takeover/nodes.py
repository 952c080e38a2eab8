"""What is wrong with nodes of a cluster that HAMi serves: registers, handshakes, locks, vendors that are not set."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC

from hami_plugins.allocations.lock_demand import LockKey, lock_keys
from hami_plugins.allocations.takeover.values import (
    TakeoverContext,
    TakeoverFinding,
    TakeoverObjects,
    error,
    info,
    listed,
    warning,
)
from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.errors import WireError
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import handshake, lenient, node_lock, objects
from hami_plugins.wire.handshake import HandshakeState


def of_nodes(found: TakeoverObjects, context: TakeoverContext) -> Iterator[TakeoverFinding]:
    """Findings per node, and finally each vendor that has devices on some nodes and no allocator."""
    unserved: dict[str, list[str]] = {}
    pods = {_owner(raw) for raw in found.pods}
    for raw in found.nodes:
        try:
            node = objects.node_object(raw)
        except WireError as wrong:
            name = lenient.text(lenient.inside(raw, "metadata").get("name"))
            yield error(f"node {name}", f"cannot be read: {wrong}", "correct it; until then it has no devices")
            continue
        yield from _of_node(node, context, unserved)
        for key in lock_keys(context.product.registry):
            yield from _of_lock(node, key, pods, context)
    for vendor, names in unserved.items():
        what = f"{len(names)} nodes have such devices ({listed(names)}), and the setting vendors lacks {vendor}"
        yield warning(f"vendor {vendor}", what, f"add {vendor} to vendors; until then HAMi's scheduler places its pods")


def _of_node(node: NodeObject, context: TakeoverContext, unserved: dict[str, list[str]]) -> Iterator[TakeoverFinding]:
    entry = NodeBuilder(context.known).entry(node, NodeFacts())
    for problem in entry.problems:
        yield error(f"node {node.name}", problem.what, "correct it on the node; until then these devices do not count")
    served = context.product.registry
    for spec in context.known:
        has = bool(entry.state.shape.positions.get(spec.name))
        if served.get(spec.name) is None:
            if has:
                unserved.setdefault(spec.name, []).append(node.name)
        else:
            yield from _of_register(node, spec, has=has)


def _of_register(node: NodeObject, spec: VendorSpec, *, has: bool) -> Iterator[TakeoverFinding]:
    """Whether a vendor's device plugin says the same by its register and by what the kubelet offers."""
    keys, count = spec.keys, spec.resources.count
    offered = node.allocatable.get(count)
    offers = offered is not None and offered.nano > 0
    place = f"node {node.name}"
    if keys.register and offers and not has and not node.annotations.get(keys.register):
        what = f"offers {count} and has no annotation {keys.register}: no pod gets its devices"
        yield error(place, what, "look into the log of its device plugin, or take the plugin off the node")
    if keys.register and has and not offers:
        what = f"registers devices of {spec.name} and offers no {count}: the kubelet starts no pod with them"
        yield warning(place, what, "start its device plugin; where it has another resource name, set that in devices")
    state = handshake.parse(node.annotations.get(keys.handshake, ""), zone=UTC).word
    if has and not offers and state in (HandshakeState.REQUESTING, HandshakeState.DELETED):
        what = f"no device plugin has answered {keys.handshake} ({state.value}): HAMi has dropped these devices"
        yield warning(place, what, f"start its device plugin, or remove the annotation {keys.register}")


def _of_lock(
    node: NodeObject, key: LockKey, pods: set[tuple[str, str]], context: TakeoverContext
) -> Iterator[TakeoverFinding]:
    text = node.annotations.get(key.key)
    if text is None:
        return
    place, remedy = f"node {node.name}", f"kubectl annotate node {node.name} {key.key}-"
    try:
        lock = node_lock.parse(key.key, text)
    except WireError as wrong:
        yield error(place, f"its lock cannot be read: {wrong}", remedy)
        return
    age = int((context.now - lock.since).total_seconds())
    held = f"its lock {key.key} is held by pod {lock.namespace}/{lock.name}" if lock.name else f"{key.key} is held"
    if lock.name and (lock.namespace, lock.name) not in pods:
        yield warning(place, f"{held}, which is gone, for {age} s", f"the allocator replaces it; or {remedy}")
    elif age > key.expiry:
        what = f"{held} for {age} s, longer than the {key.expiry:.0f} s after which HAMi replaces it"
        yield warning(place, what, f"look into the log of its device plugin; then {remedy}")
    else:
        yield info(place, f"{held} for {age} s", "its device plugin removes it")


def _owner(raw: object) -> tuple[str, str]:
    metadata = lenient.inside(raw, "metadata")
    return lenient.text(metadata.get("namespace")), lenient.text(metadata.get("name"))
