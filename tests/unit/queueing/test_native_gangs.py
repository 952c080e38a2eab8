"""Kubernetes' own gangs: all or nothing, in the spellings of 1.35 to 1.37, for what is planned and what waits."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hami_plugins.engine.registry import Registry
from hami_plugins.explain import Explanation, PendingExplanation, explain
from hami_plugins.inputs import fleets, manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.plan import Plan, Planner, PodPlan, Stage, submission
from hami_plugins.plan.completeness import NO_NATIVE_GANGS, gaps
from hami_plugins.vendors import builtin
from hami_plugins.wire import objects

REGISTRY: Registry = builtin()
NAMED: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}
OF_WORKLOAD: dict[str, Any] = {"workloadRef": {"name": "w", "podGroup": "g"}}


def a_group(least: int | None = 4, *, version: str = "v1beta1") -> dict[str, Any]:
    policy = {"basic": {}} if least is None else {"gang": {"minCount": least}}
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": policy},
    }


def a_workload(least: int = 4) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": least}}}]},
    }


def a_spec(**spec: Any) -> dict[str, Any]:
    """Pods that take all cards of a node."""
    return {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 8}}}], **spec}


def workers(count: int, *, name: str = "w", **spec: Any) -> dict[str, Any]:
    body = {"replicas": count, "template": {"spec": a_spec(**spec)}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": body}


def a_pod(name: str, *, phase: str = "Pending", node: str = "", **spec: Any) -> dict[str, Any]:
    placed = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**a_spec(**spec), **placed},
        "status": {"phase": phase},
    }


def nodes(count: int) -> list[Any]:
    return list(fleets.objects_of(fleets.add_nodes(f"h100x8={count}")))


def a_plan(cards: int, *submitted: dict[str, Any]) -> Plan:
    before = snapshot_of(nodes(cards), REGISTRY)
    read = workloads.read(manifests.read(yaml.safe_dump_all(submitted), source="f"))
    before = submission.with_objects(before, read)
    return Planner(REGISTRY).plan(before, submission.units(read, before))


def planned(cards: int, *submitted: dict[str, Any]) -> tuple[PodPlan, ...]:
    return a_plan(cards, *submitted).pods


def stages(plans: tuple[PodPlan, ...]) -> list[Stage]:
    return [each.stage for each in plans]


@pytest.mark.parametrize(
    ("group", "named"),
    [
        (a_workload(), OF_WORKLOAD),
        (a_group(version="v1alpha2"), NAMED),
        (a_group(version="v1alpha3"), NAMED),
        (a_group(), NAMED),
    ],
    ids=["1.35", "1.36", "1.37 alpha", "1.37"],
)
def test_a_gang_starts_as_a_whole_or_not_at_all(group: dict[str, Any], named: dict[str, Any]) -> None:
    assert stages(planned(4, group, workers(4, **named))) == [Stage.PLACED] * 4
    held = planned(3, group, workers(4, **named))
    assert stages(held) == [Stage.GANG] * 3 + [Stage.NODES]
    assert held[0].why == "its gang waits: 4 have to start together and 3 would fit"


def test_members_beyond_the_least_wait_alone() -> None:
    assert stages(planned(3, a_group(2), workers(4, **NAMED))) == [Stage.PLACED] * 3 + [Stage.NODES]


def test_a_gang_waits_for_its_pods_before_any_node_is_looked_at() -> None:
    found = planned(9, a_group(4), workers(3, **NAMED))
    assert stages(found) == [Stage.GANG] * 3
    assert found[0].why == "its gang waits: 4 have to start together and 3 exist"


def test_members_of_several_workloads_count_together() -> None:
    found = planned(4, a_group(4), workers(3, **NAMED), workers(1, name="more", **NAMED))
    assert stages(found) == [Stage.PLACED] * 4


def test_each_replica_key_is_a_gang_of_its_own() -> None:
    first, second = ({"workloadRef": {**OF_WORKLOAD["workloadRef"], "podGroupReplicaKey": key}} for key in "ab")
    found = planned(5, a_workload(3), workers(3, name="one", **first), workers(3, name="two", **second))
    assert stages(found) == [Stage.PLACED] * 3 + [Stage.GANG] * 2 + [Stage.NODES]


def test_pods_of_a_group_without_a_gang_start_one_by_one() -> None:
    found = planned(3, a_group(None), workers(4, **NAMED))
    assert stages(found) == [Stage.PLACED] * 3 + [Stage.NODES]
    assert all(not each.notes for each in found)


@pytest.mark.parametrize(("named", "name"), [(NAMED, "default/g"), (OF_WORKLOAD, "default/w/g")])
def test_pods_of_a_group_that_does_not_exist_wait(named: dict[str, Any], name: str) -> None:
    (found,) = planned(1, workers(1, **named))
    assert found.stage is Stage.GATE
    assert found.why == f"it names the group {name} of scheduling.k8s.io, which does not exist; create it"


def test_which_scheduler_honours_the_gang_is_noted() -> None:
    (found,) = planned(1, a_group(1), workers(1, **NAMED))
    (note,) = found.notes
    assert note.startswith("gang g of scheduling.k8s.io: kube-scheduler 1.35 and later starts its pods together where")


def test_volcano_does_not_read_it() -> None:
    asked = {"volcano.sh/vgpu-number": 1}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "resources": {"limits": asked}}],
        "schedulerName": "volcano",
    }
    found = planned(1, a_group(4), workers(1, **{**NAMED, **spec}))
    assert found[0].stage is Stage.NODES
    assert any("Volcano does not read the gang g of its spec" in note for note in found[0].notes)


def test_a_job_that_asks_for_a_gang_needs_no_group() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "parallelism": 3,
            "scheduling": {"schedulingPolicy": {"gang": {"minCount": 2}}},
            "template": {"spec": a_spec()},
        },
    }
    found = a_plan(2, job)
    assert stages(found.pods) == [Stage.PLACED] * 2 + [Stage.NODES]
    assert NO_NATIVE_GANGS not in found.gaps
    assert stages(planned(1, job))[0] is Stage.GANG


def explained(*cluster: dict[str, Any], cards: int, pod: str = "p") -> Explanation:
    return explain(snapshot_of([*nodes(cards), *cluster], REGISTRY), f"default/{pod}", Planner(REGISTRY))


def pending(*cluster: dict[str, Any], cards: int) -> PendingExplanation:
    about = explained(*cluster, cards=cards).about
    assert isinstance(about, PendingExplanation)
    return about


def test_a_pod_that_waits_is_explained_with_its_gang() -> None:
    waiting = [a_pod(name, **NAMED) for name in ("p", "q")]
    assert pending(a_group(2), *waiting, cards=2).plan.stage is Stage.PLACED
    held = pending(a_group(2), *waiting, cards=1)
    assert held.plan.stage in {Stage.GANG, Stage.NODES}
    assert "2 have to start together and 1 would fit" in " ".join([held.plan.why, *held.plan.notes])


def test_members_that_run_or_have_ended_well_count() -> None:
    node = nodes(2)[0]["metadata"]["name"]
    runs = a_pod("q", phase="Running", node=node, **OF_WORKLOAD)
    assert pending(a_workload(2), runs, a_pod("p", **OF_WORKLOAD), cards=2).plan.stage is Stage.PLACED
    done = a_pod("q", phase="Succeeded", node=node, **OF_WORKLOAD)
    assert pending(a_workload(2), done, a_pod("p", **OF_WORKLOAD), cards=2).plan.stage is Stage.PLACED
    alone = pending(a_workload(2), a_pod("p", **OF_WORKLOAD), cards=2)
    assert alone.plan.why == "its gang waits: 2 have to start together and 1 exist"


def test_what_a_group_says_that_cannot_be_read_is_a_problem_of_the_listing() -> None:
    snapshot = snapshot_of([a_group(0)], REGISTRY)
    (problem,) = snapshot.problems
    assert "minCount" in problem.what
    assert snapshot.pod_groups == {}


def test_a_listing_without_the_groups_that_pods_name_has_a_gap() -> None:
    pod = objects.pod(a_pod("p", **NAMED))
    assert NO_NATIVE_GANGS in gaps(snapshot_of([*nodes(1), a_pod("p", **NAMED)], REGISTRY), [pod])
    assert NO_NATIVE_GANGS not in gaps(snapshot_of([*nodes(1), a_pod("p", **NAMED), a_group()], REGISTRY), [pod])


def test_a_gang_of_kubernetes_is_never_taken_for_one_of_volcano() -> None:
    volcanos = {**a_group(), "apiVersion": "scheduling.volcano.sh/v1beta1", "spec": {"minMember": 7}}
    groups = snapshot_of([volcanos, a_group(4)], REGISTRY).pod_groups
    assert {name: each.min_member for name, each in groups.items()} == {
        "default/g": 7,
        "default/scheduling.k8s.io/g": 4,
    }
