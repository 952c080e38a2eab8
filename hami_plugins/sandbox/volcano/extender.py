"""A session that asks an extender about devices, as Volcano's plugin ``extender`` makes it (``trials.md`` V12).

The scheduler itself then knows node sums alone. Calls, their order and their bodies are those of the real one: each
node that is left is asked about, nodes are ranked where there are several, a member is allocated before it is bound,
and what was allocated for a gang that does not become complete is taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hami_plugins.engine.apply import assigned
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.intake import NO_DEVICES
from hami_plugins.engine.registry import Registry
from hami_plugins.library import load_snapshot
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import ContainerAllocation, Pod
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.units import NodeName
from hami_plugins.model.verdicts import Fit
from hami_plugins.queueing.gangs import Need, in_turn, missing, running
from hami_plugins.sandbox.extender_calls import ExtenderCalls
from hami_plugins.wire import objects
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import TASK_KEY

_PENDING, _ALLOCATED = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderArguments:
    """The arguments of the plugin, as the scheduler's configuration has them; verbs have their usual names."""

    url: str
    managed: tuple[str, ...]
    timeout: float = 5.0
    prioritizes: bool = True


class SchedulingOutcome(NamedTuple):
    """The session's result for a pod: binds it to ``node``, or ``why`` it does not."""

    pod: Json
    node: str = ""
    why: str = ""


