"""What containers that share a card through MPS are not protected from.

Source: NVIDIA's MPS documentation (memory protection and error containment; resource provisioning): clients have their
own address spaces, limits of memory and threads are those of a process, and a fatal fault of one ends all on the card.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.queueing.stages import PodPlan

MODE: Final = "mps"
"""The mode of a registered card, and a word of the annotation ``nvidia.com/vgpu-mode``."""

NOT_ISOLATED: Final = (
    "MPS isolates neither faults (a fatal error of one container ends all on the card) nor cache and bandwidth of the "
    "memory, and its limits are those of a process"
)
REMEDY: Final = "keep workloads that must not disturb each other on cards in mode mig"


def notes(plan: PodPlan) -> Iterator[str]:
    """A note on a pod that gets a share of a card in mode mps."""
    if plan.place is None:
        return
    entry = plan.before.node(plan.place.node)
    cards = () if entry is None else tuple(entry.device(share.device) for share in plan.place.shares())
    if any(card is not None and card.mode == MODE for card in cards):
        yield f"its cards are in mode {MODE}: {NOT_ISOLATED}; {REMEDY}"
