"""Two vendors under one Volcano: one allocator is its extender for vGPUs and for Neuron devices."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial

import pytest

from hami_plugins.vendors.awsneuron import IDS_KEY
from neuron_topology.core.names import DEVICES
from tests.cluster.agents import Numbers
from tests.cluster.allocator import MARKER, Allocator
from tests.cluster.api import Object
from tests.cluster.arrivals import Arrivals
from tests.cluster.card_nodes import WHOLE, Pool
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.neuron import Machines
from tests.cluster.objects import container, pod, pod_spec, queue, task, vcjob
from tests.cluster.slices import IDS, gpu, jobs, pods
from tests.cluster.volcano import QUEUES, Volcano
from tests.cluster.waiting import wait_until

TRIES = 10
CARD_PODS, DEVICE_PODS = 2, 2
QUEUE = "of-two-vendors"
EVERY_DEVICE = 16


@pytest.fixture(scope="module")
def allocator(volcano: Volcano) -> Iterator[Allocator]:
    with Allocator(volcano, "extender") as server:
        volcano.plane.apply(QUEUES, queue(QUEUE))
        yield server


class Mixed:
    """Pods and jobs of both vendors, each kind on its own nodes."""

    def __init__(self, plane: ControlPlane, cards: Pool, machines: Machines, namespace: str) -> None:
        self.plane, self.cards, self.machines, self.namespace = plane, cards, machines, namespace

    def of_cards(self, memory: int) -> Object:
        return pod_spec(gpu(memory=memory), nodeSelector=dict(self.cards.selector), schedulerName="volcano")

    def of_devices(self, devices: int) -> Object:
        asks = container(limits={DEVICES: devices})
        return pod_spec(asks, nodeSelector=dict(self.machines.selector), schedulerName="volcano")

    def submit(self, name: str, spec: Object) -> None:
        in_queue = {"scheduling.volcano.sh/queue-name": QUEUE}
        body = pod(name, annotations=in_queue)
        self.plane.api.create(pods(self.namespace), {**body, "spec": spec})

    def job(self, name: str) -> None:
        """A gang that takes every card and every Neuron device there is."""
        cards = task("cards", CARD_PODS, self.of_cards(30_000))
        devices = task("devices", DEVICE_PODS, self.of_devices(EVERY_DEVICE))
        self.plane.api.create(jobs(self.namespace), vcjob(name, cards, devices, queue=QUEUE))

    def members(self, prefix: str) -> list[Object]:
        every = self.plane.api.items(pods(self.namespace))
        return [each for each in every if each["metadata"]["name"].startswith(prefix)]

    def bound(self, prefix: str) -> int:
        return sum(bool(each["spec"].get("nodeName")) for each in self.members(prefix))

    def told(self, prefix: str) -> str:
        names = [each["metadata"]["name"] for each in self.members(prefix)]
        return "\n".join(line for name in names for line in self.plane.events(self.namespace, name))

    def wait_bound(self, prefix: str, count: int) -> None:
        what = f"{count} pods {prefix}* are bound"
        wait_until(lambda: self.bound(prefix) == count, what, 60, show=lambda: self.told(prefix))

    def wait_tried(self, prefix: str, count: int) -> None:
        """Until the pods exist, and Volcano has told one why it waits."""
        wait_until(lambda: len(self.members(prefix)) == count, "the pods exist")
        wait_until(lambda: self.told(prefix), "Volcano has tried them", show=lambda: str(self.members(prefix)))

    def faults(self) -> list[str]:
        return [*self.cards.faults(), *self.machines.faults()]


@pytest.fixture
def mixed(control_plane: ControlPlane, namespace: str) -> Iterator[Mixed]:
    cards, machines = Pool(control_plane), Machines(control_plane)
    with cards, machines:
        cards.add(CARD_PODS)
        machines.boot(DEVICE_PODS)
        yield Mixed(control_plane, cards, machines, namespace)


def annotations_of(each: Object) -> dict[str, str]:
    found: dict[str, str] = each["metadata"].get("annotations") or {}
    return found


def test_pods_of_both_vendors_run_in_one_queue_under_one_extender(allocator: Allocator, mixed: Mixed) -> None:
    for at in range(4):
        mixed.submit(f"p-cards-{at}", mixed.of_cards(10_000))
        mixed.submit(f"p-devices-{at}", mixed.of_devices(4))
    mixed.wait_bound("p-", 8)
    given = [annotations_of(each) for each in mixed.members("p-")]
    assert {each[MARKER] for each in given} == {"extender"}
    assert (
        sorted((bool(each.get(IDS)), bool(each.get(IDS_KEY))) for each in given)
        == [(False, True)] * 4 + [(True, False)] * 4
    )
    assert mixed.faults() == []
    assert mixed.machines.unlinked() == []
    assert allocator.replicas[0].metric("hami_allocator_holders") >= 8


def test_a_gang_of_both_vendors_holds_nothing_while_it_waits_and_is_bound_when_there_is_room(
    allocator: Allocator, mixed: Mixed, numbers: Numbers, control_plane: ControlPlane
) -> None:
    """Every other time a card is short, and else a Neuron device."""
    took: list[float] = []
    for at in range(TRIES):
        holder, spec = f"holder-{at}", mixed.of_devices(4) if at % 2 else mixed.of_cards(WHOLE)
        mixed.submit(holder, spec)
        mixed.wait_bound(holder, 1)
        mixed.job(name := f"gang-{at}")
        mixed.wait_tried(name, CARD_PODS + DEVICE_PODS)
        assert mixed.bound(name) == 0
        members = [each["metadata"]["name"] for each in mixed.members(name)]
        with Arrivals(control_plane, mixed.namespace) as arrivals:
            control_plane.api.delete(f"{pods(mixed.namespace)}/{holder}", grace=0)
            room = time.monotonic()
            took.append(arrivals.last_of(members, 120, show=partial(mixed.told, name)) - room)
        assert mixed.faults() == []
        sets = {annotations_of(each).get(IDS_KEY) for each in mixed.members(name)} - {None}
        assert len(sets) == 1
        control_plane.clear_namespace(mixed.namespace)
    assert allocator.replicas[0].metric("hami_allocator_findings") == 0
    what = f"gang of vGPU and Neuron pods that had to wait, room to bound, median; longest of {TRIES}"
    measured = f"{statistics.median(took):.1f} s; {max(took):.1f} s"
    numbers.add(what, measured, "<= 2 s")
