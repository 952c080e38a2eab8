"""What happens on the embedded cluster, told step by step as it happens."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from hami_plugins import examples
from hami_plugins.cli import output, planning
from hami_plugins.cli.live.cluster import NAMESPACE, NODES, Cluster, Sums
from hami_plugins.engine.registry import Registry
from hami_plugins.kube.port import Raw
from hami_plugins.model.units import MiB
from hami_plugins.report import library, tables
from hami_plugins.report.explain.answers import Answers
from hami_plugins.report.plan import Planner, submission
from hami_plugins.report.rows import Row, Table
from hami_plugins.report.slices import memory_words
from hami_plugins.report.workloads import Submission
from hami_plugins.vendors import volcano as vendor
from hami_plugins.wire import volcano

GANG: Final = "02-llama-finetune"
WAITING: Final = "evaluation"
BROKEN: Final = 1
"""The card that fails; pods of the gang are on it."""

PROBLEM: Final = "XID 79: GPU has fallen off the bus"

_MARGIN: Final = 9
_LEAST_ROOM: Final = 40
_JOBS: Final = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
_IDS: Final = "volcano.sh/vgpu-ids-new"
_SHOWN: Final = len("GPU-") + 8
"""Characters of a UUID that are shown; CUDA_VISIBLE_DEVICES takes so many for the whole."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One card in a container: by Volcano's grant, or by the container's environment."""

    card: str
    memory: str
    cores: str


class Story:
    """Tells it. ``seconds`` is the time since the demo began."""

    def __init__(self, cluster: Cluster, registry: Registry, seconds: Callable[[], float]) -> None:
        self._cluster = cluster
        self._planner = Planner(registry)
        self._seconds = seconds
        self._counted = 0

    def tell(self, page: str) -> None:
        """All of it, and at the end the page of the cluster as it is then."""
        self._say(
            f"the API server listens on {self._cluster.server.url}; {' and '.join(NODES)} have joined, without cards"
        )
        for node in NODES:
            self._registered(node)
        registering = self._writes()
        self._gang_runs()
        serving = self._writes()
        self._one_waits()
        self._agent_dies(NODES[0])
        idle = self._writes()
        self._card_fails(NODES[1])
        failing = self._writes()
        self._say(f"API writes of both agents: {registering} to register, {serving} to serve 4 containers,")
        self._more(f"{idle} for a restart and while nothing changed, {failing} for the failed card and its events")
        answers, submitted = self._answers()
        planning.write_page(page, answers, submitted, title="Demo: the live cluster", source="embedded cluster")

    def _registered(self, node: str) -> None:
        cluster, agent = self._cluster, self._cluster.agents[node]
        cluster.until(lambda: _is_whole(cluster.sums(node)), f"the kubelet of {node} offers slots, memory and cores")
        sums, models = cluster.sums(node), cluster.register(node)
        what = f"{sums.cards} x {next(iter(models.values())).removeprefix('NVIDIA-')}"
        self._say(f"{node}: agent {agent.pid} has registered {what}: {_offer(sums)}")

    def _gang_runs(self) -> None:
        cluster = self._cluster
        gang = self._submit(examples.workload_text(GANG))
        members = int(gang["spec"]["minAvailable"])
        self._say(f"{NAMESPACE}/{gang['metadata']['name']} is submitted, a gang of {members} pods")
        cluster.until(
            lambda: len(found := cluster.pods()) == members and all(map(self._is_served, found)),
            f"the {members} containers of the gang run with what was granted",
        )
        self._say("all of them run; in their containers is, card by card, what Volcano has granted:", "good")
        rows = tuple(
            Row((_name(pod), pod["spec"]["nodeName"], each.card[:_SHOWN], each.memory, each.cores))
            for pod in cluster.pods()
            for each in _visible(cluster.seen(pod))
        )
        output.line()
        output.table(Table(("POD", "NODE", "CARD", "MEMORY LIMIT", "CORES"), rows, whole=frozenset({0, 2})))
        output.line()

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
        self._say(f"{name} has to wait. Volcano says: {found[0]}")
        for line in rest[:2]:
            self._more(line.words.strip(), line.tone)

    def _agent_dies(self, node: str) -> None:
        cluster, began = self._cluster, self._seconds()
        before, old = self._state(), cluster.agents.pop(node)
        old.kill()
        cluster.until(lambda: cluster.sums(node).slots == 0, f"the kubelet of {node} misses the agent")
        new = cluster.start_agent(node)
        cluster.until(lambda: self._state() == before, f"{node} is as it was before its agent was killed")
        took = self._seconds() - began
        self._say(f"{node}: agent {old.pid} was killed with kill -9 and started again as {new.pid}")
        self._more(
            f"containers, their environment, register and capacity are as before; API writes of both agents in these "
            f"{took:.1f} s: {self._cluster_writes() - self._counted}"
        )

    def _card_fails(self, node: str) -> None:
        cluster = self._cluster
        before, registered = cluster.sums(node), cluster.register(node)
        self._say(f"{node}: a card fails ({PROBLEM})", "bad")
        cluster.set_cards(node, failed={BROKEN: PROBLEM})
        left = _without_one(before)
        cluster.until(lambda: cluster.sums(node) == left, f"{node} no longer offers the card")
        (card,) = registered.keys() - cluster.register(node).keys()
        holders = [pod for pod in cluster.pods() if any(each.card == card for each in _visible(cluster.seen(pod)))]
        cluster.until(lambda: len(self._events()) > len(holders), "the node and the pods on the card have events")
        self._more(f"{left.cards} cards are left: {_offer(left)}; the {len(holders)} containers on it run on")
        for event in self._events()[:2]:
            about = event["involvedObject"]
            where = f"{about['namespace']}/{about['name']}" if "namespace" in about else about["name"]
            self._more(f"event of {about['kind'].lower()} {where}: {event['message']}", "warn")

    def _events(self) -> list[dict[str, Any]]:
        """What is said about cards: of the node first, then of its pods by name."""
        found = [each for each in self._cluster.server.objects("events") if each["reason"].startswith("GPU")]
        return sorted(found, key=lambda each: (each["involvedObject"]["kind"], each["involvedObject"]["name"]))

    def _answers(self) -> tuple[Answers, Submission]:
        """What a plan says now of the job that waits."""
        snapshot = library.live_snapshot(self._cluster.api, self._planner.registry)
        submitted = library.read_manifests(examples.live_text(WAITING), source=f"{WAITING}.yaml")
        snapshot = submission.with_objects(replace(snapshot, pending=()), submitted)
        return Answers(self._planner.plan(snapshot, submission.units(submitted, snapshot)), self._planner), submitted

    def _submit(self, text: str) -> Raw:
        return self._cluster.api.create(_JOBS, yaml.safe_load(text))

    def _is_served(self, pod: Raw) -> bool:
        """Whether the pod's container runs with exactly what was granted, and Volcano has been told."""
        notes = pod["metadata"].get("annotations") or {}
        seen = _visible(self._cluster.seen(pod))
        return bool(seen) and notes.get(vendor.PHASE_KEY) == "success" and seen == _granted(notes[_IDS])

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

    def _say(self, text: str, tone: str = "") -> None:
        _print(f"{self._seconds():5.1f} s  ", text, tone)

    def _more(self, text: str, tone: str = "") -> None:
        _print(" " * _MARGIN, text, tone)


