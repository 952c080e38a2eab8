"""Kubernetes objects cut down to what a snapshot is read from; everything else never reaches a snapshot file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias

from hami_plugins.engine.policies import DEVICE_POLICY_KEY, NODE_POLICY_KEY, NUMA_BIND_KEY
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import WireError
from hami_plugins.wire import (
    gang_keys,
    karpenter,
    kubernetes_gangs,
    node_devices,
    node_groups,
    resizes,
    scoring_weights,
)
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pages import with_kind
from hami_plugins.wire.pods import DISRUPTION

Keep: TypeAlias = "bool | Keep_ | list[Keep]"
Keep_: TypeAlias = "Mapping[str, Keep]"
"""What stays of a value: all of it, some members, or that of each item of a list."""


class KnownMembers(dict[str, Keep]):
    """Members that are understood. Any other one stays without its content: a decision about it is unknown.

    One that is ``False`` here decides nothing and does not stay.
    """


ANNOTATIONS: Final = "annotations"

GROUP_KEYS: Final = (
    gang_keys.GROUP_KEY,
    gang_keys.VOLCANO_GROUP_KEY,
    gang_keys.COSCHEDULING_LABEL,
    gang_keys.KOORDINATOR_GROUP_LABEL,
    gang_keys.KOORDINATOR_OLD_GROUP_LABEL,
    gang_keys.KOORDINATOR_GANG_KEY,
)
QUEUE_KEYS: Final = (gang_keys.QUEUE_KEY, gang_keys.JOB_QUEUE_KEY)
TASK_KEYS: Final = (gang_keys.TASK_KEY,)
"""Annotations and labels that name a pod's group, queue and task."""

