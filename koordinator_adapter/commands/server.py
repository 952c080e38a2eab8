"""The work of the commands about the adapter's server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from hami_plugins.allocations.manifests.webhooks import EXEMPT
from hami_plugins.cli.kit import inputs
from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.cli.kit.objects import print_documents, print_removed, target
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.server_inputs import ServerInputs
from hami_plugins.cli.kit.service import identity, serve
from hami_plugins.errors import ConfigError
from hami_plugins.observe import logging
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.settings import ServedProgram
from koordinator_adapter.agent.app import PRODUCT, NodeAgent
from koordinator_adapter.core import webhooks
from koordinator_adapter.server.app import AdapterServer
from koordinator_adapter.server.cleanup import cleaned
from koordinator_adapter.server.metrics import AdapterMetrics
from koordinator_adapter.server.settings import NAME, SETTINGS, AdapterSettings

NODE_VARIABLE: Final = "NODE_NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterInputs(ServerInputs[AdapterSettings]):
    """What a command was given."""

    program: ServedProgram[AdapterSettings] = SETTINGS
    component: str = NAME
    device_config: str | None = None


def run_server(given: AdapterInputs) -> int:
    """Run until a signal ends it."""
    settings = given.settings()
    logging.configure(settings.log.level, settings.log.form)
    metrics = AdapterMetrics()
    client = given.counted_client(metrics.metrics)
    registry = inputs.registry_of(inputs.settings_of(given.device_config))
    server = AdapterServer(settings, client, registry, metrics=metrics, identity=identity(), filling=undisturbed)
    return serve(server, "adapter")


def run_node(given: AdapterInputs, name: str | None) -> int:
    """Keep this node until a signal ends it."""
    settings = given.settings()
    logging.configure(settings.log.level, settings.log.form)
    node = name or os.environ.get(NODE_VARIABLE)
    if not node:
        raise ConfigError(f"which node is this? Give --node-name, or set {NODE_VARIABLE}")
    metrics = Metrics(PRODUCT)
    return serve(NodeAgent(settings, given.counted_client(metrics), node, metrics=metrics), "node_part", node=node)


def run_clean(given: AdapterInputs, *, labels: bool, dry_run: bool) -> int:
    """Remove what the server has put into the cluster."""
    removed = cleaned(given.client(), labels=labels, dry_run=dry_run)
    return print_removed(removed, nothing="nothing of the adapter was found", dry_run=dry_run)


def print_webhooks(given: AdapterInputs, *, url: str, ca_file: str | None, exempt: list[str], form: Form) -> int:
    """Print the configurations of the webhooks."""
    settings = given.settings()
    where = target(settings, url=url, ca_file=ca_file)
    elsewhere = exempt or EXEMPT
    documents = (
        webhooks.mutating(where, exempt=elsewhere, injects=settings.injection.mode != "never"),
        webhooks.validating(where, exempt=elsewhere),
    )
    return print_documents(documents, form)
