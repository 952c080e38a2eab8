"""A pod with a share of a card in mode mps gets a note about what MPS does not isolate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.plan import Planner, PlanUnit
from hami_plugins.vendors import builtin
from tests import raw_objects
from tests.unit.vet import clusters


def a_node(mode: str) -> dict[str, Any]:
    card = {"id": "GPU-0", "count": 10, "devmem": 16384, "devcore": 100, "type": "NVIDIA A10", "mode": mode}
    register = json.dumps([{**card, "health": True}])
    return clusters.node("n", {"hami.io/node-nvidia-register": register}, {"nvidia.com/gpu": "10"})


def notes(mode: str, memory: int) -> tuple[str, ...]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
    pod = raw_objects.pod("p", raw_objects.container(limits=limits), metadata={"namespace": "ns"})
    snapshot = snapshot_of([a_node(mode), pod], builtin())
    (plan,) = (
        Planner(builtin())
        .plan(ClusterSnapshot(nodes=snapshot.nodes), [PlanUnit(name="pod/p", pods=snapshot.pending)])
        .pods
    )
    return plan.notes


def test_a_pod_on_a_card_shared_through_mps_is_told_what_is_not_isolated() -> None:
    (note,) = notes("mps", 1000)
    assert note.startswith("its cards are in mode mps: MPS isolates neither faults")
    assert note.endswith("keep workloads that must not disturb each other on cards in mode mig")


@pytest.mark.parametrize(("mode", "memory"), [("hami-core", 1000), ("mps", 99999)])
def test_no_other_pod_is(mode: str, memory: int) -> None:
    assert notes(mode, memory) == ()
