"""The work of the commands of the allocator."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from hami_plugins.allocations.manifests import volcano_modes
from hami_plugins.allocations.manifests.webhooks import EXEMPT
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocator.handlers import EXTENDER_PATH
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.cli.kit import allocator
from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.cli.kit.objects import print_documents, target
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.server_inputs import ServerInputs
from hami_plugins.cli.kit.service import file_text, identity, serve
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.observe import logging
from hami_plugins.web.settings import ServedProgram
from volcano_vgpu.allocation.app import allocator_server
from volcano_vgpu.allocation.settings import PREFIX, SETTINGS, VgpuAllocatorSettings, spec_of
from volcano_vgpu.core.allocator import manifests
from volcano_vgpu.core.allocator.names import NAME
from volcano_vgpu.core.allocator.product import METRICS, product_of


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuAllocatorInputs(ServerInputs[VgpuAllocatorSettings]):
    """What a command was given."""

    program: ServedProgram[VgpuAllocatorSettings] = SETTINGS
    component: str = NAME
    device_config: str | None = None
    mode: AllocatorMode | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """An option wins over all that is written."""
        if self.mode not in (AllocatorMode.EXTENDER, AllocatorMode.WEBHOOK):
            return os.environ
        return {**os.environ, f"{PREFIX}MODE": str(self.mode)}

    def spec(self) -> VendorSpec:
        """The vendor as Volcano's device configuration has it."""
        return spec_of(file_text(self.device_config))


def run_server(inputs: VgpuAllocatorInputs) -> int:
    """Run until a signal ends it."""
    settings = inputs.settings()
    logging.configure(settings.log.level, settings.log.form)
    spec, metrics = inputs.spec(), AllocatorMetrics(METRICS)
    client = inputs.counted_client(metrics.metrics)
    server = allocator_server(settings, client, spec, metrics=metrics, identity=identity(), filling=undisturbed)
    return serve(server, "allocator", mode=settings.mode.value)


def print_conf(inputs: VgpuAllocatorInputs, *, form: Form) -> int:
    """Print the scheduler's configuration for the mode, and the flags that go with it."""
    settings = inputs.settings()
    mode = inputs.mode or settings.mode
    url = settings.plain_url(EXTENDER_PATH)
    document = volcano_modes.document(mode, url, (inputs.spec().resources,))
    about = f"for mode {mode.value}. The plugins for cards are"
    return allocator.print_conf(document, about=about, flags=volcano_modes.FLAGS[mode], form=form)


def check_conf(inputs: VgpuAllocatorInputs, *, source: str | None, namespace: str, form: Form, headers: bool) -> int:
    """Check a configuration, out of a file or (without one) out of the cluster."""
    mode = inputs.mode or inputs.settings().mode
    place, conf = allocator.read_conf(inputs.client, source, namespace)
    found = volcano_modes.check(conf, mode, (inputs.spec().resources,))
    return allocator.print_check(
        found, kind="VolcanoConfCheck", place=place, about={"mode": mode.value}, form=form, headers=headers
    )


def print_webhooks(  # noqa: PLR0913 - those of the command
    inputs: VgpuAllocatorInputs, *, url: str, ca_file: str | None, exempt: list[str], marked_only: bool, form: Form
) -> int:
    """Print the configuration of the webhooks."""
    settings = inputs.settings()
    document = manifests.webhooks(
        target(settings, url=url, ca_file=ca_file),
        schedulers=settings.schedulers,
        resources=inputs.spec().resources,
        exempt=exempt or EXEMPT,
        marked_only=marked_only,
    )
    return print_documents((document,), form)


def audit(inputs: VgpuAllocatorInputs, *, form: Form, headers: bool) -> int:
    """List what is wrong with the allocations of pods that are bound."""
    settings = inputs.settings()
    product = product_of(inputs.spec(), settings.rules)
    return allocator.audit(product, inputs.client(), keep=settings.reservation, form=form, headers=headers)
