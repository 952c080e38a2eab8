"""The allocator put together: what its settings, its vendors and their packages say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from prometheus_client.core import Metric

from hami_plugins.allocations.manifests.webhooks import Hooks
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocations.planner import AllocationPlanner
from hami_plugins.allocations.product import Product, nothing_carried, volcano_carried
from hami_plugins.allocator.extension import AllocatorExtension, AllocatorExtensionEntry
from hami_plugins.allocator.leader import READ_SECONDS
from hami_plugins.allocator.node_writer import Toucher
from hami_plugins.allocator.server import AllocatorOptions, AllocatorServer
from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.fleets.templates import NodeTemplate, TemplateNodes
from hami_plugins.kube.election import BoundedApi
from hami_plugins.model.dialect import Dialect
from hami_plugins.wire import allocator_mark


def product_of(settings: AllocatorSettings, vendors: Registry, extension: AllocatorExtension | None = None) -> Product:
    """What is allocated in a cluster with these settings, for Volcano and for kube-scheduler."""
    mode = settings.volcano.mode
    return Product(
        registry=vendors,
        rules=settings.rules(),
        marker=(allocator_mark.KEY, mode.value),
        schedulers=settings.volcano.schedulers,
        jobs=None if extension is None else extension.jobs,
        binds=settings.scheduler.binds,
        names_best=settings.scheduler.nodes == "best",
        described=templates_of(settings, vendors),
        planner=AllocationPlanner if extension is None else extension.planner,
        carries=volcano_carried if mode is AllocatorMode.WEBHOOK else nothing_carried,
    )


def templates_of(settings: AllocatorSettings, vendors: Registry) -> TemplateNodes:
    """What nodes that do not exist yet will say of their devices. Raises ``ConfigError``."""
    return TemplateNodes(
        [NodeTemplate(labels=each.selector, node=each.node) for each in settings.templates],
        agents=[dialect for dialect in (Dialect.HAMI, Dialect.VOLCANO) if any(v.dialect is dialect for v in vendors)],
        registers=[spec.keys.register for spec in vendors if spec.keys.register],
    )


def hooks_of(product: Product, jobs: AllocatorExtensionEntry | None = None) -> Hooks:
    """What the server's webhooks are about; with ``jobs`` also the Volcano Jobs that a package patches."""
    return Hooks(
        resources=[spec.resources for spec in product.registry],
        keys=product.keys,
        jobs=() if jobs is None else jobs.resources,
    )


def allocator_server(
    settings: AllocatorSettings,
    api: BoundedApi,
    vendors: Registry,
    entry: AllocatorExtensionEntry | None,
    **options: Unpack[AllocatorOptions],
) -> AllocatorServer:
    """One replica. In mode ``extender`` Volcano counts no cards, so that no node has to be written."""
    metrics = options["metrics"]
    extension = None if entry is None else entry(metrics.metrics, settings, api.within(READ_SECONDS))
    writer = None
    if settings.volcano.mode is AllocatorMode.WEBHOOK:
        writer = Toucher(api.within(READ_SECONDS), interval=settings.volcano.touch_interval, metrics=metrics)
    page = settings.page if settings.page.enabled else None
    product = product_of(settings, vendors, extension)
    server = AllocatorServer(settings, api, product, writer=writer, page=page, **options)

    def devices() -> Iterable[Metric]:
        snapshot = server.snapshot()
        return () if snapshot is None or extension is None else extension.families(snapshot)

    metrics.metrics.collected(devices)
    return server
