"""Plans of clusters that Koordinator schedules."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from hami_plugins import explain
from hami_plugins.engine.intake import Rules
from hami_plugins.explain.answers import Answers
from hami_plugins.inputs import fleets, manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.plan import Planner, PodPlan, Stage, submission, what_if
from hami_plugins.vendors import builtin
from hami_plugins.vendors.koordinator import ISOLATION

REGISTRY = builtin()
HALF = {"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50}


def a_cluster(*more: Any, unlabelled: bool = False, unhealthy: str = "[]") -> ClusterSnapshot:
    """Two nodes of four cards; ``more`` are further objects."""
    nodes = f"{{shape: l40sx4, count: 2, agents: koordinator, unhealthy: {unhealthy}}}"
    fleet = fleets.parse(f"name: k\nnodes: [{nodes}]", source="test")
    raws = fleets.objects_of(fleet)
    if unlabelled:
        del raws[1]["metadata"]["labels"][ISOLATION]  # type: ignore[index]
    return snapshot_of([*raws, *more], REGISTRY)


def a_pod(name: str = "p", limits: Any = None, *, scheduler: str = "koord-scheduler", **metadata: Any) -> Any:
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"limits": limits or HALF}}]}
    if scheduler:
        spec["schedulerName"] = scheduler
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def planned(snapshot: ClusterSnapshot, *raws: Any, rules: Rules | None = None) -> tuple[PodPlan, ...]:
    documents = [each for raw in raws for each in manifests.read(yaml.safe_dump(raw), source="f")]
    found = workloads.read(documents, pod_groups=snapshot.pod_groups)
    units = submission.units(found, snapshot)
    return Planner(REGISTRY, rules or Rules()).plan(submission.with_objects(snapshot, found), units).pods


def node_of(plan: PodPlan) -> str:
    assert isinstance(plan.decision, Placed), plan.words
    return str(plan.decision.node)


def test_pods_are_spread_unless_the_profile_packs_them() -> None:
    pods = [a_pod("a"), a_pod("b")]
    assert {node_of(each) for each in planned(a_cluster(), *pods)} == {"l40sx4-0", "l40sx4-1"}
    packed = what_if.with_policy(Rules(), "device=binpack")
    assert {node_of(each) for each in planned(a_cluster(), *pods, rules=packed)} == {"l40sx4-0"}


@pytest.mark.parametrize("scheduler", ["", "default-scheduler", "volcano", "hami-scheduler"])
def test_other_schedulers_do_not_look_at_koordinators_cards(scheduler: str) -> None:
    (found,) = planned(a_cluster(), a_pod(scheduler=scheduler))
    assert found.stage is Stage.ELSEWHERE
    assert "does not look at Koordinator's devices" in found.why


def test_a_label_names_the_scheduler_to_koordinator() -> None:
    labelled = a_pod(scheduler="", labels={"scheduling.koordinator.sh/scheduler-name": "koord-scheduler"})
    (found,) = planned(a_cluster(), labelled)
    assert found.stage is Stage.PLACED


def test_a_gang_of_koordinators_starts_together_or_not_at_all() -> None:
    group = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 3},
    }
    labels = {"pod-group.scheduling.sigs.k8s.io": "g"}
    pods = [a_pod(f"p{at}", {"koordinator.sh/gpu": 400}, labels=labels) for at in range(3)]
    assert {each.stage for each in planned(a_cluster(), group, *pods)} == {Stage.GANG, Stage.NODES}


def test_a_refusal_is_in_kube_schedulers_words() -> None:
    (found,) = planned(a_cluster(), a_pod(limits={"koordinator.sh/gpu": 500}))
    assert found.words == "0/2 nodes are available: 2 Insufficient koordinator.sh/gpu."
    held = a_pod("held", limits={"koordinator.sh/gpu-memory": "40Gi"})
    both = planned(a_cluster(), *(a_pod(f"p{at}", {"koordinator.sh/gpu-memory": "40Gi"}) for at in range(8)), held)
    assert both[-1].words == "0/2 nodes are available: 2 Insufficient koordinator.sh/gpu-memory."


def test_one_node_without_the_label_ends_the_search_and_its_words_are_the_refusal() -> None:
    whole = a_pod("whole", {"koordinator.sh/gpu": 400})
    whole["spec"]["nodeSelector"] = {ISOLATION: "HAMi-core"}
    *_, found = planned(a_cluster(unlabelled=True), whole, a_pod(labels={ISOLATION: "HAMi-core"}))
    assert found.words == 'running "DeviceShare" filter plugin: GPUIsolationProviderHAMICore not found on the node'


def test_a_labelled_pod_without_a_selector_is_warned_of_the_node_that_ends_its_search() -> None:
    labels = {ISOLATION: "HAMi-core"}
    (found,) = planned(a_cluster(unlabelled=True), a_pod(labels=labels))
    (note,) = found.notes
    assert "may give up on it at node l40sx4-1" in note
    (whole,) = planned(a_cluster(unlabelled=True), a_pod(limits={"koordinator.sh/gpu": 100}, labels=labels))
    selecting = a_pod(labels=labels)
    selecting["spec"]["nodeSelector"] = labels
    (careful,) = planned(a_cluster(unlabelled=True), selecting)
    (fine,) = planned(a_cluster(), a_pod(labels=labels))
    assert (whole.notes, careful.notes, fine.notes) == ((), (), ())


def test_further_nodes_of_the_cluster_are_koordinators_too() -> None:
    more = what_if.with_nodes(a_cluster(), ["l40sx4=1"], REGISTRY)
    pods = [a_pod(f"p{at}", {"koordinator.sh/gpu": 400}) for at in range(3)]
    assert {node_of(each) for each in planned(more, *pods)} == {"l40sx4-0", "l40sx4-1", "added-l40sx4-0"}


def test_cards_of_hamis_and_koordinators_pods_are_one_account() -> None:
    """A card that both register: what either of them gave out is taken for both."""
    snapshot = a_cluster()
    card = snapshot.nodes[0].ids[0]
    hamis = a_pod("hamis", {"nvidia.com/gpu": 1}, scheduler="hami-scheduler")
    hamis["metadata"] |= {"uid": "u", "annotations": {"hami.io/vgpu-devices-allocated": f"{card},NVIDIA,40000,90:;"}}
    hamis["spec"]["nodeName"] = "l40sx4-0"
    held = a_cluster(hamis)
    assert held.nodes[0].state.usage[0].memory == 40000
    (whole,) = planned(held, a_pod(limits={"koordinator.sh/gpu": 400}, scheduler="koord-scheduler"))
    assert node_of(whole) == "l40sx4-1"


def test_a_running_pod_is_explained() -> None:
    record = '{"gpu":[{"minor":2,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"16Gi"}}]}'
    running = a_pod("runs", uid="u", annotations={"scheduling.koordinator.sh/device-allocated": record})
    running["spec"]["nodeName"] = "l40sx4-1"
    snapshot = a_cluster(running)
    found = explain.explain(snapshot, "default/runs", Planner(REGISTRY))
    assert isinstance(found.about, explain.RunningExplanation)
    assert [share.device for share in found.about.record.allocations[0].shares] == [snapshot.nodes[1].ids[2]]
    assert found.about.flaws == ()
    assert isinstance(found.about.again, Placed)


def ways_out(snapshot: ClusterSnapshot, limits: Any) -> list[str]:
    documents = manifests.read(yaml.safe_dump(a_pod(limits=limits)), source="f")
    planner = Planner(REGISTRY, Rules())
    plan = planner.plan(snapshot, submission.units(workloads.read(documents), snapshot))
    return [each.sentence for answer in Answers(plan, planner).all for each in answer.ways_out]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (
            {"koordinator.sh/gpu.shared": 2, "koordinator.sh/gpu-core": 20, "koordinator.sh/gpu-memory": "100Gi"},
            "fits with koordinator.sh/gpu-memory: 92136Mi instead of 100Gi (on l40sx4-0)",
        ),
        (
            {"koordinator.sh/gpu.shared": 8, "koordinator.sh/gpu-core": 80, "koordinator.sh/gpu-memory": "8Gi"},
            "fits with koordinator.sh/gpu.shared: 4 instead of 8 (on l40sx4-0)",
        ),
    ],
)
def test_less_of_a_sum_is_offered_as_a_sum(limits: Any, words: str) -> None:
    assert words in ways_out(a_cluster(), limits)


def test_less_of_a_percentage_or_of_cores_is_offered_as_a_sum_too() -> None:
    record = (
        '{"gpu":[{"minor":%d,"resources":{"koordinator.sh/gpu-core":"30","koordinator.sh/gpu-memory":"4606Mi"},'
        '"id":"%s"}]}'
    )
    idle = a_cluster()
    busy = []
    for node in idle.nodes:
        for minor, card in enumerate(node.ids):
            annotations = {"scheduling.koordinator.sh/device-allocated": record % (minor, card)}
            pod = a_pod(f"{node.name}-{minor}", uid=f"{node.name}-{minor}", annotations=annotations)
            pod["spec"]["nodeName"] = str(node.name)
            pod["spec"]["containers"][0]["resources"] = {"limits": {"koordinator.sh/gpu-core": 1}}
            busy.append(pod)
    held = a_cluster(*busy)
    limits = {"koordinator.sh/gpu.shared": 2, "koordinator.sh/gpu-core": 40, "koordinator.sh/gpu-memory-ratio": 190}
    assert "fits with koordinator.sh/gpu-memory-ratio: 180 instead of 190 (on l40sx4-0)" in ways_out(held, limits)
    limits = {"koordinator.sh/gpu.shared": 2, "koordinator.sh/gpu-core": 180, "koordinator.sh/gpu-memory-ratio": 20}
    assert "fits with koordinator.sh/gpu-core: 140 instead of 180 (on l40sx4-0)" in ways_out(held, limits)


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"scheduling.koordinator.sh/device-allocate-hint": '{"gpu":{"requiredTopologyScope":"PCIe"}}'}, "at PCIe"),
        (
            {
                "scheduling.koordinator.sh/device-joint-allocate": (
                    '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'
                )
            },
            "SamePCIe of gpu and rdma has to hold",
        ),
        ({"scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes":["gpu","rdma"]}'}, "is rather wanted"),
        ({"scheduling.koordinator.sh/gpu-partition-spec": '{"allocatePolicy":"Restricted"}'}, "(Restricted)"),
        ({"scheduling.koordinator.sh/gpu-partition-spec": "{"}, "lets the pod wait"),
    ],
)
def test_a_plan_says_which_wishes_it_does_not_look_at(annotations: dict[str, str], said: str) -> None:
    whole = {"koordinator.sh/gpu": 200}
    (plan,) = planned(a_cluster(), a_pod("p", whole, annotations=annotations))
    assert node_of(plan)
    assert [said in note for note in plan.notes] == [True]
    numa = {"scheduling.koordinator.sh/device-allocate-hint": '{"gpu":{"requiredTopologyScope":"NUMANode"}}'}
    assert not planned(a_cluster(), a_pod("p", whole, annotations=numa))[0].notes


def test_an_npu_is_looked_for_in_what_nodes_offer() -> None:
    asked = {
        "koordinator.sh/gpu.shared": 1,
        "huawei.com/npu-core": 5,
        "huawei.com/npu-cpu": 1,
        "koordinator.sh/gpu-memory": "16Gi",
    }
    (plan,) = planned(a_cluster(), a_pod("p", asked))
    assert plan.stage is not Stage.PLACED
    assert "huawei.com/npu-core" in plan.words
    sums = {"huawei.com/npu-core": "20", "huawei.com/npu-cpu": "7", **dict.fromkeys(("cpu", "pods"), "9")}
    sums |= {"koordinator.sh/gpu.shared": "100", "koordinator.sh/gpu-memory": "32Gi"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "npu"}, "status": {"allocatable": sums}}
    (plan,) = planned(a_cluster(node), a_pod("p", asked))
    assert node_of(plan) == "npu"
    assert any("sums alone" in note for note in plan.notes)
    (plan,) = planned(a_cluster(node), a_pod("p", asked | {"huawei.com/npu-core": 25}))
    assert plan.stage is not Stage.PLACED


def holding(memory: str, cores: int = 0) -> list[Any]:
    """On each card of both nodes a pod with this much of it."""
    found = []
    for node in a_cluster().nodes:
        for minor, card in enumerate(node.ids):
            resources = {"koordinator.sh/gpu-memory": memory} | (
                {"koordinator.sh/gpu-core": str(cores)} if cores else {}
            )
            record = json.dumps({"gpu": [{"minor": minor, "id": card, "resources": resources}]})
            pod = a_pod(f"{node.name}-{minor}", {"koordinator.sh/gpu-memory": memory}, uid=f"{node.name}-{minor}")
            pod["metadata"]["annotations"] = {"scheduling.koordinator.sh/device-allocated": record}
            pod["spec"]["nodeName"] = str(node.name)
            found.append(pod)
    return found


@pytest.mark.parametrize(
    ("memory", "cores", "asked"),
    [
        ("100Mi", 0, {"koordinator.sh/gpu": 100}),
        ("100Mi", 0, {"koordinator.sh/gpu": 400}),
        ("100Mi", 1, {"koordinator.sh/gpu-memory-ratio": 100}),
        ("23000Mi", 1, {"koordinator.sh/gpu-memory-ratio": 51}),
    ],
)
def test_a_pod_that_koordinator_would_place_by_percentages_cut_off_is_told_so(
    memory: str, cores: int, asked: dict[str, int]
) -> None:
    (plan,) = planned(a_cluster(*holding(memory, cores)), a_pod("late", asked))
    assert plan.stage is Stage.NODES
    (note,) = plan.notes
    assert note.startswith("Koordinator 1.7.0 may place it on l40sx4-0 all the same")
    assert note.endswith("would promise memory of card 0, 1, 2, 3 there twice")


@pytest.mark.parametrize(
    ("memory", "cores", "asked"),
    [
        ("100Mi", 1, {"koordinator.sh/gpu": 100}),
        ("1Gi", 0, {"koordinator.sh/gpu": 100}),
        ("23000Mi", 1, {"koordinator.sh/gpu-memory-ratio": 52}),
        ("23000Mi", 1, {"koordinator.sh/gpu-memory": "30Gi"}),
        ("100Mi", 0, {"koordinator.sh/gpu": 500}),
    ],
)
def test_a_pod_that_koordinator_refuses_as_well_is_told_nothing(memory: str, cores: int, asked: dict[str, Any]) -> None:
    (plan,) = planned(a_cluster(*holding(memory, cores)), a_pod("late", asked))
    assert plan.stage is Stage.NODES
    assert plan.notes == ()


def with_device_plugin(count: int) -> ClusterSnapshot:
    """One node of four cards, of which NVIDIA's device plugin offers some."""
    fleet = fleets.parse("name: k\nnodes: [{shape: l40sx4, count: 1, agents: koordinator}]", source="test")
    node, *others = (dict(each) for each in fleets.objects_of(fleet))
    node["status"]["allocatable"]["nvidia.com/gpu"] = str(count)  # type: ignore[index]
    return snapshot_of([node, *others], REGISTRY)


