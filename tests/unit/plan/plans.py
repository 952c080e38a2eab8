"""Small plans for the tests of what is shown of a plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hami_plugins.engine.apply import with_pod
from hami_plugins.engine.registry import Registry
from hami_plugins.explain.answers import Answers
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.plan import Plan, Planner, PlanUnit
from tests import acme, builders

REGISTRY = Registry([acme.SPEC])
NOW_NS = 1_767_225_600 * 10**9


def a_plan(*pods: Pod, on: Iterable[NodeEntry] | ClusterSnapshot = ()) -> Plan:
    """What becomes of some pods, each a workload of its own, on some nodes (one idle card unless told otherwise)."""
    snapshot = on if isinstance(on, ClusterSnapshot) else builders.a_snapshot(*on)
    units = [PlanUnit(name=f"pod/{pod.full_name}", pods=(pod,)) for pod in pods]
    return Planner(REGISTRY).plan(snapshot, units, now_ns=NOW_NS)


def answers_of(plan: Plan) -> Answers:
    """The plan explained."""
    return Answers(plan, Planner(REGISTRY))


def holding(entry: NodeEntry, *records: PodRecord) -> NodeEntry:
    """The node with pods on it."""
    for record in records:
        entry = with_pod(entry, record)
    return entry


def cordoned(entry: NodeEntry) -> NodeEntry:
    """The node closed to new pods."""
    return replace(entry, facts=replace(entry.facts, unschedulable=True))


def asking(memory: int = 1024, cores: int = 0, *, count: int = 1, name: str = "p", namespace: str = "default") -> Pod:
    """A pod that asks for slices."""
    amounts = {builders.COUNT: count, builders.MEMORY: memory, builders.CORES: cores}
    return builders.a_pod(builders.a_container(amounts), name=name, namespace=namespace)
