"""The Neuron allocator: the shared one, about Neuron devices."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext

from prometheus_client.core import Metric

from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.server import LINGER_SECONDS, AllocatorServer
from hami_plugins.allocator.session import Filling
from hami_plugins.kube.election import BoundedApi
from neuron_topology.core.allocator.product import product_of
from neuron_topology.core.gangs.gangs import Gangs
from neuron_topology.server.gang_metrics import GangMetrics
from neuron_topology.server.metrics import families
from neuron_topology.server.settings import NeuronAllocatorSettings


def allocator_server(  # noqa: PLR0913 - what it is made of
    settings: NeuronAllocatorSettings,
    api: BoundedApi,
    *,
    metrics: AllocatorMetrics,
    identity: str,
    filling: Filling = nullcontext,
    linger: float = LINGER_SECONDS,
) -> AllocatorServer:
    """One replica; the parameters are those of ``AllocatorServer``."""
    margin = settings.capacity_block_margin
    gangs = GangMetrics(metrics.metrics, now=time.time)

    def planner() -> Gangs:
        return Gangs(now=time.time, margin=margin, members=gangs.followed())

    product = product_of(settings.rules, planner, binds=settings.binds)
    server = AllocatorServer(settings, api, product, metrics=metrics, identity=identity, filling=filling, linger=linger)

    def devices() -> Iterable[Metric]:
        snapshot = server.snapshot()
        return () if snapshot is None else (*families(snapshot), gangs.family())

    metrics.metrics.collected(devices)
    return server
