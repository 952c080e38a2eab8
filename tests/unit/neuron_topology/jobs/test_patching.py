"""What becomes of a Volcano Job for Neuron devices, with the twelve jobs that TorchX really submits."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.demand import demand_of
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError, WireError
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import admission, quantity
from hami_plugins.wire import pods as wire_pods
from hami_plugins.wire.fields import Json
from neuron_topology.core import vendor
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.jobs import names, node_capacity, patch, templates
from neuron_topology.core.jobs.node_capacity import HostCapacity
from neuron_topology.core.jobs.patch import JobDefaults
from neuron_topology.core.named_resources import NAMED
from tests.unit.neuron_topology.jobs.submitted import DRY_RUNS, EFA, NEURON, a_container, a_dry_run, a_job, a_task

CORES, LEGACY, SETS = "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice", "hami-plugins.io/neuron-sets"

every_dry_run = pytest.mark.parametrize("path", DRY_RUNS, ids=lambda path: path.stem)


def patched(job: Json, **defaults: Any) -> Json:
    return patch.patch(job, JobDefaults(**defaults)).job


def containers(job: Json) -> list[dict[str, Any]]:
    return [each for task in job["spec"]["tasks"] for each in task["template"]["spec"]["containers"]]


def pods(job: Json) -> list[dict[str, Any]]:
    return [task["template"]["spec"] for task in job["spec"]["tasks"]]


def test_there_are_twelve_dry_runs() -> None:
    assert len(DRY_RUNS) == 12


@every_dry_run
def test_volcano_sees_the_accelerators_of_what_torchx_submits(path: Path) -> None:
    for container in containers(patched(a_dry_run(path))):
        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
        assert "aws.amazon.com/neurondevice" not in {*limits, *requests}
        assert requests[NEURON] == limits[NEURON]
        assert requests.get(EFA) == limits.get(EFA)


@every_dry_run
def test_what_torchx_submits_fits_beside_the_daemons_of_its_node(path: Path) -> None:
    for pod in pods(patched(a_dry_run(path))):
        left = node_capacity.for_pods(INSTANCE_TYPES[pod["nodeSelector"]["node.kubernetes.io/instance-type"]])
        requests = pod["containers"][0]["resources"]["requests"]
        assert quantity.parse(requests.get("cpu", 0), key="cpu").nano <= left.millicpu * NANO // 1000
        assert quantity.parse(requests.get("memory", 0), key="memory").nano <= left.memory * NANO


@every_dry_run
def test_what_torchx_submits_tolerates_the_taint_of_neuron_nodes_once(path: Path) -> None:
    assert [pod["tolerations"] for pod in pods(patched(a_dry_run(path)))] == [
        [{"key": NEURON, "operator": "Exists", "effect": "NoSchedule"}] for _ in pods(a_dry_run(path))
    ]


@pytest.mark.parametrize(("number", "least"), [("1", 2), ("2", 1), ("3", 4), ("4", 2), ("5", 2), ("6", 2)])
def test_the_gang_is_as_large_as_volcanos_webhook_makes_it(number: str, least: int) -> None:
    found = {patched(a_dry_run(path))["spec"]["minAvailable"] for path in DRY_RUNS if path.name.startswith(number)}
    assert found == {least}


@every_dry_run
def test_a_gang_of_several_pods_stays_in_a_zone_and_a_single_pod_is_free(path: Path) -> None:
    job = patched(a_dry_run(path))
    expected = {"mode": "hard", "highestTierName": "zone"} if len(pods(job)) > 1 else None
    assert job["spec"].get("networkTopology") == expected


@every_dry_run
def test_the_loss_of_a_pod_restarts_the_job_a_stated_number_of_times(path: Path) -> None:
    job = patched(a_dry_run(path))
    assert job["spec"]["maxRetry"] == 3
    for task in job["spec"]["tasks"]:
        followed = {
            each["event"]: each["action"] for each in (*job["spec"].get("policies", ()), *task.get("policies", ()))
        }
        assert followed == {"PodFailed": "RestartJob", "PodEvicted": "RestartJob"}


@every_dry_run
def test_patching_twice_changes_nothing_more(path: Path) -> None:
    once = patch.patch(a_dry_run(path)).job
    again = patch.patch(once)
    assert again.changes == ()
    assert again.job is once


@every_dry_run
def test_the_given_job_is_left_alone_and_nothing_else_of_it_changes(path: Path) -> None:
    before = a_dry_run(path)
    kept = copy.deepcopy(before)
    after = patched(before)
    assert before == kept
    changed = {operation["path"].rsplit("/", 1)[0] for operation in admission.patch(before, after)}
    allowed = ("/resources/limits", "/resources/requests", "/spec", "/env")
    assert all(place.endswith(allowed) for place in changed)


def test_a_job_without_neuron_is_none_of_our_business() -> None:
    job = a_job(a_task(a_container({"nvidia.com/gpu": 1})))
    assert patch.patch(job) == (job, (), ())


def test_what_the_job_says_itself_stays() -> None:
    spec = {
        "minAvailable": 1,
        "maxRetry": 7,
        "policies": [{"event": "*", "action": "AbortJob"}],
        "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
    }
    after = patched(a_job(**spec))["spec"]
    assert {name: after[name] for name in spec} == spec


def test_a_wish_for_restarts_beats_the_number_in_the_job() -> None:
    assert patched(a_job(maxRetry=7), restarts=2)["spec"]["maxRetry"] == 2


def test_no_restarts_means_that_the_job_ends_with_its_pod() -> None:
    spec = patched(a_job(), restarts=0)["spec"]
    assert {each["action"] for each in spec["policies"]} == {"TerminateJob"}
    assert "maxRetry" not in spec
    # Volcano's webhook would make 3 of a 0.
    assert patched(a_job(maxRetry=7), restarts=0)["spec"]["maxRetry"] == 7


def test_events_in_a_list_count_as_handled() -> None:
    policies = [{"events": ["PodFailed", "PodEvicted"], "action": "AbortJob"}]
    assert patched(a_job(policies=policies))["spec"]["policies"] == policies


@pytest.mark.parametrize(
    ("policy", "key"),
    [
        ({"events": 5}, "[0].events"),
        ({"events": "PodFailed"}, "[0].events"),
        ({"events": [["PodFailed"]]}, "[0].events[0]"),
        ({"event": ["PodFailed"]}, "[0].event"),
        (3, "[0]"),
    ],
)
def test_policies_that_are_none_are_refused_with_their_place(policy: object, key: str) -> None:
    jobs = {"spec": a_job(policies=[policy]), "spec.tasks[0]": a_job(a_task(policies=[policy]))}
    for place, job in jobs.items():
        with pytest.raises(WireError) as refused:
            patch.patch(job, place="job train:")
        assert refused.value.key == f"job train: {place}.policies{key}"


def test_a_job_whose_tasks_may_all_be_missing_is_no_gang() -> None:
    assert "minAvailable" not in patched(a_job(a_task(minAvailable=0)))["spec"]


def test_without_a_tier_nothing_is_said_of_the_network() -> None:
    assert "networkTopology" not in patched(a_job(), tier="")["spec"]


def test_a_tier_in_the_environment_wins_over_the_wish() -> None:
    named = a_task(a_container(env=[{"name": "A"}, {"name": templates.TIER_ENV, "value": "network-layer-2"}]))
    job = patched(a_job(a_task(a_container(env=[3])), named), tier="zone")
    assert job["spec"]["networkTopology"]["highestTierName"] == "network-layer-2"


def test_a_tier_in_the_environment_that_there_is_not_is_refused() -> None:
    named = a_task(a_container(env=[{"name": templates.TIER_ENV, "value": "rack"}]), replicas=2)
    with pytest.raises(WireError, match="expected one of ultraserver-2"):
        patch.patch(a_job(named))


def test_names_of_pods_that_no_cluster_takes_are_found() -> None:
    tasks = [a_task(name="w"), a_task(name="x" * 40, replicas=11), {"template": {}}]
    job = {**a_job(*tasks), "metadata": {"name": "j" * 20}}
    assert list(names.too_long(job)) == [f"{'j' * 20}-{'x' * 40}-10"]


def test_soft_topology_and_a_nearer_tier_can_be_asked_for() -> None:
    assert patched(a_job(), tier="ultraserver-4", mode="soft")["spec"]["networkTopology"] == {
        "mode": "soft",
        "highestTierName": "ultraserver-4",
    }


def test_a_request_without_limit_gets_the_limit_that_kubernetes_wants() -> None:
    job = patched(a_job(a_task(a_container({}, {NEURON: 4}))))
    assert containers(job)[0]["resources"] == {"limits": {NEURON: 4}, "requests": {NEURON: 4}}


def test_the_old_name_beside_the_new_one_with_the_same_amount_is_dropped() -> None:
    job = patched(a_job(a_task(a_container({LEGACY: 4, NEURON: 4}))))
    assert containers(job)[0]["resources"]["limits"] == {NEURON: 4}


@pytest.mark.parametrize(
    ("container", "said"),
    [
        (a_container({LEGACY: 2, NEURON: 4}), "remove the old one"),
        (a_container({CORES: 2, NEURON: 4}), "is also requested"),
        (a_container({NEURON: 4}, {NEURON: 2}), "Kubernetes requires them to be equal"),
        (a_container({NEURON: "half"}), "not a quantity"),
        (a_container({NEURON: "500m"}), "a whole number, 0 or more"),
        (a_container({NEURON: True}), "a whole number"),
        (a_container({NEURON: 17}), "trn1.32xlarge has 16"),
        (a_container({CORES: 33}), "trn1.32xlarge has 32"),
        (a_container({NEURON: 16, EFA: 9}), "trn1.32xlarge has 8"),
        (a_container(command=["a", 3]), "expected text"),
    ],
)
def test_requests_that_no_node_can_meet_are_refused_with_their_place(container: dict[str, Any], said: str) -> None:
    with pytest.raises(WireError) as refused:
        patch.patch(a_job(a_task(container)), place="job train:")
    assert said in str(refused.value)
    assert refused.value.key.startswith("job train: spec.tasks[0].template.spec.containers")


@given(
    amounts=st.lists(
        st.dictionaries(st.sampled_from([NEURON, CORES]), st.sampled_from([-1, 0, 1, 3, "4", "500m"]), max_size=2),
        min_size=1,
        max_size=3,
    )
)
def test_what_the_scheduler_refuses_everywhere_is_refused_and_nothing_else_is(amounts: list[dict[str, Any]]) -> None:
    job = a_job(
        a_task(*(a_container(each, name=f"c{at}") for at, each in enumerate(amounts)), spec={"nodeSelector": {}})
    )
    pod = {"metadata": {"name": "p"}, "spec": job["spec"]["tasks"][0]["template"]["spec"]}
    try:
        demand_of(wire_pods.pod(pod), Registry([vendor.SPEC]))
    except InvalidRequestError:
        with pytest.raises(WireError):
            patch.patch(job)
    else:
        patch.patch(job)


def test_devices_in_one_container_and_cores_in_another_are_refused_with_their_place() -> None:
    with pytest.raises(WireError, match="uses the other unit") as refused:
        patch.patch(a_job(a_task(a_container({NEURON: 4}), a_container({CORES: 2}))), place="job train:")
    assert refused.value.key.startswith("job train: spec.tasks[0].template.spec.containers[0].resources.limits[")


def test_none_of_a_unit_is_nothing_asked_for() -> None:
    assert patched(a_job(a_task(a_container({NEURON: 4, CORES: 0}), a_container({CORES: "0"}))))


def test_too_much_is_told_with_the_container_that_asks_for_most() -> None:
    with pytest.raises(WireError, match=r"a pod asks for 20, and trn1\.32xlarge has 16") as refused:
        patch.patch(a_job(a_task(a_container({NEURON: 4}), a_container({NEURON: 16}))), place="job train:")
    assert refused.value.key == f"job train: spec.tasks[0].template.spec.containers[1].resources.limits[{NEURON}]"


def test_a_sidecar_asks_beside_the_containers_and_an_init_container_before_them() -> None:
    init = a_container({NEURON: 8})
    job = a_job(a_task(a_container({NEURON: 16}), spec={"initContainers": [init]}))
    assert patched(job)
    with pytest.raises(WireError, match="a pod asks for 24"):
        patch.patch(
            a_job(a_task(a_container({NEURON: 16}), spec={"initContainers": [{**init, "restartPolicy": "Always"}]}))
        )


def test_devices_that_default_pools_never_allocate_together_are_patched_with_a_remark() -> None:
    found = patch.patch(a_job(a_task(a_container({NEURON: 7}))), place="job train:")
    (remark,) = found.remarks
    assert str(remark) == (
        f"job train: spec.tasks[0].template.spec.containers[0].resources.limits[{NEURON}]: "
        "7 devices of trn1.32xlarge are never allocated together; ask for 4 or 8, "
        "or select a node pool with hami-plugins.io/neuron-sets=linked"
    )
    assert patch.patch(found.job, place="job train:") == (found.job, (), (remark,))


@pytest.mark.parametrize("kind", INSTANCE_TYPES.values(), ids=lambda kind: kind.name)
def test_a_linked_pool_allocates_every_number_of_devices_that_its_machine_has(kind: Any) -> None:
    for count in range(1, kind.devices + 1):
        selector = {"node.kubernetes.io/instance-type": kind.name, SETS: "linked"}
        job = a_job(a_task(a_container({NEURON: count}), spec={"nodeSelector": selector}))
        assert patch.patch(job).remarks == ()


def test_devices_that_the_selected_pool_never_allocates_together_are_refused() -> None:
    selector = {"node.kubernetes.io/instance-type": "trn1.32xlarge", SETS: "aws"}
    with pytest.raises(WireError, match=r"never allocated together; ask for 4 or 8, or select .*=linked"):
        patch.patch(a_job(a_task(a_container({NEURON: 7}), spec={"nodeSelector": selector})))


@pytest.mark.parametrize("broken", [{"tasks": [3]}, {"tasks": "x"}, {"tasks": [{"template": {"spec": []}}]}])
def test_what_is_shaped_like_no_job_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        patch.patch({**a_job(), "spec": broken})


def test_cores_of_trainium_2_are_counted_at_the_finer_setting() -> None:
    selector = {"nodeSelector": {"node.kubernetes.io/instance-type": "trn2.48xlarge"}}
    assert patched(a_job(a_task(a_container({CORES: 128}), spec=selector)))
    with pytest.raises(WireError, match="has 128"):
        patch.patch(a_job(a_task(a_container({CORES: 129}), spec=selector)))


def test_on_an_unknown_or_unnamed_machine_amounts_stay() -> None:
    for selector in ({}, {"node.kubernetes.io/instance-type": "trn9.huge"}):
        big = a_container({NEURON: 64}, {"cpu": 999})
        job = patched(a_job(a_task(big, spec={"nodeSelector": selector})))
        assert containers(job)[0]["resources"]["requests"] == {"cpu": 999, NEURON: 64}


def test_the_largest_container_gives_what_the_node_has_not() -> None:
    first, second = a_container({NEURON: 16, "cpu": 100}), a_container({}, {"cpu": "30"})
    for both, left in (((first, second), ["97110m", "30"]), ((second, first), ["30", "97110m"])):
        job = patched(a_job(a_task(*both)))
        assert [each["resources"]["requests"].get("cpu") for each in containers(job)] == left


def test_a_cut_names_the_limit_and_its_origin() -> None:
    job = a_job(a_task(a_container({NEURON: 16, "cpu": 128})))
    usual = "127110m, the most that EKS usually leaves on a"
    own = "120000m, the most that the cluster's"
    for rooms, most in (({}, usual), ({"trn1.32xlarge": HostCapacity(120_000, 10**12)}, own)):
        changes = patch.patch(job, JobDefaults(rooms=rooms)).changes
        told = f"instead of 128000m: the pod may ask for {most} trn1.32xlarge"
        assert sum(told in each.what for each in changes) == 1


def test_a_request_that_the_clusters_nodes_meet_stays() -> None:
    job = a_job(a_task(a_container({NEURON: 16, "cpu": 128})))
    kept = patch.patch(job, JobDefaults(rooms={"trn1.32xlarge": HostCapacity(128_000, 10**12)})).job
    assert containers(kept)[0]["resources"]["limits"]["cpu"] == 128
    assert "cpu" not in containers(kept)[0]["resources"]["requests"]


def test_a_pod_of_many_containers_that_needs_more_than_a_node_is_refused() -> None:
    several = [a_container({NEURON: 1}, {"cpu": 60}), *(a_container({}, {"cpu": 60}) for _ in range(3))]
    with pytest.raises(WireError, match=r"the most that EKS usually leaves on a trn1\.32xlarge"):
        patch.patch(a_job(a_task(*several)))


def test_no_container_is_left_with_nothing() -> None:
    all_there_is = f"{node_capacity.for_pods(INSTANCE_TYPES['trn1.32xlarge']).millicpu}m"
    several = [a_container({NEURON: 1}, {"cpu": all_there_is}), a_container({}, {"cpu": all_there_is})]
    with pytest.raises(WireError, match=r"the most that EKS usually leaves on a trn1\.32xlarge"):
        patch.patch(a_job(a_task(*several)))


def test_init_containers_ask_one_at_a_time() -> None:
    spec = {"initContainers": [a_container({NEURON: 16}), a_container({NEURON: 16})]}
    job = patched(a_job(a_task(a_container({NEURON: 16}), spec=spec)))
    assert [each["resources"]["requests"] for each in pods(job)[0]["initContainers"]] == [{NEURON: 16}] * 2


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": NEURON, "operator": "Exists"},
        {"key": NEURON, "operator": "Exists", "effect": "NoSchedule"},
    ],
)
def test_a_taint_that_is_tolerated_already_is_tolerated_once(toleration: dict[str, str]) -> None:
    job = patched(a_job(a_task(spec={"tolerations": [toleration]})))
    assert pods(job)[0]["tolerations"] == [toleration]


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": NEURON, "value": "true"},
        {"key": NEURON, "operator": "Exists", "effect": "NoExecute"},
        {"key": "other", "operator": "Exists"},
        3,
    ],
)
def test_a_toleration_of_something_else_is_not_enough(toleration: object) -> None:
    assert len(pods(patched(a_job(a_task(spec={"tolerations": [toleration]}))))[0]["tolerations"]) == 2


def of_kind(kind: str) -> dict[str, Any]:
    return {"nodeSelector": {"node.kubernetes.io/instance-type": kind}}


def test_what_the_host_of_trainium_3_has_is_not_published_and_nothing_is_cut_or_refused_for_it() -> None:
    limits = {NEURON: 7, EFA: 32, "cpu": "500", "memory": "9Ti"}
    found = patch.patch(a_job(a_task(a_container(limits), spec=of_kind("trn3.48xlarge"))))
    assert not found.remarks
    assert "cpu" not in containers(found.job)[0]["resources"]["requests"]
    with pytest.raises(WireError, match=r"a pod asks for 17, and trn3\.48xlarge has 16"):
        patch.patch(a_job(a_task(a_container({NEURON: 17}), spec=of_kind("trn3.48xlarge"))))


@pytest.mark.parametrize(
    ("kind", "lnc", "resource", "said"),
    [
        ("trn2.48xlarge", "1", NEURON, ""),
        ("trn2.48xlarge", "1", "aws.amazon.com/neuroncore", "counts aws.amazon.com/neuroncore at its own setting"),
        ("trn2.48xlarge", "4", NEURON, "4: trn2.48xlarge has 1 or 2"),
        ("trn1.32xlarge", "2", NEURON, "2: trn1.32xlarge has no such setting"),
    ],
)
def test_a_setting_of_logical_cores_goes_with_whole_devices(kind: str, lnc: str, resource: str, said: str) -> None:
    env = [{"name": "A", "value": "b"}, {"name": "NEURON_LOGICAL_NC_CONFIG", "value": lnc}]
    remarks = patch.patch(a_job(a_task(a_container({resource: 4}, env=env), spec=of_kind(kind)))).remarks
    assert [said in str(each) for each in remarks] == ([True] if said else [])


def a_claim(name: str, claim: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim, **more}}


def test_a_claim_that_a_pod_mounts_twice_is_one_volume_with_two_mounts() -> None:
    volumes = [a_claim("mount-0", "fsx"), {"name": "dshm", "emptyDir": {}}, a_claim("mount-1", "fsx")]
    mounts = [{"name": "mount-0", "mountPath": "/data"}, {"name": "mount-1", "mountPath": "/cache"}, {"name": "dshm"}]
    init = {"name": "copy", "image": "i", "volumeMounts": [{"name": "mount-1", "mountPath": "/c"}]}
    spec = {"volumes": volumes, "initContainers": [init]}
    found = patch.patch(a_job(a_task(a_container(volumeMounts=mounts), spec=spec)))
    (pod,) = pods(found.job)
    assert pod["volumes"] == volumes[:2]
    assert [each["name"] for each in pod["containers"][0]["volumeMounts"]] == ["mount-0", "mount-0", "dshm"]
    assert pod["initContainers"][0]["volumeMounts"] == [{"name": "mount-0", "mountPath": "/c"}]
    assert any(
        str(each).endswith("claim fsx is one volume: kubelets before 1.35 never start a pod that names it in two")
        for each in found.changes
    )


@pytest.mark.parametrize(
    "volumes",
    [
        [a_claim("a", "one"), a_claim("b", "two")],
        [a_claim("a", "one"), a_claim("b", "one", readOnly=True)],
        [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}],
    ],
)
def test_volumes_of_different_claims_or_rights_stay(volumes: list[dict[str, Any]]) -> None:
    mounts = [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]
    job = patch.patch(a_job(a_task(a_container(volumeMounts=mounts), spec={"volumes": volumes}))).job
    assert pods(job)[0]["volumes"] == volumes
    assert containers(job)[0]["volumeMounts"] == mounts


def test_mounts_that_cannot_be_read_stay_as_they_are() -> None:
    spec = {"volumes": [a_claim("a", "one"), a_claim("b", "one")]}
    mounts: list[Any] = [5, {"name": ["b"]}, {"name": "b"}]
    job = patch.patch(a_job(a_task(a_container(volumeMounts=mounts), spec=spec))).job
    assert containers(job)[0]["volumeMounts"] == [5, {"name": ["b"]}, {"name": "a"}]


def test_a_hyphen_in_a_role_does_not_break_the_rendezvous() -> None:
    broken = "torchrun --rdzv_endpoint ${VC_BERT-TRAIN_0_HOSTS:=localhost}:29500 --x ${A-B} train.py"
    job = patched(a_job(a_task(a_container(command=["bash", "-c", broken]))))
    assert containers(job)[0]["command"][2] == broken.replace("BERT-TRAIN", "BERT_TRAIN")


def test_members_are_told_the_order_of_the_nodes_once() -> None:
    order = ("n3", "n1")
    container = a_container({NEURON: 16}, env=[{"name": "A", "value": "b"}])
    once = patch.patch(a_job(a_task(container)), JobDefaults(node_order=order))
    assert containers(once.job)[0]["env"] == [
        {"name": "A", "value": "b"},
        {"name": templates.NODE_ENV, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": templates.ORDER_ENV, "value": "n3,n1"},
    ]
    assert patch.patch(once.job, JobDefaults(node_order=order)).changes == ()
    other = patch.patch(once.job, JobDefaults(node_order=("n1",))).job
    assert [each.get("value") for each in containers(other)[0]["env"]] == ["b", None, "n1"]


@pytest.mark.parametrize(
    ("name", "millicpu"), [("trn1.32xlarge", 127_610), ("trn1.2xlarge", 7_910), ("inf1.xlarge", 3_920)]
)
def test_eks_keeps_of_the_processor_what_its_nodes_show(name: str, millicpu: int) -> None:
    assert node_capacity.allocatable(INSTANCE_TYPES[name]).millicpu == millicpu


@pytest.mark.parametrize(("name", "mebibytes"), [("trn1.32xlarge", 500_211), ("trn1.2xlarge", 29_892)])
def test_the_memory_of_a_node_is_its_machines_less_the_kernels_and_the_kubelets(name: str, mebibytes: int) -> None:
    assert node_capacity.allocatable(INSTANCE_TYPES[name]).memory == mebibytes << 20


@pytest.mark.parametrize(
    "kind", [kind for kind in INSTANCE_TYPES.values() if kind.host_known], ids=lambda kind: kind.name
)
def test_every_machine_has_room_for_pods_beside_its_daemons(kind: Any) -> None:
    whole, left = node_capacity.allocatable(kind), node_capacity.for_pods(kind)
    assert 0 < left.millicpu < whole.millicpu < kind.vcpus * 1000
    assert 0 < left.memory < whole.memory < kind.memory_gib << 30


AMOUNTS = st.sampled_from([None, 0, 1, 4, "16", 16])


@given(
    limits=st.dictionaries(st.sampled_from([NEURON, EFA, "cpu", "aws.amazon.com/neurondevice"]), AMOUNTS, max_size=4),
    requests=st.dictionaries(st.sampled_from([NEURON, EFA, "cpu"]), AMOUNTS, max_size=3),
    retries=st.integers(0, 3),
    least=st.sampled_from([None, 0, 1]),
)
def test_any_job_is_refused_or_patched_for_good(
    limits: dict[str, Any], requests: dict[str, Any], retries: int, least: int | None
) -> None:
    amounts = [{name: held for name, held in each.items() if held is not None} for each in (limits, requests)]
    more: dict[str, Any] = {} if least is None else {"minAvailable": least}
    try:
        once = patch.patch(a_job(a_task(a_container(*amounts), **more), maxRetry=retries))
    except WireError:
        return
    assert patch.patch(once.job).changes == ()


def places(held: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to each value inside."""
    inside = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
    for step, each in inside:
        yield (*before, step)
        yield from places(each, (*before, step))


