"""Preemption in mode ``extender``: a pod that matters more gets its slice, and no pod leaves that need not.

The cases are those of the notes on what Volcano's actions do; ``PretendedKubelet`` has pods run and end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.cluster.allocator import Allocator
from tests.cluster.card_nodes import Pool
from tests.cluster.cases import Case
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import pod_spec, task, vcjob
from tests.cluster.pretended_kubelet import PretendedKubelet
from tests.cluster.slices import gpu, jobs
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
SESSIONS: Final = 10
VALUES: Final = {"cards-low": 100, "cards-mid": 500, "cards-high": 1_000_000}


@pytest.fixture(scope="module")
def classes(control_plane: ControlPlane) -> Iterator[None]:
    for name, value in VALUES.items():
        control_plane.api.create(CLASSES, {"metadata": {"name": name}, "value": value})
    yield
    for name in VALUES:
        control_plane.api.delete(f"{CLASSES}/{name}")


@pytest.fixture(scope="module")
def allocator(volcano: Volcano, classes: None) -> Iterator[Allocator]:
    with Allocator(volcano, "extender", preemption={"mode": "full", "priority_classes": ["*"]}) as found:
        yield found


class Site(Case):
    """Pods on a pool, with a kubelet that pretends."""

    def __init__(self, allocator: Allocator, pool: Pool, namespace: str, kubelet: PretendedKubelet) -> None:
        super().__init__(allocator.plane, pool, namespace)
        self.kubelet = kubelet
        self.server = allocator.replicas[0]

    def low(self, name: str, memory: int, card: str = "", *, priority: str = "cards-low", **more: Any) -> None:
        """A pod that runs, on the card that is named."""
        notes = {**more.pop("annotations", {}), **({"volcano.sh/vgpu-use-gpuuuid": card} if card else {})}
        self.submit(name, gpu(memory=memory), priorityClassName=priority, annotations=notes, **more)
        self.wait_bound(name)

    def gang(self, name: str, memory: int) -> None:
        """A gang of four that matters more."""
        spec = pod_spec(
            gpu(memory=memory),
            nodeSelector=dict(self.pool.selector),
            schedulerName="volcano",
            priorityClassName="cards-high",
        )
        job = vcjob(name, task("worker", 4, spec), priorityClassName="cards-high")
        self.plane.api.create(jobs(self.namespace), job)

    def story(self, job: str) -> str:
        """What the members of a gang are told, and what the server printed."""
        told = (f"{name}: {self.told(name)}" for each in self.members(job) if (name := each["metadata"]["name"]))
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


@pytest.fixture
def site(control_plane: ControlPlane, allocator: Allocator, namespace: str) -> Iterator[Site]:
    with Pool(control_plane) as pool, PretendedKubelet(control_plane, pool, namespace) as kubelet:
        found = Site(allocator, pool, namespace, kubelet)
        yield found
        assert not kubelet.faults


def test_a1_one_card_is_full_and_its_pod_makes_room(site: Site) -> None:
    site.pool.add(1, cards=1)
    site.low("low", 30_000)
    site.high(20_000)
    site.wait_bound("high")
    assert site.kubelet.victims == ["low"]


def test_a3_while_a_victim_ends_slowly_no_other_pod_leaves(site: Site) -> None:
    site.kubelet.ends = 4.0
    site.pool.add(2, cards=1)
    for name in ("low-0", "low-1"):
        site.low(name, 30_000)
    site.high(20_000)
    site.wait_bound("high")
    assert len(site.kubelet.victims) == 1
    assert site.kubelet.bound["high"] >= site.kubelet.gone[site.kubelet.victims[0]] - 0.1


def test_v1_both_pods_of_one_card_leave(site: Site) -> None:
    (node,) = site.pool.add(1, cards=2)
    for at, card in enumerate(site.pool.cards[node]):
        site.low(f"mid-{at}", 20_000, card.uuid, priority="cards-mid")
        site.low(f"low-{at}", 20_000, card.uuid)
    site.high(38_000)
    site.wait_bound("high")
    assert site.kubelet.victims in (["low-0", "mid-0"], ["low-1", "mid-1"])


def test_of_equal_pods_the_youngest_leaves(site: Site) -> None:
    site.pool.add(2, cards=1)
    site.low("older", 30_000)
    time.sleep(1.1)  # the API server writes whole seconds
    site.low("younger", 30_000)
    site.high(20_000)
    site.wait_bound("high")
    assert site.kubelet.victims == ["younger"]


def test_the_lower_priority_leaves_although_it_is_older(site: Site) -> None:
    site.pool.add(2, cards=1)
    site.low("low", 30_000)
    time.sleep(1.1)
    site.low("mid", 30_000, priority="cards-mid")
    site.high(20_000)
    site.wait_bound("high")
    assert site.kubelet.victims == ["low"]


def test_one_pod_leaves_rather_than_two(site: Site) -> None:
    first, second = site.pool.add(2, cards=1)
    for at in range(2):
        site.low(f"small-{at}", 15_000, site.pool.cards[first][0].uuid)
    site.low("large", 30_000, site.pool.cards[second][0].uuid)
    site.high(30_000)
    site.wait_bound("high")
    assert site.kubelet.victims == ["large"]


@pytest.mark.parametrize(
    "spared", [{"priority": "cards-high"}, {"annotations": {"volcano.sh/preemptable": "false"}}], ids=str
)
def test_a_pod_that_is_spared_stays(site: Site, spared: dict[str, Any]) -> None:
    site.pool.add(1, cards=1)
    site.low("stays", 30_000, **spared)
    site.high(20_000)
    site.wait_refused("high")
    assert site.kubelet.victims == []


def test_g1_a_gang_of_four_needs_two_pods_to_leave(site: Site) -> None:
    site.pool.add(4, cards=1)
    for at in range(4):
        site.low(f"low-{at}", 30_000)
    site.gang("train", 20_000)
    wait_until(lambda: site.placed("train") == 4, "the gang is bound", 10, show=lambda: site.story("train"))
    assert len(site.kubelet.victims) == 2


def test_g6_a_gang_for_half_of_which_room_can_be_made_evicts_no_pod(site: Site) -> None:
    site.pool.add(4, cards=1)
    for at in range(2):
        site.low(f"low-{at}", 40_000)
    for at in range(2):
        site.low(f"high-{at}", 40_000, priority="cards-high")
    site.gang("train", 38_000)
    wait_until(lambda: len(site.members("train")) == 4, "the gang's pods exist")
    site.wait_refused(site.members("train")[0]["metadata"]["name"])
    assert site.kubelet.victims == []
    assert site.placed("train") == 0


def test_t1_pods_that_come_while_a_victim_ends_do_not_get_its_room(site: Site) -> None:
    site.kubelet.ends = 4.0
    site.pool.add(1, cards=1)
    site.low("low", 30_000)
    site.high(38_000)
    wait_until(lambda: site.kubelet.victims, "the victim ends")
    for at in range(4):
        site.submit(f"mid-{at}", gpu(memory=5_000), priorityClassName="cards-mid")
    site.wait_bound("high")
    assert not any(site.node_of(f"mid-{at}") for at in range(4))
    assert site.kubelet.victims == ["low"]
