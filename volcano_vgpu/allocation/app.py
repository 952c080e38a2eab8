"""Volcano's allocator: the shared one, with what Volcano's own cache needs beside it in mode ``webhook``."""

from __future__ import annotations

from contextlib import nullcontext

from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.server import LINGER_SECONDS, READ_SECONDS, AllocatorServer
from hami_plugins.allocator.session import Filling
from hami_plugins.kube.election import BoundedApi
from hami_plugins.model.vendor import VendorSpec
from volcano_vgpu.allocation.node_writer import Toucher
from volcano_vgpu.allocation.settings import VgpuAllocatorSettings
from volcano_vgpu.core.allocator.mode import AllocatorMode
from volcano_vgpu.core.allocator.product import product_of


def allocator_server(  # noqa: PLR0913 - what it is made of
    settings: VgpuAllocatorSettings,
    api: BoundedApi,
    spec: VendorSpec,
    *,
    metrics: AllocatorMetrics,
    identity: str,
    filling: Filling = nullcontext,
    linger: float = LINGER_SECONDS,
) -> AllocatorServer:
    """One replica; the parameters are those of ``AllocatorServer``.

    In mode ``extender`` Volcano counts no cards, so that no node has to be written.
    """
    corrects = settings.mode is AllocatorMode.WEBHOOK
    return AllocatorServer(
        settings,
        api,
        product_of(spec, settings.rules, mode=settings.mode, schedulers=settings.schedulers),
        metrics=metrics,
        identity=identity,
        filling=filling,
        linger=linger,
        writer=Toucher(api.within(READ_SECONDS), interval=settings.touch_interval, metrics=metrics)
        if corrects
        else None,
    )