EVERYTHING = a_job(
    a_task(
        a_container({NEURON: 4}, {"cpu": 1}, env=[{"name": "A", "value": "b"}], command=["x"]),
        spec={"tolerations": [{"key": "a"}], "initContainers": [a_container({NEURON: 1})]},
        policies=[{"events": ["PodFailed"], "action": "AbortJob"}],
    ),
    policies=[{"event": "PodEvicted", "action": "AbortJob"}],
    networkTopology={"mode": "hard", "highestTierName": "zone"},
)


@given(
    place=st.sampled_from(list(places(EVERYTHING))),
    value=st.sampled_from([None, -1, 1.5, True, "x", [], {}, [3], ["x"], {"a": 1}, [{"name": [1]}], "500m", 10**30]),
)
def test_whatever_stands_anywhere_in_a_job_it_is_refused_or_patched(place: tuple[Any, ...], value: Any) -> None:
    job = copy.deepcopy(EVERYTHING)
    held: Any = job
    for step in place[:-1]:
        held = held[step]
    held[place[-1]] = value
    with contextlib.suppress(WireError):
        patch.patch(job, JobDefaults(node_order=("n",), known=frozenset({"zone"})))


def test_how_long_a_job_runs_is_written_where_it_does_not_say_so_itself() -> None:
    key = "hami-plugins.io/expected-duration"
    found = patch.patch(a_job(), JobDefaults(duration="6h"))
    assert found.job["metadata"] == {"name": "train", "annotations": {key: "6h"}}
    assert str(found.changes[-1]) == (
        f"job: metadata.annotations[{key}]: 6h, so that it starts on no machine that ends earlier"
    )
    assert patched(found.job, duration="2h")["metadata"]["annotations"] == {key: "6h"}
    assert "annotations" not in patched(a_job())["metadata"]
    with pytest.raises(WireError, match="'soon' is not a duration"):
        patched(a_job(), duration="soon")


