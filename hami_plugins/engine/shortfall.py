"""Why no node takes a pod, in numbers: for each reason what was asked, what there is at most, and what there is in all.

Every refusing node counts once: under its objection to the pod, or under the reason that most of its cards gave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from hami_plugins.engine import blockers, mig
from hami_plugins.engine.blockers import Blocked
from hami_plugins.engine.bounds import Limit, RequestBounds
from hami_plugins.engine.decide import DecisionRequest
from hami_plugins.engine.eligibility import shortages
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import UNREGISTERED, Refusal
from hami_plugins.model.devices import Device, DeviceUsage
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.requests import ContainerKind, DeviceRequest
from hami_plugins.model.units import MiB, NodeName, VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.model.verdicts import Fit, NoFit, Reason

EXAMPLES: Final = 3
"""Nodes that are named for each reason."""


_TOGETHER: Final = frozenset({Reason.TOPOLOGY, Reason.WITHHELD})
"""Reasons that concern several cards together, none of them by itself."""

_ORDER: Final[Mapping[Reason, int]] = {reason: at for at, reason in enumerate(Reason)}


class Supply(NamedTuple):
    """The remaining amount of the scarce resource on nodes: the most on any node (on each requested card), where, and
    in total.

    Amounts are in the unit of the reason: MiB, cores, slots, or cards.
    """

    largest: int
    at: NodeName
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CardShortage:
    """Nodes that refuse one request for one reason. ``cards`` of their ``devices`` object for it.

    ``request`` is the request. ``supply`` is ``None`` for reasons without amounts, ``headroom`` is set if a quota is
    the reason. ``beside``: earlier containers of the pod use the same cards as well, so less is left than ``supply``
    shows; ``before`` lists those whose memory is known, with the MiB of each, or is empty if one is unknown. ``asked``
    is the memory in MiB on each card, if all cards give the same. ``blocked`` is the set nearest to being free, where
    devices are allocated in sets.
    """

    reason: Reason
    vendor: VendorName
    container: int
    request: DeviceRequest
    nodes: int
    examples: tuple[NodeName, ...]
    cards: int
    devices: int
    beside: bool = False
    before: tuple[tuple[int, MiB], ...] = ()
    asked: MiB | None = None
    supply: Supply | None = None
    headroom: Headroom | None = None
    blocked: Blocked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShortage:
    """Nodes that object to the pod before their cards are looked at, in kube-scheduler's words.

    ``resource``, ``asked`` and ``supply`` (nano units) are set where a plain resource is short; ``offered`` says
    whether any of the nodes has it at all, taken or not.
    """

    words: str
    nodes: int
    examples: tuple[NodeName, ...]
    resource: str = ""
    asked: int = 0
    supply: Supply | None = None
    offered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """All reasons; ``nodes`` is how many nodes there are and ``fitting`` how many of them fit.

    The most frequent reason comes first, but nodes that have nothing of what is asked come after all others.
    """

    nodes: int
    fitting: int
    reasons: tuple[CardShortage | NodeShortage, ...]


def why_not(
    question: DecisionRequest,
    answers: Iterable[tuple[NodeEntry, Fit | Refusal]],
    registry: Registry,
    uncounted: Collection[str] = (),
) -> WhyNot:
    """The reasons in the answers of all nodes."""
    by_request: dict[_Key, list[tuple[NodeEntry, NoFit]]] = {}
    by_words: dict[str, list[NodeEntry]] = {}
    nodes = fitting = 0
    for entry, answer in answers:
        nodes += 1
        match answer:
            case Fit():
                fitting += 1
            case NoFit():
                key = _Key(answer.container, answer.vendor, decisive(answer.reasons))
                by_request.setdefault(key, []).append((entry, answer))
            case _:
                by_words.setdefault(answer.words, []).append(entry)
    reasons: list[CardShortage | NodeShortage] = [
        _of_cards(question, key, refused, registry) for key, refused in by_request.items()
    ]
    reasons += [_of_nodes(question, words, entries, uncounted) for words, entries in by_words.items()]
    return WhyNot(nodes=nodes, fitting=fitting, reasons=tuple(sorted(reasons, key=_order)))


class _Key(NamedTuple):
    container: int
    vendor: VendorName
    reason: Reason


def _order(reason: CardShortage | NodeShortage) -> tuple[bool, int, str]:
    """Nodes that have nothing of what is asked come last: they are many, and say the least."""
    if isinstance(reason, NodeShortage):
        nothing = reason.words == UNREGISTERED.words or (reason.supply is not None and not reason.supply.total)
        return nothing and reason.resource != "pods", -reason.nodes, reason.words
    nothing = reason.reason is Reason.TOO_FEW_CARDS and reason.supply is not None and not reason.supply.total
    return nothing, -reason.nodes, reason.reason


@lru_cache(maxsize=1_024)
def decisive(reasons: tuple[tuple[Reason, int], ...]) -> Reason:
    """The most frequent reason among cards; a shortage of the rest is a reason only if there is no other.

    Where enough cards would do one by one and only not together, nothing that is wrong with others matters.
    """
    if together := [each for each, _ in reasons if each in _TOGETHER]:
        return together[0]
    real = [each for each in reasons if each[0] is not Reason.TOO_FEW] or reasons
    return min(real, key=lambda each: (-each[1], _ORDER[each[0]]))[0]


def _of_nodes(
    question: DecisionRequest, words: str, entries: Sequence[NodeEntry], uncounted: Collection[str]
) -> NodeShortage:
    found = [
        (entry, short)
        for entry in entries
        for short in shortages(entry, question.demand.constraints, uncounted)
        if short.words == words
    ]
    examples = tuple(entry.name for entry in entries[:EXAMPLES])
    if not found:
        return NodeShortage(words=words, nodes=len(entries), examples=examples)
    short = found[0][1]
    supply = _supply((entry.name, short.free, max(short.free, 0)) for entry, short in found)
    return NodeShortage(
        words=words,
        nodes=len(entries),
        examples=examples,
        resource=short.resource,
        asked=short.asked,
        supply=supply,
        offered=any(entry.facts.allocatable.get(short.resource) for entry, _ in found),
    )


def _of_cards(
    question: DecisionRequest, key: _Key, refused: Sequence[tuple[NodeEntry, NoFit]], registry: Registry
) -> CardShortage:
    containers = question.demand.devices.containers
    request = next(each for each in containers[key.container].requests if each.vendor == key.vendor)
    gauge = RequestBounds(registry[key.vendor], request, question.policy)
    measure = _MEASURES.get(key.reason)
    supply = None
    if measure is not None:
        supply = _supply((entry.name, *measure(gauge, entry)) for entry, _ in refused)
    return CardShortage(
        reason=key.reason,
        vendor=key.vendor,
        container=key.container,
        request=request,
        nodes=len(refused),
        examples=tuple(entry.name for entry, _ in refused[:EXAMPLES]),
        cards=sum(dict(answer.reasons)[key.reason] for _, answer in refused),
        devices=sum(answer.devices for _, answer in refused),
        before=_before(question, key, [entry for entry, _ in refused]),
        asked=_on_all(request, key.vendor, [entry for entry, _ in refused]),
        beside=any(each.vendor == key.vendor for one in containers[: key.container] for each in one.requests),
        supply=supply,
        blocked=blockers.nearest(registry[key.vendor], request, question.policy, (entry for entry, _ in refused)),
        headroom=dict(question.demand.headroom).get(key.vendor) if key.reason is Reason.QUOTA else None,
    )


def _on_all(request: DeviceRequest, vendor: VendorName, entries: Iterable[NodeEntry]) -> MiB | None:
    """The memory that a request takes of each card of these nodes; ``None`` where that depends on the card."""
    devices = (entry.state.shape.devices[at] for entry in entries for at in entry.state.shape.positions.get(vendor, ()))
    amounts = {request.memory.on(device) for device in devices}
    return amounts.pop() if len(amounts) == 1 else None


def _before(question: DecisionRequest, key: _Key, entries: Sequence[NodeEntry]) -> tuple[tuple[int, MiB], ...]:
    """The allocation, all on one card, of the containers that run together with the refused one and are placed before
    it.
    """
    containers = question.demand.devices.containers
    if containers[key.container].kind is ContainerKind.INIT:
        return ()
    found: list[tuple[int, MiB]] = []
    for at, each in enumerate(containers[: key.container]):
        for request in each.requests if each.kind is not ContainerKind.INIT else ():
            amount = _on_all(request, key.vendor, entries)
            if request.vendor != key.vendor or amount is None:
                return ()
            found.append((at, amount))
    return tuple(found)


def _supply(amounts: Iterable[tuple[NodeName, int, int]]) -> Supply:
    """The largest amount with its node (the first of equals), and the sum, of (node, most, all) each."""
    known = list(amounts)
    at, largest, _ = max(known, key=lambda each: each[1])
    return Supply(largest, at, sum(each[2] for each in known))


def _on_each(
    gauge: RequestBounds,
    entry: NodeEntry,
    free: Callable[[Device, DeviceUsage], int],
    counts: Callable[[Limit, DeviceUsage], bool],
) -> tuple[int, int]:
    """The free amount of each requested card, best first, of those that count; and of all usable cards.

    Cards that lack only other things do not count: how much they have is not what is missing. Where fewer cards count
    than are asked for, it is what the last of them has.
    """
    usage = entry.state.usage
    total = 0
    counted: list[int] = []
    for limit in gauge.limits(entry):
        used = usage[limit.at]
        amount = max(free(limit.device, used), 0)
        total += amount
        if counts(limit, used) or _holds(limit, used):
            counted.append(amount)
    counted.sort(reverse=True)
    return (counted[min(gauge.request.count, len(counted)) - 1] if counted else 0), total


def _holds(limit: Limit, used: DeviceUsage) -> bool:
    return used.memory <= limit.memory and used.cores <= limit.cores and used.slots <= limit.slots


def _memory(gauge: RequestBounds, entry: NodeEntry) -> tuple[int, int]:
    return _on_each(
        gauge,
        entry,
        lambda device, used: device.memory - used.memory,
        lambda limit, used: used.memory > limit.memory,
    )


def _partitions(gauge: RequestBounds, entry: NodeEntry) -> tuple[int, int]:
    return _on_each(gauge, entry, _largest_partition, _holds)


def _largest_partition(device: Device, used: DeviceUsage) -> int:
    """The memory of the largest profile that still has a place on a card; what is free on a card without profiles."""
    if not device.profiles:
        return device.memory - used.memory
    taken = mig.occupied(used.marks)
    return max((each.memory for each in device.profiles if mig.choose((each,), MiB(0), taken) is not None), default=0)


def _cores(gauge: RequestBounds, entry: NodeEntry) -> tuple[int, int]:
    return _on_each(
        gauge, entry, lambda device, used: device.cores - used.cores, lambda limit, used: used.cores > limit.cores
    )


def _slots(gauge: RequestBounds, entry: NodeEntry) -> tuple[int, int]:
    return _on_each(
        gauge,
        entry,
        lambda device, used: device.slots - used.slots,
        lambda limit, used: used.slots >= limit.device.slots,
    )


def _idle_cards(gauge: RequestBounds, entry: NodeEntry) -> tuple[int, int]:
    idle = sum(1 for limit in gauge.limits(entry) if entry.state.usage[limit.at].slots == 0)
    return idle, idle


def _capable_cards(gauge: RequestBounds, entry: NodeEntry) -> tuple[int, int]:
    capable = gauge.capable(entry)
    return capable, capable


def _all_cards(gauge: RequestBounds, entry: NodeEntry) -> tuple[int, int]:
    cards = len(entry.state.shape.positions.get(gauge.request.vendor, ()))
    return cards, cards


_MEASURES: Final[Mapping[Reason, Callable[[RequestBounds, NodeEntry], tuple[int, int]]]] = {
    Reason.MEMORY: _memory,
    Reason.PARTITION: _partitions,
    Reason.CORES: _cores,
    Reason.SLOTS: _slots,
    Reason.EXCLUSIVE: _idle_cards,
    Reason.TOO_FEW: _capable_cards,
    Reason.TOO_FEW_CARDS: _all_cards,
}
"""The most and all that a node has of what a reason is about."""

MEASURED: Final = frozenset(_MEASURES)
"""Reasons that come with a supply."""
