"""Plans and explanations know what keeps Neuron pods off nodes, by the rules of the allocator."""

from __future__ import annotations

from typing import Any

from hami_plugins.engine.registry import Registry
from hami_plugins.explain import explain
from hami_plugins.explain.answers import Answers
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.plan import Plan, Planner, Stage, submission
from hami_plugins.wire.gang_keys import GROUP_KEY
from neuron_topology.core.capacity_block_end import DURATION_KEY, END_KEY
from neuron_topology.core.nodes import HEALTH_KEY
from neuron_topology.core.vendor import SPEC
from tests import raw_objects
from tests.unit.neuron_topology.hypernodes.nodes import an_idle_node
from tests.unit.neuron_topology.jobs.submitted import NEURON, a_container, a_job, a_task

END = 1_800_000_000.0
REGISTRY = Registry([SPEC])
ENDS_AT = "the Capacity Block ends at 2027-01-15T08:00:00Z"


def a_block(name: str = "block") -> dict[str, Any]:
    node = an_idle_node(name)
    node["metadata"]["annotations"] = {END_KEY: "2027-01-15T08:00:00Z"}
    return node


def a_pod(name: str = "p", *, job: str = "", **annotations: str) -> dict[str, Any]:
    notes = {key.replace("_", "-"): value for key, value in annotations.items()}
    written = {f"hami-plugins.io/{key}": value for key, value in notes.items()} | ({GROUP_KEY: job} if job else {})
    amounts = {NEURON: "4"}
    metadata = {"namespace": "default", "uid": f"uid-{name}", "annotations": written}
    return raw_objects.pod(
        name, raw_objects.container("c", limits=amounts, requests=amounts, image="i"), metadata=metadata
    )


def planned(workload: dict[str, Any], *cluster: dict[str, Any], now: float = END - 7200) -> tuple[Plan, Planner]:
    planner = Planner(REGISTRY, now=now)
    snapshot = snapshot_of(cluster, REGISTRY)
    submitted = workloads.read(manifests.read(str(workload).replace("'", '"'), source="f"))
    return planner.plan(snapshot, submission.units(submitted, snapshot)), planner


def test_a_pod_that_would_outlive_a_capacity_block_goes_to_another_node_or_waits_with_the_reason() -> None:
    long = a_pod(expected_duration="4h")
    found, _ = planned(long, a_block(), an_idle_node("own"))
    assert [(each.stage, each.decision.node) for each in found.pods] == [(Stage.PLACED, "own")]  # type: ignore[union-attr]
    found, planner = planned(long, a_block())
    (refusal,) = Answers(found, planner).refusals()
    assert ENDS_AT in refusal.answer.why
    assert "declared duration is 4.0 h" in refusal.answer.why
    assert planned(a_pod(expected_duration="1h"), a_block())[0].complete
    assert planned(a_pod(), a_block())[0].complete


def a_tainted_node(kubelet: str) -> dict[str, Any]:
    node = an_idle_node("trn")
    node["spec"] = {"taints": [{"key": NEURON, "value": "true", "effect": "NoSchedule"}]}
    node["status"]["nodeInfo"] = {"kubeletVersion": kubelet}
    return node


def test_on_eks_a_pod_tolerates_the_taint_of_the_devices_that_it_requests_and_the_plan_notes_it() -> None:
    found, _ = planned(a_pod(), a_tainted_node("v1.34.1-eks-113cf36"))
    assert found.complete
    assert any(f"no toleration of the taint {NEURON} on trn" in note for note in found.pods[0].notes)
    found, _ = planned(a_pod(), a_tainted_node("v1.34.1"))
    assert not found.complete


def test_under_volcano_the_plan_says_that_only_an_allocator_makes_the_named_devices_the_ones_that_the_pod_gets() -> (
    None
):
    pod = a_pod()
    pod["spec"]["schedulerName"] = "volcano"
    (plan,) = planned(pod, an_idle_node("trn"))[0].pods
    assert [each.rule for each in plan.differences] == ["unchosen-devices"]
    assert "only counts Neuron devices" in plan.notes[0]
    marked = a_pod(allocator="extender")
    marked["spec"]["schedulerName"] = "volcano"
    assert not planned(marked, an_idle_node("trn"))[0].pods[0].notes
    pod["spec"]["containers"][0]["resources"]["limits"][NEURON] = "16"
    pod["spec"]["containers"][0]["resources"]["requests"][NEURON] = "16"
    assert not planned(pod, an_idle_node("trn"))[0].pods[0].notes


