"""What an operator can set about the Neuron allocator, and where that comes from.

Built-in defaults, then the YAML file, then ``HAMI_PLUGINS__NEURON_ALLOCATOR__...`` from the environment.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.config.values import Seconds
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.vendors.awsneuron import CAPACITY_BLOCK_MARGIN
from hami_plugins.web.settings import ServedProgram, server_defaults
from neuron_topology.core.allocator.names import NAME

PREFIX: Final = "HAMI_PLUGINS__NEURON_ALLOCATOR__"
"""What a variable begins with that sets something: ``HAMI_PLUGINS__NEURON_ALLOCATOR__LISTEN__PORT``."""


@server_defaults(name=NAME, namespace="kube-system", port=9396)
class NeuronAllocatorSettings(AllocatorSettings):
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
        CAPACITY_BLOCK_MARGIN,
        description="Seconds before the end of a Capacity Block at which its machines go.",
    )
    binds: bool = Field(True, description="Whether kube-scheduler may leave Bindings to the server.")

    @property
    def rules(self) -> Rules:
        """How pods are ranked."""
        return Rules(policies=PolicyDefaults(node=self.policy))


SETTINGS: Final = ServedProgram(
    name="neuron-allocator",
    model=NeuronAllocatorSettings,
    prefix=PREFIX,
    commands="neuron allocator",
)
