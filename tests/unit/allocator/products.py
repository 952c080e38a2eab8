"""The allocator's product and settings as its tests need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hami_plugins.allocations.manifests import webhooks as manifests
from hami_plugins.allocations.manifests.webhooks import EXEMPT, WebhookTarget
from hami_plugins.allocations.product import Product
from hami_plugins.allocations.served_vendors import served_vendors
from hami_plugins.allocator.app import hooks_of, product_of
from hami_plugins.allocator.settings import SETTINGS, AllocatorSettings
from hami_plugins.cli.kit.inputs import registry_of
from hami_plugins.engine.registry import Registry
from hami_plugins.model.vendor import VendorSpec
from neuron_topology.server.extension import NeuronExtension

MARK = "hami-plugins.io/allocator"


def settings(**values: Any) -> AllocatorSettings:
    """The settings with these values, in the words of the file."""
    return AllocatorSettings.model_validate(values)


def vendors_of(found: AllocatorSettings) -> Registry:
    """The vendors whose devices are allocated, with those that packages bring."""
    return served_vendors(registry_of(found), found.vendors)


def product(*specs: VendorSpec, found: AllocatorSettings | None = None) -> Product:
    """What is allocated with these settings: devices of these vendors, or of those that are set."""
    given = found or SETTINGS.load("", {})
    return product_of(given, Registry(specs) if specs else vendors_of(given))


def target(**values: Any) -> WebhookTarget:
    """Where the API server reaches the webhooks; the server's own names unless others are given."""
    names = {"configuration": "hami-plugins-allocator", "service": "hami-plugins-allocator", "namespace": "kube-system"}
    return WebhookTarget(**{**names, **values})


def webhooks(
    where: WebhookTarget,
    *,
    jobs: bool = False,
    exempt: Iterable[str] = EXEMPT,
    marked_only: bool = False,
    **told: Any,
) -> dict[str, Any]:
    """The configuration of the webhooks, as `hami-plugins allocator webhooks` prints it with such settings."""
    found = settings(**told)
    hooks = hooks_of(product_of(found, vendors_of(found)), NeuronExtension if jobs else None)
    return manifests.webhooks(hooks, where, exempt=exempt, marked_only=marked_only)
