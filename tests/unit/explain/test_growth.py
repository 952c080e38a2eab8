"""What pools can do for pods that find no place: proven by planning, with what is in the way and its cure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
import yaml

from hami_plugins.explain import explain, growth
from hami_plugins.explain.answers import Answers
from hami_plugins.explain.growth import PoolGrowth
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.inputs.prices import PriceTable
from hami_plugins.model.node_pools import CapacityType, Offering
from hami_plugins.output import documents, explanations, tables
from hami_plugins.plan import Planner, submission
from hami_plugins.vendors import builtin
from tests import pool_objects
from tests.pool_objects import NEURON, TAGS, TYPE, a_requirement

REGISTRY = builtin()
NOW = 1_799_000_000.0
PRICES = PriceTable(
    per_hour={
        Offering("trn1.32xlarge"): Decimal("21.5"),
        Offering("trn1n.32xlarge"): Decimal("24.78"),
        Offering("trn1.32xlarge", CapacityType.SPOT): Decimal("8.25"),
    }
)
CAPACITY_TYPE = "karpenter.sh/capacity-type"


def answers(
    submitted: dict[str, Any], *there: dict[str, Any], prices: PriceTable | None = None, nodes: bool = True
) -> Answers:
    """Messages about submitted pods on a cluster with a node without devices, and these objects."""
    read = workloads.read(manifests.read(yaml.safe_dump(submitted), source="test"), pod_groups={})
    listed = [*([pool_objects.a_plain_node()] if nodes else []), *there]
    before = submission.with_objects(snapshot_of(listed, REGISTRY), read)
    planner = Planner(REGISTRY, now=NOW)
    return Answers(planner.plan(before, submission.units(read, before)), planner, prices=prices)


def told(submitted: dict[str, Any], *there: dict[str, Any], prices: PriceTable | None = None) -> list[str]:
    """The lines about pools."""
    found = answers(submitted, *there, prices=prices).all[0].growth
    return [line.strip() for each in found for line in growth.lines(each)]


def blocks(submitted: dict[str, Any], *there: dict[str, Any]) -> list[tuple[str, ...]]:
    """The kinds of what is in the way, for each pool."""
    return [tuple(one.kind.value for one in each.blocks) for each in answers(submitted, *there).all[0].growth]


def test_a_pod_fits_after_one_more_node_of_its_pool() -> None:
    pool = pool_objects.a_node_pool(limits={"cpu": "512"})
    assert told(pool_objects.a_waiting_pod(), pool) == ["-> fits after 1 more trn1.32xlarge of NodePool trn, limit 4"]


@pytest.mark.parametrize(
    ("resource", "scheduler"), [("nvidia.com/gpu", "hami-scheduler"), ("volcano.sh/vgpu-number", "volcano")]
)
def test_an_empty_cluster_gets_the_node_agent_that_the_pod_counts_on(resource: str, scheduler: str) -> None:
    pod = pool_objects.a_waiting_pod(devices=0, limits={resource: "4"}, schedulerName=scheduler)
    pool = pool_objects.a_node_pool("gpus", a_requirement(TYPE, "g5.12xlarge"))
    found = answers(pod, pool, nodes=False).all[0].growth
    assert [growth.sentence(each) for each in found] == ["fits after 1 more g5.12xlarge of NodePool gpus, no limit"]


def test_nodes_that_the_pool_has_count_towards_its_limit() -> None:
    pool = pool_objects.a_node_pool(nodes=3, limits={"cpu": "512"}, resources={"cpu": "384"})
    words = "-> fits after 1 more trn1.32xlarge of NodePool trn, limit 4 (3 there)"
    assert told(pool_objects.a_waiting_pod(), pool) == [words]


def test_a_pool_without_limit_is_said_to_have_none() -> None:
    (line,) = told(pool_objects.a_waiting_pod(), pool_objects.a_node_pool())
    assert line == "-> fits after 1 more trn1.32xlarge of NodePool trn, no limit"


def test_the_number_is_the_least_with_which_all_pods_of_a_workload_fit() -> None:
    def deployment(replicas: int, devices: int) -> dict[str, Any]:
        labels = {"matchLabels": {"app": "web"}}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": pool_objects.a_waiting_pod(devices=devices)["spec"]}
        spec = {"replicas": replicas, "selector": labels, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

    def needed(replicas: int, devices: int) -> int:
        return answers(deployment(replicas, devices), pool_objects.a_node_pool()).all[0].growth[0].nodes

    assert [needed(1, 16), needed(3, 16), needed(4, 8), needed(5, 8), needed(8, 4)] == [1, 3, 2, 3, 2]


def test_room_that_is_there_is_used_first() -> None:
    job = pool_objects.a_volcano_job(3)
    (found,) = answers(job, pool_objects.a_trn1_node(), pool_objects.a_node_pool()).all[0].growth
    assert found.nodes == 2


def test_a_limit_that_is_reached_is_said_with_the_number_that_is_needed() -> None:
    pool = pool_objects.a_node_pool(nodes=1, limits={"nodes": "2"})
    assert told(pool_objects.a_volcano_job(3), pool)[0:1] == [
        "-> fits after 3 more trn1.32xlarge of NodePool trn, limit 2 (1 there)"
    ]
    assert told(pool_objects.a_volcano_job(3), pool)[-2:] == [
        "but 3 nodes needed, and limits.nodes leaves room for 1 more node",
        "cure: raise spec.limits.nodes of NodePool trn",
    ]
    full = pool_objects.a_node_pool(nodes=1, limits={"nodes": "1"})
    words = told(pool_objects.a_waiting_pod(), full)
    assert "but 1 node needed, and limits.nodes leaves room for no more node" in words


def test_a_limit_of_devices_counts_devices_and_not_slots() -> None:
    pool = pool_objects.a_node_pool("gpu", a_requirement(TYPE, "p4d.24xlarge"), limits={"nvidia.com/gpu": "16"})
    pod = pool_objects.a_waiting_pod(devices=0, limits={"nvidia.com/gpu": "1"})
    assert told(pod, pool) == ["-> fits after 1 more p4d.24xlarge of NodePool gpu, limit 2"]


def test_memory_limits_a_pool_as_cpus_do() -> None:
    pool = pool_objects.a_node_pool(limits={"memory": "1600Gi", "example.com/unknown": "1"})
    assert told(pool_objects.a_waiting_pod(), pool) == ["-> fits after 1 more trn1.32xlarge of NodePool trn, limit 3"]


def test_a_label_that_the_pool_does_not_give_is_in_the_way() -> None:
    pod = pool_objects.a_waiting_pod(nodeSelector={"team": "a"})
    assert told(pod, pool_objects.a_node_pool()) == [
        "-> NodePool trn does not help: its nodes do not have the label team, and the pod selects team=a",
        "cure: add the label team=a to the pool (spec.template.metadata.labels), or leave it out of the pod",
    ]
    assert blocks(pod, pool_objects.a_node_pool(labels={"team": "a"})) == [()]
    typed = [a_requirement(TYPE, "trn1.32xlarge"), a_requirement("team", "b", "a")]
    assert blocks(pod, pool_objects.a_node_pool("trn", *typed)) == [()]


def affine(key: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [a_requirement(key, *values)]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pool_objects.a_waiting_pod(affinity={"nodeAffinity": required})


def test_an_affinity_that_the_pool_does_not_meet_is_in_the_way() -> None:
    assert told(affine("team", "a"), pool_objects.a_node_pool())[0] == (
        "-> NodePool trn does not help: its nodes do not meet the pod's node affinity on team"
    )
    assert blocks(affine(CAPACITY_TYPE, "spot"), pool_objects.a_node_pool()) == [("capacity-type",)]


def test_a_taint_that_the_pod_does_not_tolerate_is_in_the_way() -> None:
    pool = pool_objects.a_node_pool(taints=[{"key": "dedicated", "value": "trn", "effect": "NoSchedule"}])
    assert told(pool_objects.a_waiting_pod(), pool) == [
        "-> NodePool trn does not help: its nodes have the taint dedicated=trn:NoSchedule, which the pod does not "
        "tolerate",
        "cure: add the toleration to the pod",
    ]
    tolerant = pool_objects.a_waiting_pod(tolerations=[{"key": "dedicated", "operator": "Exists"}])
    assert blocks(tolerant, pool) == [()]
    bare = pool_objects.a_node_pool(taints=[{"key": "dedicated", "effect": "NoExecute"}])
    assert "the taint dedicated:NoExecute, which" in told(pool_objects.a_waiting_pod(), bare)[0]


def test_a_capacity_type_is_chosen_as_the_pod_wants_it_and_else_in_the_way() -> None:
    pod = pool_objects.a_waiting_pod(nodeSelector={CAPACITY_TYPE: "spot"})
    assert told(pod, pool_objects.a_node_pool()) == [
        f"-> NodePool trn does not help: its nodes have {CAPACITY_TYPE}=on-demand, and the pod selects spot",
        "cure: allow the capacity type spot in the pool, or select another one",
    ]
    both = [a_requirement(TYPE, "trn1.32xlarge"), a_requirement(CAPACITY_TYPE, "on-demand", "spot")]
    assert blocks(pod, pool_objects.a_node_pool("trn", *both)) == [()]


def reserved(*more: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = [a_requirement(TYPE, "trn1.32xlarge"), a_requirement(CAPACITY_TYPE, "reserved")]
    return [pool_objects.a_node_pool("trn", *wanted), *more]


def test_a_pool_of_reservations_helps_while_one_is_active() -> None:
    pod = pool_objects.a_waiting_pod()
    active = pool_objects.a_node_class(pool_objects.a_reservation())
    assert told(pod, *reserved(active)) == ["-> fits after 1 more trn1.32xlarge of NodePool trn, no limit"]
    assert told(pod, *reserved(pool_objects.a_node_class())) == [
        "-> NodePool trn does not help: it starts trn1.32xlarge in reservations only, and none takes instances now; a "
        "Capacity Block that has not started or has ended is not listed",
        "cure: check capacityReservationSelectorTerms and the status of its node class",
    ]
    ending = pool_objects.a_node_class(pool_objects.a_reservation(state="expiring"))
    assert "Capacity Block cr-1 (ends 2027-01-15T08:00Z) is not active" in told(pod, *reserved(ending))[0]


def test_the_start_of_a_capacity_block_is_said_where_ec2_was_asked() -> None:
    block = {
        "CapacityReservationId": "cr-9",
        "InstanceType": "trn1.32xlarge",
        "ReservationType": "capacity-block",
        "State": "scheduled",
        "StartDate": "2027-01-15T08:00:00+00:00",
        "AvailableInstanceCount": 4,
    }
    group = pool_objects.a_managed_group(capacityType="CAPACITY_BLOCK", taints=[])
    pod = pool_objects.a_waiting_pod()
    first, cure = told(pod, group, {"CapacityReservations": [block]})
    assert "Capacity Block cr-9 (starts 2027-01-15T08:00Z) is not active" in first
    assert cure == ("cure: wait for its start or buy another one; see aws ec2 describe-capacity-reservations")
    active = {**block, "State": "active", "AvailableInstanceCount": 2, "ReservationType": "default"}
    found = answers(pod, group, {"CapacityReservations": [active]}).all[0].growth[0]
    assert (found.nodes, found.limit) == (1, 2)
    none_left = {**active, "AvailableInstanceCount": 0}
    assert "reservation cr-9 has no instance left" in told(pod, group, {"CapacityReservations": [none_left]})[0]
    nothing = {key: value for key, value in block.items() if key != "StartDate"}
    assert "Capacity Block cr-9 is not active" in told(pod, group, {"CapacityReservations": [nothing]})[0]
    three = pool_objects.a_volcano_job(3)
    assert "cure: reserve more instances" in told(three, group, {"CapacityReservations": [active]})


def test_a_resource_that_the_autoscaler_does_not_know_is_said_with_the_tag() -> None:
    group = pool_objects.a_managed_group(taints=[])
    pod = pool_objects.a_waiting_pod()
    assert told(pod, group) == [
        "-> fits after 1 more trn1.32xlarge of node group ng1, limit 4",
        f"but the pool has no node, so Cluster Autoscaler does not know that its nodes have {NEURON}",
        f"cure: tag its Auto Scaling group {TAGS}/resources/{NEURON}=16",
    ]
    tagged = pool_objects.a_managed_group(taints=[], tags={f"{TAGS}/resources/{NEURON}": "16"})
    assert blocks(pod, tagged) == [()]
    member = pool_objects.a_trn1_node(labels={"eks.amazonaws.com/nodegroup": "ng1"})
    member["spec"] = {"unschedulable": True}
    assert blocks(pod, group, member) == [()]


def test_karpenter_does_not_know_of_slices() -> None:
    pool = pool_objects.a_node_pool("gpu", a_requirement(TYPE, "p5.48xlarge"))
    pod = pool_objects.a_waiting_pod(devices=0, limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000"})
    first, *rest = told(pod, pool)
    assert first == "-> fits after 1 more p5.48xlarge of NodePool gpu, no limit"
    assert "but Karpenter does not know that its nodes have nvidia.com/gpumem" in rest
    other = pool_objects.a_node_pool("gpu", a_requirement(TYPE, "p5.48xlarge"))
    other["spec"]["template"]["spec"]["nodeClassRef"] = {"group": "karpenter.azure.com", "name": "x"}
    assert blocks(pod, other) == [()]


def test_a_pool_that_gets_no_nodes_does_not_help() -> None:
    first, cure = told(pool_objects.a_waiting_pod(), pool_objects.a_node_pool(replicas=1))
    assert first.startswith("-> NodePool trn does not help: NodePool trn has a fixed number of nodes")
    assert cure == "cure: raise spec.replicas by the number of nodes"
    lost = [{"type": "Ready", "status": "False"}]
    unknown = pool_objects.a_node_pool("trn", a_requirement(TYPE, "m5.large"), conditions=lost)
    assert blocks(pool_objects.a_waiting_pod(), unknown) == [("pool",)]


def test_what_is_not_known_of_a_pool_is_said() -> None:
    unknown = pool_objects.a_node_pool("trn", a_requirement(TYPE, "m5.large"))
    assert told(pool_objects.a_waiting_pod(), unknown) == [
        "-> NodePool trn does not help: nodes of its instance types are not known: m5.large",
        "cure: add one node by hand; it shows what others will be like",
    ]
    status = pool_objects.a_status(pool_objects.a_group())
    assert told(pool_objects.a_waiting_pod(), status) == [
        "-> node group ng1 does not help: it has no node, and nothing says what its nodes are like",
        "cure: give --node-groups FILE, as aws eks describe-nodegroup prints it",
    ]


def test_a_node_of_the_pool_shows_what_others_will_be_like() -> None:
    there = pool_objects.a_trn1_node(labels={"eks.amazonaws.com/nodegroup": "ng1", "team": "a"})
    there["metadata"]["labels"][TYPE] = "trn9.big"
    status = pool_objects.a_status(pool_objects.a_group(target=1))
    pod = pool_objects.a_waiting_pod(nodeSelector={"team": "a"})
    there["spec"] = {"unschedulable": True}
    starting = [pool_objects.a_plain_node(name) for name in ("m0", "z0")]
    for each in starting:
        each["metadata"]["labels"] = there["metadata"]["labels"]
    words = "-> fits after 1 more trn9.big of node group ng1, limit 4 (1 there)"
    assert told(pod, there, status, *starting) == [words]


def test_a_node_of_an_unknown_type_shows_what_it_adds_to_a_sum() -> None:
    there = pool_objects.a_trn1_node(labels={"karpenter.sh/nodepool": "trn"})
    there["metadata"]["labels"][TYPE] = "trn9.big"
    there["spec"] = {"unschedulable": True}
    pool = pool_objects.a_node_pool("trn", a_requirement(TYPE, "trn9.big"), nodes=1, limits={"cpu": "300"})
    words = "-> fits after 1 more trn9.big of NodePool trn, limit 3 (1 there)"
    assert told(pool_objects.a_waiting_pod(), pool, there) == [words]


def test_a_node_group_is_told_its_own_cures() -> None:
    tags = {f"{TAGS}/resources/{NEURON}": "16"}
    group = pool_objects.a_managed_group(taints=[], scalingConfig={"maxSize": 1}, tags=tags)
    assert told(pool_objects.a_volcano_job(2), group)[-1] == (
        "cure: raise the maximum size of node group ng1 to 2 or more"
    )
    pod = pool_objects.a_waiting_pod(nodeSelector={"zone": "b"})
    where = f"the labels of the node group, or the tag {TAGS}/label/KEY of its Auto Scaling group"
    assert told(pod, group)[1] == f"cure: add the label zone=b to the pool ({where}), or leave it out of the pod"


def test_a_pod_that_an_empty_node_does_not_take_needs_larger_nodes() -> None:
    pool = pool_objects.a_node_pool("small", a_requirement(TYPE, "trn1.2xlarge"))
    assert told(pool_objects.a_waiting_pod(), pool) == [
        "-> NodePool small does not help: an empty trn1.2xlarge does not take the pod",
        "cure: allow larger instance types",
    ]


def test_of_several_types_the_one_that_costs_least_is_told() -> None:
    family = pool_objects.a_node_pool("any", a_requirement("karpenter.k8s.aws/instance-category", "trn"))
    assert told(pool_objects.a_waiting_pod(), family, prices=PRICES) == [
        "-> fits after 1 more trn1.32xlarge of NodePool any, no limit, 21.50 USD/h"
    ]
    dear = PriceTable(per_hour={**PRICES.per_hour, Offering("trn1.32xlarge"): Decimal(99)})
    assert "trn1n.32xlarge" in told(pool_objects.a_waiting_pod(), family, prices=dear)[0]


@pytest.mark.parametrize(
    ("allowed", "cost"),
    [
        (("on-demand",), "21.50 USD/h"),
        (("spot",), "8.25 USD/h"),
        (("on-demand", "spot"), "8.25 USD/h"),
        (("reserved", "on-demand"), "21.50 USD/h"),
    ],
)
def test_nodes_cost_what_their_pool_buys_them_for(allowed: tuple[str, ...], cost: str) -> None:
    pool = pool_objects.a_node_pool("p", a_requirement(TYPE, "trn1.32xlarge"), a_requirement(CAPACITY_TYPE, *allowed))
    (line,) = told(pool_objects.a_waiting_pod(), pool, prices=PRICES)
    assert line == f"-> fits after 1 more trn1.32xlarge of NodePool p, no limit, {cost}"


def test_nodes_without_a_price_are_said_to_have_none() -> None:
    pool = pool_objects.a_node_pool("p", a_requirement(TYPE, "trn1n.32xlarge"), a_requirement(CAPACITY_TYPE, "spot"))
    (line,) = told(pool_objects.a_waiting_pod(), pool, prices=PRICES)
    assert line.endswith("of NodePool p, no limit, no price of trn1n.32xlarge (spot)")
    (unpriced,) = told(pool_objects.a_waiting_pod(), pool)
    assert "price" not in unpriced


def test_pools_that_help_come_first_and_only_the_best_are_told() -> None:
    tainted = [{"key": "dedicated", "effect": "NoSchedule"}]
    pools = [pool_objects.a_node_pool(name, taints=tainted) for name in ("a", "b", "c", "d")]
    found = answers(pool_objects.a_waiting_pod(), *pools, pool_objects.a_node_pool("z")).all[0].growth
    assert [each.pool.name for each in found] == ["z", "a", "b"]
    assert [each.fits for each in found] == [True, False, False]


def test_volcano_does_not_enqueue_a_job_for_nodes_that_are_not_there() -> None:
    first, but, cure = told(pool_objects.a_volcano_job(2), pool_objects.a_node_pool(), pool_objects.a_queue())
    assert first == "-> fits after 2 more trn1.32xlarge of NodePool trn, no limit"
    assert but == (
        "but Volcano does not enqueue the job before its minResources are free, so Karpenter sees no pod that waits"
    )
    assert cure == "cure: leave enqueue out of the actions of Volcano's configuration, or add the nodes by hand"


def test_volcano_enqueues_a_job_whose_template_names_its_devices_as_limits_alone() -> None:
    job = pool_objects.a_volcano_job(2)
    resources = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]
    resources["limits"], resources["requests"] = resources["limits"], {}
    lines = told(job, pool_objects.a_node_pool(), pool_objects.a_queue())
    assert lines[0] == "-> fits after 2 more trn1.32xlarge of NodePool trn, no limit"
    assert not [line for line in lines if "enqueue" in line]


def in_a_gang(*names: str) -> Sequence[dict[str, Any]]:
    """Pods of Volcano that wait together, and their PodGroup, which has been enqueued."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": len(names), "queue": "default"},
        "status": {"phase": "Inqueue"},
    }
    metadata = {"namespace": "default", "annotations": {"scheduling.k8s.io/group-name": "g"}}
    pods = [pool_objects.a_waiting_pod(name, scheduler="volcano") for name in names]
    for pod in pods:
        pod["metadata"] |= metadata
    return [group, *pods]


