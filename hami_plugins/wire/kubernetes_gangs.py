"""Kubernetes' own gangs (API group ``scheduling.k8s.io``, KEP-4671), in the spellings of releases 1.35 to 1.37.

1.35 (``v1alpha1``): a Workload lists ``spec.podGroups[].policy.gang.minCount``, and a pod names
``spec.workloadRef`` (``name``, ``podGroup``, ``podGroupReplicaKey``). 1.36 (``v1alpha2``) and 1.37 (``v1alpha3``,
``v1beta1``): a PodGroup has ``spec.schedulingPolicy.gang.minCount``, and a pod names
``spec.schedulingGroup.podGroupName``. Source: ``k8s.io/api`` v0.35.0, v0.36.0, v0.37.0-beta.0, ``scheduling`` and
``core/v1``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.model.cluster import PodGroup
from hami_plugins.model.pods import Pod
from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import GROUP_KEY, VOLCANO_SCHEDULER
from hami_plugins.wire.lenient import seconds

API_GROUP: Final = "scheduling.k8s.io"

PREFIX: Final = f"{API_GROUP}/"
"""Begins the names of these gangs, so that none is taken for a PodGroup of Volcano."""


def named_in(spec: Json, place: str) -> str:
    """The gang that the ``spec`` of a pod names, empty for none."""
    group = fields.text(fields.member(spec, "schedulingGroup", place), "podGroupName", f"{place}.schedulingGroup")
    if group:
        return PREFIX + group
    inside = f"{place}.workloadRef"
    reference = fields.member(spec, "workloadRef", place)
    if not reference:
        return ""
    keys = ("name", "podGroup", "podGroupReplicaKey")
    return PREFIX + "/".join(filter(None, (fields.text(reference, key, inside) for key in keys)))


def group_of(pod: Pod) -> str:
    """The gang that a pod names: a PodGroup of Volcano by its annotation, else one of Kubernetes.

    Volcano does not read the latter.
    """
    return pod.annotations.get(GROUP_KEY, "") or ("" if pod.scheduler == VOLCANO_SCHEDULER else pod.native_group)


def of_record(name: str) -> bool:
    """Whether a name is that of a gang of Kubernetes."""
    return name.startswith(PREFIX)


def plain_name(name: str) -> str:
    """The name of a gang as people write it: without the API group, with its namespace if it has one."""
    return name.replace(PREFIX, "", 1)


def group_of_replica(full_name: str) -> str:
    """The group in a Workload that a gang with a replica key is a copy of: the full name without the key."""
    return full_name.rpartition("/")[0]


def is_one(raw: Json) -> bool:
    """Whether an object is a PodGroup or a Workload of Kubernetes."""
    version = raw.get("apiVersion")
    return isinstance(version, str) and version.startswith(PREFIX) and raw.get("kind") in {"PodGroup", "Workload"}


def pod_groups(raw: Json) -> Iterator[PodGroup]:
    """The gangs that a PodGroup or a Workload describes. Raises ``WireError`` at what is wrong in it.

    A Workload of 1.36 and later holds templates alone (``podGroupTemplates``), from which a controller makes PodGroups.
    """
    place = str(raw.get("kind")).lower()
    metadata, spec = fields.member(raw, "metadata", place), fields.member(raw, "spec", place)
    name = fields.text(metadata, "name", f"{place} metadata")
    place = f"{place} {name or '?'}: spec"
    if raw.get("kind") == "PodGroup":
        yield _gang(raw, name, fields.member(spec, "schedulingPolicy", place), f"{place}.schedulingPolicy")
        return
    for at, each in enumerate(fields.items(spec, "podGroups", place)):
        inside = f"{place}.podGroups[{at}]"
        group = fields.whole(each, inside)
        named = f"{name}/{fields.text(group, 'name', inside)}"
        yield _gang(raw, named, fields.member(group, "policy", inside), f"{inside}.policy")


def _gang(raw: Json, name: str, policy: Json, place: str) -> PodGroup:
    """A gang; with the policy ``basic`` its pods start one by one."""
    metadata = fields.member(raw, "metadata", place)
    least = 0
    if policy.get("gang") is not None:
        gang = fields.member(policy, "gang", place)
        least = fields.number(gang, "minCount", f"{place}.gang")
        if least < 1:
            raise fields.wrong(f"{place}.gang.minCount", least, "a whole number of at least 1")
    return PodGroup(
        namespace=fields.text(metadata, "namespace", "metadata") or "default",
        name=PREFIX + name,
        min_member=least,
        queue="",
        made_at=seconds(metadata.get("creationTimestamp")),
    )
