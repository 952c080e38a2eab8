"""A gang that has to wait and is then given room: as plain Volcano binds it, and with the allocator."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import yaml

from hami_plugins import examples, library
from hami_plugins.allocations.answers import AuditFinding
from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.cli import plan
from hami_plugins.cli.live.cluster import JOBS, NODES, DemoCluster
from hami_plugins.cli.live.containers import ContainerSlice, allocated, visible
from hami_plugins.cli.live.printer import DemoPrinter
from hami_plugins.engine.decide import Decider
from hami_plugins.explain.answers import Answers
from hami_plugins.inputs.workloads import Submission
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.plan import Planner
from hami_plugins.vendors import volcano as vendor
from hami_plugins.wire import objects
from hami_plugins.wire.fields import Json

GANG: Final = "02-llama-finetune"
BEFORE: Final = "overnight"
"""Who has the cards that the gang waits for."""

_REFUSED: Final = "VgpuRefused"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoGangMember:
    """What became of a pod of the gang: the cards of its allocation, and those in its container.

    ``reported`` is whether the agent has told Volcano that the container got them.
    """

    name: str
    node: str
    allocated: tuple[ContainerSlice, ...]
    seen: tuple[ContainerSlice, ...]
    reported: bool

    @property
    def served(self) -> bool:
        """Whether its container runs with exactly what was allocated, and that is reported to Volcano."""
        return self.reported and bool(self.seen) and self.seen == self.allocated


@dataclass(frozen=True, slots=True)
class GangOutcome:
    """What became of the gang, and what is wrong with its allocations (``allocator audit`` lists the same)."""

    members: tuple[DemoGangMember, ...]
    faults: tuple[AuditFinding, ...]


class WaitingGang:
    """The same gang and the same wait, twice."""

    def __init__(self, cluster: DemoCluster, planner: Planner, teller: DemoPrinter) -> None:
        self._cluster = cluster
        self._planner = planner
        self._teller = teller
        self._job = yaml.safe_load(examples.workload_text(GANG))
        self._size = int(self._job["spec"]["minAvailable"])
        metadata = self._job["metadata"]
        self._name, self._full_name = str(metadata["name"]), f"{metadata['namespace']}/{metadata['name']}"

    def alone(self, page: str) -> GangOutcome:
        """What plain Volcano makes of it, also as a page. The cluster is empty again afterwards."""
        cluster = self._cluster
        node = self._waits()
        self._teller.say(
            f"{self._full_name}, a gang of {self._size} pods, has to wait: {BEFORE} has all cards of {node}"
        )
        self._make_room()
        cluster.until(lambda: all(each.node for each in self._members()), "Volcano binds the gang")
        faults = self._faults()
        wrong = sorted({pod for each in faults for pod in each.pods})
        cluster.until(lambda: list(self._refusals()) == wrong, "the agents refuse what is wrong")
        cluster.until(lambda: self._served() == self._size - len(wrong), "the other containers run")
        self._teller.say(
            f"{BEFORE} ends, and Volcano binds the gang as 1.14.1 does: {len(wrong)} of its {self._size} pods get the "
            "cards of an earlier try, on another node",
            "bad" if wrong else "",
        )
        for pod, message in list(self._refusals().items())[:1]:
            self._teller.more(f"event of pod {pod}: {message}", "warn")
        outcome = GangOutcome(self._members(), faults)
        self._show(page)
        cluster.api.delete(f"{JOBS}/{self._name}")
        cluster.until(lambda: not cluster.pods(), "the gang is gone")
        return outcome

    def by_allocator(self) -> GangOutcome:
        """What becomes of it with the allocator, which stays; so does the gang."""
        cluster, allocator = self._cluster, self._cluster.allocator
        cluster.until(allocator.ready, "the allocator answers")
        allocator.install(cluster.api)
        cluster.schedule(extender=allocator.extender())
        self._teller.say(
            f"the same with the {allocator.process}, which Volcano's extender and the API server's webhooks ask: "
            f"{allocator.url}"
        )
        self._waits()
        self._make_room()
        cluster.until(
            lambda: self._served() == self._size,
            f"the {self._size} containers of the gang run with what was allocated",
        )
        members = self._members()
        self._teller.say(
            f"{BEFORE} ends, and all {self._size} run with the cards that they were allocated, "
            f"{_limits(members[0].seen)} each",
            "good",
        )
        return GangOutcome(members, self._faults())

    def last_node(self) -> str:
        """The node of its last pod."""
        return self._members()[-1].node

    def compare(self, alone: GangOutcome, by_allocator: GangOutcome) -> None:
        """Both, pod by pod."""
        numbers = self._numbers()
        rows = tuple(
            TableRow((one.name, *_cells(one, numbers), *_cells(other, numbers)), "" if one.served else "bad")
            for one, other in zip(alone.members, by_allocator.members, strict=True)
        )
        columns = ("POD", "VOLCANO", "CARDS", "CONTAINER", "ALLOCATOR", "CARDS", "CONTAINER")
        self._teller.table(Table(columns, rows, whole=frozenset({0}), toned=3))
        self._teller.more(
            f"faults in these allocations, as allocator audit lists them: {len(alone.faults)} by Volcano alone, "
            f"{len(by_allocator.faults)} from the allocator",
            "bad" if by_allocator.faults else "good",
        )

    def _show(self, page: str) -> None:
        """The page of the cluster as it is, with nothing planned on it."""
        nothing = Submission()
        snapshot = library.live_snapshot(self._cluster.api, self._planner.registry)
        answers = Answers(self._planner.plan(snapshot, ()), self._planner)
        plan.write_page(page, answers, nothing, title="Demo: by Volcano alone", source="embedded cluster")

    def _waits(self) -> str:
        """Submits both, and the gang after the other; the answer is the node that is full."""
        cluster = self._cluster
        cluster.api.create(JOBS, yaml.safe_load(examples.live_text(BEFORE)))
        cluster.until(lambda: any(map(cluster.seen, cluster.pods())), f"{BEFORE} runs")
        (before,) = cluster.pods()
        cluster.api.create(JOBS, self._job)
        cluster.until(
            lambda: len(found := self._pods()) == self._size and all(map(_told_why, found)),
            f"Volcano says why {self._full_name} waits",
        )
        return str(before["spec"]["nodeName"])

    def _make_room(self) -> None:
        self._cluster.api.delete(f"{JOBS}/{BEFORE}")

    def _pods(self) -> list[dict[str, Any]]:
        return [pod for pod in self._cluster.pods() if str(pod["metadata"]["name"]).startswith(f"{self._name}-")]

    def _members(self) -> tuple[DemoGangMember, ...]:
        return tuple(self._member(pod) for pod in self._pods())

    def _member(self, pod: Json) -> DemoGangMember:
        return DemoGangMember(
            name=str(pod["metadata"]["name"]),
            node=str(pod["spec"].get("nodeName", "")),
            allocated=allocated(pod),
            seen=visible(self._cluster.seen(pod)),
            reported=(pod["metadata"].get("annotations") or {}).get(vendor.PHASE_KEY) == "success",
        )

    def _served(self) -> int:
        return sum(each.served for each in self._members())

    def _faults(self) -> tuple[AuditFinding, ...]:
        """What is wrong with the allocations of all bound pods, as the audit finds it."""
        cache = AllocationCache(Decider(self._planner.registry))
        for node in NODES:
            cache.see_node(objects.node_object(self._cluster.server.get("nodes", node)))
        for pod in self._cluster.pods():
            cache.see_pod(objects.pod(pod), 0.0)
        return cache.findings()

    def _refusals(self) -> dict[str, str]:
        """What the agents say of containers that they do not start, by pod."""
        found = [each for each in self._cluster.server.objects("events") if each["reason"] == _REFUSED]
        said = {f"{(about := each['involvedObject'])['namespace']}/{about['name']}": each["message"] for each in found}
        return dict(sorted(said.items()))

    def _numbers(self) -> dict[str, tuple[str, int]]:
        """Of every card its node, and its number there."""
        return {card: (node, at) for node in NODES for at, card in enumerate(self._cluster.register(node))}


def _cells(member: DemoGangMember, numbers: dict[str, tuple[str, int]]) -> tuple[str, str, str]:
    """Node, cards of the allocation, and whether the container runs."""
    cards = sorted(numbers[each.card] for each in member.allocated)
    of_nodes = groupby(cards, key=lambda card: card[0])
    words = ", ".join(f"{node} {' '.join(f'#{at}' for _, at in found)}" for node, found in of_nodes)
    return f"on {member.node}", words, "runs" if member.seen else "refused"


def _limits(seen: tuple[ContainerSlice, ...]) -> str:
    """What limits a container on its cards, which are all alike here."""
    return f"{len(seen)} x {seen[0].memory}, {seen[0].cores} %"


def _told_why(pod: Json) -> bool:
    """Whether the scheduler has said why the pod waits."""
    return bool((pod.get("status") or {}).get("conditions"))