def test_members_for_which_there_is_room_make_the_autoscaler_add_too_few() -> None:
    there = [pool_objects.a_plain_node(), pool_objects.a_trn1_node(), pool_objects.a_node_pool()]
    snapshot = snapshot_of([*there, *in_a_gang("a", "b", "c")], REGISTRY)
    planner = Planner(REGISTRY, now=NOW)
    found = [explain(snapshot, f"default/{name}", planner, prices=PRICES) for name in ("a", "b", "c")]
    lines = [line.words.strip() for line in explanations.lines(found[2], REGISTRY)]
    assert "-> fits after 2 more trn1.32xlarge of NodePool trn, no limit, 43.00 USD/h" in lines
    (but,) = [line for line in lines if "Unschedulable" in line]
    assert but.startswith("but 1 member fits on nodes that are there, and Volcano reports only the others")
    enough = snapshot_of([*there, *in_a_gang("a", "b")], REGISTRY)
    assert "fits after 1 more" in str(list(explanations.lines(explain(enough, "default/b", planner), REGISTRY)))


def test_a_queue_that_never_gives_as_much_is_not_helped_by_nodes() -> None:
    queue = pool_objects.a_queue(capability={NEURON: "16"})
    first, cure = told(pool_objects.a_volcano_job(2), pool_objects.a_node_pool(), queue)
    assert first.startswith("-> NodePool trn does not help: it does not fit with 2 more trn1.32xlarge either: ")
    assert cure == "cure: see the reasons above"


