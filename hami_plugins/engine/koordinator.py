"""What Koordinator's scheduler makes of a pod's request: legal or not, how many cards, how much of each.

Amounts are of the whole pod, as Koordinator sums them. Source: Koordinator 1.7.0
``pkg/scheduler/plugins/deviceshare/utils.go``, ``devicehandler_gpu.go`` and
``pkg/webhook/pod/mutating/device_resource_spec.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from hami_plugins.model.pods import Pod, ResourceList
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import Absolute, MemoryDemand, Percent
from hami_plugins.model.units import INT32_MAX, MEBIBYTE, MiB
from hami_plugins.wire.koordinator import (
    CORE,
    FPGA,
    GPU,
    MEMORY,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
    RATIO,
    RDMA,
    RENAMED,
    SHARED,
    WHOLE_CARDS,
    current,
)

Amounts = Mapping[str, int]
"""Resource amounts in whole units; Koordinator rounds fractions up (``Quantity.ceiling``)."""

BITS: Final[Mapping[str, int]] = {
    name: 1 << at
    for at, name in enumerate((*WHOLE_CARDS, GPU, SHARED, CORE, MEMORY, RATIO, NPU_CORE, NPU_CPU, NPU_DVPP, FPGA, RDMA))
}
CARD_NAMES: Final = frozenset(BITS) - {FPGA, RDMA}
"""Names that ask for cards, as opposed to network cards and FPGAs, which are requests of their own."""

FULL: Final = 100
"""Percent of a card."""

SCHEDULER: Final = "koord-scheduler"
"""The name under which Koordinator's scheduler is installed."""

SCHEDULER_LABEL: Final = "scheduling.koordinator.sh/scheduler-name"
"""A pod's label that names its scheduler to Koordinator, whatever its spec says."""


class Illegal(StrEnum):
    """Why a request is refused before any node is looked at."""

    UNIT = "invalid-unit"
    COMBINATION = "invalid-combination"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class IllegalRequest:
    """A refusal, in the scheduler's words. It lists the names in no particular order, here they are sorted."""

    kind: Illegal
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRequest:
    """A legal request: ``total`` in the units that cards are counted in, ``per_card`` of each of ``count`` cards.

    ``shared`` says that others may use the cards too, and so that limits can be enforced at all.
    """

    bits: int
    total: Amounts
    count: int
    per_card: Amounts
    shared: bool


@dataclass(frozen=True, slots=True)
class AmountRefusal:
    """An amount of a legal request that cannot be one of cards: the resource, why, and what to write instead."""

    resource: str
    words: str
    remedy: str


