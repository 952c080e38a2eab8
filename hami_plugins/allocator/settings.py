"""What an operator can set about any allocator. Each product has names and defaults of its own."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from hami_plugins.allocations.cache import HOLD, KEEP
from hami_plugins.web.settings import ServedSettings

REQUEST_SECONDS: Final = 60.0
"""How long the API server may carry out a request; what was answered in it may come true until then.

Where it is told another time (``--request-timeout``), ``reservation`` has to be half a minute longer than that.
"""


class AllocatorSettings(ServedSettings):
    """All that allocators have in common.

    ``weight`` is what the score of a node's devices counts beside those of the scheduler; 0 leaves the nodes to it.
    ``reservation`` is how long what a Binding was answered with is kept where nothing else ends it, and ``hold`` how
    long what a scheduler asked for last, while no Binding has come.
    """

    weight: Annotated[float, Field(ge=0, le=1_000_000)] = Field(
        10.0,
        description="Weight of the score of a node's devices among the scheduler's scores; 0 turns it off.",
    )
    reservation: Annotated[float, Field(gt=REQUEST_SECONDS, le=3600)] = Field(
        KEEP,
        description="Seconds that devices of an unfinished Binding stay reserved; 30 above the API server's timeout.",
    )
    hold: Annotated[float, Field(ge=1, le=3600)] = Field(
        HOLD,
        description="Seconds that devices stay reserved for a scheduler's last call without a Binding.",
    )
