"""An operator's settings for containers: additions to their slice, and the values that HAMi takes for granted."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from hami_plugins.config.values import Strict

MOST_DEFAULT: Final = 64
"""More cards than any node has."""


class RequestDefaults(Strict):
    """What HAMi's scheduler takes for granted where a container does not name it (its device configuration).

    Volcano's scheduler has other defaults, and reads none of these.
    """

    memory: Annotated[int, Field(ge=0)] = Field(
        0, description="`defaultMemory` of HAMi's device configuration, in MiB; 0 for the whole card."
    )
    cores: Annotated[int, Field(ge=0, le=100)] = Field(0, description="`defaultCores` of HAMi's device configuration.")
    count: Annotated[int, Field(ge=0, le=MOST_DEFAULT)] = Field(
        1,
        description="`defaultGPUNum` of HAMi's device configuration. HAMi's webhook writes it; nodes need not know it.",
    )


class ContainerSettings(Strict):
    """Settings that every container receives in addition to its slice.

    ``log_level`` becomes ``LIBCUDA_LOG_LEVEL``, ``core_policy`` ``GPU_CORE_UTILIZATION_POLICY`` (``default`` writes
    nothing), ``active_oom_killer`` ``ACTIVE_OOM_KILLER``; ``pass_device_specs`` hands over the device files as well.
    """

    log_level: Annotated[int, Field(ge=0, le=4)] | None = Field(
        None,
        description="`LIBCUDA_LOG_LEVEL` of containers. Also variable `LIBCUDA_LOG_LEVEL`.",
    )
    core_policy: Literal["default", "force", "disable"] = Field(
        "default",
        description="`GPU_CORE_UTILIZATION_POLICY` of containers; `default` sets nothing.",
    )
    active_oom_killer: bool = Field(
        False,
        description="Whether HAMi-core ends processes that exceed their memory (`ACTIVE_OOM_KILLER`).",
    )
    gdrcopy: bool = Field(
        True,
        description="Whether containers get the GDRCopy devices of the node. Also `GDRCOPY_ENABLED`.",
    )
    gds: bool = Field(
        True,
        description="Whether containers get the GPUDirect Storage devices of the node. Also `GDS_ENABLED`.",
    )
    mofed: bool = Field(
        True,
        description="Whether containers get the Mellanox devices of the node. Also `MOFED_ENABLED`.",
    )
    pass_device_specs: bool = Field(
        False,
        description="Whether device files are passed in addition to the variables. Also `PASS_DEVICE_SPECS`.",
    )