WHOLE_CARD = {"nvidia.com/gpu": 1}


def test_whole_cards_by_nvidias_name_are_koordinators_where_its_scheduler_places_the_pod() -> None:
    first, second = planned(with_device_plugin(4), a_pod("a", {"nvidia.com/gpu": 3}), a_pod("b", {"nvidia.com/gpu": 2}))
    assert isinstance(first.decision, Placed)
    assert [share.cores for share in first.decision.shares()] == [100] * 3
    assert second.stage is Stage.NODES
    assert first.notes == ()


def test_a_node_without_the_device_plugin_has_no_such_cards() -> None:
    (plan,) = planned(a_cluster(), a_pod("a", WHOLE_CARD))
    assert plan.words == "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


def test_the_label_names_koordinators_scheduler_for_whole_cards_as_well() -> None:
    labels = {"scheduling.koordinator.sh/scheduler-name": "koord-binpack"}
    (plan,) = planned(with_device_plugin(4), a_pod("a", WHOLE_CARD, scheduler="", labels=labels))
    assert plan.intake.dialect == "koordinator"


def test_whole_cards_of_other_schedulers_are_hamis() -> None:
    (plan,) = planned(with_device_plugin(4), a_pod("a", WHOLE_CARD, scheduler=""))
    assert plan.intake.dialect == "hami"


