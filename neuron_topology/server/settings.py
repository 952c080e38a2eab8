"""What an operator can set about the Neuron allocator, and where that comes from.

Built-in defaults, then the YAML file, then ``HAMI_PLUGINS__NEURON_ALLOCATOR__...`` from the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field

from hami_plugins.allocator import settings as shared
from hami_plugins.config.reference import SettingsProgram
from hami_plugins.config.values import AbsolutePath, Listen, Name, Port, Seconds
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.web import settings as served
from hami_plugins.web.settings import Certificate, Lease, Service, Webhooks
from neuron_topology.core.allocator.names import CONFIGURATION
from neuron_topology.core.capacity_block_end import MARGIN

PREFIX: Final = "HAMI_PLUGINS__NEURON_ALLOCATOR__"
"""What a variable begins with that sets something: ``HAMI_PLUGINS__NEURON_ALLOCATOR__LISTEN__PORT``."""


class NeuronAllocatorCertificate(Certificate):
    """The files, and the Secret, of the allocator."""

    directory: AbsolutePath = "/var/run/neuron-allocator"
    secret: Name = "neuron-allocator-tls"  # noqa: S105 - the name of one


class NeuronAllocatorService(Service):
    """The Service in front of the allocator."""

    name: Name = "neuron-allocator"
    namespace: Name = "kube-system"


class NeuronAllocatorLease(Lease):
    """The Lease of the allocator."""

    name: Name = "neuron-allocator"


class NeuronAllocatorWebhooks(Webhooks):
    """The webhooks of the allocator."""

    configuration: Name = CONFIGURATION


class NeuronAllocatorListen(Listen):
    """Where the extenders, probes and scrapers are answered."""

    port: Port = 9396


class NeuronAllocatorSettings(shared.AllocatorSettings):
    """All of the server's settings, beside those that every allocator has.

    ``policy`` is which nodes come first for pods that say nothing: ``binpack`` those where an allocation costs the
    fewest future sets and that are in use already, ``spread`` the others. ``capacity_block_margin`` is how many seconds
    before the end of a Capacity Block its machines go. ``binds`` is whether kube-scheduler may leave Bindings to the
    server.
    """

    policy: Literal["binpack", "spread"] = Field(
        "binpack",
        description="Order of nodes for pods that request none: `binpack` prefers nodes in use, `spread` others.",
    )
    capacity_block_margin: Seconds = Field(
        MARGIN,
        description="Seconds before the end of a Capacity Block at which its machines go.",
    )
    binds: bool = Field(True, description="Whether kube-scheduler may leave Bindings to the server.")
    webhooks: NeuronAllocatorWebhooks = NeuronAllocatorWebhooks()
    certificate: NeuronAllocatorCertificate = NeuronAllocatorCertificate()
    service: NeuronAllocatorService = NeuronAllocatorService()
    lease: NeuronAllocatorLease = NeuronAllocatorLease()
    listen: NeuronAllocatorListen = NeuronAllocatorListen()

    @property
    def rules(self) -> Rules:
        """How pods are ranked."""
        return Rules(policies=PolicyDefaults(node=self.policy))


SETTINGS: Final = SettingsProgram(
    name="neuron-allocator",
    model=NeuronAllocatorSettings,
    prefix=PREFIX,
    option="--config FILE",
    commands="neuron allocator",
)


def load(text: str, env: Mapping[str, str]) -> NeuronAllocatorSettings:
    """The settings; ``text`` is the YAML and may be empty.

    Raises ``ConfigError`` with the source, the path, the value and what is allowed.
    """
    return served.load(NeuronAllocatorSettings, text, env, PREFIX)
