"""The work of the commands of the allocator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from hami_plugins.allocations.lock_demand import lock_keys
from hami_plugins.allocations.manifests import (
    allocation_policy,
    allocator_configuration,
    chart_vendor,
    kube_scheduler_configuration,
    node_policy,
)
from hami_plugins.allocations.manifests import webhooks as manifests
from hami_plugins.allocations.manifests.account_policies import GROUPS
from hami_plugins.allocations.manifests.allocation_policy import Allocations
from hami_plugins.allocations.manifests.webhooks import EXEMPT
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocations.product import served_by_hami
from hami_plugins.allocations.served_vendors import served_vendors
from hami_plugins.allocator.app import allocator_server, hooks_of, product_of
from hami_plugins.allocator.cleanup import ServerObjects, blocking_reason, cleaned
from hami_plugins.allocator.extension import AllocatorExtensionEntry
from hami_plugins.allocator.handlers import EXTENDER_PATH, SCHEDULER_PATH
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.settings import NAME, PREFIX, SETTINGS, AllocatorSettings
from hami_plugins.cli.allocation_policy import REMEDY
from hami_plugins.cli.kit import allocator, plugins
from hami_plugins.cli.kit.edge import failed
from hami_plugins.cli.kit.inputs import registry_of
from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.cli.kit.objects import print_documents, print_removed, target
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.server_inputs import ServerInputs
from hami_plugins.cli.kit.service import file_text, identity, serve
from hami_plugins.config import texts
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import ConfigError, WireError
from hami_plugins.kube.removal import Release
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.observe import logging
from hami_plugins.queueing.releases import release_of
from hami_plugins.vendors import BUILTIN
from hami_plugins.vendors.volcano_releases import release_name
from hami_plugins.web.settings import ServedProgram
from hami_plugins.wire import volcano_config

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorInputs(ServerInputs[AllocatorSettings]):
    """What a command was given."""

    program: ServedProgram[AllocatorSettings] = SETTINGS
    component: str = NAME
    device_config: str | None = None
    mode: AllocatorMode | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """An option wins over all that is written."""
        if self.mode not in (AllocatorMode.EXTENDER, AllocatorMode.WEBHOOK):
            return os.environ
        return {**os.environ, f"{PREFIX}VOLCANO__MODE": self.mode.value}

    def settings(self) -> AllocatorSettings:
        """The settings, with the accompanying device configuration of Volcano. Raises ``ConfigError``."""
        found = ServerInputs.settings(self)
        if self.device_config is None:
            return found
        document = texts.unwrapped(
            texts.mapping(file_text(self.device_config) or "", self.device_config),
            volcano_config.KEY,
            self.device_config,
        )
        try:
            volcano_config.decode(document)
        except WireError as error:
            raise ConfigError(f"{self.device_config}: {error}") from error
        return found.model_copy(update={"volcano": found.volcano.model_copy(update={"device_config": document})})


def vendors_of(settings: AllocatorSettings) -> Registry:
    """The vendors whose devices are allocated. Raises ``ConfigError``."""
    return served_vendors(registry_of(settings), settings.vendors)


def extension_of(vendors: Registry) -> AllocatorExtensionEntry | None:
    """What another package adds for one of these vendors."""
    return next((each for each in plugins.allocator_extensions() if vendors.get(each.vendor) is not None), None)


def scheduler_resources(vendors: Registry) -> list[ResourceNames]:
    """What kube-scheduler's pods may ask the server for: Volcano's own devices are for its scheduler alone."""
    return [spec.resources for spec in vendors if spec.dialect is Dialect.HAMI]


def ignored_by_scheduler(vendors: Registry) -> frozenset[str]:
    """What it must not look for on nodes: HAMi's plugins do not offer it, or offer slots and not cards."""
    return frozenset(name for spec in filter(served_by_hami, vendors) for name in spec.ignored_by_scheduler)


def timeout_of(vendors: Registry) -> str:
    """How long kube-scheduler's calls may take: pods wait for plugins that take one pod at a time."""
    locked = any(lock_keys(vendors))
    return kube_scheduler_configuration.LOCKED_TIMEOUT if locked else kube_scheduler_configuration.TIMEOUT


def run_server(inputs: AllocatorInputs) -> int:
    """Run until a signal ends it."""
    settings = inputs.settings()
    logging.configure(settings.log.level, settings.log.form)
    for concern in settings.concerns:
        _log.warning("setting_disappoints", reason=concern)
    vendors, metrics = vendors_of(settings), AllocatorMetrics()
    client = inputs.counted_client(metrics.metrics)
    entry = extension_of(vendors)
    server = allocator_server(
        settings, client, vendors, entry, metrics=metrics, identity=identity(), filling=undisturbed
    )
    names = ", ".join(spec.name for spec in vendors)
    return serve(server, "allocator", mode=settings.volcano.mode.value, vendors=names)


def print_conf(inputs: AllocatorInputs, *, form: Form) -> int:
    """Print Volcano's scheduler configuration for the mode, and the flags that go with it."""
    settings = inputs.settings()
    mode, vendors = inputs.mode or settings.volcano.mode, vendors_of(settings)
    evicts = settings.preemption.mode.evicts
    document = allocator_configuration.document(mode, settings.plain_url(EXTENDER_PATH), vendors, evicts=evicts)
    flags = allocator_configuration.flags(mode, vendors)
    about = f"for mode {mode.value}. The last plugins are"
    notes = allocator_configuration.notes(mode, evicts=evicts)
    return allocator.print_conf(document, about=about, flags=flags, notes=notes, form=form)


