"""The work of the commands about the adapter's server."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Final

import structlog

from hami_plugins.allocations.manifests.webhooks import EXEMPT
from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.allocator import identity, print_documents, spelled, target
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.memory import one_heap, undisturbed
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.service import file_text, stop_on_signals
from hami_plugins.errors import ConfigError
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.kube.request_metrics import api_requests
from hami_plugins.observe import logging
from hami_plugins.observe.metrics import Metrics
from koordinator_adapter.agent.app import PRODUCT, NodeAgent
from koordinator_adapter.core import webhooks
from koordinator_adapter.server.app import AdapterServer
from koordinator_adapter.server.cleanup import cleaned
from koordinator_adapter.server.metrics import AdapterMetrics
from koordinator_adapter.server.settings import AdapterSettings, load

COMPONENT: Final = "koordinator-adapter"
NODE_VARIABLE: Final = "NODE_NAME"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterInputs:
    """What a command was given."""

    config: str | None = None
    device_config: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def settings(self) -> AdapterSettings:
        """The settings."""
        return load(file_text(self.config) or "", dict(os.environ))

    def client(self) -> KubeClient:
        """The cluster."""
        return connect(kubeconfig=self.kubeconfig, context=self.context, component=COMPONENT)


def run_server(given: AdapterInputs) -> int:
    """Run until a signal ends it."""
    settings = given.settings()
    logging.configure(settings.log.level, settings.log.form)
    metrics = AdapterMetrics()
    client = replace(given.client(), on_request=api_requests(metrics.metrics))
    registry = inputs.registry_of(inputs.settings_of(given.device_config))
    one_heap()
    stop = stop_on_signals()
    server = AdapterServer(settings, client, registry, metrics=metrics, identity=identity(), filling=undisturbed)
    server.start()
    _log.info("adapter_started", address=spelled(server.address), webhooks=spelled(server.webhook_address))
    stop.wait()
    server.stop()
    _log.info("adapter_ended")
    return Exit.FINE


def run_node(given: AdapterInputs, name: str | None) -> int:
    """Keep this node until a signal ends it."""
    settings = given.settings()
    logging.configure(settings.log.level, settings.log.form)
    node = name or os.environ.get(NODE_VARIABLE)
    if not node:
        raise ConfigError(f"which node is this? Give --node-name, or set {NODE_VARIABLE}")
    metrics = Metrics(PRODUCT)
    client = replace(given.client(), on_request=api_requests(metrics))
    one_heap()
    stop = stop_on_signals()
    part = NodeAgent(settings, client, node, metrics=metrics)
    part.start()
    _log.info("node_part_started", node=node, address=spelled(part.address))
    stop.wait()
    part.stop()
    _log.info("node_part_ended")
    return Exit.FINE


def run_clean(given: AdapterInputs, *, labels: bool, dry_run: bool) -> int:
    """Remove what the server has put into the cluster."""
    count = 0
    for what in cleaned(given.client(), labels=labels, dry_run=dry_run):
        output.line(f"{'would remove' if dry_run else 'removed'} {what}")
        count += 1
    if not count:
        output.line("nothing of the adapter was found")
    return Exit.FINE


def print_webhooks(given: AdapterInputs, *, url: str, ca_file: str | None, exempt: list[str], form: Form) -> int:
    """Print the configurations of the webhooks."""
    settings = given.settings()
    where = target(settings.service, settings.webhooks.configuration, url=url, ca_file=ca_file)
    elsewhere = exempt or EXEMPT
    documents = (
        webhooks.mutating(where, exempt=elsewhere, injects=settings.injection.mode != "never"),
        webhooks.validating(where, exempt=elsewhere),
    )
    return print_documents(documents, form)