def test_pods_that_nodes_do_not_help_are_told_nothing_of_pools() -> None:
    pool = pool_objects.a_node_pool()
    assert told(pool_objects.a_waiting_pod(), pool_objects.a_trn1_node(), pool) == []
    assert told(pool_objects.a_waiting_pod()) == []


def test_a_plan_that_is_too_large_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "MOST_LOOKS", 1)
    assert "not worked out: the plan is too large" in told(pool_objects.a_waiting_pod(), pool_objects.a_node_pool())[0]


def test_a_workload_grows_where_some_pool_can_get_the_nodes() -> None:
    pod = pool_objects.a_waiting_pod()
    assert answers(pod, pool_objects.a_node_pool()).grows
    assert not answers(pod, pool_objects.a_node_pool(limits={"cpu": "1"})).grows
    assert not answers(pod).grows
    assert answers(pod, pool_objects.a_trn1_node()).grows


def test_a_plan_says_in_words_and_in_json_what_pools_can_do() -> None:
    pool = pool_objects.a_node_pool(limits={"cpu": "128"})
    found = answers(pool_objects.a_volcano_job(2), pool, pool_objects.a_queue(), prices=PRICES)
    (refusal,) = found.refusals()
    lines = [(line.words, line.tone) for line in tables.refusal(refusal)]
    assert ("  -> fits after 2 more trn1.32xlarge of NodePool trn, limit 1, 43.00 USD/h", "warn") in lines
    (document,) = documents.pod(found.all[0])["growth"]
    assert (document["nodes"], document["limit"], document["costPerHour"], document["currency"]) == (
        2,
        1,
        "43.00",
        "USD",
    )
    assert [each["kind"] for each in document["blocks"]] == ["enqueue", "limit"]
    assert document["words"].startswith("fits after 2 more trn1.32xlarge")
    (plain,) = documents.pod(answers(pool_objects.a_waiting_pod(), pool_objects.a_node_pool()).all[0])["growth"]
    assert (plain["costPerHour"], plain["currency"], plain["limit"]) == (None, None, None)


def test_a_sentence_about_a_pool_that_does_not_help_names_all_that_is_in_the_way() -> None:
    tainted = pool_objects.a_node_pool(taints=[{"key": "dedicated", "effect": "NoSchedule"}])
    pod = pool_objects.a_waiting_pod(nodeSelector={"team": "a"})
    (found,) = answers(pod, tainted).all[0].growth
    assert isinstance(found, PoolGrowth)
    assert growth.sentence(found) == (
        "NodePool trn does not help: its nodes do not have the label team, and the pod selects team=a; its nodes have "
        "the taint dedicated:NoSchedule, which the pod does not tolerate"
    )
    assert [line.strip()[:4] for line in growth.lines(found)] == ["-> N", "cure", "and ", "cure"]
    assert not replace(found, nodes=0).fits
