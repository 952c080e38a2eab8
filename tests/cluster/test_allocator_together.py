"""The allocator with others: a second replica, and the agent of a real node whose containers start."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from signal import SIGKILL

import pytest

from tests.cluster.agents import NodeAgent, Numbers, uuid
from tests.cluster.allocator import Allocator
from tests.cluster.card_nodes import Pool
from tests.cluster.cases import Case, under_load
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.objects import pod_spec, task, vcjob
from tests.cluster.slices import amiss, gpu, jobs, pods, settled, volcano_pod
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until


@pytest.fixture(scope="module", params=["extender", "webhook"])
def pair(volcano: Volcano, request: pytest.FixtureRequest) -> Iterator[Allocator]:
    """In mode ``webhook`` with a certificate made by the test."""
    with Allocator(volcano, request.param, replicas=2, bootstrap=request.param == "extender") as made:
        yield made


def test_the_other_replica_takes_over_under_load(
    pair: Allocator, control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    seconds: list[float] = []

    def kill_the_one_that_answers() -> None:
        time.sleep(0.5)
        first = pair.wait_active()
        first.component.stop(SIGKILL)
        began = time.monotonic()
        wait_until(lambda: any(each is not first for each in pair.active()), "the other answers", show=pair.story)
        seconds.append(time.monotonic() - began)
        first.component.start()

    with Pool(control_plane) as pool:
        pool.add(2, cards=4)
        case = Case(control_plane, pool, namespace)
        names = under_load(case, kill_the_one_that_answers)
        case.wait_bound(*names, timeout=120)
        assert not pool.faults()
    numbers.add(f"takeover after a kill, lease of 4 s, to active, {pair.mode}", f"{seconds[0]:.1f} s", "")


@pytest.mark.parametrize("pair", ["webhook"], indirect=True)
def test_a_certificate_that_changes_under_load_costs_no_allocation(
    pair: Allocator, control_plane: ControlPlane, namespace: str
) -> None:
    """Connections are ended after each change, so that the API server meets the new one."""
    served: list[bool] = []

    def change() -> None:
        for _ in range(4):
            wait_until(partial(pair.shows, pair.certify()), "the new one is shown")
            pair.cut()
            served.append(True)

    with Pool(control_plane) as pool:
        pool.add(2, cards=4)
        case = Case(control_plane, pool, namespace)
        names = under_load(case, change)
        case.wait_bound(*names, timeout=120)
        assert len(served) == 4
        assert not pool.faults()


@pytest.mark.parametrize("pair", ["extender"], indirect=True)
def test_the_containers_of_a_gang_that_had_to_wait_start_with_exactly_their_slices(
    agent: NodeAgent, pair: Allocator, control_plane: ControlPlane, namespace: str
) -> None:
    """Six cards of 40960 MiB on a real node: four members of 30000 wait while three cards are held."""
    assert uuid(1) in agent.annotation()
    here = {"kubernetes.io/hostname": NODE}
    holders = [f"holder-{at}" for at in range(3)]
    for name in holders:
        control_plane.api.create(pods(namespace), volcano_pod(name, gpu(memory=40960), nodeSelector=here))
    assert not [each for found in settled(control_plane, namespace, holders) for each in amiss(control_plane, found)]
    spec = pod_spec(gpu(memory=30000), nodeSelector=here, schedulerName="volcano")
    control_plane.api.create(jobs(namespace), vcjob("gang", task("worker", 4, spec)))
    members = [f"gang-worker-{at}" for at in range(4)]
    wait_until(lambda: control_plane.events(namespace, members[0]), "Volcano has tried the gang")
    time.sleep(1)
    assert not [name for name in members if control_plane.api.get(f"{pods(namespace)}/{name}")["spec"].get("nodeName")]
    control_plane.api.delete(f"{pods(namespace)}/{holders[0]}")
    assert not [each for found in settled(control_plane, namespace, members) for each in amiss(control_plane, found)]
    assert pair.active()
