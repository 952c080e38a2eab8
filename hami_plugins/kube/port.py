"""What the product asks of an API server: everything as raw JSON, so that no field is lost on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple, Protocol

from hami_plugins.kube import paths
from hami_plugins.wire.fields import Json
from hami_plugins.wire.node_groups import STATUS_NAME
from hami_plugins.wire.resource_slices import VERSIONS


@dataclass(frozen=True, slots=True)
class Collection:
    """A list endpoint: its path, the kind of its items, and whether a cluster may lack it (custom resources).

    ``fields`` is a field selector.
    """

    path: str
    kind: str
    optional: bool = False
    fields: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of a list endpoint that selectors pick out.

    ``cached`` allows a first list from the server's memory, which may lag behind by a moment and costs the server
    little. It is for the many that each look at a few objects (a node's own pods).
    """

    path: str
    kind: str
    labels: str = ""
    fields: str = ""
    cached: bool = False


class ListPage(NamedTuple):
    """A part of a list. ``version`` is that of the whole list: a watch from there misses nothing."""

    items: Sequence[Json]
    version: str


WatchKind = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(NamedTuple):
    """One line of a watch. A bookmark's object carries nothing but ``metadata.resourceVersion``."""

    kind: WatchKind
    object: Json


NODES: Final = Collection(paths.NODES, "Node")
PODS: Final = Collection(paths.PODS, "Pod")

SNAPSHOT_COLLECTIONS: Final = (
    NODES,
    PODS,
    Collection("/api/v1/resourcequotas", "ResourceQuota", optional=True),
    Collection("/apis/policy/v1/poddisruptionbudgets", "PodDisruptionBudget", optional=True),
    Collection("/apis/scheduling.volcano.sh/v1beta1/queues", "Queue", optional=True),
    Collection("/apis/scheduling.volcano.sh/v1beta1/podgroups", "PodGroup", optional=True),
    Collection("/apis/scheduling.koordinator.sh/v1alpha1/devices", "Device", optional=True),
    Collection("/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups", "PodGroup", optional=True),
    *(
        Collection(f"/apis/scheduling.k8s.io/{version}/{plural}", kind, optional=True)
        for version, plural, kind in (
            ("v1beta1", "podgroups", "PodGroup"),
            ("v1alpha3", "podgroups", "PodGroup"),
            ("v1alpha2", "podgroups", "PodGroup"),
            ("v1alpha1", "workloads", "Workload"),
        )
    ),
    Collection("/apis/karpenter.sh/v1/nodepools", "NodePool", optional=True),
    Collection("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", "EC2NodeClass", optional=True),
    Collection("/apis/eks.amazonaws.com/v1/nodeclasses", "NodeClass", optional=True),
    Collection("/api/v1/configmaps", "ConfigMap", optional=True, fields=f"metadata.name={STATUS_NAME}"),
)
"""Everything a snapshot is made from, nodes first."""

CLAIM_COLLECTIONS: Final = tuple(
    tuple(Collection(f"/apis/resource.k8s.io/{version}/{name}", kind, optional=True) for version in VERSIONS)
    for name, kind in (
        ("resourceslices", "ResourceSlice"),
        ("deviceclasses", "DeviceClass"),
        ("resourceclaims", "ResourceClaim"),
        ("resourceclaimtemplates", "ResourceClaimTemplate"),
    )
)
"""What claims are decided from, each in all versions that are read: the newest that the server has counts."""

WEBHOOKS: Final = Collection(
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", "MutatingWebhookConfiguration", optional=True
)
"""What shows whether an allocator serves the cluster, and which devices."""

EVICTION_EVENTS: Final = tuple(
    Collection("/api/v1/events", "Event", optional=True, fields=f"involvedObject.kind=Pod,reason={reason}")
    for reason in ("Preempted", "Evict", "Evicted")
)
"""Events on evicted pods, by the reasons of kube-scheduler and the allocator, of Volcano, and of kubelets."""


class ClusterReader(Protocol):
    """Reads lists, page by page."""

    def pages(self, collection: Collection, *, page_size: int = 500) -> Iterator[list[Json]]:
        """The items of a collection in pages, each with its ``kind`` put in.

        An optional collection that the cluster does not have, or that the caller may not read, has no pages.
        Raises ``KubeError`` when the server cannot be reached or refuses.
        """


class Watching(Protocol):
    """Lists and then watches: all that a ``Reflector`` needs."""

    def list_pages(
        self, selection: Selection, *, version: str = "", stop: threading.Event | None = None, page_size: int = 500
    ) -> Iterator[ListPage]:
        """The selected objects in pages, all from the same moment.

        ``version`` is the least version wanted: none for the newest, ``"0"`` for whatever the server has in memory.
        ``stop`` ends waiting and reading early, with a ``KubeError``. Raises ``KubeError``; its status is 410 where the
        list expired between two pages, so that it has to be begun again.
        """

    def watch(self, selection: Selection, *, since: str, stop: threading.Event, timeout: float) -> Iterator[WatchEvent]:
        """What happens to the selected objects after the version ``since``, bookmarks included.

        The watch is open when this returns. It ends without an error after ``timeout`` seconds, and promptly once
        ``stop`` is set. Raises ``KubeError`` where it is refused or torn; its status is 410 where ``since`` is too old.
        """


class Writing(Protocol):
    """Writes. Every method raises ``KubeError`` where the server refuses or does not answer."""

    def create(self, path: str, body: Json) -> Json:
        """Post ``body`` to a collection or a subresource; ``AlreadyExistsError`` where the name is taken."""

    def replace(self, path: str, body: Json) -> Json:
        """Put ``body``; ``ContentionError`` where its ``metadata.resourceVersion`` is not the newest."""

    def delete(self, path: str, *, body: Json | None = None) -> Json:
        """Delete the object; ``body`` may carry options such as preconditions."""

    def merge_patch(self, path: str, body: Json) -> Json:
        """Merge ``body`` into the object (RFC 7386: ``None`` removes a field).

        With ``metadata.resourceVersion`` in ``body`` the patch is conditional: ``ContentionError`` where it is not the
        newest.
        """


class KubeApi(ClusterReader, Watching, Writing, Protocol):
    """Everything that is asked of an API server."""

    def get(self, path: str) -> Json:
        """The object at ``path``. Raises ``KubeError``, with status 404 where there is none."""

    def server_time(self) -> datetime | None:
        """The time by the server's clock: what its last answer said, and what passed since. ``None`` where none did."""
