"""The work of the commands of the Neuron allocator."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from hami_plugins.allocations.manifests import volcano_configuration
from hami_plugins.allocations.manifests.webhooks import EXEMPT
from hami_plugins.allocator.handlers import EXTENDER_PATH, SCHEDULER_PATH
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.cli.kit import allocator, output
from hami_plugins.cli.kit.edge import Exit, failed
from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.service import file_text
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.kube.removal import Release
from hami_plugins.kube.request_metrics import api_requests
from hami_plugins.observe import logging
from neuron_topology.core.allocator import manifests, scheduler_configuration
from neuron_topology.core.allocator.product import METRICS, product_of
from neuron_topology.core.vendor import SPEC
from neuron_topology.server.app import allocator_server
from neuron_topology.server.cleanup import ServerObjects, blocking_reason, cleaned
from neuron_topology.server.settings import NeuronAllocatorSettings, load

COMPONENT: Final = "neuron-allocator"
CONF_COMMAND: Final = "hami-plugins neuron conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuronAllocatorInputs:
    """What a command was given."""

    config: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def settings(self) -> NeuronAllocatorSettings:
        """The settings."""
        return load(file_text(self.config) or "", dict(os.environ))

    def client(self) -> KubeClient:
        """The cluster."""
        return connect(kubeconfig=self.kubeconfig, context=self.context, component=COMPONENT)


def run_server(inputs: NeuronAllocatorInputs) -> int:
    """Run until a signal ends it."""
    settings = inputs.settings()
    logging.configure(settings.log.level, settings.log.form)
    metrics = AllocatorMetrics(METRICS)
    client = replace(inputs.client(), on_request=api_requests(metrics.metrics))
    server = allocator_server(settings, client, metrics=metrics, identity=allocator.identity(), filling=undisturbed)
    return allocator.serve(server)


def print_conf(inputs: NeuronAllocatorInputs, *, form: Form) -> int:
    """Print Volcano's scheduler configuration, and the flags that go with it."""
    settings = inputs.settings()
    url = f"http://{settings.service.host}:{settings.listen.port}{EXTENDER_PATH}"
    extender = {
        "name": volcano_configuration.EXTENDER,
        "arguments": volcano_configuration.extender_arguments(url, SPEC.resources),
    }
    document = volcano_configuration.document(extender)
    about = "for Neuron devices. The plugin extender is"
    return allocator.print_conf(document, about=about, flags=volcano_configuration.FLAGS, form=form)


def print_scheduler_conf(inputs: NeuronAllocatorInputs, *, form: Form) -> int:
    """Print the part of kube-scheduler's configuration that has it ask the server."""
    settings = inputs.settings()
    url = f"http://{settings.service.host}:{settings.listen.port}{SCHEDULER_PATH}"
    document = scheduler_configuration.document(url, binds=settings.binds)
    return allocator.print_documents((document,), form)


def check_conf(inputs: NeuronAllocatorInputs, *, source: str | None, namespace: str, form: Form, headers: bool) -> int:
    """Check a configuration, out of a file or (without one) out of the cluster."""
    place, text = allocator.conf_text(None if source else inputs.client(), source, namespace)
    conf = allocator.conf_of(text, place)
    plugins, unreadable = volcano_configuration.plugins(conf)
    found = tuple(unreadable) or (
        *volcano_configuration.evictions(conf, "Neuron devices", "delete pods that have to go"),
        *volcano_configuration.extender(plugins, SPEC.resources, CONF_COMMAND),
    )
    return allocator.print_check(found, kind="NeuronConfCheck", place=place, about={}, form=form, headers=headers)


def print_webhooks(  # noqa: PLR0913 - those of the command
    inputs: NeuronAllocatorInputs,
    *,
    url: str,
    ca_file: str | None,
    exempt: list[str],
    marked_only: bool,
    jobs: bool,
    form: Form,
) -> int:
    """Print the configuration of the webhooks."""
    settings = inputs.settings()
    target = allocator.target(settings.service, settings.webhooks.configuration, url=url, ca_file=ca_file)
    document = manifests.webhooks(target, exempt=exempt or EXEMPT, marked_only=marked_only, jobs=jobs)
    return allocator.print_documents((document,), form)


def clean(inputs: NeuronAllocatorInputs, *, release: str, nodes: bool, dry_run: bool) -> int:
    """Remove what the server and the commands around it have put into the cluster, or say what that would be."""
    site = ServerObjects.of_release(Release.of(release)) if release else ServerObjects.of(inputs.settings())
    client = inputs.client()
    if not dry_run and (reason := blocking_reason(client, site, now=datetime.now(UTC))):
        return failed(reason)
    count = 0
    for what in cleaned(client, site, nodes=nodes, dry_run=dry_run):
        output.line(f"{'would remove' if dry_run else 'removed'} {what}")
        count += 1
    if not count:
        output.line("none of our objects is in the cluster")
    return Exit.FINE


def audit(inputs: NeuronAllocatorInputs, *, form: Form, headers: bool) -> int:
    """List what is wrong with the devices of pods that are bound."""
    settings = inputs.settings()
    books = LockedAllocationCache(product_of(settings.rules), keep=settings.reservation, clock=time.monotonic)
    return allocator.audit(books, inputs.client(), form=form, headers=headers)
