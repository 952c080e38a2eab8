"""The work of the commands of the allocator."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import Final

from hami_plugins.allocations.manifests.webhooks import EXEMPT
from hami_plugins.allocator.handlers import EXTENDER_PATH
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.cli.kit import allocator, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.service import file_text
from hami_plugins.errors import ConfigError
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.kube.request_metrics import api_requests
from hami_plugins.observe import logging
from hami_plugins.vendors.volcano_releases import ALLOCATION_BY_BINDING
from volcano_vgpu.allocation.app import allocator_server
from volcano_vgpu.allocation.settings import VgpuAllocatorSettings, load, spec_of
from volcano_vgpu.core.allocator import manifests, scheduler_configuration
from volcano_vgpu.core.allocator.mode import AllocatorMode
from volcano_vgpu.core.allocator.product import METRICS, product_of

COMPONENT: Final = "volcano-vgpu-allocator"


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuAllocatorInputs:
    """What a command was given."""

    config: str | None = None
    device_config: str | None = None
    mode: AllocatorMode | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def settings(self) -> VgpuAllocatorSettings:
        """The settings; an option wins over all that is written."""
        environment = dict(os.environ)
        if self.mode in (AllocatorMode.EXTENDER, AllocatorMode.WEBHOOK):
            environment["HAMI_PLUGINS__VOLCANO_VGPU_ALLOCATOR__MODE"] = str(self.mode)
        return load(file_text(self.config) or "", environment)

    def client(self) -> KubeClient:
        """The cluster."""
        return connect(kubeconfig=self.kubeconfig, context=self.context, component=COMPONENT)


def run_server(inputs: VgpuAllocatorInputs) -> int:
    """Run until a signal ends it."""
    settings = inputs.settings()
    logging.configure(settings.log.level, settings.log.form)
    spec = spec_of(file_text(inputs.device_config))
    metrics = AllocatorMetrics(METRICS)
    client = replace(inputs.client(), on_request=api_requests(metrics.metrics))
    server = allocator_server(
        settings, client, spec, metrics=metrics, identity=allocator.identity(), filling=undisturbed
    )
    return allocator.serve(server, mode=settings.mode.value)


def print_conf(inputs: VgpuAllocatorInputs, *, form: Form) -> int:
    """Print the scheduler's configuration for the mode, and the flags that go with it."""
    settings = inputs.settings()
    mode = inputs.mode or settings.mode
    url = f"http://{settings.service.host}:{settings.listen.port}{EXTENDER_PATH}"
    document = scheduler_configuration.document(mode, url, spec_of(file_text(inputs.device_config)).resources)
    about = f"for mode {mode.value}. The plugins for cards are"
    return allocator.print_conf(document, about=about, flags=scheduler_configuration.FLAGS[mode], form=form)


def check_conf(inputs: VgpuAllocatorInputs, *, source: str | None, namespace: str, form: Form, headers: bool) -> int:
    """Check a configuration, out of a file or (without one) out of the cluster."""
    mode = inputs.mode or inputs.settings().mode
    place, text = allocator.conf_text(None if source else inputs.client(), source, namespace)
    resources = spec_of(file_text(inputs.device_config)).resources
    found = scheduler_configuration.check(allocator.conf_of(text, place), mode, resources)
    return allocator.print_check(
        found, kind="VolcanoConfCheck", place=place, about={"mode": mode.value}, form=form, headers=headers
    )


def print_policy(*, version: str, form: Form) -> int:
    """Print the admission policy of mode ``policy``."""
    if version not in manifests.POLICY_VERSIONS:
        raise ConfigError(f"--version {version}: not one of {', '.join(manifests.POLICY_VERSIONS)}")
    documents = manifests.policy(version)
    if form is Form.JSON:
        output.document({"apiVersion": "v1", "kind": "List", "items": list(documents)}, form)
        return Exit.FINE
    for known, servers in manifests.POLICY_VERSIONS.items():
        output.line(f"# {known}: {servers}")
    later = " and ".join(map(str, ALLOCATION_BY_BINDING.spans))
    output.line(
        f"# Not with Volcano {later}: there the Binding has the only copy of the allocation, and this removes it"
    )
    return allocator.print_documents(documents, form)


def print_webhooks(  # noqa: PLR0913 - those of the command
    inputs: VgpuAllocatorInputs, *, url: str, ca_file: str | None, exempt: list[str], marked_only: bool, form: Form
) -> int:
    """Print the configuration of the webhooks."""
    settings = inputs.settings()
    document = manifests.webhooks(
        allocator.target(settings.service, settings.webhooks.configuration, url=url, ca_file=ca_file),
        schedulers=settings.schedulers,
        resources=spec_of(file_text(inputs.device_config)).resources,
        exempt=exempt or EXEMPT,
        marked_only=marked_only,
    )
    return allocator.print_documents((document,), form)


def audit(inputs: VgpuAllocatorInputs, *, form: Form, headers: bool) -> int:
    """List what is wrong with the allocations of pods that are bound."""
    settings = inputs.settings()
    product = product_of(spec_of(file_text(inputs.device_config)), settings.rules)
    books = LockedAllocationCache(product, keep=settings.reservation, clock=time.monotonic)
    return allocator.audit(books, inputs.client(), form=form, headers=headers)