_NAMED: Final[Keep_] = {
    "name": True,
    "namespace": True,
    "uid": True,
    "creationTimestamp": True,
    "deletionTimestamp": True,
    "labels": True,
    ANNOTATIONS: True,
}
_CONTAINERS: Final[list[Keep]] = [
    {
        "name": True,
        "image": True,
        "restartPolicy": True,
        "resources": {"limits": True, "requests": True, "claims": [{"name": True, "request": True}]},
        "securityContext": {"privileged": True},
        "env": [{"name": True}],
    }
]
_SELECTORS: Final[list[Keep]] = [KnownMembers({"cel": {"expression": True}})]
_NODES: Final[Keep_] = {"nodeName": True, "nodeSelector": True, "allNodes": True}
_OF_DEVICE: Final = KnownMembers(
    {
        "name": True,
        **_NODES,
        "attributes": True,
        "capacity": True,
        "consumesCounters": True,
        "taints": [{"key": True, "value": True, "effect": True}],
        "allowMultipleAllocations": True,
        "bindingConditions": True,
        "bindingFailureConditions": False,
        "bindsToNode": False,
        "nodeAllocatableResourceMappings": False,
    }
)
_OF_CHOICE: Final = KnownMembers(
    {
        "name": True,
        "deviceClassName": True,
        "selectors": _SELECTORS,
        "allocationMode": True,
        "count": True,
        "adminAccess": True,
        "tolerations": [{"key": True, "operator": True, "value": True, "effect": True}],
        "capacity": KnownMembers({"requests": True}),
    }
)
_OF_CLAIM: Final = KnownMembers(
    {
        "devices": KnownMembers(
            {
                "requests": [KnownMembers({**_OF_CHOICE, "exactly": _OF_CHOICE, "firstAvailable": [_OF_CHOICE]})],
                "constraints": [KnownMembers({"requests": True, "matchAttribute": True, "distinctAttribute": True})],
                "config": False,
            }
        )
    }
)
_OF_ALLOCATION: Final[Keep_] = {
    "devices": {
        "results": [
            dict.fromkeys(("request", "driver", "pool", "device", "adminAccess", "shareID", "consumedCapacity"), True)
        ]
    },
    "nodeSelector": True,
}
_POLICY: Final[Keep_] = {"basic": True, "gang": {"minCount": True}}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_CONDITIONS: Final[list[Keep]] = [{"type": True, "status": True, "reason": True}]
_NODE_CLASS: Final[Keep_] = {
    "metadata": {"name": True},
    "status": {
        "subnets": [{"zone": True}],
        "capacityReservations": [
            dict.fromkeys(("availabilityZone", "endTime", "id", "instanceType", "reservationType", "state"), True)
        ],
        "conditions": _CONDITIONS,
    },
}
_KEPT: Final[Mapping[str, Keep_]] = {
    "Node": {
        "metadata": _NAMED,
        "spec": {"taints": [{"key": True, "value": True, "effect": True}], "unschedulable": True},
        "status": {
            "capacity": True,
            "allocatable": True,
            "conditions": _CONDITIONS,
            "nodeInfo": {"kubeletVersion": True},
        },
    },
    "Pod": {
        "metadata": {**_NAMED, "ownerReferences": [{"kind": True, "controller": True}]},
        "spec": {
            "nodeName": True,
            "schedulerName": True,
            "priority": True,
            "priorityClassName": True,
            "preemptionPolicy": True,
            "runtimeClassName": True,
            "schedulingGates": True,
            "schedulingGroup": {"podGroupName": True},
            "workloadRef": {"name": True, "podGroup": True, "podGroupReplicaKey": True},
            "overhead": True,
            "resources": {"limits": True, "requests": True},
            "nodeSelector": True,
            "affinity": {
                "nodeAffinity": {_REQUIRED: True},
                "podAffinity": {_REQUIRED: True},
                "podAntiAffinity": {_REQUIRED: True},
            },
            "topologySpreadConstraints": True,
            "tolerations": True,
            "resourceClaims": [{"name": True, "resourceClaimName": True, "resourceClaimTemplateName": True}],
            "initContainers": _CONTAINERS,
            "containers": _CONTAINERS,
        },
        "status": {
            "phase": True,
            "nominatedNodeName": True,
            "conditions": _CONDITIONS,
            "initContainerStatuses": [{"name": True, "state": {"terminated": {"exitCode": True}}}],
            "resourceClaimStatuses": [{"name": True, "resourceClaimName": True}],
        },
    },
    "ResourceQuota": {
        "metadata": _NAMED,
        "spec": {"hard": True, "scopes": True, "scopeSelector": {"matchExpressions": [{"scopeName": True}]}},
        "status": {"used": True},
    },
    "PodDisruptionBudget": {
        "metadata": _NAMED,
        "spec": {"selector": True},
        "status": {"disruptionsAllowed": True},
    },
    "Queue": {
        "metadata": _NAMED,
        "spec": {
            "weight": True,
            "capability": True,
            "deserved": True,
            "guarantee": True,
            "parent": True,
            "priority": True,
            "reclaimable": True,
        },
        "status": {"state": True, "allocated": True},
    },
    "PodGroup": {
        "metadata": _NAMED,
        "spec": {
            "minMember": True,
            "minTaskMember": True,
            "minResources": True,
            "queue": True,
            "priorityClassName": True,
            "schedulingPolicy": _POLICY,
        },
        "status": {"phase": True},
    },
    "Workload": {"metadata": _NAMED, "spec": {"podGroups": [{"name": True, "policy": _POLICY}]}},
    "PriorityClass": {"metadata": _NAMED, "value": True, "preemptionPolicy": True},
    "ResourceSlice": {
        "metadata": {"name": True},
        "spec": {
            "driver": True,
            "pool": True,
            **_NODES,
            "perDeviceNodeSelection": True,
            "sharedCounters": True,
            "devices": [KnownMembers({**_OF_DEVICE, "basic": _OF_DEVICE})],
        },
    },
    "DeviceClass": {
        "metadata": {"name": True, "creationTimestamp": True},
        "spec": {"selectors": _SELECTORS, "extendedResourceName": True},
    },
    "ResourceClaim": {
        "metadata": {
            "name": True,
            "namespace": True,
            "deletionTimestamp": True,
            "ownerReferences": [{"kind": True, "name": True, "controller": True}],
        },
        "spec": _OF_CLAIM,
        "status": {"allocation": _OF_ALLOCATION, "reservedFor": [{"name": True}]},
    },
    "ResourceClaimTemplate": {"metadata": {"name": True, "namespace": True}, "spec": {"spec": _OF_CLAIM}},
    "NodePool": {
        "metadata": {"name": True, "deletionTimestamp": True},
        "spec": {
            "limits": True,
            "replicas": True,
            "template": {
                "metadata": {"labels": True},
                "spec": {
                    "taints": [{"key": True, "value": True, "effect": True}],
                    "requirements": [{"key": True, "operator": True, "values": True}],
                    "nodeClassRef": {"group": True, "kind": True, "name": True},
                },
            },
        },
        "status": {"nodes": True, "resources": True, "conditions": _CONDITIONS},
    },
    "EC2NodeClass": _NODE_CLASS,
    "NodeClass": _NODE_CLASS,
    "ConfigMap": {"metadata": {"name": True, "namespace": True}, "data": {"status": True}},
    "Device": {
        "metadata": {"name": True, "labels": True},
        "spec": {
            "devices": [
                {
                    "type": True,
                    "id": True,
                    "minor": True,
                    "health": True,
                    "resources": True,
                    "labels": True,
                    "topology": True,
                }
            ]
        },
    },
}


