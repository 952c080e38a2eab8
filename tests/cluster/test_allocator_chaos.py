"""No slice is given twice or lost on the real API server and kube-scheduler, while the server and both are killed."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from contextlib import suppress
from signal import SIGKILL
from typing import Final

import pytest

from tests.cluster.agents import Numbers
from tests.cluster.api import ApiError, Object
from tests.cluster.hami import ALLOCATED, LEASE, SCHEDULER, HamiAllocator, allocated_to, hami_gpu
from tests.cluster.kube_pace import CARDS, add_nodes
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import pod
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until

BINDS: Final = 200
KILLS: Final = 6
ALIVE: Final = 24
MEMORY: Final = 8_000
WHOLE: Final = 40_960
NODES: Final = 4


class Churn:
    """Pods come and go; what those on nodes hold is added up from their annotations alone."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.place = pods(namespace)
        self.faults: set[str] = set()
        self.held: dict[str, str] = {}
        """The allocation of each pod that was bound, by its name."""
        self._made = 0

    def turn(self) -> None:
        """One look, and one change."""
        try:
            found = self.plane.api.items(self.place)
        except ApiError:
            return
        bound = [each for each in found if each["spec"].get("nodeName")]
        self._judge(bound)
        with suppress(ApiError):
            if len(bound) > ALIVE // 2:
                self.plane.api.delete(f"{self.place}/{bound[0]['metadata']['name']}", grace=0)
            if len(found) < ALIVE:
                self._made += 1
                asks = pod(f"p{self._made}", hami_gpu(memory=MEMORY), schedulerName=SCHEDULER, hostNetwork=False)
                self.plane.api.create(self.place, asks)

    def _judge(self, bound: list[Object]) -> None:
        memory: dict[tuple[str, str], int] = defaultdict(int)
        for each in bound:
            name, node = each["metadata"]["name"], each["spec"]["nodeName"]
            text = (each["metadata"].get("annotations") or {}).get(ALLOCATED, "")
            if not text:
                self.faults.add(f"{name} is bound without a card")
                continue
            if self.held.setdefault(name, f"{node} {text}") != f"{node} {text}":
                self.faults.add(f"{name} had {self.held[name]}, has {node} {text}")
            for card, amount, _ in allocated_to(each)["main"]:
                memory[node, card] += int(amount)
        self.faults |= {f"{card} on {node} has {sum_}" for (node, card), sum_ in memory.items() if sum_ > WHOLE}


# Of a connection whose API server was killed the garbage collector closes the socket, now and then.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_kills_of_all_that_decides_give_no_slice_twice_and_lose_none(
    control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    draw, names = random.Random(4), add_nodes(control_plane, NODES)
    assert NODES * CARDS * WHOLE > ALIVE * MEMORY
    takeovers: list[float] = []
    churn, ended = Churn(control_plane, namespace), threading.Event()
    with HamiAllocator(control_plane, replicas=2) as allocator:

        def come_and_go() -> None:
            while not ended.wait(0.02):
                churn.turn()

        thread = threading.Thread(target=come_and_go, daemon=True)
        thread.start()
        try:
            for kill in range(KILLS):
                _wait_bound(churn, BINDS * kill // KILLS)
                (_take_over, _scheduler, _api_server)[kill % 3](allocator, takeovers)
                time.sleep(draw.random())
            _wait_bound(churn, BINDS)
        finally:
            ended.set()
            thread.join()
        control_plane.clear_namespace(namespace, 120)
    for name in names:
        control_plane.api.delete(f"/api/v1/nodes/{name}")
    numbers.add(f"double or lost slices, {len(churn.held)} binds, {KILLS} kills", str(len(churn.faults)), "")
    numbers.add(f"takeover by the standby, lease of {LEASE} s", f"{max(takeovers):.1f} s", "")
    assert not churn.faults


def _wait_bound(churn: Churn, number: int) -> None:
    wait_until(lambda: len(churn.held) >= number, f"{number} pods are bound", 90, show=lambda: str(len(churn.held)))


def _take_over(allocator: HamiAllocator, takeovers: list[float]) -> None:
    active = next(each for each in allocator.replicas if each.ready)
    began = time.monotonic()
    active.component.stop(SIGKILL)
    wait_until(lambda: any(each.ready for each in allocator.replicas), "the standby answers", 30)
    takeovers.append(time.monotonic() - began)
    active.component.start()


def _scheduler(allocator: HamiAllocator, _: list[float]) -> None:
    allocator.scheduler.stop(SIGKILL)
    allocator.scheduler.start()


def _api_server(allocator: HamiAllocator, _: list[float]) -> None:
    allocator.plane.api_server.stop(SIGKILL)
    allocator.plane.api_server.start()
    allocator.plane.reunite()
