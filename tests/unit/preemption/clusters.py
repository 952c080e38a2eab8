"""Clusters in which one pod may be evicted for another: running pods of priority 0 and a waiting one of 100."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot, DisruptionBudget
from hami_plugins.model.pods import NodeConstraints, PodRecord, Requirement
from hami_plugins.model.quantity import NANO
from tests.builders import MEMORY
from tests.unit.clusters import CardNode, asking, cluster_of, holding

QUEUE: Final = "scheduling.volcano.sh/queue-name"
GROUP: Final = "scheduling.k8s.io/group-name"
WEB: Final = {"app": "web"}


def running(name: str, card: int = 0, memory: int = 10_000, **fields: Any) -> PodRecord:
    """A pod with priority 0 that holds most of a card."""
    return holding(name, memory, card, **({"requests": ((MEMORY, memory * NANO),)} | fields))


def a_cluster(*by_node: Sequence[PodRecord], cards: int = 2, **about: Any) -> ClusterSnapshot:
    """Nodes n0, n1 ... of equal cards, with these pods."""
    return cluster_of({f"n{at}": CardNode(cards, records) for at, records in enumerate(by_node)}, **about)


def waiting(memory: int = 10_000, *, name: str = "high", priority: int = 100, count: int = 1, **fields: Any) -> PodInfo:
    """A pod of priority 100 that asks for most of a card."""
    constraints = NodeConstraints(requests=((MEMORY, memory * NANO),) if fields.get("scheduler") else ())
    return asking(memory, name=name, count=count, **({"priority": priority, "constraints": constraints} | fields))


def web_budget(allowed: int, name: str = "web") -> DisruptionBudget:
    """It covers the pods with the labels ``WEB``."""
    app = (Requirement("app", "In", ("web",)),)
    return DisruptionBudget(namespace="default", name=name, requirements=app, allowed=allowed)


def in_queue(memory: int = 10_000, queue: str = "mine", **fields: Any) -> PodInfo:
    """The same pod under Volcano, alone in its PodGroup."""
    return waiting(memory, scheduler="volcano", annotations={QUEUE: queue, GROUP: "waiting"}, **fields)
