"""Pod templates to the pods that a controller would make of them, ready for admission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.wire import kubernetes_gangs, objects
from hami_plugins.wire.gang_keys import VOLCANO_SCHEDULER
from hami_plugins.wire.pods import CONTAINER_LISTS

MAX_PODS: Final = 1_000_000
"""Most pods that one submission may stand for."""

MAX_GANGS: Final = 10_000
"""Most gangs that one object may stand for."""

VOLCANO: Final = VOLCANO_SCHEDULER
"""The name under which Volcano's scheduler is installed."""


class PodCopy(NamedTuple):
    """One pod of a workload: its name, and the Pod object as it reaches the webhooks. Copies share their parts."""

    name: str
    raw: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PodTemplate:
    """What all pods of a workload (or of one task of it) have in common.

    ``native_group`` is the gang of Kubernetes (``wire.kubernetes_gangs``) that its spec names, empty for none.
    """

    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, object]
    scheduler: str
    priority_class: str
    native_group: str = ""

    def with_annotations(self, more: Mapping[str, str]) -> PodTemplate:
        """The template with further annotations, which its controller writes."""
        return replace(self, annotations={**self.annotations, **more})

    def with_texts(self, more: Mapping[str, str]) -> PodTemplate:
        """The template with further texts as labels and as annotations."""
        return replace(self, labels={**self.labels, **more}, annotations={**self.annotations, **more})

    def pod(self, name: str) -> PodCopy:
        """The pod of that name."""
        metadata = {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels,
            "annotations": self.annotations,
        }
        return PodCopy(name, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.spec})


def template(field: Field, namespace: str) -> PodTemplate:
    """Reads a pod template, or a Pod.

    Raises ``ManifestError`` for what the API server would refuse before any webhook sees it: no containers, resources
    that are not quantities, labels and annotations that are not text. Negative amounts of extended resources are
    left to admission, because webhooks see them first.
    """
    metadata, spec = field.inner("metadata"), field.needed("spec")
    for key in CONTAINER_LISTS:
        for container in spec.items(key):
            resources = container.inner("resources")
            resources.amounts("limits", signed=True)
            resources.amounts("requests", signed=True)
    if not spec.items("containers"):
        raise spec.fault("a pod needs containers")
    found = PodTemplate(
        namespace=namespace,
        labels=metadata.texts("labels"),
        annotations=metadata.texts("annotations"),
        spec=spec.members,
        scheduler=spec.text("schedulerName"),
        priority_class=spec.text("priorityClassName"),
    )
    checked(found.pod(""), spec)
    return replace(found, native_group=kubernetes_gangs.named_in(found.spec, "spec"))


def checked(copy: PodCopy, field: Field) -> PodCopy:
    """A pod that can be read. Raises ``ManifestError`` at the field that it comes from for one that cannot."""
    try:
        objects.pod(copy.raw)
    except WireError as error:
        raise field.fault(f"{error.key}: {error.why}") from error
    return copy


def product(field: Field, *counts: int) -> int:
    """A number of pods that is a product; raises ``ManifestError`` for more than are read."""
    total = 1
    for count in counts:
        total *= count
    if total > MAX_PODS:
        raise field.fault(f"{total} pods are more than {MAX_PODS}, the most that is read; split the object")
    return total


def gangs(field: Field, count: int) -> int:
    """A number of gangs of one object; raises ``ManifestError`` for more than are read."""
    if count > MAX_GANGS:
        raise field.fault(f"{count} gangs are more than {MAX_GANGS}, the most that is read; split the object")
    return count
