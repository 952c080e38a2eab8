"""What a package with a vendor of its own adds to the allocator, found by its entry point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from prometheus_client.core import Metric

from hami_plugins.allocations.planner import AllocationPlanner
from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.kube.port import KubeApi
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.observe.metrics import Metrics
from hami_plugins.wire.admission_review import Answer
from hami_plugins.wire.fields import Json


class AllocatorExtension(Protocol):
    """Of one replica."""

    @property
    def jobs(self) -> Callable[[Json], Answer]:
        """Answers the creation of a Volcano Job."""

    def planner(self) -> AllocationPlanner:
        """What knows more than the devices of one node; called once for each cache."""

    def families(self, snapshot: ClusterSnapshot) -> Iterable[Metric]:
        """The cluster state that Prometheus scrapes."""


class AllocatorExtensionEntry(Protocol):
    """What the entry point names. ``resources`` are those of the containers of Volcano Jobs that ``jobs`` changes."""

    vendor: str
    resources: Sequence[str]

    def __call__(self, metrics: Metrics, settings: AllocatorSettings, api: KubeApi) -> AllocatorExtension:
        """For a replica with these settings; ``api`` answers within a webhook's time."""

    def cleaned(self, api: KubeApi, *, nodes: bool, dry_run: bool) -> Iterator[str]:
        """Removes what the package's commands have put into a cluster, and yields the name of each thing.

        With ``nodes`` what operators wrote on nodes for the package is removed as well. Raises ``KubeError``.
        """