class ExtenderClient:
    """Makes the calls. An error of any kind is a refusal, as with ``ignorable: false``."""

    def __init__(self, arguments: ExtenderArguments) -> None:
        self.arguments = arguments
        self._calls = ExtenderCalls(arguments.url, timeout=arguments.timeout)

    def close(self) -> None:
        """Closes the connections."""
        self._calls.close()

    def interested(self, pod: Json) -> bool:
        """Whether a pod asks for anything that the extender manages."""
        spec = pod.get("spec") or {}
        managed = set(self.arguments.managed)
        return not managed or any(
            managed & set(amounts)
            for name in ("containers", "initContainers")
            for container in spec.get(name) or ()
            for amounts in (container.get("resources") or {}).values()
            if isinstance(amounts, Mapping)
        )

    def predicate(self, pod: Json, node: Json, others: Iterable[Json]) -> str:
        """Why a node does not take the pod; empty where it does."""
        reply = self._call("predicate", {"task": _task(pod, ""), "node": _node(node, others)})
        return reply if isinstance(reply, str) else str(reply.get("status") or "")

    def prioritize(self, pod: Json, nodes: Sequence[Json]) -> Mapping[str, float] | str:
        """The scores of nodes, or why they cannot be had."""
        reply = self._call("prioritize", {"task": _task(pod, ""), "nodes": [_node(node, ()) for node in nodes]})
        if isinstance(reply, str) or reply.get("errorMessage"):
            return reply if isinstance(reply, str) else str(reply["errorMessage"])
        return reply.get("nodeScore") or {}

    def event(self, verb: str, pod: Json, node: str) -> str:
        """What is wrong with an ``allocate`` or a ``deallocate``; empty where nothing is."""
        reply = self._call(verb, {"task": _task(pod, node)})
        return reply if isinstance(reply, str) else str(reply.get("errorMessage") or "")

    def _call(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any] | str:
        """The reply, or what is wrong with it."""
        reply = self._calls.post(verb, body)
        return reply if isinstance(reply, dict | str) else f"{verb}: the reply is not an object"


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A waiting pod, as an object and as it is read."""

    raw: Json
    pod: Pod

    @classmethod
    def of(cls, raw: Json) -> WaitingPod:
        """Reads a pod."""
        return cls(raw, objects.pod(raw))


class ExtendedSession:
    """One session over what the cluster is now; ``decide`` is called once for each gang or single pod, in turn."""

    def __init__(self, everything: Iterable[Json], client: ExtenderClient) -> None:
        listed = list(everything)
        registry = Registry([])
        self._client = client
        self._decider = Decider(registry)
        self._snapshot = load_snapshot(listed, registry)
        self._nodes = {each["metadata"]["name"]: each for each in listed if each.get("kind") == "Node"}
        self._pods = [each for each in listed if each.get("kind") == "Pod" and (each.get("spec") or {}).get("nodeName")]

    def decide(self, group: str, raws: Sequence[Json]) -> list[SchedulingOutcome]:
        """What becomes of the pods of one PodGroup (``namespace/name``)."""
        members = [WaitingPod.of(raw) for raw in raws]
        known = self._snapshot.pod_groups.get(group)
        need = Need(known.min_member, tuple(sorted(known.min_by_task.items()))) if known is not None else Need(1)
        namespace, _, name = group.partition("/")
        have = running(self._snapshot, namespace, name) if known is not None else Counter[str]()
        before, outcomes = self._snapshot, []
        order = in_turn([member.pod.annotations.get(TASK_KEY, "") for member in members], need, have)
        for at in order:
            outcome = self._place(members[at])
            outcomes.append(outcome)
            have[members[at].pod.annotations.get(TASK_KEY, "")] += bool(outcome.node)
        if not missing(need, have):
            return outcomes
        self._snapshot = before
        return [self._undone(outcome, need) for outcome in outcomes]

    def _undone(self, outcome: SchedulingOutcome, need: Need) -> SchedulingOutcome:
        if not outcome.node:
            return outcome
        if self._client.interested(outcome.pod):
            self._client.event("deallocate", outcome.pod, outcome.node)
        return SchedulingOutcome(outcome.pod, why=f"pod group is not ready, {need.members} minAvailable")

    def _place(self, member: WaitingPod) -> SchedulingOutcome:
        candidates = self._with_sums(self._snapshot, member.pod)
        total = len(self._nodes)
        if not candidates:
            return SchedulingOutcome(member.raw, why=f"0/{total} nodes are unavailable: no node has the sums")
        node = candidates[0]
        if self._client.interested(member.raw):
            asked = {name: self._predicate(member, name) for name in candidates}
            fitting = [name for name, reason in asked.items() if not reason]
            if not fitting:
                counted = Counter(asked.values()).most_common()
                reasons = ", ".join(f"{number} {reason}" for reason, number in counted)
                return SchedulingOutcome(member.raw, why=f"0/{total} nodes are unavailable: {reasons}.")
            node = self._ranked(member, fitting)
            if error := self._client.event("allocate", member.raw, node):
                self._client.event("deallocate", member.raw, node)
                return SchedulingOutcome(member.raw, why=error)
        self._snapshot = assigned(self._snapshot, member.pod, _on(node, member.pod))
        return SchedulingOutcome(member.raw, node)

    def _with_sums(self, snapshot: ClusterSnapshot, pod: Pod) -> list[str]:
        demand = PodDemand(NO_DEVICES, pod.constraints)
        answers = self._decider.answers(snapshot, demand, DEFAULT_POLICY)
        return [str(entry.name) for entry, answer in answers if isinstance(answer, Fit)]

    def _predicate(self, member: WaitingPod, node: str) -> str:
        others = (each for each in self._pods if each["spec"]["nodeName"] == node)
        return self._client.predicate(member.raw, self._nodes[node], others)

    def _ranked(self, member: WaitingPod, fitting: Sequence[str]) -> str:
        """The best node; no extender is asked about a single one, and without an answer the first is best."""
        if len(fitting) == 1 or not self._client.arguments.prioritizes:
            return fitting[0]
        scores = self._client.prioritize(member.raw, [self._nodes[name] for name in fitting])
        if isinstance(scores, str):
            return fitting[0]
        return max(fitting, key=lambda name: scores.get(name, 0.0))


def _on(node: str, pod: Pod) -> Placed:
    nothing = tuple(ContainerAllocation(container.kind) for container in pod.containers)
    return Placed(node=NodeName(node), containers=nothing, fit=Fit((), 0.0), candidates=1)


def _task(pod: Json, node: str) -> dict[str, Any]:
    """A pod as a session has it, with the members in the order of the real one."""
    metadata = pod["metadata"]
    return {
        "UID": metadata["uid"],
        "Job": f"{metadata['namespace']}/{(metadata.get('annotations') or {}).get('scheduling.k8s.io/group-name', '')}",
        "Name": metadata["name"],
        "Namespace": metadata["namespace"],
        "NodeName": node,
        "Status": _ALLOCATED if node else _PENDING,
        "Pod": {name: pod[name] for name in ("metadata", "spec", "status") if name in pod},
    }


def _node(node: Json, pods: Iterable[Json]) -> dict[str, Any]:
    tasks = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": _task(each, "") for each in pods}
    name = node["metadata"]["name"]
    return {"Name": name, "Node": {key: value for key, value in node.items() if key != "kind"}, "Tasks": tasks}
