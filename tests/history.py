"""A cluster with a past: nodes of many vendors, pods that come and go, and the two ways of knowing what is allocated.

One way is the snapshot, changed step by step as decisions take effect. The other is the raw objects with the
annotations that were written on them, from which everything can be read anew.
"""

import copy
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.apply import assigned, removed
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder, with_pods
from hami_plugins.engine.quota import left_in
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot, NamespaceQuota
from hami_plugins.model.decisions import Decision, Placed, Refused
from hami_plugins.model.devices import CoreMask, DeviceUsage
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.wire import objects
from tests.machines import MACHINES, SPECS, Machine

Raw = dict[str, Any]
RULES = Rules()
NOW = 1_790_000_000_123_456_789
NAMESPACE = "team"
POLICIES = ("binpack", "spread", "mutex", "topology-aware", "numa,binpack")


@dataclass(slots=True)
class History:
    """``nodes`` and ``pods`` are raw objects by name; ``snapshot`` is what the decisions made of them."""

    chance: random.Random
    registry: Registry = field(default_factory=lambda: Registry(SPECS))
    nodes: dict[str, Raw] = field(default_factory=dict)
    machines: dict[str, tuple[Machine, ...]] = field(default_factory=dict)
    pods: dict[str, Raw] = field(default_factory=dict)
    snapshot: ClusterSnapshot = field(default_factory=ClusterSnapshot)
    asked: list[Raw] = field(default_factory=list)
    made: int = 0
    decider: Decider = field(init=False)
    builder: NodeBuilder = field(init=False)

    def __post_init__(self) -> None:
        self.decider = Decider(self.registry, verdicts=2_000, columns=16)
        self.builder = NodeBuilder(self.registry)

    def join(self, *machines: Machine) -> str:
        """A node joins; one of several machines is a node with the cards of all of them."""
        name = f"node-{self.made}"
        self.made += 1
        raw = machines[0].node(name)
        for machine in machines[1:]:
            other = machine.node(name)
            for part, member in (("metadata", "annotations"), ("metadata", "labels"), ("status", "capacity")):
                raw[part][member] = {**raw[part][member], **other[part][member]}
        raw["status"]["allocatable"] = raw["status"]["capacity"]
        self.nodes[name], self.machines[name] = raw, machines
        self.snapshot = self.snapshot.with_more_nodes([self.entry(name)])
        return name

    def entry(self, name: str) -> NodeEntry:
        """The node without pods."""
        return self.builder.entry(objects.node_object(self.nodes[name]), objects.node_facts(self.nodes[name]))

    def leave(self, name: str) -> None:
        """A node and its pods are gone."""
        del self.nodes[name], self.machines[name]
        for pod in self.on(name):
            del self.pods[pod]
        self.snapshot = self.snapshot.only(lambda entry: entry.name != name)

    def change(self, name: str) -> None:
        """A node says something else: a device fails or recovers, or an administrator cordons it."""
        raw = copy.deepcopy(self.nodes[name])
        registers = {key: text for key, text in raw["metadata"]["annotations"].items() if text.startswith("[{")}
        if registers and self.chance.random() < 0.7:
            key = self.chance.choice(sorted(registers))
            devices = json.loads(registers[key])
            device = self.chance.choice(devices)
            for member in {"health", "healthy"} & set(device):
                device[member] = not device[member]
            raw["metadata"]["annotations"][key] = json.dumps(devices)
        else:
            cordoned = bool(raw.get("spec", {}).get("unschedulable"))
            raw["spec"] = {"unschedulable": not cordoned}
        self.nodes[name] = raw
        self.renew(name)

    def renew(self, name: str) -> None:
        """The event of a node object: devices as it says, pods as they were. Harmless if nothing changed."""
        at = self.snapshot.position[name]  # type: ignore[index]
        self.snapshot = self.snapshot.with_node(with_pods(self.entry(name), self.snapshot.nodes[at].pods))

    def another(self, machine: Machine) -> Raw:
        """A pod for such a machine, or one like a pod that was asked for a while ago, as controllers make them."""
        if self.asked and self.chance.random() < 0.5:
            raw = copy.deepcopy(self.chance.choice(self.asked[-12:]))
            self.made += 1
            raw["metadata"] |= {"name": f"pod-{self.made}", "uid": f"uid-pod-{self.made}"}
            return raw
        raw = self.request(machine)
        self.asked.append(copy.deepcopy(raw))
        return raw

    def request(self, machine: Machine, *, single: bool = False) -> Raw:
        """A pod that a machine like this could serve: containers of all kinds, selectors, policies."""
        self.made += 1
        name = f"pod-{self.made}"
        asks = [self.chance.choice(machine.asks)] if machine.summed else machine.asks
        count = 1 if single else self.chance.choice((1, 1, 1, 2, 3))
        made: dict[str, list[Raw]] = {"initContainers": [], "containers": []}
        for at in range(count):
            ask = {key: str(each) for key, each in self.chance.choice(asks).items()}
            container: Raw = {"name": f"c{at}", "resources": {"limits": ask}}
            kind = "app" if at == count - 1 else self.chance.choice(("app", "init", "sidecar", "idle"))
            if kind == "idle":
                del container["resources"]
            if kind == "sidecar":
                container["restartPolicy"] = "Always"
            made["initContainers" if kind in ("init", "sidecar") else "containers"].append(container)
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "annotations": self.annotations(machine),
        }
        scheduler = {"schedulerName": "volcano"} if machine.vendor == "Volcano-vGPU" else {}
        return {"kind": "Pod", "metadata": metadata, "spec": {**made, **scheduler}, "status": {"phase": "Pending"}}

    def annotations(self, machine: Machine) -> dict[str, str]:
        """What a pod may say about where it wants to be."""
        found = dict(self.chance.choice(machine.words))
        spec = self.registry[machine.vendor]  # type: ignore[index]
        if self.chance.random() < 0.3:
            found.setdefault("hami.io/gpu-scheduler-policy", self.chance.choice(POLICIES))
        if self.chance.random() < 0.3:
            found["hami.io/node-scheduler-policy"] = self.chance.choice(("binpack", "spread"))
        keys = (*spec.keys.use_ids, *spec.keys.avoid_ids)
        if keys and self.chance.random() < 0.2:
            ids = [device for entry in self.snapshot.nodes for device in entry.ids]
            found[self.chance.choice(keys)] = ",".join(self.chance.sample(ids, min(len(ids), 20)))
        return found

    def limit(self) -> None:
        """Half of the vendors may be used by the pods here only so much."""
        hard: dict[str, int] = {}
        for spec in self.registry:
            for name, most in ((spec.resources.memory, 200_000 // spec.memory_factor()), (spec.resources.cores, 300)):
                if name and self.chance.random() < 0.5:
                    hard[f"limits.{name}"] = self.chance.randrange(most) * NANO
        quotas = {NAMESPACE: NamespaceQuota(namespace=NAMESPACE, hard=hard)}
        self.snapshot = replace(self.snapshot, quotas=quotas)

    def left(self) -> Mapping[VendorName, Headroom]:
        """What the namespace may still take."""
        return left_in(self.snapshot, NAMESPACE, self.registry) or {}

    def taken_in(self, raw: Raw) -> PodInfo:
        """The pod as it reaches a decision, or as the quota keeps it from one."""
        intake = take_in(objects.pod(raw), self.registry, RULES, self.left())
        assert not intake.refusal or intake.admission.message == "exceeding resource quota", intake.refusal
        return intake

    def submit(self, raw: Raw) -> Decision:
        """Decide on a pod; if it is placed, it takes effect here and is written there."""
        intake = self.taken_in(raw)
        if intake.refusal:
            return Refused(whole=intake.refusal)
        decision = self.decider.decide(self.snapshot, intake.demand, intake.policy)
        if isinstance(decision, Placed):
            entry = self.snapshot.nodes[self.snapshot.position[decision.node]]
            written = annotations_of(intake.pod, decision, entry, self.registry, now_ns=NOW)
            self.snapshot = assigned(self.snapshot, intake.pod, decision)
            raw["metadata"]["annotations"] = {**intake.pod.annotations, **written}
            raw["spec"]["nodeName"] = decision.node
            raw["status"] = {"phase": "Running"}
            self.pods[raw["metadata"]["name"]] = raw
        return decision

    def remove(self, pod: str) -> None:
        """A pod is gone; hearing of it again changes nothing."""
        self.pods.pop(pod, None)
        self.snapshot = removed(self.snapshot, lambda record: record.name == pod)

    def finish_init(self, pod: str) -> None:
        """The init containers of a pod are done."""
        raw = self.pods[pod]
        raw["status"]["initContainerStatuses"] = [
            {"name": each["name"], "state": {"terminated": {"exitCode": 0}}} for each in raw["spec"]["initContainers"]
        ]
        done = objects.pod(raw).init_finished
        at = self.snapshot.position[raw["spec"]["nodeName"]]
        entry = self.snapshot.nodes[at]
        records = [replace(each, init_finished=done) if each.name == pod else each for each in entry.pods]
        self.snapshot = self.snapshot.with_node(with_pods(entry, records))

    def on(self, node: str) -> list[str]:
        """The pods of a node."""
        return [name for name, raw in self.pods.items() if raw["spec"]["nodeName"] == node]

    def read_anew(self, order: random.Random) -> ClusterSnapshot:
        """The cluster from its objects alone, in any order, with the members of every object in any order as well."""
        items = [shuffled(raw, order) for raw in (*self.nodes.values(), *self.pods.values())]
        order.shuffle(items)
        return snapshot_of(items, self.registry)


def shuffled(value: Any, order: random.Random) -> Any:
    """A JSON value with its members in another order; lists keep theirs, because it means something."""
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    if isinstance(value, list):
        return [shuffled(each, order) for each in value]
    return value


def a_history(seed: int, vendors: int = 8) -> History:
    """A cluster with machines of so many vendors, some of them with two kinds of cards."""
    chance = random.Random(seed)
    history = History(chance)
    by_vendor: dict[str, list[Machine]] = {}
    for machine in MACHINES:
        by_vendor.setdefault(machine.vendor, []).append(machine)
    chosen = [chance.choice(by_vendor[name]) for name in chance.sample(sorted(by_vendor), vendors)]
    for machine in chosen:
        history.join(machine)
    for one, other in zip(chosen[::2], chosen[1::2], strict=False):
        history.join(one, other)
    history.limit()
    return history


def known(entry: NodeEntry) -> tuple[DeviceUsage, ...]:
    """The usage of a node as far as its devices go: a Neuron device that is whole is read back as "all cores"."""
    return tuple(
        replaced(usage, (1 << device.cores) - 1) if any(isinstance(mark, CoreMask) for mark in usage.marks) else usage
        for device, usage in zip(entry.state.shape.devices, entry.state.usage, strict=True)
    )


def replaced(usage: DeviceUsage, cores: int) -> DeviceUsage:
    """The usage with core masks cut to the cores that there are."""
    marks = (CoreMask(mark.bits & cores) if isinstance(mark, CoreMask) else mark for mark in usage.marks)
    return usage._replace(marks=tuple(sorted(marks, key=repr)))


def fits(history: History, intakes: Iterable[PodInfo]) -> list[bool]:
    """Which of some pods would fit now."""
    return [
        not each.refusal and isinstance(history.decider.decide(history.snapshot, each.demand, each.policy), Placed)
        for each in intakes
    ]


def same(one: Sequence[NodeEntry], other: Sequence[NodeEntry]) -> bool:
    """Whether two readings of a cluster promise the same of the same devices."""
    return [(entry.name, entry.ids, entry.state.shape, known(entry), entry.requested) for entry in one] == [
        (entry.name, entry.ids, entry.state.shape, known(entry), entry.requested) for entry in other
    ]
