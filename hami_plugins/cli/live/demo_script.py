"""What happens on the embedded cluster, told step by step as it happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import yaml

from hami_plugins import examples, library
from hami_plugins.cli import plan
from hami_plugins.cli.live.cluster import JOBS, NODES, DemoCluster, Sums
from hami_plugins.cli.live.containers import visible
from hami_plugins.cli.live.preempting_pod import PreemptingPod
from hami_plugins.cli.live.printer import DemoPrinter
from hami_plugins.cli.live.waiting_gang import WaitingGang
from hami_plugins.engine.registry import Registry
from hami_plugins.explain.answers import Answers
from hami_plugins.inputs.workloads import Submission
from hami_plugins.model.units import MiB
from hami_plugins.output import tables
from hami_plugins.plan import Planner, submission
from hami_plugins.plan.slices import memory_words
from hami_plugins.wire.fields import Json

WAITING: Final = "evaluation"
BROKEN: Final = 1
"""The card that fails; pods of the gang are on it."""

PROBLEM: Final = "XID 79: GPU has fallen off the bus"


class DemoScript:
    """Prints the step. ``seconds`` is the time since the demo began."""

    def __init__(self, cluster: DemoCluster, registry: Registry, seconds: Callable[[], float]) -> None:
        self._cluster = cluster
        self._planner = Planner(registry)
        self._teller = DemoPrinter(seconds)
        self._waiting = WaitingGang(cluster, self._planner, self._teller)
        self._counted = 0

    def tell(self, page: str, before: str) -> None:
        """All of it, and at the end the page of the cluster; ``before`` is that of the gang by Volcano alone."""
        self._teller.say(
            f"the API server listens on {self._cluster.server.url}; {' and '.join(NODES)} have joined, without cards"
        )
        for node in NODES:
            self._registered(node)
        registering = self._writes()
        alone = self._waiting.alone(before)
        self._writes()
        self._waiting.compare(alone, self._waiting.by_allocator())
        self._one_waits()
        PreemptingPod(self._cluster, self._teller).preempt()
        serving = self._writes()
        self._agent_dies(NODES[0])
        idle = self._writes()
        self._card_fails(self._waiting.last_node())
        failing = self._writes()
        self._teller.say(f"API writes of both agents: {registering} to register, {serving} to serve 8 containers,")
        self._teller.more(
            f"{idle} for a restart and while nothing changed, {failing} for the failed card and its events"
        )
        answers, submitted = self._answers()
        plan.write_page(page, answers, submitted, title="Demo: the live cluster", source="embedded cluster")

    def _registered(self, node: str) -> None:
        cluster, agent = self._cluster, self._cluster.agents[node]
        cluster.until(lambda: _is_whole(cluster.sums(node)), f"the kubelet of {node} offers slots, memory and cores")
        sums, models = cluster.sums(node), cluster.register(node)
        what = f"{sums.cards} x {next(iter(models.values())).removeprefix('NVIDIA-')}"
        self._teller.say(f"{node}: agent {agent.pid} has registered {what}: {_offer(sums)}")

    def _one_waits(self) -> None:
        job = self._submit(examples.live_text(WAITING))
        prefix = f"{job['metadata']['name']}-"
        found: list[str] = []

        def refused() -> bool:
            pods = [pod for pod in self._cluster.pods() if str(pod["metadata"]["name"]).startswith(prefix)]
            found[:] = [words for pod in pods if (words := _refusal(pod))]
            return bool(found)

        self._cluster.until(refused, f"Volcano says why {job['metadata']['name']} waits")
        answers, _ = self._answers()
        first, *rest = tables.refusal(answers.refusals()[0])
        name = first.words.partition(":")[0]
        self._teller.say(f"{name} has to wait, and Volcano reports the allocator's reason: {found[0]}")
        for line in rest[1:2]:
            self._teller.more(line.words.strip(), line.tone)

    def _agent_dies(self, node: str) -> None:
        cluster, began = self._cluster, self._teller.seconds()
        before, old = self._state(), cluster.agents.pop(node)
        old.kill()
        cluster.until(lambda: cluster.sums(node).slots == 0, f"the kubelet of {node} misses the agent")
        new = cluster.start_agent(node)
        cluster.until(lambda: self._state() == before, f"{node} is as it was before its agent was killed")
        took = self._teller.seconds() - began
        self._teller.say(f"{node}: agent {old.pid} was killed with kill -9 and started again as {new.pid}")
        self._teller.more(
            f"containers, their environment, register and capacity are as before; API writes of both agents in these "
            f"{took:.1f} s: {self._cluster_writes() - self._counted}"
        )

    def _card_fails(self, node: str) -> None:
        cluster = self._cluster
        before, registered = cluster.sums(node), cluster.register(node)
        self._teller.say(f"{node}: a card fails ({PROBLEM})", "bad")
        cluster.set_cards(node, failed={BROKEN: PROBLEM})
        left = _without_one(before)
        cluster.until(lambda: cluster.sums(node) == left, f"{node} no longer offers the card")
        (card,) = registered.keys() - cluster.register(node).keys()
        holders = [pod for pod in cluster.pods() if any(each.card == card for each in visible(cluster.seen(pod)))]
        cluster.until(lambda: len(self._events()) > len(holders), "the node and the pods on the card have events")
        self._teller.more(f"{left.cards} cards are left: {_offer(left)}; the {len(holders)} containers on it run on")
        for event in self._events()[:2]:
            about = event["involvedObject"]
            where = f"{about['namespace']}/{about['name']}" if "namespace" in about else about["name"]
            self._teller.more(f"event of {about['kind'].lower()} {where}: {event['message']}", "warn")

    def _events(self) -> list[dict[str, Any]]:
        """The lines about cards: of the node first, then of its pods by name."""
        found = [each for each in self._cluster.server.objects("events") if each["reason"].startswith("GPU")]
        return sorted(found, key=lambda each: (each["involvedObject"]["kind"], each["involvedObject"]["name"]))

    def _answers(self) -> tuple[Answers, Submission]:
        """What a plan says now of the job that waits."""
        snapshot = library.live_snapshot(self._cluster.api, self._planner.registry)
        submitted = library.read_manifests(examples.live_text(WAITING), source=f"{WAITING}.yaml")
        snapshot = submission.with_objects(replace(snapshot, pending=()), submitted)
        return Answers(self._planner.plan(snapshot, submission.units(submitted, snapshot)), self._planner), submitted

    def _submit(self, text: str) -> Json:
        return self._cluster.api.create(JOBS, yaml.safe_load(text))

    def _state(self) -> object:
        """Everything that a restart of an agent must leave alone."""
        cluster = self._cluster
        nodes = {node: (cluster.sums(node), cluster.register(node)) for node in NODES}
        return nodes, {_name(pod): cluster.seen(pod) for pod in cluster.pods()}, cluster.starts()

    def _writes(self) -> int:
        """The API writes of the agents since this was asked last."""
        before, self._counted = self._counted, self._cluster_writes()
        return self._counted - before

    def _cluster_writes(self) -> int:
        return sum(map(self._cluster.writes, NODES))


def _offer(sums: Sums) -> str:
    return f"{sums.slots} slots, {memory_words(MiB(sums.memory))}, {sums.cores} % of cores"


def _is_whole(sums: Sums) -> bool:
    """Whether there is something of everything. A kubelet refuses pods that come before it knows of all of them."""
    return bool(sums.slots and sums.memory and sums.cores)


def _without_one(sums: Sums) -> Sums:
    """The sums of a node that has lost one of its equal cards."""
    each = sums.cards
    return Sums(
        cards=each - 1,
        slots=sums.slots - sums.slots // each,
        memory=sums.memory - sums.memory // each,
        cores=sums.cores - sums.cores // each,
    )


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def _refusal(pod: Json) -> str:
    """Why the scheduler does not place a pod; empty where it has not said so."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((str(each["message"]) for each in conditions if each.get("reason") == "Unschedulable"), "")
