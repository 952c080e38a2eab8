"""PodGroup, Queue, ResourceQuota and claim documents to the values that a plan honours.

The reading is ``wire.objects``'; what Kubernetes or Volcano would refuse to store is refused here, with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from hami_plugins.errors import WireError
from hami_plugins.inputs.claim_objects import ClaimObjects
from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.model.claims import DynamicResources
from hami_plugins.model.cluster import NamespaceQuota, PodGroup, PriorityClass, Queue
from hami_plugins.wire import kubernetes_gangs, objects
from hami_plugins.wire.fields import Json

T = TypeVar("T")


def pod_group(field: Field, namespace: str, name: str) -> PodGroup:
    """A gang of Volcano (``scheduling.volcano.sh``), of the coscheduling plugin (``scheduling.x-k8s.io``) or of
    Koordinator (``scheduling.sigs.k8s.io``)."""
    spec = field.inner("spec")
    spec.count("minMember", 0)
    spec.amounts("minResources")
    by_task = spec.inner("minTaskMember")
    for task in by_task.members:
        by_task.count(task, 0)
    return _read(objects.pod_group, field, {"namespace": namespace, "name": name})


def native_pod_groups(field: Field, namespace: str, name: str) -> tuple[PodGroup, ...]:
    """The gangs of a PodGroup or a Workload of Kubernetes (``scheduling.k8s.io``); none of templates alone."""
    spec = field.needed("spec")
    policies = [spec.inner("schedulingPolicy")] if field.text("kind") == "PodGroup" else []
    policies += [group.inner("policy") for group in spec.items("podGroups")]
    for policy in policies:
        if policy.has("gang") and not policy.inner("gang").count("minCount", 0):
            raise policy.inner("gang").fault("has to be a whole number of at least 1", "minCount")
    return _read(lambda raw: tuple(kubernetes_gangs.pod_groups(raw)), field, {"namespace": namespace, "name": name})


def queue(field: Field, name: str) -> Queue:
    """A Volcano queue; one without a state has just been made and is open."""
    spec = field.inner("spec")
    spec.count("weight", 1)
    for holder, key in ((spec, "capability"), (spec, "deserved"), (spec.inner("guarantee"), "resource")):
        holder.amounts(key)
    return _read(objects.queue, field, {"name": name})


def quota(field: Field, namespace: str, name: str) -> NamespaceQuota:
    """The hard limits of a ResourceQuota. Scopes are not looked at: HAMi holds every pod to the limits on devices."""
    field.inner("spec").amounts("hard")
    return _read(objects.resource_quota, field, {"namespace": namespace, "name": name})


def priority_class(field: Field, name: str) -> PriorityClass:
    """A PriorityClass."""
    return _read(objects.priority_class, field, {"name": name})


def dynamic_resources(found: Iterable[tuple[Field, str, str, str]]) -> DynamicResources:
    """Claims, templates, classes and slices: each with its kind, namespace and name."""
    objects = ClaimObjects()
    for field, kind, namespace, name in found:
        metadata = {**field.inner("metadata").members, "namespace": namespace, "name": name}
        try:
            objects.takes(kind, {**field.members, "metadata": metadata})
        except WireError as error:
            raise field.fault(str(error)) from error
    return objects.finish()


def _read(reader: Callable[[Json], T], field: Field, identity: Mapping[str, str]) -> T:
    try:
        return reader({**field.members, "metadata": {**field.inner("metadata").members, **identity}})
    except WireError as error:
        raise field.fault(str(error)) from error
