"""Pod templates to the pods that a controller would make of them, ready for admission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.wire import objects
from hami_plugins.wire.pods import CONTAINER_LISTS

MAX_PODS: Final = 100_000
"""Most pods that one submission may stand for."""

VOLCANO: Final = "volcano"
"""The name under which Volcano's scheduler is installed."""


class PodCopy(NamedTuple):
    """One pod of a workload: its name, and the Pod object as it reaches the webhooks. Copies share their parts."""

    name: str
    raw: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PodTemplate:
    """What all pods of a workload (or of one task of it) have in common."""

    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, object]
    scheduler: str
    priority_class: str

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
    return found


def checked(copy: PodCopy, field: Field) -> PodCopy:
    """A pod that can be read. Raises ``ManifestError`` at the field that it comes from for one that cannot."""
    try:
        objects.pod(copy.raw)
    except WireError as error:
        raise field.fault(f"{error.key}: {error.why}") from error
    return copy


def copies(of: PodTemplate, name: str, count: int, *, first: int = 0) -> tuple[PodCopy, ...]:
    """``count`` pods, numbered from ``first``: ``name-0`` and so on."""
    return tuple(of.pod(f"{name}-{at}") for at in range(first, first + count))
