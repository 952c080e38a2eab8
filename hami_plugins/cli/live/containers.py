"""What a container of the demo was allocated, and what it sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hami_plugins.vendors import volcano as vendor
from hami_plugins.wire import volcano
from hami_plugins.wire.fields import Json

IDS: Final = vendor.SPEC.keys.allocated


@dataclass(frozen=True, slots=True)
class ContainerSlice:
    """One card in a container: by the allocation, or by the container's environment (``40960m``, percent)."""

    card: str
    memory: str
    cores: str


def visible(env: Mapping[str, str]) -> tuple[ContainerSlice, ...]:
    """The cards that a container sees, with its limits on each; none without an environment."""
    cards = env.get("NVIDIA_VISIBLE_DEVICES", "").split(",") if env else ()
    return tuple(
        ContainerSlice(card, env.get(f"CUDA_DEVICE_MEMORY_LIMIT_{at}", ""), env.get(f"CUDA_DEVICE_SM_LIMIT_{at}", ""))
        for at, card in enumerate(cards)
    )


def allocated(pod: Json) -> tuple[ContainerSlice, ...]:
    """What the only container of a pod was allocated, in the words of its environment; nothing before that."""
    text = (pod["metadata"].get("annotations") or {}).get(IDS, "")
    if not text:
        return ()
    (container,) = volcano.decode_assignment(IDS, text)
    return tuple(ContainerSlice(each.device, f"{each.memory}m", str(each.cores)) for each in container)
