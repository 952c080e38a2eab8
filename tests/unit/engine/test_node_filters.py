"""Nodes that vendors keep pods from: the same rule for one node and for a whole cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hami_plugins.engine.inventory import NodeBuilder, with_pods
from hami_plugins.engine.node_filters import barred, noted, vendor_objection
from hami_plugins.engine.registry import Registry
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.pods import Pod
from hami_plugins.model.vendor import VendorSpec
from tests import acme, acme_variants
from tests.builders import COUNT, a_container, a_node, a_node_object, a_pod

NIGHT = (("opens", "8"),)


def objection(notes: Mapping[str, str], _pod: Pod, now: float) -> str:
    return f"opens at {notes['opens']}" if now < float(notes["opens"]) else ""


REGISTRY = Registry([acme_variants.fitting(filter_reason=objection)])
ASKING, IDLE = a_pod(a_container({COUNT: 1})), a_pod(a_container({"cpu": 1}))


def test_only_pods_that_ask_for_the_vendors_devices_are_kept_off_and_only_for_as_long_as_it_minds() -> None:
    assert vendor_objection(NIGHT, ASKING, REGISTRY, 7) == "opens at 8"
    assert not vendor_objection(NIGHT, ASKING, REGISTRY, 8)
    assert not vendor_objection(NIGHT, IDLE, REGISTRY, 7)
    assert not vendor_objection((), ASKING, REGISTRY, 7)
    assert not vendor_objection(NIGHT, ASKING, Registry([acme.SPEC]), 7)


def test_of_a_cluster_those_nodes_are_barred_that_are_noted_and_minded() -> None:
    nodes = [
        replace(a_node("a"), notes=NIGHT),
        a_node("b"),
        replace(a_node("c"), notes=(("opens", "2"),)),
        replace(a_node("d"), notes=NIGHT),
    ]
    assert set(noted(nodes)) == {NIGHT, (("opens", "2"),)}
    assert barred(noted(nodes), ASKING, REGISTRY, 7) == (("opens at 8", frozenset({"a", "d"})),)
    assert barred(noted(nodes), IDLE, REGISTRY, 7) == ()


def test_what_a_vendor_notes_of_a_node_stays_with_it_when_pods_come() -> None:
    def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
        return replace(acme.SPEC.inventory(spec, node), notes=NIGHT)

    registry = Registry([replace(acme.SPEC, inventory=inventory)])
    entry = NodeBuilder(registry).entry(a_node_object("n"), NodeFacts())
    assert entry.notes == with_pods(entry, ()).notes == NIGHT
