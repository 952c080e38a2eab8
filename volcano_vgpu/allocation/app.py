"""Volcano's allocator: the shared one, with what Volcano's own cache needs beside it in mode ``webhook``."""

from __future__ import annotations

from typing import Unpack

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocator.node_writer import Toucher
from hami_plugins.allocator.server import READ_SECONDS, AllocatorOptions, AllocatorServer
from hami_plugins.kube.election import BoundedApi
from hami_plugins.model.vendor import VendorSpec
from volcano_vgpu.allocation.settings import VgpuAllocatorSettings
from volcano_vgpu.core.allocator.product import product_of


def allocator_server(
    settings: VgpuAllocatorSettings, api: BoundedApi, spec: VendorSpec, **options: Unpack[AllocatorOptions]
) -> AllocatorServer:
    """One replica. In mode ``extender`` Volcano counts no cards, so that no node has to be written."""
    writer = None
    if settings.mode is AllocatorMode.WEBHOOK:
        writer = Toucher(api.within(READ_SECONDS), interval=settings.touch_interval, metrics=options["metrics"])
    product = product_of(spec, settings.rules, mode=settings.mode, schedulers=settings.schedulers)
    return AllocatorServer(settings, api, product, writer=writer, **options)