def print_chart_values(inputs: AllocatorInputs, *, form: Form) -> int:
    """Print the values of the chart that name the vendors."""
    vendors = vendors_of(inputs.settings())
    own = {spec.name for spec in BUILTIN}
    more = [chart_vendor.entry(spec) for spec in vendors if spec.name not in own]
    return print_documents(({"vendors": [spec.name for spec in vendors], "moreVendors": more},), form)


def check_conf(
    inputs: AllocatorInputs, *, source: str | None, namespace: str, scheduler: str, form: Form, headers: bool
) -> int:
    """Check Volcano's configuration, out of a file or (without one) out of the cluster, for a release of Volcano."""
    settings = inputs.settings()
    mode = inputs.mode or settings.volcano.mode
    release = release_of(scheduler) if scheduler else None
    place, conf = allocator.read_conf(inputs.client, source, namespace)
    if source is None and not scheduler:
        release = allocator.live_release(inputs.client(), namespace)
    found = allocator_configuration.check(
        conf, mode, vendors_of(settings), evicts=settings.preemption.mode.evicts, release=release
    )
    about = {"mode": mode.value, "release": "" if release is None else release_name(release)}
    return allocator.print_check(found, kind="VolcanoConfCheck", place=place, about=about, form=form, headers=headers)


def print_scheduler_conf(inputs: AllocatorInputs, *, form: Form) -> int:
    """Print the part of kube-scheduler's configuration that has it ask the server."""
    settings = inputs.settings()
    vendors = vendors_of(settings)
    resources, timeout = scheduler_resources(vendors), timeout_of(vendors)
    url = settings.plain_url(SCHEDULER_PATH)
    document = kube_scheduler_configuration.document(
        url,
        resources,
        ignored=ignored_by_scheduler(vendors),
        binds=settings.scheduler.binds,
        evicts=settings.preemption.mode.evicts,
        timeout=timeout,
    )
    return print_documents((document,), form)


def check_scheduler_conf(inputs: AllocatorInputs, *, source: str, form: Form, headers: bool) -> int:
    """Check kube-scheduler's configuration out of a file."""
    settings = inputs.settings()
    vendors = vendors_of(settings)
    resources, timeout = scheduler_resources(vendors), timeout_of(vendors)
    place, conf = allocator.read_document(source)
    url = settings.plain_url(SCHEDULER_PATH)
    found = kube_scheduler_configuration.check(
        conf,
        url,
        resources,
        ignored=ignored_by_scheduler(vendors),
        binds=settings.scheduler.binds,
        evicts=settings.preemption.mode.evicts,
        timeout=timeout,
    )
    return allocator.print_check(
        found, kind="KubeSchedulerConfCheck", place=place, about={}, form=form, headers=headers
    )


def print_webhooks(
    inputs: AllocatorInputs,
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
    vendors = vendors_of(settings)
    hooks = hooks_of(product_of(settings, vendors), extension_of(vendors) if jobs else None)
    reached = target(settings, url=url, ca_file=ca_file)
    document = manifests.webhooks(hooks, reached, exempt=exempt or EXEMPT, marked_only=marked_only)
    return print_documents((document,), form)


def print_policy(
    inputs: AllocatorInputs, *, users: Sequence[str], groups: Sequence[str], name: str, nodes: bool, form: Form
) -> int:
    """Print the policy for allocations on pods, or the one for device records on nodes."""
    settings = inputs.settings()
    vendors = vendors_of(settings)
    own = allocation_policy.account(settings.service.namespace, settings.service.name)
    found = allocation_policy.served(vendors, own) | Allocations(users=tuple(users))
    trusted = (*GROUPS, *groups)
    if nodes:
        named = name or node_policy.NAME
        documents = node_policy.policy(vendors, users=found.users, remedy=REMEDY, groups=trusted, name=named)
    else:
        named = name or allocation_policy.NAME
        documents = allocation_policy.policy(found, remedy=REMEDY, groups=trusted, name=named)
    return print_documents(documents, Form.JSON if form is Form.JSON else Form.YAML)


def audit(inputs: AllocatorInputs, *, form: Form, headers: bool) -> int:
    """List what is wrong with the allocations of pods that are bound."""
    settings = inputs.settings()
    product = product_of(settings, vendors_of(settings))
    return allocator.audit(product, inputs.client(), keep=settings.reservation, form=form, headers=headers)


def clean(inputs: AllocatorInputs, *, release: str, nodes: bool, dry_run: bool) -> int:
    """Remove what the server and the commands around it have put into the cluster, or say what that would be."""
    site = ServerObjects.of_release(Release.of(release)) if release else ServerObjects.of(inputs.settings())
    client = inputs.client()
    if not dry_run and (reason := blocking_reason(client, site, now=datetime.now(UTC))):
        return failed(reason)
    removed = cleaned(client, site, tuple(plugins.allocator_extensions()), nodes=nodes, dry_run=dry_run)
    return print_removed(removed, nothing="none of our objects is in the cluster", dry_run=dry_run)