def request_of(amounts: Amounts) -> CardRequest | IllegalRequest:
    """The request of a pod for cards; ``amounts`` are those of ``CARD_NAMES`` that it names."""
    bits = validated(amounts)
    if isinstance(bits, IllegalRequest):
        return bits
    total = converted(amounts)
    ratio = total.get(RATIO, 0)
    count = total.get(SHARED, 0) or (ratio // FULL if ratio > FULL and ratio % FULL == 0 else 1)
    memory = RATIO if RATIO in total else MEMORY
    per_card = {name: total[name] // count for name in (CORE, NPU_CORE, NPU_CPU, NPU_DVPP, memory) if name in total}
    return CardRequest(bits=bits, total=total, count=count, per_card=per_card, shared=per_card.get(RATIO, 0) < FULL)


def submitted(amounts: Amounts) -> CardRequest | IllegalRequest:
    """The request of a pod as it is when Koordinator's webhook has seen it; percentages that mean nothing stay so."""
    found = request_of(amounts)
    if isinstance(found, IllegalRequest) and found.kind is Illegal.UNIT:
        return found
    return request_of(normalised(amounts))


def memory_of(request: CardRequest) -> MemoryDemand | AmountRefusal:
    """The memory on each card: percent of it, or MiB. Refused are amounts below 1 MiB, which are bytes that were meant
    as MiB, and amounts that no protocol carries."""
    if request.count > INT32_MAX:
        return AmountRefusal(SHARED, "more cards than any node has", "ask for fewer")
    if RATIO in request.per_card:
        return Percent(min(request.per_card[RATIO], FULL))
    mebibytes = request.per_card[MEMORY] // MEBIBYTE
    if not mebibytes:
        remedy = f"write {request.total[MEMORY]}Mi if MiB were meant"
        return AmountRefusal(MEMORY, "less than 1 MiB on each card: the amount is in bytes", remedy)
    if mebibytes > INT32_MAX:
        return AmountRefusal(MEMORY, "more than any card has", "ask for less")
    return Absolute(MiB(mebibytes))


def validated(amounts: Amounts) -> int | IllegalRequest:
    """The bit set of the names (``ValidateDeviceRequest``), or the refusal."""
    if not amounts:
        return IllegalRequest(Illegal.EMPTY, "pod request should not be empty")
    for name in (GPU, FPGA, RDMA):
        if name in amounts and not _is_percentage(amounts[name]):
            return IllegalRequest(Illegal.UNIT, f"invalid resource unit {name}: {amounts[name]}")
    bits = sum(BITS[name] for name in amounts)
    legal = _LEGAL.get(bits)
    if legal is None or not legal(amounts):
        return IllegalRequest(Illegal.COMBINATION, f"invalid resource device requests: [{' '.join(sorted(amounts))}]")
    return bits


def converted(amounts: Amounts) -> Amounts:
    """The request in compute and memory percent where it names whole cards or both at once."""
    for name in WHOLE_CARDS:
        if name in amounts:
            return {CORE: amounts[name] * FULL, RATIO: amounts[name] * FULL}
    if GPU in amounts:
        return {CORE: amounts[GPU], RATIO: amounts[GPU]}
    return amounts


def normalised(amounts: Amounts) -> Amounts:
    """What Koordinator's webhook makes of one container's amounts; the same mapping where it changes nothing.

    It writes both parts of a combined request apart, and the number of cards where that is missing.
    """
    if amounts.keys().isdisjoint({GPU, CORE, MEMORY, RATIO, SHARED}):
        return amounts
    found = dict(amounts)
    if GPU in found:
        found[CORE] = found[RATIO] = found.pop(GPU)
    if SHARED not in found:
        percent = found.get(RATIO, found.get(CORE, 0))
        found[SHARED] = percent // FULL if percent > FULL and percent % FULL == 0 else 1
    return amounts if found == amounts else found


def bytes_of(percent: int, total: int) -> int:
    """The bytes of a card that the scheduler records for a percentage."""
    return percent * total // FULL


def percent_of(memory: int, total: int) -> int:
    """The percentage of a card that the scheduler records for bytes: cut off, by way of floating point, as it does."""
    return int(memory / total * FULL)


def _is_percentage(amount: int) -> bool:
    return amount <= FULL or amount % FULL == 0


def _percentages(amounts: Amounts) -> bool:
    return all(_is_percentage(amounts[name]) for name in (CORE, RATIO) if name in amounts)


def _divides(amounts: Amounts) -> bool:
    """Each card gets the same part, and none more than all of itself."""
    cards = amounts[SHARED]
    if not cards:
        return False
    return all(
        amounts[name] % cards == 0 and amounts[name] // cards <= FULL for name in (CORE, RATIO) if name in amounts
    )


def _one_template(amounts: Amounts) -> bool:
    return amounts[SHARED] <= 1 and amounts.get(NPU_DVPP, 0) <= FULL


def _always(_amounts: Amounts) -> bool:
    return True


def _set(*names: str) -> int:
    return sum(BITS[name] for name in names)


_LEGAL: Final[Mapping[int, Callable[[Amounts], bool]]] = {
    **{_set(name): _always for name in (*WHOLE_CARDS, GPU, FPGA, RDMA)},
    **{_set(*names): _percentages for names in ((MEMORY,), (RATIO,), (CORE, MEMORY), (CORE, RATIO), (NPU_CORE, RATIO))},
    **{_set(SHARED, *names): _divides for names in ((MEMORY,), (RATIO,), (CORE, MEMORY), (CORE, RATIO))},
    _set(SHARED, NPU_CORE, NPU_CPU, MEMORY): _one_template,
    _set(SHARED, NPU_CORE, NPU_CPU, NPU_DVPP, MEMORY): _one_template,
}
"""Every legal set of names, with what its amounts have to meet."""


_PARTS: Final = CARD_NAMES - {*WHOLE_CARDS}
"""Koordinator's own names."""


def places(scheduler: str, labels: Mapping[str, str]) -> bool:
    """Whether Koordinator's scheduler places a pod, as far as the pod says it."""
    return scheduler == SCHEDULER or SCHEDULER_LABEL in labels


def as_read(name: str, amount: Quantity, among: Iterable[str], *, placed_here: bool) -> tuple[str, Quantity]:
    """An amount as Koordinator's scheduler reads it: deprecated names are the present ones, and whole cards by the name
    of a vendor's device plugin are cards (``placed_here``), unless a part of one is named ``among`` the others, which
    no scheduler reads together."""
    if not placed_here or name not in WHOLE_CARDS:
        return current(name), amount
    if any(other.startswith(name) or current(other) in _PARTS for other in among if other != name):
        return name, amount
    return GPU, Quantity(amount.nano * FULL, str(amount.ceiling * FULL))


def read_by_its_scheduler(pod: Pod) -> Pod:
    """The pod as Koordinator's scheduler reads it. The node's sums of device plugins' resources stay what they are."""
    placed_here = places(pod.scheduler, pod.labels)
    if not any(name in _READ for container in pod.containers for name in (*container.limits, *container.requests)):
        return pod
    containers = tuple(
        replace(
            each,
            limits=_all(each.limits, placed_here=placed_here),
            requests=_all(each.requests, placed_here=placed_here),
        )
        for each in pod.containers
    )
    requests = tuple((current(name), nano) for name, nano in pod.constraints.requests)
    return replace(pod, containers=containers, constraints=replace(pod.constraints, requests=requests))


_READ: Final = frozenset({*WHOLE_CARDS, *RENAMED})
"""Names that Koordinator's scheduler reads as others."""


def _all(amounts: ResourceList, *, placed_here: bool) -> ResourceList:
    return dict(as_read(name, amount, amounts, placed_here=placed_here) for name, amount in amounts.items())
