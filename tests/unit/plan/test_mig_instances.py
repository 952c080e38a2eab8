"""MIG instances that NVIDIA's device plugin offers are planned as kube-scheduler counts them, and explained."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.engine import static_mig
from hami_plugins.explain import explain
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.output import explanations
from hami_plugins.plan import Planner, PlanUnit, PodPlan
from hami_plugins.vendors import builtin
from tests import raw_objects
from tests.unit.vet import clusters

PLUGIN = "NVIDIA's device plugin, strategy"
NOBODY = "no node is registered for HAMi, so kube-scheduler counts it"


def a_node(name: str, labels: dict[str, str], offered: dict[str, int]) -> dict[str, Any]:
    found = clusters.node(name, {}, {key: str(number) for key, number in offered.items()})
    found["metadata"]["labels"] |= labels
    return found


def a_pod(name: str, limits: dict[str, int], node: str = "") -> dict[str, Any]:
    container = raw_objects.container(limits={key: str(number) for key, number in limits.items()})
    phase = "Running" if node else "Pending"
    return raw_objects.pod(name, container, node=node, phase=phase, metadata={"namespace": "ns", "uid": name})


MIXED = a_node("mixed", {"nvidia.com/mig.strategy": "mixed"}, {"nvidia.com/mig-1g.10gb": 7})
SINGLE = a_node(
    "single",
    {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"},
    {"nvidia.com/gpu": 7},
)
WHOLE = a_node("whole", {}, {"nvidia.com/gpu": 8})


def planned(cluster: list[dict[str, Any]], pod: dict[str, Any]) -> PodPlan:
    registry = builtin()
    snapshot = snapshot_of([*cluster, pod], registry)
    planner = Planner(static_mig.scheduled(snapshot, registry))
    units = [PlanUnit(name="pod/p", pods=snapshot.pending)]
    (plan,) = planner.plan(ClusterSnapshot(nodes=snapshot.nodes), units).pods
    return plan


def node_of(plan: PodPlan) -> str:
    return plan.decision.node if isinstance(plan.decision, Placed) else ""


def test_profiles_of_the_mixed_strategy_are_counted_among_what_the_node_offers() -> None:
    asking = a_pod("p", {"nvidia.com/mig-1g.10gb": 2})
    five = a_pod("five", {"nvidia.com/mig-1g.10gb": 5}, "mixed")
    fits = planned([MIXED, five], asking)
    assert node_of(fits) == "mixed"
    assert fits.notes == (f"nvidia.com/mig-1g.10gb=2 counts MIG instances ({PLUGIN} mixed): mixed offers 7, 5 in use",)
    assert not node_of(planned([MIXED, five, a_pod("one", {"nvidia.com/mig-1g.10gb": 1}, "mixed")], asking))


def test_cards_of_the_single_strategy_are_instances() -> None:
    plan = planned([SINGLE, a_pod("four", {"nvidia.com/gpu": 4}, "single")], a_pod("p", {"nvidia.com/gpu": 3}))
    assert node_of(plan) == "single"
    assert plan.notes == (
        f"nvidia.com/gpu=3 counts MIG instances 1g.10gb ({PLUGIN} single): single offers 7, 4 in use; {NOBODY}",
    )


def test_labels_without_a_product_leave_the_profile_out() -> None:
    unnamed = a_node("single", {"nvidia.com/mig.strategy": "single"}, {"nvidia.com/gpu": 7})
    plan = planned([unnamed], a_pod("p", {"nvidia.com/gpu": 1}))
    assert plan.notes[0].startswith(f"nvidia.com/gpu=1 counts MIG instances ({PLUGIN} single)")


def test_beside_instances_whole_cards_are_counted_as_such() -> None:
    plan = planned([SINGLE, WHOLE], a_pod("p", {"nvidia.com/gpu": 8}))
    assert node_of(plan) == "whole"
    assert plan.notes == (f"nvidia.com/gpu=8 counts whole cards: whole offers 8, 0 in use; {NOBODY}",)


def test_more_instances_than_a_node_offers_are_refused_with_the_reason() -> None:
    plan = planned([SINGLE], a_pod("p", {"nvidia.com/gpu": 8}))
    assert not node_of(plan)
    assert plan.notes == (f"nvidia.com/gpu=8: {NOBODY}, as what NVIDIA's device plugin offers on each node",)


def test_slices_of_an_instance_are_not_to_be_had() -> None:
    assert not node_of(planned([SINGLE], a_pod("p", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000})))


def test_a_profile_that_no_card_has_is_told_with_the_list() -> None:
    plan = planned([MIXED], a_pod("p", {"nvidia.com/mig-9g.10gb": 1}))
    (note,) = plan.notes
    assert note.startswith("no NVIDIA card known here has the MIG profile '9g.10gb'; profiles are A30: 1g.6gb ")


def test_a_profile_that_no_node_offers_is_told_with_those_that_are_offered() -> None:
    plan = planned([MIXED], a_pod("p", {"nvidia.com/mig-2g.20gb": 1}))
    assert plan.notes == ("no node offers nvidia.com/mig-2g.20gb; by nodes there is: nvidia.com/mig-1g.10gb on 1",)
    plan = planned([WHOLE], a_pod("p", {"nvidia.com/mig-2g.20gb": 1}))
    assert plan.notes == ("no node offers nvidia.com/mig-2g.20gb; by nodes there is: no MIG instance",)


def test_a_profile_of_a_newer_card_is_believed_where_it_is_offered() -> None:
    newer = a_node("newer", {}, {"nvidia.com/mig-1g.99gb": 1})
    plan = planned([newer], a_pod("p", {"nvidia.com/mig-1g.99gb": 2}))
    assert not node_of(plan)
    assert plan.notes == ()


def test_in_a_cluster_of_hamis_the_instances_are_told_to_pods_that_do_not_get_them() -> None:
    full = clusters.nvidia("hamis", {})
    plan = planned([full, SINGLE], a_pod("p", {"nvidia.com/gpu": 3}))
    assert not node_of(plan)
    assert plan.notes == (
        f"single offers nvidia.com/gpu as MIG instances ({PLUGIN} single), of which HAMi allocates none: label the "
        "pod hami.io/webhook: ignore, and kube-scheduler counts them",
    )
    more = planned(
        [full, SINGLE, {**SINGLE, "metadata": {**SINGLE["metadata"], "name": "x"}}], a_pod("p", {"nvidia.com/gpu": 3})
    )
    assert more.notes[0].startswith("single and 1 more offers")
    assert planned([full, SINGLE], a_pod("p", {"nvidia.com/gpu": 2})).notes == ()
    assert planned([full], a_pod("p", {"nvidia.com/gpu": 3})).notes == ()


@pytest.mark.parametrize("limits", [{"nvidia.com/mig-1g.10gb": 2}, {"nvidia.com/mig-1g.10gb": 8}])
def test_a_waiting_pod_of_instances_asks_for_devices(limits: dict[str, int]) -> None:
    registry = builtin()
    found = explain(snapshot_of([MIXED, a_pod("p", limits)], registry), "ns/p", Planner(registry))
    words = [line.words for line in explanations.lines(found, registry)]
    assert "  it asks for no devices" not in words
    assert any("nvidia.com/mig-1g.10gb" in each for each in words)


def test_a_running_pod_holds_its_instances() -> None:
    registry = builtin()
    running = a_pod("p", {"nvidia.com/mig-1g.10gb": 2}, "mixed")
    found = explain(snapshot_of([MIXED, running], registry), "ns/p", Planner(registry))
    words = [line.words for line in explanations.lines(found, registry)]
    assert words[1] == (
        "  holds nvidia.com/mig-1g.10gb=2: MIG instances; which of them, only the kubelet of its node knows"
    )
    assert words[2].startswith("  rescheduled now, it would go to the same node")