def test_what_would_help_is_not_the_node_that_goes() -> None:
    big = a_pod(expected_duration="4h")
    busy = a_pod("busy")
    busy["spec"] |= {"nodeName": "own"}
    busy["metadata"]["annotations"] = {"AWS_NEURON_IDS": ",".join(map(str, range(16)))}
    for resources in (busy["spec"]["containers"][0]["resources"]["limits"],):
        resources[NEURON] = "16"
    found, planner = planned(big, a_block(), an_idle_node("own"), busy)
    (refusal,) = Answers(found, planner).refusals()
    assert refusal.answer.ways_out
    assert "block" not in {each.node for each in refusal.answer.ways_out}


def test_what_a_volcano_job_says_of_its_time_holds_for_the_pods_that_it_makes() -> None:
    job = a_job(a_task(a_container({NEURON: 4}, {NEURON: 4})))
    assert planned(job, a_block())[0].complete
    long = {**job, "metadata": {"name": "train", "annotations": {DURATION_KEY: "4h"}}}
    assert not planned(long, a_block())[0].complete
    assert planned(long, a_block(), now=END - 5 * 3600)[0].complete


def test_a_pod_that_waits_is_explained_by_what_its_job_says() -> None:
    metadata = {"name": "train", "namespace": "default", "annotations": {DURATION_KEY: "4h"}}
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata}
    waiting = a_pod("train-0", job="train")
    waiting["spec"]["schedulerName"] = "volcano"
    running = {"spec": {"minMember": 1}, "status": {"phase": "Inqueue"}}
    snapshot = snapshot_of([a_block(), waiting, {**group, **running}], REGISTRY)
    found = explain(snapshot, "train-0", Planner(REGISTRY, now=END - 7200)).about
    assert ENDS_AT in str(found.why)
    assert explain(snapshot, "train-0", Planner(REGISTRY, now=END - 5 * 3600)).about.why is None


def test_without_a_clock_it_is_when_the_snapshot_was_taken() -> None:
    node = a_block()
    for taken, fits in (("2027-01-15T03:00:00Z", True), ("2027-01-15T07:00:00Z", False)):
        node["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": taken}]
        snapshot = snapshot_of([node, a_pod(expected_duration="2h")], REGISTRY)
        assert (explain(snapshot, "p", Planner(REGISTRY)).about.why is None) is fits


def test_a_node_that_is_reported_broken_is_no_place_and_its_reason_is_told() -> None:
    broken = an_idle_node("n0")
    error = {"type": "NeuronHealth", "status": "True", "reason": "NeuronHasError_HBM_UNCORRECTABLE_ERROR"}
    broken["status"] |= {"conditions": [error]}
    found, planner = planned(a_pod(), broken)
    (refusal,) = Answers(found, planner).refusals()
    assert "the node's condition NeuronHealth is True (NeuronHasError_HBM_UNCORRECTABLE_ERROR)" in refusal.answer.why
    broken["metadata"]["annotations"] = {HEALTH_KEY: '{"devices": [0]}'}
    assert planned(a_pod(), broken)[0].complete


def test_devices_that_stay_free_because_some_are_broken_are_told() -> None:
    node = an_idle_node("n0")
    node["status"] |= {"allocatable": {**node["status"]["allocatable"], NEURON: "15"}}
    holder = a_pod("busy")
    holder["spec"] |= {"nodeName": "n0"}
    holder["metadata"]["annotations"] = {"AWS_NEURON_IDS": "0,1,2,3,4,5,6,7"}
    cores = a_pod("cores")
    cores["spec"]["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neuroncore": "16"}}
    found, planner = planned(cores, node, holder)
    (refusal,) = Answers(found, planner).refusals()
    assert (
        "8 of 16 devices are free but reserved: the node reports that many broken devices without naming them"
        in refusal.answer.why
    )
    assert any("not allocatable" in problem.what for problem in found.before.problems)
