"""What an operator can set about the server of Neuron grants, and where that comes from.

Built-in defaults, then the YAML file, then ``HAMI_PLUGINS__NEURON_GRANTS__...`` from the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from hami_plugins.config.values import AbsolutePath, Listen, Name, Port, Seconds
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.granting import settings as shared
from hami_plugins.web import settings as served
from hami_plugins.web.settings import Certificate, Lease, Service, Webhooks
from neuron_topology.ending import MARGIN
from neuron_topology.placement.words import CONFIGURATION

PREFIX: Final = "HAMI_PLUGINS__NEURON_GRANTS__"
"""What a variable begins with that sets something: ``HAMI_PLUGINS__NEURON_GRANTS__LISTEN__PORT``."""


class GrantCertificate(Certificate):
    """The files, and the Secret, of the server of grants."""

    directory: AbsolutePath = "/var/run/neuron-grants"
    secret: Name = "neuron-grants-tls"  # noqa: S105 - the name of one


class GrantService(Service):
    """The Service in front of the server of grants."""

    name: Name = "neuron-grants"
    namespace: Name = "kube-system"


class GrantLease(Lease):
    """The Lease of the server of grants."""

    name: Name = "neuron-grants"


class GrantWebhooks(Webhooks):
    """The webhooks of the server of grants."""

    configuration: Name = CONFIGURATION


class GrantListen(Listen):
    """Where the extenders, probes and scrapers are answered."""

    port: Port = 9396


class GrantSettings(shared.GrantSettings):
    """All of the server's settings, beside those that every server of grants has.

    ``policy`` is which nodes come first for pods that say nothing: ``binpack`` those where a grant costs the fewest
    future sets and that are in use already, ``spread`` the others. ``capacity_block_margin`` is how many seconds before
    the end of a Capacity Block its machines go. ``binds`` is whether kube-scheduler may leave Bindings to the server.
    """

    policy: Literal["binpack", "spread"] = "binpack"
    capacity_block_margin: Seconds = MARGIN
    binds: bool = True
    webhooks: GrantWebhooks = GrantWebhooks()
    certificate: GrantCertificate = GrantCertificate()
    service: GrantService = GrantService()
    lease: GrantLease = GrantLease()
    listen: GrantListen = GrantListen()

    @property
    def rules(self) -> Rules:
        """How pods are ranked."""
        return Rules(policies=PolicyDefaults(node=self.policy))


def load(text: str, env: Mapping[str, str]) -> GrantSettings:
    """The settings; ``text`` is the YAML and may be empty.

    Raises ``ConfigError`` with the source, the path, the value and what is allowed.
    """
    return served.load(GrantSettings, text, env, PREFIX)
