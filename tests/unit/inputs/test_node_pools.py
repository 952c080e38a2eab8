"""Node pools in listings: Karpenter's objects, Cluster Autoscaler's status, and what AWS says of node groups."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.inputs.snapshots.redaction import redact
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.node_pools import AutoscaledPool, Autoscaler, BlockingReason
from hami_plugins.model.nodes import Taint
from hami_plugins.model.pods import Requirement
from hami_plugins.vendors import builtin
from tests import pool_objects
from tests.pool_objects import TAGS, UUID, a_requirement

REGISTRY = builtin()
BILLION = 10**9


def read(*raws: dict[str, Any]) -> ClusterSnapshot:
    return snapshot_of([{"kind": "List", "items": [each for each in raws if "kind" in each]}, *raws], REGISTRY)


def the_pool(*raws: dict[str, Any]) -> AutoscaledPool:
    (pool,) = snapshot_of(list(raws), REGISTRY).pools
    return pool


def test_a_node_pool_says_what_its_nodes_are_like_and_how_many_there_may_be() -> None:
    raw = pool_objects.a_node_pool(
        "trn",
        a_requirement("karpenter.k8s.aws/instance-cpu", "95", operator="Gt"),
        a_requirement("karpenter.k8s.aws/instance-cpu", "192", operator="Lte"),
        nodes=1,
        limits={"cpu": "512", "nodes": "4"},
        resources={"cpu": "128"},
        labels={"team": "research"},
        taints=[{"key": "dedicated", "value": "trn", "effect": "NoSchedule"}],
    )
    pool = the_pool(raw)
    assert (pool.name, pool.autoscaler, pool.kind) == ("trn", Autoscaler.KARPENTER, "NodePool")
    assert pool.labels == {"team": "research", "karpenter.sh/nodepool": "trn"}
    assert pool.member == ("karpenter.sh/nodepool", "trn")
    assert pool.taints == (Taint("dedicated", "trn", "NoSchedule"),)
    assert pool.requirements == (
        Requirement("karpenter.k8s.aws/instance-cpu", "Gt", ("95",)),
        Requirement("karpenter.k8s.aws/instance-cpu", "Lt", ("193",)),
    )
    assert (pool.present, dict(pool.limits)) == (1, {"cpu": 512 * BILLION, "nodes": 4 * BILLION})
    assert (dict(pool.used), pool.obstacle, pool.knows_cloud) == ({"cpu": 128 * BILLION}, None, True)


def test_older_karpenters_count_their_nodes_among_the_resources() -> None:
    assert the_pool(pool_objects.a_node_pool(resources={"nodes": "3"})).present == 3


def test_only_values_that_every_requirement_allows_are_allowed() -> None:
    raw = pool_objects.a_node_pool("trn", a_requirement("zone", "a", "b", "c"), a_requirement("zone", "c", "b"))
    pool = the_pool(raw)
    assert (pool.allowed("zone"), pool.allowed("other")) == (("b", "c"), None)
    assert pool.allowed("karpenter.sh/nodepool") == ("trn",)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "NodePool trn is being deleted"),
        (
            {"replicas": 2},
            "NodePool trn has a fixed number of nodes (spec.replicas: 2) and ignores waiting pods",
        ),
        (
            {
                "conditions": [
                    {"type": "Ready", "status": "False"},
                    {"type": "NodeClassReady", "status": "False", "message": "no such node class"},
                ]
            },
            "NodePool trn is not ready (NodeClassReady: no such node class)",
        ),
        (
            {"conditions": [{"type": "Ready", "status": "False"}]},
            "NodePool trn is not ready (no reason is reported)",
        ),
    ],
)
def test_a_pool_that_gets_no_nodes_says_why(more: dict[str, Any], message: str) -> None:
    found = the_pool(pool_objects.a_node_pool("trn", **more)).obstacle
    assert isinstance(found, BlockingReason)
    assert (found.message, bool(found.remedy)) == (message, True)


def test_a_condition_that_is_not_about_being_ready_stops_nothing() -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "NodeRegistrationHealthy", "status": "False"}]
    assert the_pool(pool_objects.a_node_pool(conditions=conditions)).obstacle is None


def test_a_node_class_adds_zones_and_the_reservations_that_are_active() -> None:
    expiring = pool_objects.a_reservation(id="cr-2", state="expiring")
    node_class = pool_objects.a_node_class(pool_objects.a_reservation(), expiring, zones=("us-east-1a", "us-east-1b"))
    pool = the_pool(node_class, pool_objects.a_node_pool())
    assert pool.zones == ("us-east-1a", "us-east-1b")
    assert [(each.id, each.block, each.usable, each.ends) for each in pool.reservations] == [
        ("cr-1", True, True, 1800000000),
        ("cr-2", True, False, 1800000000),
    ]


def test_a_node_class_that_is_not_ready_stops_its_pools() -> None:
    broken = [{"type": "Ready", "status": "False"}, {"type": "SubnetsReady", "status": "False", "reason": "NotFound"}]
    pool = the_pool(pool_objects.a_node_class(conditions=broken), pool_objects.a_node_pool())
    assert pool.obstacle is not None
    assert pool.obstacle.message == "EC2NodeClass trn is not ready (SubnetsReady: NotFound)"


def test_what_ec2_knows_of_reservations_is_added_to_those_of_a_node_class() -> None:
    told = {
        "CapacityReservations": [
            {"CapacityReservationId": "cr-1", "InstanceType": "trn1.32xlarge", "AvailableInstanceCount": 3},
            {
                "CapacityReservationId": "cr-9",
                "InstanceType": "trn1.32xlarge",
                "ReservationType": "capacity-block",
                "State": "scheduled",
                "StartDate": "2027-01-15T08:00:00+00:00",
                "EndDate": 1800086400,
                "AvailableInstanceCount": 4,
            },
        ]
    }
    known = pool_objects.a_node_class(pool_objects.a_reservation())
    first, second = the_pool(known, pool_objects.a_node_pool(), told).reservations
    assert (first.id, first.usable, first.available, first.starts) == ("cr-1", True, 3, None)
    assert (second.id, second.usable, second.starts, second.ends) == ("cr-9", False, 1800000000, 1800086400)


def test_pools_of_other_products_are_no_pools() -> None:
    other = pool_objects.a_node_pool()
    assert read({**other, "apiVersion": "container.cnrm.cloud.google.com/v1beta1"}).pools == ()
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {}}
    assert read(settings).pools == ()


def test_what_cannot_be_read_is_a_problem_and_hides_no_other_pool() -> None:
    broken = pool_objects.a_node_pool("broken", limits={"cpu": "many"})
    twice = pool_objects.a_node_pool("trn")
    old = {**pool_objects.a_status(), "data": {"status": "Cluster-autoscaler status at 2024: \n\tx"}}
    found = snapshot_of([broken, twice, twice, old], REGISTRY)
    assert [pool.name for pool in found.pools] == ["trn"]
    one, two, three = [problem.what for problem in found.problems]
    assert "nodepool broken: spec.limits[cpu]" in one
    assert two == "nodepool trn: listed twice; the first counts (in 'trn')"
    assert "Cluster Autoscaler writes YAML from 1.30 on" in three


def test_the_status_says_how_large_groups_are_and_may_be() -> None:
    status = pool_objects.a_status(
        pool_objects.a_group(target=1, most=4), pool_objects.a_group("plain", scale_up="Backoff")
    )
    managed, plain = snapshot_of([status], REGISTRY).pools
    assert (managed.name, managed.member) == ("ng1", ("eks.amazonaws.com/nodegroup", "ng1"))
    assert (managed.present, managed.most, managed.obstacle) == (1, 4, None)
    assert (managed.autoscaler, managed.kind) == (Autoscaler.CLUSTER_AUTOSCALER, "node group")
    assert (plain.name, plain.member) == ("plain", ("alpha.eksctl.io/nodegroup-name", ""))
    assert plain.obstacle is not None
    assert "backs off from node group plain: a scale-up failed (OutOfResources)" in plain.obstacle.message


def test_what_eks_says_of_a_group_is_joined_with_its_status() -> None:
    status = pool_objects.a_status(pool_objects.a_group(target=1, most=9))
    tags = {f"{TAGS}/resources/aws.amazon.com/neuron": "16", f"{TAGS}/resources/bad": "many", "owner": "me"}
    pool = the_pool(status, pool_objects.a_managed_group(tags=tags))
    assert (pool.present, pool.most) == (1, 9)
    assert pool.requirements == (Requirement("node.kubernetes.io/instance-type", "In", ("trn1.32xlarge",)),)
    assert pool.labels == {
        "team": "research",
        "eks.amazonaws.com/nodegroup": "ng1",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
    }
    assert pool.taints == (Taint("dedicated", "trn", "NoSchedule"),)
    assert dict(pool.declared) == {"aws.amazon.com/neuron": 16 * BILLION}


def test_without_a_status_the_sizes_are_those_that_aws_says() -> None:
    pool = the_pool(pool_objects.a_managed_group(resources={}, capacityType="", taints=[{"effect": "NoExecute"}]))
    assert (pool.name, pool.most, pool.present, pool.obstacle) == ("ng1", 4, 0, None)
    assert (pool.taints, pool.reservations) == ((Taint("", "", "NoExecute"),), ())


def test_a_group_that_cluster_autoscaler_does_not_list_gets_no_nodes() -> None:
    found = snapshot_of([pool_objects.a_status(), pool_objects.a_managed_group()], REGISTRY).pools
    assert found[0].obstacle is not None
    assert found[0].obstacle.message == (
        f"Cluster Autoscaler does not list the Auto Scaling group eks-ng1-{UUID} in its status"
    )


def test_tags_of_a_scaling_group_say_what_its_nodes_are_like() -> None:
    tags = {
        f"{TAGS}/label/team": "research",
        f"{TAGS}/label/alpha.eksctl.io/nodegroup-name": "trn",
        f"{TAGS}/taint/dedicated": "trn:NoSchedule",
        f"{TAGS}/resources/aws.amazon.com/neuron": "16",
    }
    pool = the_pool({"AutoScalingGroups": [pool_objects.a_scaling_group(tags=tags)]})
    assert (pool.name, pool.member) == ("trn-asg", ("alpha.eksctl.io/nodegroup-name", "trn"))
    assert (pool.labels["team"], pool.zones, pool.present, pool.most) == ("research", ("us-east-1a",), 1, 3)
    assert pool.taints == (Taint("dedicated", "trn", "NoSchedule"),)
    assert dict(pool.declared) == {"aws.amazon.com/neuron": 16 * BILLION}


def test_two_answers_about_one_group_are_one_pool() -> None:
    of_ec2 = pool_objects.a_scaling_group(f"eks-ng1-{UUID}", {"eks:nodegroup-name": "ng1"}, DesiredCapacity=2)
    pool = the_pool({"AutoScalingGroups": [of_ec2]}, pool_objects.a_managed_group())
    assert (pool.name, pool.present, pool.most, pool.zones) == ("ng1", 2, 4, ("us-east-1a",))
    assert (pool.labels["team"], len(pool.taints)) == ("research", 1)


def test_a_group_of_capacity_blocks_has_the_reservations_of_its_types() -> None:
    reservations = [
        {"CapacityReservationId": f"cr-{at}", "InstanceType": name, "State": "active", "StartDate": "soon"}
        for at, name in enumerate(("trn1.32xlarge", "p5.48xlarge"))
    ]
    raw = pool_objects.a_managed_group(capacityType="CAPACITY_BLOCK")
    (reservation,) = the_pool({"CapacityReservations": reservations}, raw).reservations
    assert (reservation.id, reservation.usable, reservation.starts) == ("cr-0", True, None)


def test_a_redacted_snapshot_has_the_pools_under_other_names() -> None:
    raws = [
        pool_objects.a_trn1_node(labels={"karpenter.sh/nodepool": "secret-pool"}),
        pool_objects.a_trn1_node("n1", labels={"eks.amazonaws.com/nodegroup": "secret-group"}),
        pool_objects.a_node_pool(
            "secret-pool",
            a_requirement("karpenter.k8s.aws/instance-family", "trn1"),
            a_requirement("karpenter.k8s.aws/instance-cpu", "64", operator="Gt"),
            labels={"secret-label": "secret-value"},
            limits={"nodes": "4"},
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
        ),
        pool_objects.a_node_class(pool_objects.a_reservation(id="cr-0secret"), zones=("secret-zone",)),
        pool_objects.a_status(
            pool_objects.a_group(f"eks-secret-group-{UUID}", scale_up="Backoff"), pool_objects.a_group("secret-asg")
        ),
        {**pool_objects.a_status(), "data": {"status": "secret: ["}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "secret-map"}, "data": {"status": "secret"}},
        {**pool_objects.a_node_pool("secret-other"), "apiVersion": "example.com/v1"},
    ]
    redacted = redact(raws, REGISTRY)
    assert "secret" not in str(redacted)
    before, after = snapshot_of(raws, REGISTRY), snapshot_of(redacted, REGISTRY)
    assert len(before.pools) == len(after.pools) == 3
    for old, new in zip(before.pools, after.pools, strict=True):
        assert (old.present, old.most, dict(old.limits)) == (new.present, new.most, dict(new.limits))
        assert [each.values for each in old.requirements] == [each.values for each in new.requirements]
        assert (old.obstacle is None) == (new.obstacle is None)
    members = {pool.member for pool in after.pools}
    for entry in after.nodes:
        assert members & set(entry.facts.labels.items())
    assert redact(redacted, REGISTRY) == redacted
