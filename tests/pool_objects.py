"""Node pools as clusters and AWS show them, and pods that wait for their nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests import raw_objects
from tests.raw_objects import Raw

NEURON = "aws.amazon.com/neuron"
TYPE = "node.kubernetes.io/instance-type"
UUID = "0cc41d9c-4e4f-6d2a-9f0b-1d1f5a7b3c2e"
TAGS = "k8s.io/cluster-autoscaler/node-template"


def a_requirement(key: str, *values: str, operator: str = "In") -> Raw:
    return {"key": key, "operator": operator, "values": list(values)}


def a_node_pool(name: str = "trn", *requirements: Raw, nodes: int = 0, **more: Any) -> Raw:
    """A NodePool for trn1.32xlarge unless requirements say otherwise; ``more`` are members of its spec or template."""
    wanted = list(requirements) or [a_requirement(TYPE, "trn1.32xlarge")]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "trn"}
    inner = {"nodeClassRef": reference, "requirements": wanted, "taints": more.pop("taints", [])}
    template = {"metadata": {"labels": more.pop("labels", {})}, "spec": inner}
    conditions = more.pop("conditions", [{"type": "Ready", "status": "True"}])
    status = {"nodes": nodes, "resources": more.pop("resources", {}), "conditions": conditions}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, **more.pop("metadata", {})},
        "spec": {"template": template, **more},
        "status": status,
    }


def a_node_class(*reservations: Raw, zones: Sequence[str] = (), **status: Any) -> Raw:
    subnets = [{"id": f"subnet-{zone}", "zone": zone} for zone in zones]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "trn"},
        "status": {"subnets": subnets, "capacityReservations": list(reservations), **status},
    }


def a_reservation(**more: Any) -> Raw:
    """A Capacity Block that is active, as a node class lists it."""
    return {
        "id": "cr-1",
        "instanceType": "trn1.32xlarge",
        "availabilityZone": "us-east-1a",
        "reservationType": "capacity-block",
        "state": "active",
        "endTime": "2027-01-15T08:00:00Z",
        **more,
    }


def a_status(*groups: str) -> Raw:
    """Cluster Autoscaler's status with groups as YAML."""
    text = "autoscalerStatus: Running\nnodeGroups:\n" + "".join(groups)
    metadata = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"status": text}}


def a_group(name: str = f"eks-ng1-{UUID}", target: int = 0, most: int = 4, scale_up: str = "NoActivity") -> str:
    return (
        f"- name: {name}\n  health:\n    status: Healthy\n    cloudProviderTarget: {target}\n    minSize: 0\n"
        f"    maxSize: {most}\n  scaleUp:\n    status: {scale_up}\n    backoffInfo:\n      errorCode: OutOfResources\n"
    )


def a_managed_group(name: str = "ng1", **more: Any) -> Raw:
    """What ``aws eks describe-nodegroup`` prints."""
    return {
        "nodegroup": {
            "nodegroupName": name,
            "scalingConfig": {"minSize": 0, "maxSize": 4, "desiredSize": 0},
            "instanceTypes": ["trn1.32xlarge"],
            "labels": {"team": "research"},
            "taints": [{"key": "dedicated", "value": "trn", "effect": "NO_SCHEDULE"}],
            "capacityType": "ON_DEMAND",
            "resources": {"autoScalingGroups": [{"name": f"eks-{name}-{UUID}"}]},
            **more,
        }
    }


def a_scaling_group(name: str = "trn-asg", tags: Mapping[str, str] | None = None, **more: Any) -> Raw:
    """What ``aws autoscaling describe-auto-scaling-groups`` prints of one group."""
    written = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
    overrides = {"LaunchTemplate": {"Overrides": [{"InstanceType": "trn1.32xlarge"}]}}
    return {
        "AutoScalingGroupName": name,
        "MinSize": 0,
        "MaxSize": 3,
        "DesiredCapacity": 1,
        "AvailabilityZones": ["us-east-1a"],
        "MixedInstancesPolicy": overrides,
        "Tags": written,
        **more,
    }


def a_trn1_node(name: str = "n0", labels: Mapping[str, str] | None = None) -> Raw:
    """A ready trn1.32xlarge."""
    amounts = {"cpu": "128", "memory": "512Gi", "pods": "110", NEURON: "16", "aws.amazon.com/neuroncore": "32"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {TYPE: "trn1.32xlarge", **(labels or {})}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def a_plain_node(name: str = "cpu-0") -> Raw:
    """A node without devices."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "58"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {TYPE: "m5.xlarge"}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def a_waiting_pod(name: str = "p", devices: int = 16, limits: Mapping[str, str] | None = None, **spec: Any) -> Raw:
    """A pod for kube-scheduler that asks for whole machines unless ``devices`` says otherwise."""
    amounts = {**({NEURON: str(devices)} if devices else {}), **(limits or {})}
    return raw_objects.pod(name, raw_objects.container(limits=amounts, requests=amounts), **spec)


def a_queue(**spec: Any) -> Raw:
    """Volcano's queue ``default``."""
    metadata, body = {"name": "default"}, {"weight": 1, **spec}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": metadata,
        "spec": body,
        "status": {"state": "Open"},
    }


def a_volcano_job(replicas: int = 2, **spec: Any) -> Raw:
    """A gang of whole trn1.32xlarge."""
    pod = a_waiting_pod(**spec)["spec"]
    task = {"name": "w", "replicas": replicas, "template": {"spec": pod}}
    body = {"schedulerName": "volcano", "minAvailable": replicas, "queue": "default", "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}, "spec": body}
