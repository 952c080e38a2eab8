"""Node groups of Cluster Autoscaler on AWS: its status, and what the AWS command line prints of groups.

Sources: kubernetes/autoscaler ``clusterstate/api/types.go`` (the status is YAML since 1.30) and
``cloudprovider/aws/aws_manager.go`` (``node-template`` tags), EKS' ``DescribeNodegroup``, EC2 Auto Scaling's
``DescribeAutoScalingGroups``, EC2's ``DescribeCapacityReservations``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from hami_plugins.errors import ManifestError, WireError
from hami_plugins.model.node_pools import BlockingReason, Reservation
from hami_plugins.model.nodes import Taint
from hami_plugins.wire import lenient, quantity, yaml_text
from hami_plugins.wire.fields import Json

STATUS_NAME: Final = "cluster-autoscaler-status"
"""The name of the ConfigMap."""

GROUP_LABEL: Final = "eks.amazonaws.com/nodegroup"
CAPACITY_TYPE: Final = "eks.amazonaws.com/capacityType"
CAPACITY_BLOCK: Final = "CAPACITY_BLOCK"
SPOT: Final = "SPOT"

TEMPLATE: Final = "k8s.io/cluster-autoscaler/node-template/"
"""What the tags of a group begin with that say what its nodes are like."""

_OF_EKS: Final = re.compile(r"eks-(?P<name>.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EFFECTS: Final = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}


class GroupSize(NamedTuple):
    """How large Cluster Autoscaler wants a group to be, and may make it."""

    name: str
    target: int
    most: int
    least: int = 0
    obstacle: BlockingReason | None = None


class DescribedGroup(NamedTuple):
    """What AWS knows of a group's nodes. ``group`` is the name of the managed node group, empty where EKS has none.

    ``tags`` are those of the Auto Scaling group or of the node group; of taints and labels in them Cluster Autoscaler
    knows before the first node is there, of others not.
    """

    name: str
    group: str = ""
    instance_types: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    resources: Mapping[str, int] = {}
    zones: tuple[str, ...] = ()
    target: int = 0
    most: int = 0


def is_status(kind: str, raw: Json) -> bool:
    """Whether an object is the status of Cluster Autoscaler."""
    return kind == "ConfigMap" and lenient.inside(raw, "metadata").get("name") == STATUS_NAME


def managed_name(name: str) -> str:
    """The managed node group whose Auto Scaling group has this name; empty where the name is not of that form."""
    match = _OF_EKS.fullmatch(name)
    return "" if match is None else match["name"]


def sizes(raw: Json) -> tuple[GroupSize, ...]:
    """The groups of the status. Raises ``WireError`` for one that is not YAML, as versions before 1.30 write it."""
    place = f"configmap {STATUS_NAME}:"
    try:
        read = yaml_text.read(lenient.text(lenient.inside(raw, "data").get("status")), source=STATUS_NAME)
    except ManifestError as error:
        raise WireError(place, "", f"{error}; Cluster Autoscaler writes YAML from 1.30 on") from error
    groups = lenient.mappings(lenient.inside(read[0].value if read else {}).get("nodeGroups"))
    return tuple(_size(each) for each in groups if lenient.text(each.get("name")))


def status_text(groups: Iterable[GroupSize]) -> str:
    """The status with these groups, and nothing else."""
    lines = ["nodeGroups:"]
    for each in groups:
        lines += [
            f"- name: {each.name}",
            "  health:",
            f"    cloudProviderTarget: {each.target}",
            f"    minSize: {each.least}",
            f"    maxSize: {each.most}",
        ]
        if each.obstacle is not None:
            lines += ["  scaleUp:", "    status: Backoff"]
    return "\n".join(lines) + "\n"


def _size(raw: Json) -> GroupSize:
    name, health = lenient.text(raw.get("name")), lenient.inside(raw, "health")
    backoff = lenient.inside(raw, "scaleUp", "backoffInfo")
    obstacle = None
    if lenient.inside(raw, "scaleUp").get("status") == "Backoff":
        code = lenient.text(backoff.get("errorCode"))
        obstacle = BlockingReason(
            f"Cluster Autoscaler backs off from node group {name}: a scale-up failed{f' ({code})' if code else ''}",
            "see kubectl -n kube-system get configmap cluster-autoscaler-status -o yaml; it tries again by itself",
        )
    return GroupSize(
        name,
        lenient.whole(health.get("cloudProviderTarget")) or 0,
        lenient.whole(health.get("maxSize")) or 0,
        lenient.whole(health.get("minSize")) or 0,
        obstacle,
    )


def described(raw: Json) -> tuple[DescribedGroup, ...] | None:
    """The groups in an answer of ``aws``; ``None`` for anything else."""
    if isinstance(raw.get("nodegroup"), Mapping):
        return tuple(_managed(lenient.mapping(raw["nodegroup"])))
    if isinstance(raw.get("AutoScalingGroups"), list):
        return tuple(_scaling_group(each) for each in lenient.mappings(raw["AutoScalingGroups"]))
    return None


def reservations(raw: Json) -> tuple[Reservation, ...] | None:
    """The capacity reservations in an answer of ``aws ec2 describe-capacity-reservations``; ``None`` otherwise."""
    if not isinstance(raw.get("CapacityReservations"), list):
        return None
    return tuple(_reservation(each) for each in lenient.mappings(raw["CapacityReservations"]))


def _managed(raw: Json) -> Iterable[DescribedGroup]:
    group, scaling = lenient.text(raw.get("nodegroupName")), lenient.inside(raw, "scalingConfig")
    tags = lenient.texts(raw.get("tags"))
    names = [
        lenient.text(each.get("name"))
        for each in lenient.mappings(lenient.inside(raw, "resources").get("autoScalingGroups"))
    ]
    labels = {**lenient.texts(raw.get("labels")), GROUP_LABEL: group}
    if capacity := lenient.text(raw.get("capacityType")):
        labels[CAPACITY_TYPE] = capacity
    for name in names or [group]:
        yield DescribedGroup(
            name=name,
            group=group,
            instance_types=tuple(map(str, lenient.items(raw.get("instanceTypes")))),
            labels=labels,
            taints=tuple(
                Taint(
                    lenient.text(each.get("key")),
                    lenient.text(each.get("value")),
                    _EFFECTS.get(lenient.text(each.get("effect")), lenient.text(each.get("effect"))),
                )
                for each in lenient.mappings(raw.get("taints"))
            ),
            resources=_resources(tags),
            target=lenient.whole(scaling.get("desiredSize")) or 0,
            most=lenient.whole(scaling.get("maxSize")) or 0,
        )


def _scaling_group(raw: Json) -> DescribedGroup:
    tags = {
        lenient.text(each.get("Key")): lenient.text(each.get("Value")) for each in lenient.mappings(raw.get("Tags"))
    }
    overrides = lenient.mappings(lenient.inside(raw, "MixedInstancesPolicy", "LaunchTemplate").get("Overrides"))
    instances = lenient.mappings(raw.get("Instances"))
    types = [lenient.text(each.get("InstanceType")) for each in (*overrides, *instances)]
    labels = {
        key.removeprefix(f"{TEMPLATE}label/"): value
        for key, value in tags.items()
        if key.startswith(f"{TEMPLATE}label/")
    }
    group = tags.get("eks:nodegroup-name", "")
    return DescribedGroup(
        name=lenient.text(raw.get("AutoScalingGroupName")),
        group=group,
        instance_types=tuple(dict.fromkeys(filter(None, types))),
        labels=labels | ({GROUP_LABEL: group} if group else {}),
        taints=tuple(
            Taint(key.removeprefix(f"{TEMPLATE}taint/"), value.rpartition(":")[0], value.rpartition(":")[2])
            for key, value in tags.items()
            if key.startswith(f"{TEMPLATE}taint/")
        ),
        resources=_resources(tags),
        zones=tuple(map(str, lenient.items(raw.get("AvailabilityZones")))),
        target=lenient.whole(raw.get("DesiredCapacity")) or 0,
        most=lenient.whole(raw.get("MaxSize")) or 0,
    )


def _resources(tags: Mapping[str, str]) -> dict[str, int]:
    """Resources that tags tell of; Cluster Autoscaler passes over an amount that it cannot read, and so do we."""
    found = {}
    prefix = f"{TEMPLATE}resources/"
    for key, value in tags.items():
        if key.startswith(prefix):
            try:
                found[key.removeprefix(prefix)] = quantity.parse(value, key=key).nano
            except WireError:
                continue
    return found


def _reservation(raw: Json) -> Reservation:
    return Reservation(
        id=lenient.text(raw.get("CapacityReservationId")),
        instance_type=lenient.text(raw.get("InstanceType")),
        zone=lenient.text(raw.get("AvailabilityZone")),
        block=raw.get("ReservationType") == "capacity-block",
        usable=raw.get("State") == "active",
        starts=_moment(raw.get("StartDate")),
        ends=_moment(raw.get("EndDate")),
        available=lenient.whole(raw.get("AvailableInstanceCount")),
    )


def _moment(stamp: object) -> float | None:
    """A time as AWS writes it: ISO 8601 with an offset, or Unix seconds."""
    if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
        return float(stamp)
    try:
        return datetime.fromisoformat(lenient.text(stamp)).timestamp()
    except (ValueError, OverflowError):
        return None
