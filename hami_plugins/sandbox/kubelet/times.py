"""How long a node's kubelet and runtime take for what they do: as measured on a real one, or fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds. The defaults are those of a kubelet with its default settings.

    ``status`` is the period in which the node's status is compared and written, ``retry`` the pause before a container
    that could not be created is tried again, ``restart`` and ``longest_restart`` bound the pause before one that ended
    is started again, ``settle`` the longest time from opening kubelet.sock to admitting the first pod (over as soon as
    all plugins of before are back), ``stop_grace`` how long the capacity of a plugin that has gone is still shown,
    ``dial`` and ``pre_start`` bound the calls to plugins, ``sandbox``, ``create`` and ``start`` are the runtime's own.
    """

    status: float = 10.0
    retry: float = 10.0
    restart: float = 10.0
    longest_restart: float = 300.0
    settle: float = 2.0
    stop_grace: float = 300.0
    dial: float = 10.0
    pre_start: float = 30.0
    sandbox: float = 0.13
    create: float = 0.05
    start: float = 0.02

    @classmethod
    def fast(cls) -> Self:
        """For tests and demonstrations: nothing is waited for that need not be."""
        return cls(
            status=0.2, retry=0.05, restart=0.02, longest_restart=0.2, settle=2.0, sandbox=0, create=0, start=0, dial=5
        )
