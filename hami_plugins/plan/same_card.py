"""What a number of cards counts, and what a plan says where one container gets several instances of one card.

A container never gets two slices of one card. Cards that are cut into instances are the exception: there HAMi 2.10
(``pkg/device/nvidia/device.go``) examines the card again for the rest of the request. ``vet`` says the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import Instance
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.queueing.stages import PodPlan
from hami_plugins.vendors.nvidia import MIG_MODE

CARDS: Final = "counts different cards of one node"
INSTANCES: Final = "on cards in mode mig it counts instances, several of which may be on one card"


def takes_instances(spec: VendorSpec, annotations: Mapping[str, str]) -> bool:
    """Whether a request may be served by instances of cards that are cut."""
    mode = annotations.get(spec.keys.mode) if spec.keys.mode else None
    return spec.fitting.partitions and (mode is None or MIG_MODE in mode)


def takes_cards(spec: VendorSpec, annotations: Mapping[str, str]) -> bool:
    """Whether a request may be served by cards that are not cut."""
    mode = annotations.get(spec.keys.mode, "") if spec.keys.mode else ""
    return not spec.fitting.partitions or mode.strip() != MIG_MODE


def counted_words(spec: VendorSpec, annotations: Mapping[str, str]) -> str:
    """What the number in a request counts, as the end of a sentence about it."""
    return f"{CARDS} ({INSTANCES})" if takes_instances(spec, annotations) else CARDS


def notes(plan: PodPlan, registry: Registry) -> Iterator[str]:
    """A note on each container that gets several instances of one card."""
    if plan.place is None:
        return
    for container, allocation in zip(plan.pod.containers, plan.place.containers, strict=True):
        cut = [share for share in allocation.shares if isinstance(share.mark, Instance)]
        cards = Counter(share.device for share in cut)
        if len(cut) == len(cards):
            continue
        spec = registry[cut[0].vendor]
        where = f"container {container.name}: " if len(plan.pod.containers) > 1 else ""
        yield (
            f"{where}{spec.resources.count}={len(cut)} is {len(cut)} instances of "
            f"{len(cards)} card{'' if len(cards) == 1 else 's'}: it {counted_words(spec, plan.pod.annotations)}"
        )
