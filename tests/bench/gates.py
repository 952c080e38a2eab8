"""What Volcano's gates cost: 100 jobs in three queues, planned on 1,000 nodes with 20,000 pods and their PodGroups."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import yaml

from hami_plugins.explain.answers import Answers
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.output import documents
from hami_plugins.plan import Plan, Planner, Stage, submission
from tests import raw_objects
from tests.bench.allocations import COUNT, MEMORY, NODES, PODS, REGISTRY, node, running
from tests.bench.measuring import Figure, figure, timed
from tests.bench.workload import CARDS

Raw = dict[str, Any]

JOBS = 100
QUEUES = ("default", "research", "training")


def figures(repeats: int = 3) -> Iterator[Figure]:
    """A plan alone, and a plan with its full explanation: which pod holds what, and what would help."""
    snapshot = snapshot_of(listed(), REGISTRY)
    text = yaml.safe_dump_all(job(number) for number in range(JOBS))
    read = workloads.read(manifests.read(text, source="bench"), pod_groups=snapshot.pod_groups)
    units = submission.units(read, snapshot)

    def planned() -> Plan:
        found = Planner(REGISTRY).plan(snapshot, units)
        if {plan.stage for plan in found.pods} < {Stage.PLACED, Stage.GATE}:
            raise ValueError("the jobs have to get to the gate, and some of them through it")
        return found

    def explained() -> None:
        planner = Planner(REGISTRY)
        found = planner.plan(snapshot, units)
        documents.plan(found, Answers(found, planner))

    times = [timed(planned)[0] for _ in range(repeats)]
    yield figure("plan of 100 jobs through the gates, 1,000 nodes", times, at_most=2_000)
    times = [timed(explained)[0] for _ in range(repeats)]
    yield figure("the same with who holds them and ways out, as JSON", times)


def listed() -> Iterator[Raw]:
    """A cluster most of whose slots are taken; two PodGroups wait for more than any node has."""
    chance = random.Random(1)
    for number in range(NODES):
        raw = node(number)
        amounts = {COUNT: str(CARDS * 10), MEMORY: str(CARDS * 81_920), "cpu": "128", "memory": "1Ti"}
        raw["status"] = {"allocatable": amounts}
        yield raw
    for number in range(PODS):
        raw = running(number, 4_096 + 512 * chance.randrange(8), 5)
        raw["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = f"podgroup-{number}"
        yield raw
        yield group(f"podgroup-{number}", QUEUES[number % 3], "Running", 1)
    for queue in QUEUES:
        spec = {} if queue == "default" else {"capability": {COUNT: str(PODS // 3 + 150)}}
        yield {"kind": "Queue", "metadata": {"name": queue}, "spec": spec, "status": {"state": "Open"}}
    for number in range(2):
        yield group(f"never-{number}", "research", "Inqueue", 60)
        yield waiting(f"never-{number}")


def group(name: str, queue: str, phase: str, slots: int) -> Raw:
    """A PodGroup that needs so many slots of cards."""
    return {
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": 1, "queue": queue, "minResources": {COUNT: str(slots)}},
        "status": {"phase": phase},
    }


def waiting(name: str) -> Raw:
    """The pod of a PodGroup, which asks for more cards than a node has."""
    asks = raw_objects.container(limits={COUNT: str(CARDS + 1), MEMORY: "1000"})
    metadata = {"namespace": "default", "annotations": {"scheduling.k8s.io/group-name": name}}
    return raw_objects.pod(name, asks, metadata=metadata, scheduler="volcano", phase="Pending")


def job(number: int) -> Raw:
    """A Volcano Job of one to eight pods; every tenth is larger than what is left of its queue."""
    limits = {COUNT: "1", MEMORY: str(1_024 + 512 * (number % 7))}
    containers = [{"name": "main", "resources": {"limits": limits, "requests": limits}}]
    replicas = 400 if number % 50 == 49 else 1 + number % 8
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"job-{number:03d}"},
        "spec": {
            "queue": QUEUES[number % 3],
            "tasks": [{"name": "t", "replicas": replicas, "template": {"spec": {"containers": containers}}}],
        },
    }