def test_a_named_part_of_a_machine_is_cut_to_its_part_of_what_the_clusters_nodes_leave() -> None:
    """Four quarters have to fit on a machine whose daemons take more than EKS's."""
    whole = HostCapacity(100_000, 400 * 10**9)
    for name, millicpu, memory in (("neuron_trn1.32xlarge_4", 25_000, 100), ("neuron_trn1.32xlarge", 100_000, 400)):
        named = NAMED[name]
        requests = {"cpu": f"{named.requested_millicpu}m", "memory": f"{named.memory_mb - 1024}M"}
        devices = {key: str(count) for key, count in named.devices.items()}
        job = a_job(a_task(a_container(devices, {**devices, **requests})))
        found = patch.patch(job, JobDefaults(rooms={"trn1.32xlarge": whole}))
        cut = containers(found.job)[0]["resources"]["requests"]
        assert (cut["cpu"], cut["memory"]) == (f"{millicpu}m", f"{memory}000M"), found.changes
        roomy = patch.patch(job, JobDefaults(rooms={"trn1.32xlarge": HostCapacity(1_000_000, 10**13)})).job
        kept = containers(roomy)[0]["resources"]["requests"]
        assert (kept["cpu"], kept["memory"]) == (requests["cpu"], requests["memory"])


def test_a_part_that_asks_for_cpu_of_its_own_keeps_it_where_the_node_has_it() -> None:
    devices = {NEURON: "4"}
    job = a_job(a_task(a_container(devices, {**devices, "cpu": "60"})))
    found = patch.patch(job, JobDefaults(rooms={"trn1.32xlarge": HostCapacity(100_000, 10**12)}))
    assert containers(found.job)[0]["resources"]["requests"]["cpu"] == "60"
