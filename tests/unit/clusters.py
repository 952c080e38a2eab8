"""Small clusters of equal cards of the plain vendor, pods that hold parts of them, and pods that wait for some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.pods import PodRecord
from tests import acme
from tests.builders import (
    COUNT,
    MEMORY,
    a_container,
    a_device,
    a_node,
    a_pod,
    a_record,
    a_share,
    a_snapshot,
    allocated,
    amounts,
)

REGISTRY: Final = Registry([acme.SPEC])
CARD: Final = 16_384


class CardNode(NamedTuple):
    """A node with so many cards, ``card-0`` and so on, and its pods."""

    cards: int
    pods: Sequence[PodRecord]


def cluster_of(nodes: Mapping[str, CardNode], *, slots: int = 10, cpu: int = 0, **about: Any) -> ClusterSnapshot:
    """Nodes by name, which is also their label ``name``; with ``cpu`` each has so many. ``about`` is the snapshot's."""
    entries = []
    for name, (cards, pods) in nodes.items():
        offers = {COUNT: slots * cards, MEMORY: CARD * cards} | ({"cpu": cpu} if cpu else {})
        facts = NodeFacts(allocatable=amounts(offers), labels={"name": name})
        devices = [a_device(index=at, slots=slots) for at in range(cards)]
        entries.append(with_pods(a_node(name, *devices, facts=facts), pods))
    return replace(a_snapshot(*entries), **about)


def holding(name: str, memory: int, card: int = 0, **fields: Any) -> PodRecord:
    """A pod that has so much of a card."""
    return replace(a_record(allocated(a_share(f"card-{card}", memory)), name=name), **fields)


def asking(memory: int, *, count: int = 1, name: str = "waiting", **fields: Any) -> PodInfo:
    """A pod that waits for so much of each of some cards."""
    pod = a_pod(a_container({COUNT: count, MEMORY: memory}), name=name)
    return take_in(replace(pod, **fields), REGISTRY, Rules())
