"""Preemption in mode ``extender``: nobody is evicted for cards, and no allocation is lost by the try.

The two pods of an elastic job hold most of the cards of two nodes. Another pod would fit into what is left of both
together, so that the enqueue gate lets it in, and into neither. Volcano evicts only members that their gang can spare.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.allocator import Allocator
from tests.cluster.card_nodes import Pool
from tests.cluster.cases import Case
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.slices import gpu
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
HIGH: Final = "cards-high"
HELD: Final = 30_000
ASKED: Final = 20_000
TRIES: Final = 5


@pytest.fixture
def high(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a class of pods that come before all others."""
    control_plane.api.create(CLASSES, {"metadata": {"name": HIGH}, "value": 1_000_000})
    yield HIGH
    control_plane.api.delete(f"{CLASSES}/{HIGH}")


def test_a_pod_of_higher_priority_evicts_nobody_and_gets_the_cards_when_they_are_free(
    volcano: Volcano, control_plane: ControlPlane, namespace: str, high: str
) -> None:
    with (
        Allocator(volcano, "extender", actions="enqueue, allocate, preempt, reclaim, backfill") as allocator,
        Pool(control_plane) as pool,
    ):
        (server,) = allocator.replicas
        pool.add(2, cards=1)
        case = Case(control_plane, pool, namespace, {"volcano.sh/preemptable": "true"})
        case.submit_gang("low", memory=HELD, members=2, minimum=1)
        low = ("low-worker-0", "low-worker-1")
        wait_until(lambda: case.placed("low") == 2, "the job's pods are bound", show=lambda: str(case.members("low")))
        ((card, _, _),) = case.allocated(low[0])

        def tried() -> float:
            return server.metric("hami_allocator_answers_total", kind="allocate", outcome="refused")

        before = tried()
        case.submit("high", gpu(memory=ASKED), priorityClassName=high)
        wait_until(lambda: tried() >= before + TRIES, "Volcano has tried to preempt", show=lambda: case.told("high"))
        assert ["deletionTimestamp" in case.see(name)["metadata"] for name in low] == [False, False]
        assert not case.node_of("high")
        case.remove(low[0])
        case.wait_bound("high")
        assert [allocated for allocated, _, _ in case.allocated("high")] == [card]
        assert not pool.faults()
