"""What a pod holds, share by share, with every name that a reader needs: container, card, index, partition.

Tables, documents and the page all show these values, so that they never disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import (
    MEMORY_BY_CORES,
    AllocatedShare,
    CoreMask,
    Device,
    Instance,
    Mark,
    Tenant,
    Unplaced,
)
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import ContainerAllocation
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, DeviceId, MiB, VendorName
from hami_plugins.plan import PodPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSlice:
    """One container's share of one card. ``card`` is ``None`` when the node does not have the card (any more).

    ``at`` is the container's position in the pod, ``container`` its name; ``whole`` says that it takes all of the card.
    """

    at: int
    container: str
    kind: ContainerKind
    vendor: VendorName
    device: DeviceId
    memory: MiB
    cores: CoreShare
    partition: str = ""
    whole: bool = False
    card: Device | None = None

    @property
    def model(self) -> str:
        """The card's model as registered, or the vendor where the card is unknown."""
        return self.vendor if self.card is None else self.card.model

    @property
    def index(self) -> int | None:
        """The card's index on its node."""
        return None if self.card is None else self.card.index


def slices_of(
    allocations: Sequence[ContainerAllocation], names: Sequence[str], entry: NodeEntry | None
) -> tuple[PlannedSlice, ...]:
    """The shares of a pod, container by container. ``names`` are the containers' names, where they are known."""
    cards = {} if entry is None else dict(zip(entry.ids, entry.state.shape.devices, strict=True))
    return tuple(
        PlannedSlice(
            at=at,
            container=names[at] if at < len(names) else "",
            kind=allocation.kind,
            vendor=share.vendor,
            device=share.device,
            memory=share.memory,
            cores=share.cores,
            partition=partition_words(share.mark),
            whole=_is_whole(share, cards.get(share.device)),
            card=cards.get(share.device),
        )
        for at, allocation in enumerate(allocations)
        for share in allocation.shares
    )


def _is_whole(share: AllocatedShare, card: Device | None) -> bool:
    if card is None or isinstance(share.mark, Instance):
        return False
    return share.memory >= card.memory and share.cores >= card.cores


def planned_slices(plan: PodPlan) -> tuple[PlannedSlice, ...]:
    """The shares of a pod of a plan, at once or after evictions; none for one without a place."""
    placed = plan.by_eviction or plan.decision
    if not isinstance(placed, Placed):
        return ()
    names = tuple(container.name for container in plan.pod.containers)
    return slices_of(placed.containers, names, plan.before.node(placed.node))


def partition_words(mark: Mark | None) -> str:
    """A share's partition of its card, in short; empty for a share that is not a partition."""
    match mark:
        case Instance(profile, placement):
            return f"{profile}@{placement.start}"
        case CoreMask(bits):
            return f"{'core' if bits.bit_count() == 1 else 'cores'} {runs(_places(bits))}"
        case Tenant(app_class, qos):
            return " ".join(word for word in (app_class, qos) if word)
        case Unplaced(why):
            return f"partition unknown: {why}"
        case _:
            return ""


def _places(bits: int) -> Iterator[int]:
    """Where a mask has ones."""
    return (at for at in range(bits.bit_length()) if bits >> at & 1)


def model_words(device: Device) -> str:
    """A card's model as people call it: node agents put the vendor before NVIDIA's product names once more."""
    return device.model.removeprefix("NVIDIA-") or device.model


def runs(numbers: Iterable[int]) -> str:
    """Whole numbers as people list them: ``0-3,6``."""
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in _stretches(numbers))


def _stretches(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = -1
    for number in sorted(set(numbers)):
        if last >= 0 and number == last + 1:
            last = number
            continue
        if last >= 0:
            yield first, last
        first = last = number
    if last >= 0:
        yield first, last


def cards_words(slices: Sequence[PlannedSlice]) -> str:
    """Which cards, by model: ``A100-SXM4-80GB #0-3``; cards that the node does not have go by their ids."""
    indexes: dict[str, list[int]] = {}
    strangers: dict[str, None] = {}
    for each in slices:
        if each.index is None:
            strangers[each.device] = None
        else:
            model = each.model if each.card is None else model_words(each.card)
            indexes.setdefault(model, []).append(each.index)
    return ", ".join([*(f"{model} #{runs(found)}" for model, found in indexes.items()), *strangers])


def shares_words(slices: Sequence[PlannedSlice]) -> str:
    """What of each card: ``2 x 20 GiB, 30 %``. Equal shares are counted, those of init containers apart.

    Init containers run before the others, so that their shares do not add up with them.
    """
    early = [each for each in slices if each.kind is ContainerKind.INIT]
    late = [each for each in slices if each.kind is not ContainerKind.INIT]
    if not early:
        return _counted_words(late)
    first = f"init: {_counted_words(early)}"
    return f"{_counted_words(late)} ({first})" if late else first


def _counted_words(slices: Sequence[PlannedSlice]) -> str:
    counts: dict[str, int] = {}
    for each in slices:
        words = share_words(each)
        counts[words] = counts.get(words, 0) + 1
    return "; ".join(f"{count} x {words}" if count > 1 else words for words, count in counts.items())


def share_words(share: PlannedSlice) -> str:
    """One share: memory, cores, partition, as far as it has them."""
    words = [memory_words(share.memory)] if share.memory else []
    if share.whole and words:
        return f"whole card ({words[0]})"
    if share.whole:
        cores = 100 if share.card is None else share.card.cores
        return "whole card" if cores in {0, 100} else f"all {cores} core{'' if cores == 1 else 's'}"
    if share.cores:
        words.append(cores_words(share.cores, share.card))
    if share.partition:
        words.append(share.partition)
    if with_cores := memory_with_cores(share.cores, share.card):
        words.append(f"{memory_words(with_cores)} of its memory")
    return ", ".join(words) or "a share"


def memory_with_cores(cores: CoreShare, card: Device | None) -> MiB:
    """The memory that goes with so many cores of a card, 0 where the vendor allocates memory by itself."""
    whole = card.trait(MEMORY_BY_CORES) if card is not None and card.cores else None
    return MiB(0 if card is None or whole is None else int(whole) * cores // card.cores)


def cores_words(cores: CoreShare, card: Device | None) -> str:
    """Cores in the unit of the card: per cent where the whole card is 100."""
    return f"{cores} %" if card is None or card.cores == 100 else f"{cores} of {card.cores} cores"


def memory_words(memory: MiB) -> str:
    """An exact amount of memory, in GiB where that is whole."""
    return f"{memory >> 10} GiB" if memory and memory % 1024 == 0 else f"{memory} MiB"
