"""The processes that have an image, each a target of the ``Dockerfile``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Target:
    """One image. ``extras`` are those of the pack; ``user`` is whom it runs as where a pod does not say."""

    name: str
    user: str
    extras: tuple[str, ...] = ()


AGENT: Final = Target("volcano-vgpu-agent", user="0:0", extras=("nvidia",))
"""Root: the kubelet's and the runtime's folders are root's."""

GRANTS: Final = Target("volcano-vgpu-grants", user="65532:65532")
NEURON: Final = Target("neuron-topology", user="65532:65532")
KOORDINATOR: Final = Target("koordinator-adapter", user="65532:65532")
TARGETS: Final = (AGENT, GRANTS, NEURON, KOORDINATOR)
