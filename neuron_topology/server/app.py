"""The Neuron allocator: the shared one, about Neuron devices."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Unpack

from prometheus_client.core import Metric

from hami_plugins.allocator.server import AllocatorOptions, AllocatorServer
from hami_plugins.kube.election import BoundedApi
from neuron_topology.core.allocator.product import product_of
from neuron_topology.core.gangs.gangs import Gangs
from neuron_topology.server.gang_metrics import GangMetrics
from neuron_topology.server.metrics import families
from neuron_topology.server.settings import NeuronAllocatorSettings


def allocator_server(
    settings: NeuronAllocatorSettings, api: BoundedApi, **options: Unpack[AllocatorOptions]
) -> AllocatorServer:
    """One replica, which also shows the figures of its devices and gangs."""
    metrics, margin = options["metrics"].metrics, settings.capacity_block_margin
    gangs = GangMetrics(metrics, now=time.time)

    def planner() -> Gangs:
        return Gangs(now=time.time, margin=margin, members=gangs.followed())

    product = product_of(settings.rules, planner, binds=settings.binds)
    server = AllocatorServer(settings, api, product, **options)

    def devices() -> Iterable[Metric]:
        snapshot = server.snapshot()
        return () if snapshot is None else (*families(snapshot), gangs.family())

    metrics.collected(devices)
    return server
