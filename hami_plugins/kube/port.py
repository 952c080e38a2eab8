"""What the product asks of an API server when it reads a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

Raw = Mapping[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A list endpoint: its path, the kind of its items, and whether a cluster may lack it (custom resources)."""

    path: str
    kind: str
    optional: bool = False


SNAPSHOT_COLLECTIONS: Final = (
    Collection("/api/v1/nodes", "Node"),
    Collection("/api/v1/pods", "Pod"),
    Collection("/api/v1/resourcequotas", "ResourceQuota", optional=True),
    Collection("/apis/scheduling.volcano.sh/v1beta1/queues", "Queue", optional=True),
    Collection("/apis/scheduling.volcano.sh/v1beta1/podgroups", "PodGroup", optional=True),
)
"""Everything a snapshot is made from, nodes first."""


class ClusterReader(Protocol):
    """Reads lists, page by page."""

    def pages(self, collection: Collection, *, page_size: int = 500) -> Iterator[list[Raw]]:
        """The items of a collection in pages, each with its ``kind`` put in.

        An optional collection that the cluster does not have, or that the caller may not read, has no pages.
        Raises ``KubeError`` when the server cannot be reached or refuses.
        """
