"""The server of Neuron grants: the shared one, about Neuron devices."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext

from prometheus_client.core import Metric

from hami_plugins.granting.metrics import GrantMetrics
from hami_plugins.granting.server import LINGER_SECONDS, GrantServer
from hami_plugins.granting.term import Filling
from hami_plugins.kube.election import BoundedApi
from neuron_topology.metrics import families
from neuron_topology.placement.admissions import FollowedGangs
from neuron_topology.placement.gang_metrics import GangMetrics
from neuron_topology.placement.product import product_of
from neuron_topology.placement.settings import GrantSettings


def grant_server(  # noqa: PLR0913 - what it is made of
    settings: GrantSettings,
    api: BoundedApi,
    *,
    metrics: GrantMetrics,
    identity: str,
    filling: Filling = nullcontext,
    linger: float = LINGER_SECONDS,
) -> GrantServer:
    """One replica; the parameters are those of ``GrantServer``."""
    margin = settings.capacity_block_margin
    gangs = GangMetrics(metrics.metrics, now=time.time)

    def planner() -> FollowedGangs:
        return FollowedGangs(gangs.followed(), now=time.time, margin=margin)

    product = product_of(settings.rules, planner, binds=settings.binds)
    server = GrantServer(settings, api, product, metrics=metrics, identity=identity, filling=filling, linger=linger)

    def devices() -> Iterable[Metric]:
        snapshot = server.snapshot()
        return () if snapshot is None else (*families(snapshot), gangs.family())

    metrics.metrics.collected(devices)
    return server