def _print(margin: str, text: str, tone: str) -> None:
    """A line as soon as it is true; on a terminal folded beside its margin, elsewhere in one piece."""
    lines = [text]
    if sys.stdout.isatty():
        room = max(shutil.get_terminal_size().columns - _MARGIN, _LEAST_ROOM)
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    for at, line in enumerate(lines):
        output.line(f"{' ' * _MARGIN if at else margin}{line}", tone)
    sys.stdout.flush()


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


def _name(pod: Raw) -> str:
    return str(pod["metadata"]["name"])


def _visible(env: Mapping[str, str]) -> tuple[Slice, ...]:
    """The cards that a container sees, with its limits on each; none without an environment."""
    cards = env.get("NVIDIA_VISIBLE_DEVICES", "").split(",") if env else ()
    return tuple(
        Slice(card, env.get(f"CUDA_DEVICE_MEMORY_LIMIT_{at}", ""), env.get(f"CUDA_DEVICE_SM_LIMIT_{at}", ""))
        for at, card in enumerate(cards)
    )


def _granted(text: str) -> tuple[Slice, ...]:
    """What Volcano granted the only container of a pod, in the words of its environment."""
    (container,) = volcano.decode_assignment(_IDS, text)
    return tuple(Slice(each.device, f"{each.memory}m", str(each.cores)) for each in container)


def _refusal(pod: Raw) -> str:
    """Why the scheduler does not place a pod; empty where it has not said so."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((str(each["message"]) for each in conditions if each.get("reason") == "Unschedulable"), "")
