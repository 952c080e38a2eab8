"""What tests of evictions under Volcano share: classes of priority, a server that evicts, pods that run and end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest

from hami_plugins.wire.gang_keys import GROUP_KEY
from tests.cluster.allocator import Allocator
from tests.cluster.card_nodes import Pool
from tests.cluster.cases import Case
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import pod_spec, task, vcjob
from tests.cluster.pretended_kubelet import GRACE, PretendedKubelet
from tests.cluster.slices import gpu, jobs, pods, volcano_pod
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
PREEMPTABLE: Final = "volcano.sh/preemptable"
SESSIONS: Final = 10
VALUES: Final = {"cards-low": 100, "cards-mid": 500, "cards-high": 1_000_000}


FULL: Final[Mapping[str, object]] = {"mode": "full", "priority_classes": ["*"]}


@contextmanager
def priority_classes(plane: ControlPlane, values: Mapping[str, int] = VALUES) -> Iterator[None]:
    """Classes of these values."""
    for name, value in values.items():
        plane.api.create(CLASSES, {"metadata": {"name": name}, "value": value})
    try:
        yield
    finally:
        for name in values:
            plane.api.delete(f"{CLASSES}/{name}")


class Site(Case):
    """Pods on a pool, with a kubelet that pretends."""

    def __init__(self, allocator: Allocator, pool: Pool, namespace: str, kubelet: PretendedKubelet) -> None:
        super().__init__(allocator.plane, pool, namespace)
        self.kubelet = kubelet
        self.allocator = allocator
        self.server = allocator.replicas[0]

    def wait_bound(self, *names: str, timeout: float = 60.0) -> None:
        super().wait_bound(*names, timeout=timeout)
        self.kubelet.wait_bound(*names)

    def placed(self, job: str) -> int:
        """Members that have a node and that the kubelet has seen there."""
        bound = [each for each in self.members(job) if each["spec"].get("nodeName")]
        return sum(each["metadata"]["name"] in self.kubelet.bound for each in bound)

    def low(self, name: str, memory: int, card: str = "", *, priority: str = "cards-low", **more: Any) -> None:
        """A pod that runs, on the card that is named."""
        notes = {**more.pop("annotations", {}), **({"volcano.sh/vgpu-use-gpuuuid": card} if card else {})}
        labels = more.pop("labels", {})
        spec = {"nodeSelector": dict(self.pool.selector), "priorityClassName": priority, **more}
        body = volcano_pod(name, gpu(memory=memory), annotations=notes, grace=GRACE, **spec)
        body["metadata"]["labels"] = labels
        self.plane.api.create(pods(self.namespace), body)
        self.wait_bound(name)
        wait_until(lambda: self.see(name)["status"].get("phase") == "Running", f"{name} runs")

    def budget(self, app: str) -> None:
        """A PodDisruptionBudget that allows no eviction, as its controller reports."""
        place = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
        self.plane.api.create(place, {"metadata": {"name": app}, "spec": spec})
        wait_until(
            lambda: self.plane.api.get(f"{place}/{app}")["status"].get("currentHealthy") == 1, "the budget counts"
        )

    def gang(self, name: str, memory: int, *, priority: str = "cards-high", minimum: int = 4) -> None:
        """A gang of four, of which so many have to start together."""
        spec = pod_spec(
            gpu(memory=memory),
            grace=GRACE,
            nodeSelector=dict(self.pool.selector),
            schedulerName="volcano",
            priorityClassName=priority,
        )
        job = vcjob(name, task("worker", 4, spec), minimum=minimum, priorityClassName=priority)
        self.plane.api.create(jobs(self.namespace), job)

    def needs(self, gang: str, minimum: int) -> None:
        """From now on so many of a gang have to run together; its PodGroup says so."""
        self.plane.api.merge_patch(f"{jobs(self.namespace)}/{gang}", {"spec": {"minAvailable": minimum}})
        (group,) = {each["metadata"]["annotations"][GROUP_KEY] for each in self.members(gang)}
        path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{self.namespace}/podgroups/{group}"
        wait_until(lambda: self.plane.api.get(path)["spec"]["minMember"] == minimum, f"{gang} needs {minimum} pods")

    def give_up(self, name: str) -> None:
        """A pod that was marked as not preemptable is so no longer."""
        body = {"metadata": {"annotations": {PREEMPTABLE: "true"}}}
        self.plane.api.merge_patch(f"{pods(self.namespace)}/{name}", body)

    def ready(self) -> bool:
        return self.server.ready

    def story(self, job: str = "") -> str:
        """Places and messages of pods, or of the members of one gang, and the server's log."""
        every = self.members(job) if job else self.pods()
        told = (
            f"{name}: {self.node_of(name)} {self.told(name)}" for each in every if (name := each["metadata"]["name"])
        )
        return "\n".join([*told, self.server.component.log()[-3000:]])

    def wait_refused(self, name: str) -> None:
        """Until Volcano has tried the pod over some sessions."""

        def tried() -> float:
            return self.server.metric("hami_allocator_answers_total", kind="onSessionClose", outcome="closed")

        wait_until(lambda: self.told(name), f"{name} is refused")
        before = tried()
        wait_until(lambda: tried() >= before + SESSIONS, "some sessions have passed")
        assert not self.node_of(name)

    def high(self, memory: int, name: str = "high") -> None:
        self.submit(name, gpu(memory=memory), priorityClassName="cards-high")

    def submit_low(self, name: str, memory: int) -> None:
        self.submit(name, gpu(memory=memory), priorityClassName="cards-low", grace=GRACE)

    def submit_high(self, name: str, memory: int) -> None:
        self.high(memory, name)


@contextmanager
def a_site(allocator: Allocator, namespace: str) -> Iterator[Site]:
    """A pool of its own; no card was over its size at any moment."""
    plane = allocator.plane
    with Pool(plane) as pool, PretendedKubelet(plane, pool, namespace) as kubelet:
        yield Site(allocator, pool, namespace, kubelet)
        assert not kubelet.faults


@contextmanager
def evicting(volcano: Volcano, preemption: Mapping[str, object], **more: Any) -> Iterator[Allocator]:
    """A server in mode ``extender`` with this setting, and the classes of priority."""
    with priority_classes(volcano.plane), Allocator(volcano, "extender", preemption=preemption, **more) as found:
        yield found


@pytest.fixture(scope="module")
def allocator(volcano: Volcano, request: pytest.FixtureRequest) -> Iterator[Allocator]:
    """A server with the setting ``PREEMPTION`` of the module."""
    with evicting(volcano, request.module.PREEMPTION) as found:
        yield found


@pytest.fixture
def site(allocator: Allocator, namespace: str) -> Iterator[Site]:
    """A pool of its own for the module's server."""
    with a_site(allocator, namespace) as found:
        yield found
