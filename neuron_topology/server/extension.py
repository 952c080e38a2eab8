"""What Neuron devices add to the allocator of all vendors: gangs with the same set on each node, and their figures."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from prometheus_client.core import Metric

from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.kube.port import KubeApi
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.observe.metrics import Metrics
from hami_plugins.wire.admission_review import Answer
from hami_plugins.wire.fields import Json
from neuron_topology.core.gangs.gangs import Gangs
from neuron_topology.core.jobs.admission import admit
from neuron_topology.core.jobs.patch import JobDefaults
from neuron_topology.core.vendor import SPEC
from neuron_topology.server import cleanup
from neuron_topology.server.gang_metrics import GangMetrics
from neuron_topology.server.job_definition import JobDefinition
from neuron_topology.server.metrics import families


class NeuronExtension:
    """Of one replica; see ``AllocatorExtension``."""

    vendor: ClassVar[str] = SPEC.name
    resources: ClassVar[Sequence[str]] = SPEC.resources.all()

    def __init__(self, metrics: Metrics, settings: AllocatorSettings, api: KubeApi) -> None:
        self._jobs = JobDefinition(api, now=time.monotonic)
        self._gangs = GangMetrics(metrics, now=time.time)
        self._margin = settings.neuron.capacity_block_margin

    def jobs(self, raw: Json) -> Answer:
        """See ``AllocatorExtension``."""
        return admit(raw, JobDefaults(kept=self._jobs.kept))

    def planner(self) -> Gangs:
        """See ``AllocatorExtension``."""
        return Gangs(now=time.time, margin=self._margin, members=self._gangs.followed())

    def families(self, snapshot: ClusterSnapshot) -> Iterable[Metric]:
        """See ``AllocatorExtension``."""
        return (*families(snapshot), self._gangs.family())

    @staticmethod
    def cleaned(api: KubeApi, *, nodes: bool, dry_run: bool) -> Iterator[str]:
        """See ``AllocatorExtensionEntry``."""
        return cleanup.cleaned(api, nodes=nodes, dry_run=dry_run)