_CERTAIN: Final[Mapping[str, Callable[[Json], bool]]] = {
    "Workload": kubernetes_gangs.is_one,
    "NodePool": partial(karpenter.is_pool, "NodePool"),
    **{kind: partial(karpenter.is_class, kind) for kind in karpenter.NODE_CLASSES.values()},
    "ConfigMap": partial(node_groups.is_status, "ConfigMap"),
}
"""Kinds of which only some objects are read; other products have objects of these kinds."""


def kinds() -> tuple[str, ...]:
    """The kinds that a snapshot file holds."""
    return tuple(_KEPT)


def one_by_one(raw: object) -> Iterator[Mapping[str, object]]:
    """The objects of a list, of nested lists, or the object itself; other values are left out."""
    waiting = [raw]
    while waiting:
        current = waiting.pop()
        if isinstance(current, list):
            waiting.extend(reversed(current))
        elif isinstance(current, Mapping):
            items = current.get("items")
            if not isinstance(items, list):
                yield current
                continue
            kind = str(current.get("kind", "List")).removesuffix("List")
            waiting.extend(with_kind(item, kind) for item in reversed(items))


class Trimmer:
    """Cuts objects down. Annotations stay if a vendor or a scheduler's policy reads or writes them."""

    def __init__(self, registry: Registry) -> None:
        self._known = frozenset(key for spec in registry for key in spec.keys.all()) | {
            NODE_POLICY_KEY,
            DEVICE_POLICY_KEY,
            NUMA_BIND_KEY,
            scoring_weights.KEY,
            *GROUP_KEYS,
            *QUEUE_KEYS,
            *TASK_KEYS,
            gang_keys.PREEMPTABLE_KEY,
            gang_keys.QUEUE_GATE_KEY,
            node_devices.AGENTS_KEY,
            *resizes.KEYS,
        }

    def objects(self, raws: Iterable[object]) -> Iterator[dict[str, object]]:
        """The trimmed objects of the kinds that a snapshot holds, lists taken apart."""
        for raw in raws:
            for each in one_by_one(raw):
                keep = _KEPT.get(str(each.get("kind")))
                certain = _CERTAIN.get(str(each.get("kind")))
                if keep is not None and (certain is None or certain(each)):
                    yield self._object(each, keep)

    def _object(self, raw: Mapping[str, object], keep: Keep_) -> dict[str, object]:
        found: dict[str, object] = {"apiVersion": raw.get("apiVersion", "v1"), "kind": raw["kind"]}
        found.update(_members(raw, keep))
        metadata = found.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get(ANNOTATIONS), Mapping):
            metadata[ANNOTATIONS] = {key: value for key, value in metadata[ANNOTATIONS].items() if key in self._known}
        if found["kind"] == "ConfigMap":
            return {**found, "data": {"status": _sizes_alone(found)}}
        return _without_other_conditions(found) if found["kind"] == "Pod" else found


def _sizes_alone(status: Mapping[str, object]) -> str:
    """Of what Cluster Autoscaler reports the sizes of its groups; nothing where it cannot be read."""
    try:
        return node_groups.status_text(node_groups.sizes(status))
    except WireError:
        return node_groups.status_text(())


def _without_other_conditions(pod: dict[str, object]) -> dict[str, object]:
    """The pod with the one condition that is read of pods, which few have."""
    status = pod.get("status")
    listed = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(status, dict) or not isinstance(listed, list):
        return pod
    kept = [each for each in listed if isinstance(each, dict) and each.get("type") == DISRUPTION]
    others = {key: value for key, value in status.items() if key != "conditions"}
    return {**pod, "status": {**others, **({"conditions": kept} if kept else {})}}


def _kept(value: object, keep: Keep) -> object:
    """The value cut down; one of another type than expected stays, so that reading it says what is wrong with it."""
    if isinstance(keep, Mapping):
        return _members(value, keep) if isinstance(value, Mapping) else value
    if isinstance(keep, list):
        return [_kept(item, keep[0]) for item in value] if isinstance(value, list) else value
    return value


def _members(value: Mapping[str, object], keep: Keep_) -> dict[str, object]:
    found = {key: _kept(value[key], keep[key]) for key in keep if key in value and keep[key] is not False}
    if isinstance(keep, KnownMembers):
        found |= {key: True for key, inner in value.items() if key not in keep and inner is not None}
    return found
