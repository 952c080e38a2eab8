"""The capacity that the nodes of a cluster leave for pods besides their DaemonSets, by instance type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hami_plugins.errors import WireError
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import objects, pods
from neuron_topology.core import names
from neuron_topology.core.jobs import node_capacity
from neuron_topology.core.jobs.node_capacity import HostCapacity

_NOTHING = HostCapacity(0, 0)


class Leftover:
    """Sums up the nodes and the DaemonSet pods of a listing, object by object, in any order.

    Objects that cannot be read are passed over, for others report them. A listing without pods says nothing about
    DaemonSets: then the usual ones are counted.
    """

    def __init__(self) -> None:
        self._offered: dict[str, tuple[str, HostCapacity]] = {}
        self._daemons: dict[str, HostCapacity] = {}
        self._lists_pods = False

    def take(self, raw: Mapping[str, Any]) -> None:
        """Count an object; kinds that do not matter here are passed over."""
        try:
            if raw.get("kind") == "Node":
                self._take_node(raw)
            elif raw.get("kind") == "Pod":
                self._lists_pods = True
                self._take_pod(raw)
        except WireError:
            return

    def rooms(self) -> Mapping[str, HostCapacity]:
        """The most cpu, and the most memory, that a node of each instance type leaves."""
        found: dict[str, HostCapacity] = {}
        for node, (kind, offered) in self._offered.items():
            left = offered.less(self._daemons.get(node, _NOTHING) if self._lists_pods else node_capacity.DAEMONS)
            most = found.get(kind, left)
            found[kind] = HostCapacity(max(most.millicpu, left.millicpu), max(most.memory, left.memory))
        return found

    def _take_node(self, raw: Mapping[str, Any]) -> None:
        facts = objects.node_facts(raw)
        kind = facts.labels.get(names.INSTANCE_LABEL, "")
        amounts = {name: facts.allocatable.get(name) for name in ("cpu", "memory")}
        if kind and amounts["cpu"] is not None and amounts["memory"] is not None:
            cpu, memory = amounts["cpu"].nano, amounts["memory"].nano
            self._offered[raw["metadata"]["name"]] = kind, _room(cpu, memory)

    def _take_pod(self, raw: Mapping[str, Any]) -> None:
        if any(each.get("kind") == "DaemonSet" for each in pods.owners(raw)) and not pods.finished(raw):
            pod = pods.pod(raw)
            asked = dict(pod.constraints.requests)
            node = pod.node or ""
            taken = self._daemons.get(node, _NOTHING)
            more = _room(asked.get("cpu", 0), asked.get("memory", 0))
            self._daemons[node] = HostCapacity(taken.millicpu + more.millicpu, taken.memory + more.memory)


def _room(cpu: int, memory: int) -> HostCapacity:
    """Nano units as a room."""
    return HostCapacity(cpu * 1000 // NANO, memory // NANO)
