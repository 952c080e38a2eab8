"""What ``plan`` says of a pool without nodes is what the real Karpenter does: how many nodes it adds, or why none.

Karpenter's kwok provider makes Node objects; its instance types are those of AWS, as Karpenter knows them there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from tests import pool_objects
from tests.cluster.api import Object
from tests.cluster.karpenter import NODES, OVERLAYS, POOL_LABEL, POOLS, Karpenter
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.neuron import KUBE_SCHEDULER, NeuronAllocator, ids_of
from tests.cluster.objects import container, pod_spec, task, vcjob
from tests.cluster.slices import jobs, pods
from tests.cluster.volcano import QUEUES, Volcano
from tests.cluster.waiting import wait_until

NEURON: Final = "aws.amazon.com/neuron"
TRN1, P4D = "trn1.32xlarge", "p4d.24xlarge"


@pytest.fixture(scope="module")
def karpenter(control_plane: ControlPlane) -> Iterator[Karpenter]:
    found = Karpenter(control_plane)
    cpus = pool_objects.a_plain_node()
    control_plane.api.create(NODES, cpus)
    found.component.start()
    try:
        yield found
    finally:
        found.component.stop()
        control_plane.api.delete(f"{NODES}/{cpus['metadata']['name']}")


class Case(NamedTuple):
    """Equal pods for an empty pool, and what both have to say: nodes added, and what is in the way by our words."""

    limits: Mapping[str, int]
    pods: int = 1
    instance_type: str = TRN1
    pool: Mapping[str, Any] = {}
    spec: Mapping[str, Any] = {}
    needed: int = 0
    added: int = 0
    kinds: tuple[str, ...] = ()
    why: str = ""


CASES: Final = {
    "whole machines": Case({NEURON: 16}, pods=2, needed=2, added=2),
    "halves of machines": Case({NEURON: 8}, pods=3, needed=2, added=2),
    # For pods that wait together Karpenter looks at the nodes there were before (1.14.1 ``scheduler.go`` subtractMax).
    "limit of nodes": Case({NEURON: 16}, 3, pool={"limits": {"nodes": "2"}}, needed=3, added=3, kinds=("limit",)),
    "limit of devices": Case({NEURON: 16}, 3, pool={"limits": {NEURON: "32"}}, needed=3, added=2, kinds=("limit",)),
    "taint": Case(
        {NEURON: 16},
        pool={"taints": [{"key": "dedicated", "value": "trn", "effect": "NoSchedule"}]},
        kinds=("taint",),
        why="did not tolerate taint",
    ),
    "label": Case({NEURON: 16}, spec={"nodeSelector": {"team": "research"}}, kinds=("label",), why='label "team"'),
    "label of the pool": Case(
        {NEURON: 16},
        pool={"labels": {"team": "research"}},
        spec={"nodeSelector": {"team": "research"}},
        needed=1,
        added=1,
    ),
    "capacity type": Case(
        {NEURON: 16},
        spec={"nodeSelector": {"karpenter.sh/capacity-type": "spot"}},
        kinds=("capacity-type",),
        why="karpenter.sh/capacity-type",
    ),
    "too large": Case({NEURON: 17}, kinds=("size",), why="no instance type"),
    "whole cards": Case({"nvidia.com/gpu": 8}, 2, P4D, needed=2, added=2),
    "slices of cards": Case(
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10_000},
        instance_type=P4D,
        needed=1,
        kinds=("resource",),
        why="no instance type",
    ),
}


def _job(case: Case) -> Object:
    amounts = container(limits=case.limits)
    spec = pod_spec(amounts, **case.spec)
    body = {"parallelism": case.pods, "completions": case.pods, "template": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": body}


class Clusters:
    """The cluster as a dump, of which ``plan`` is asked."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self._folder = folder

    def growth(self, job: Object, *more: Object) -> Object:
        """What ``plan`` says of the one pool; ``more`` is in the dump as well."""
        (self._folder / "job.yaml").write_text(yaml.safe_dump(job))
        nodes = [{"apiVersion": "v1", "kind": "Node", **each} for each in self.plane.api.items(NODES)]
        items = [*nodes, *map(_of_aws, self.plane.api.items(POOLS)), *more]
        (self._folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": items}))
        words = ["plan", "-f", str(self._folder / "job.yaml"), "--snapshot", str(self._folder / "cluster.json")]
        done = subprocess.run(
            [sys.executable, "-m", "hami_plugins.cli", *words, "-o", "json"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stdout + done.stderr
        (found,) = {json.dumps(each["growth"]): each["growth"] for each in json.loads(done.stdout)["pods"]}.values()
        growth: Object
        (growth,) = found
        return growth


def _of_aws(pool: Object) -> Object:
    """The pool as it would be on AWS: with kwok's node class nothing is known of what Karpenter knows of nodes."""
    whole: Object = json.loads(json.dumps({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", **pool}))
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "trn"}
    whole["spec"]["template"]["spec"]["nodeClassRef"] = reference
    return whole


@pytest.fixture
def clusters(control_plane: ControlPlane, tmp_path: Path) -> Clusters:
    return Clusters(control_plane, tmp_path)


@contextmanager
def submitted(plane: ControlPlane, namespace: str, job: Object, count: int) -> Iterator[list[str]]:
    """The names of a job's pods, once a scheduler has found no node for them. At the end they are gone."""
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    plane.api.create(path, job)

    def waiting() -> list[str]:
        found = plane.api.items(pods(namespace))
        told = [each for each in found if "Unschedulable" in json.dumps(each["status"])]
        return [each["metadata"]["name"] for each in told] if len(told) == count else []

    try:
        yield wait_until(waiting, "the job's pods wait", 60)
    finally:
        plane.api.delete(path)
        plane.clear_namespace(namespace)


@pytest.mark.usefixtures("kube_scheduler")
@pytest.mark.parametrize("name", CASES)
def test_karpenter_adds_the_nodes_that_plan_tells_or_none_for_the_reason_that_plan_tells(
    karpenter: Karpenter, clusters: Clusters, namespace: str, name: str
) -> None:
    case = CASES[name]
    plane = karpenter.plane
    with karpenter.pool(case.instance_type, **case.pool) as pool:
        growth = clusters.growth(_job(case))
        assert growth["nodes"] == case.needed, growth
        assert tuple(each["kind"] for each in growth["blocks"]) == case.kinds, growth
        with submitted(plane, namespace, _job(case), case.pods) as names:
            answers = karpenter.answers(namespace, names)
            assert len(karpenter.claims(pool)) == case.added, answers
            assert case.why in "".join(answers.values())


@pytest.mark.usefixtures("kube_scheduler")
def test_a_node_overlay_is_the_cure_for_slices_of_which_karpenter_does_not_know(
    karpenter: Karpenter, clusters: Clusters, namespace: str
) -> None:
    case = CASES["slices of cards"]
    with karpenter.pool(P4D) as pool:
        (block,) = clusters.growth(_job(case))["blocks"]
        assert block["remedy"].startswith("create a NodeOverlay with spec.capacity")
        requirements = [{"key": POOL_LABEL, "operator": "In", "values": [pool]}]
        spec = {"requirements": requirements, "capacity": {"nvidia.com/gpumem": str(8 * 40_960)}}
        overlay = {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": pool},
            "spec": spec,
        }
        karpenter.plane.api.create(OVERLAYS, overlay)
        try:
            with submitted(karpenter.plane, namespace, _job(case), case.pods):
                wait_until(
                    lambda: len(karpenter.claims(pool)) == 1, "a node is added", 60, show=karpenter.component.log
                )
        finally:
            karpenter.plane.api.delete(f"{OVERLAYS}/{pool}")


@pytest.fixture
def allocator(volcano: Volcano) -> Iterator[NeuronAllocator]:
    with NeuronAllocator(volcano) as server:
        yield server


def test_a_job_is_bound_with_its_devices_on_the_nodes_that_were_added_for_it(
    karpenter: Karpenter, allocator: NeuronAllocator, clusters: Clusters, namespace: str
) -> None:
    case = Case({NEURON: 8}, pods=3, spec={"schedulerName": KUBE_SCHEDULER})
    plane = allocator.plane
    with karpenter.pool(TRN1) as pool:
        assert clusters.growth(_job(case))["nodes"] == 2
        with submitted(plane, namespace, _job(case), case.pods):
            wait_until(lambda: len(karpenter.nodes(pool)) == 2, "two nodes are there", 60, show=karpenter.component.log)
            karpenter.boot(pool)
            bound = wait_until(lambda: _bound(plane, namespace, 3), "all are bound", 90, show=karpenter.component.log)
            held = [(each["spec"]["nodeName"], tuple(ids_of(each))) for each in bound]
            assert all(len(ids) == 8 for _, ids in held)
            assert len(set(held)) == 3
            assert {node for node, _ in held} == {each["metadata"]["name"] for each in karpenter.nodes(pool)}
            assert len(karpenter.claims(pool)) == 2


def _volcano_job(*, with_requests: bool) -> Object:
    """A gang of two whole machines; the template has requests, or limits alone as most people write them."""
    main = container(limits={NEURON: 16})
    if with_requests:
        main["resources"]["requests"] = dict(main["resources"]["limits"])
    return vcjob("train", task("worker", 2, pod_spec(main, schedulerName="volcano")))


@pytest.mark.usefixtures("allocator")
def test_karpenter_adds_nodes_for_a_volcano_job_that_enqueue_does_not_count(
    karpenter: Karpenter, clusters: Clusters, volcano: Volcano, namespace: str
) -> None:
    job = _volcano_job(with_requests=False)
    with karpenter.pool(TRN1) as pool:
        growth = clusters.growth(job, volcano.plane.api.get(f"{QUEUES}/default"))
        assert (growth["nodes"], growth["blocks"]) == (2, [])
        volcano.plane.api.create(jobs(namespace), job)
        wait_until(lambda: len(karpenter.nodes(pool)) == 2, "two nodes are there", 60, show=karpenter.component.log)


@pytest.mark.usefixtures("allocator")
def test_karpenter_adds_no_node_for_a_volcano_job_that_is_not_enqueued(
    karpenter: Karpenter, clusters: Clusters, volcano: Volcano, namespace: str
) -> None:
    job = _volcano_job(with_requests=True)
    with karpenter.pool(TRN1) as pool:
        growth = clusters.growth(job, volcano.plane.api.get(f"{QUEUES}/default"))
        assert growth["nodes"] == 2
        assert [each["kind"] for each in growth["blocks"]] == ["enqueue"]
        volcano.plane.api.create(jobs(namespace), job)
        group = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"
        wait_until(lambda: "Pending" in json.dumps(volcano.plane.api.items(group)), "the job waits", 60)
        # Longer than the batches of Karpenter's, which last ten seconds at most.
        time.sleep(12)
        assert not volcano.plane.api.items(pods(namespace))
        assert not karpenter.claims(pool)


def _bound(plane: ControlPlane, namespace: str, count: int) -> list[Object]:
    found = [each for each in plane.api.items(pods(namespace)) if each["spec"].get("nodeName")]
    return found if len(found) == count else []
