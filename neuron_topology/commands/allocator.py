"""The work of the commands of the Neuron allocator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hami_plugins.allocations.manifests import kube_scheduler_configuration, volcano_configuration
from hami_plugins.allocations.manifests.webhooks import EXEMPT
from hami_plugins.allocator.cleanup import ServerObjects, blocking_reason, cleaned
from hami_plugins.allocator.handlers import EXTENDER_PATH, SCHEDULER_PATH
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.cli.kit import allocator
from hami_plugins.cli.kit.edge import failed
from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.cli.kit.objects import print_documents, print_removed, target
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.server_inputs import ServerInputs
from hami_plugins.cli.kit.service import identity, serve
from hami_plugins.kube.removal import Release
from hami_plugins.observe import logging
from hami_plugins.web.settings import ServedProgram
from neuron_topology.core.allocator import manifests
from neuron_topology.core.allocator.names import MARKER_KEY, NAME
from neuron_topology.core.allocator.product import METRICS, product_of
from neuron_topology.core.vendor import SPEC
from neuron_topology.server.app import allocator_server
from neuron_topology.server.extension import NeuronExtension
from neuron_topology.server.settings import SETTINGS, NeuronAllocatorSettings

CONF_COMMAND: Final = "hami-plugins neuron conf"


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuronAllocatorInputs(ServerInputs[NeuronAllocatorSettings]):
    """What a command was given."""

    program: ServedProgram[NeuronAllocatorSettings] = SETTINGS
    component: str = NAME


def run_server(inputs: NeuronAllocatorInputs) -> int:
    """Run until a signal ends it."""
    settings = inputs.settings()
    logging.configure(settings.log.level, settings.log.form)
    metrics = AllocatorMetrics(METRICS)
    client = inputs.counted_client(metrics.metrics)
    server = allocator_server(settings, client, metrics=metrics, identity=identity(), filling=undisturbed)
    return serve(server, "allocator")


def print_conf(inputs: NeuronAllocatorInputs, *, form: Form) -> int:
    """Print Volcano's scheduler configuration, and the flags that go with it."""
    settings = inputs.settings()
    url = settings.plain_url(EXTENDER_PATH)
    extender = {
        "name": volcano_configuration.EXTENDER,
        "arguments": volcano_configuration.extender_arguments(url, (SPEC.resources,)),
    }
    document = volcano_configuration.document(extender)
    about = "for Neuron devices. The plugin extender is"
    return allocator.print_conf(document, about=about, flags=volcano_configuration.FLAGS, form=form)


def print_scheduler_conf(inputs: NeuronAllocatorInputs, *, form: Form) -> int:
    """Print the part of kube-scheduler's configuration that has it ask the server."""
    settings = inputs.settings()
    url = settings.plain_url(SCHEDULER_PATH)
    document = kube_scheduler_configuration.document(url, (SPEC.resources,), binds=settings.binds)
    return print_documents((document,), form)


def check_conf(inputs: NeuronAllocatorInputs, *, source: str | None, namespace: str, form: Form, headers: bool) -> int:
    """Check a configuration, out of a file or (without one) out of the cluster."""
    place, conf = allocator.read_conf(inputs.client, source, namespace)
    plugins, unreadable = volcano_configuration.plugins(conf)
    found = tuple(unreadable) or (
        *volcano_configuration.evictions(conf, "Neuron devices", "delete pods that have to go"),
        *volcano_configuration.extender(plugins, (SPEC.resources,), CONF_COMMAND),
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
    reached = target(settings, url=url, ca_file=ca_file)
    document = manifests.webhooks(reached, exempt=exempt or EXEMPT, marked_only=marked_only, jobs=jobs)
    return print_documents((document,), form)


def clean(inputs: NeuronAllocatorInputs, *, release: str, nodes: bool, dry_run: bool) -> int:
    """Remove what the server and the commands around it have put into the cluster, or say what that would be."""
    site = ServerObjects.of_release(Release.of(release)) if release else ServerObjects.of(inputs.settings())
    client = inputs.client()
    if not dry_run and (reason := blocking_reason(client, site, now=datetime.now(UTC))):
        return failed(reason)
    removed = cleaned(client, site, (NeuronExtension,), nodes=nodes, dry_run=dry_run, marks=(MARKER_KEY,))
    return print_removed(removed, nothing="none of our objects is in the cluster", dry_run=dry_run)


def audit(inputs: NeuronAllocatorInputs, *, form: Form, headers: bool) -> int:
    """List what is wrong with the devices of pods that are bound."""
    settings = inputs.settings()
    product = product_of(settings.rules)
    return allocator.audit(product, inputs.client(), keep=settings.reservation, form=form, headers=headers)
