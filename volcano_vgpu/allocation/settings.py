"""What an operator can set about the allocator, and where that comes from.

Built-in defaults, then the YAML file, then ``HAMI_PLUGINS__VOLCANO_VGPU_ALLOCATOR__...`` from the environment. Resource
names and MIG geometries are Volcano's: they come from its own device configuration.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.config import texts
from hami_plugins.config.values import Name, Seconds
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.errors import ConfigError, WireError
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import volcano
from hami_plugins.web.settings import ServedProgram, server_defaults
from hami_plugins.wire import volcano_config
from volcano_vgpu.core.allocator.names import NAME, SCHEDULER

PREFIX: Final = "HAMI_PLUGINS__VOLCANO_VGPU_ALLOCATOR__"
"""What a variable begins with that sets something: ``HAMI_PLUGINS__VOLCANO_VGPU_ALLOCATOR__MODE``."""


@server_defaults(name=NAME, namespace="volcano-system", port=9395)
class VgpuAllocatorSettings(AllocatorSettings):
    """All of the server's settings, beside those that every allocator has.

    ``policy`` and ``weight`` say which nodes and cards come first in mode ``extender``, in the words of Volcano's
    ``deviceshare.SchedulePolicy`` and ``ScheduleWeight``; a weight of 0 leaves the nodes to the other plugins.
    ``schedulers`` are those whose pods are marked. ``touch_interval`` is how long answers are gathered for a write of
    their node in mode ``webhook``, of which there is at most one a second.
    """

    mode: Literal[AllocatorMode.EXTENDER, AllocatorMode.WEBHOOK] = Field(
        AllocatorMode.EXTENDER,
        description="How allocations are corrected: `extender` answers extender calls, `webhook` corrects Bindings.",
    )
    policy: Literal["binpack", "spread", ""] = Field(
        "binpack",
        description="Order of nodes and cards, as Volcano's `deviceshare.SchedulePolicy`; empty scores nothing.",
    )
    schedulers: Annotated[tuple[Name, ...], Field(min_length=1)] = Field(
        (SCHEDULER,),
        description="Names of the schedulers whose pods are marked.",
    )
    touch_interval: Seconds = Field(
        0.1,
        description="Seconds during which corrections of a node are collected for one write in mode `webhook`.",
    )

    @property
    def rules(self) -> Rules:
        """How pods are ranked: which card of a node comes first is said by the policy, as in Volcano from 1.15 on."""
        return Rules(policies=PolicyDefaults(volcano=self.policy, volcano_orders_cards=True))


SETTINGS: Final = ServedProgram(
    name="volcano-vgpu-allocator",
    model=VgpuAllocatorSettings,
    prefix=PREFIX,
    commands="volcano-vgpu allocator",
)


def spec_of(device_config: str | None) -> VendorSpec:
    """The vendor as Volcano's device configuration has it. Raises ``ConfigError``."""
    if device_config is None:
        return volcano.SPEC
    source = "device configuration"
    document = texts.unwrapped(texts.mapping(device_config, source), volcano_config.KEY, source)
    try:
        return volcano.configured(volcano_config.decode(document))
    except WireError as error:
        raise ConfigError(f"{source}: {error}") from error