def test_deprecated_names_are_read_as_the_present_ones() -> None:
    old = {
        name.replace("koordinator.sh", "kubernetes.io"): amount for name, amount in HALF.items() if "shared" not in name
    }
    (plan,) = planned(a_cluster(), a_pod("a", old))
    assert isinstance(plan.decision, Placed)
    assert [share.cores for share in plan.decision.shares()] == [50]


def test_whole_npus_are_refused_because_of_what_koordinators_webhook_adds() -> None:
    (plan,) = planned(a_cluster(), a_pod("a", {"huawei.com/npu-core": 20, "koordinator.sh/gpu-memory-ratio": 100}))
    assert "Koordinator's webhook adds koordinator.sh/gpu.shared, with which its scheduler refuses the pod" in plan.why
    assert "DisableDeviceResourceSpec=true" in plan.why
    assert "name koordinator.sh/gpu.shared" not in plan.why


def test_koordinator_would_not_place_a_pod_on_a_broken_card_all_the_same() -> None:
    cluster = a_cluster(*holding("100Mi"), unhealthy="[0]")
    (plan,) = planned(cluster, a_pod("late", {"koordinator.sh/gpu": 300}))
    assert plan.notes[0].endswith("would promise memory of card 1, 2, 3 there twice")
    (plan,) = planned(cluster, a_pod("late", {"koordinator.sh/gpu": 400}))
    assert not plan.notes
