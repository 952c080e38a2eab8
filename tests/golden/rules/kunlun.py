"""Differences for Kunlun XPUs and vXPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hami_plugins.model.requests import DeviceRequest
from tests.golden.replay import Card, Replay, Taken, Writing, explains, replayed
from tests.golden.rules import Answer, Case, Rule
from tests.golden.rules.common import ADMITTED, answers_after, containers, registry

_PAIRS = ((0, 4), (1, 5), (2, 6), (3, 7))
_QUADS = ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))
Fits = Callable[[Card], bool]


def _by_place(case: Case, ours: Answer) -> bool:
    """Upstream takes the first four cards of its sorted list for the left wing."""
    choose, writing = (_whole, WHOLE) if case["vendor"] == "kunlun-xpu" else (_sliced, SLICED)

    def by_index(cards: Sequence[Card], request: DeviceRequest, mutex: bool) -> list[Taken] | str:
        return choose(sorted(cards, key=lambda card: card.device.index), request, mutex)

    return explains(case, ours, replayed(case, registry(), choose), replayed(case, registry(), by_index), writing)


def _negative_memory(case: Case, ours: Answer) -> bool:
    """Upstream's webhook turns a negative amount into a quarter of a card."""
    return bool(ours.refusal) and answers_after(case, _quarter, ADMITTED)


def _quarter(case: Case) -> None:
    for container in containers(case["pod"]):
        for amounts in (container.get("resources") or {}).values():
            if amounts.get("kunlunxin.com/vxpu-memory", "").startswith("-"):
                amounts["kunlunxin.com/vxpu-memory"] = "1"


def _indexes(case: Case, replay: Replay) -> dict[str, str]:
    lists = [",".join(str(taken.card.device.index) for taken in given) for given in replay.containers if given]
    return {"BAIDU_COM_DEVICE_IDX": lists[-1]}


WHOLE = Writing(("hami.io/kunlun-allocated",), _indexes)
SLICED = Writing(("hami.io/xpu-devices-allocated", "hami.io/xpu-devices-to-allocate"))


def _whole(cards: Sequence[Card], request: DeviceRequest, mutex: bool) -> list[Taken] | str:
    def fits(card: Card) -> bool:
        return card.wanted and card.used == 0 and card.device.healthy

    chosen = _selected(cards, request.count, fits)
    if not chosen:
        return _ids(cards) or f"1/{len(cards)} NumaNotFit"
    return [Taken(each, each.device.memory, each.device.cores, cache=False) for each in chosen]


def _sliced(cards: Sequence[Card], request: DeviceRequest, mutex: bool) -> list[Taken] | str:
    def room(card: Card) -> bool:
        need = request.memory.on(card.device)
        if not card.device.healthy or card.used_memory + need > card.device.memory:
            return False
        return card.used == 0 or card.used_memory // card.used == need

    def fits(card: Card) -> bool:
        return card.wanted and room(card) and not (mutex and card.used)

    chosen = _selected(cards, request.count, fits)
    if not chosen:
        busy = sum(1 for each in cards if each.used and room(each)) if mutex else 0
        if busy:
            return f"{busy}/{len(cards)} ExclusiveDeviceAllocateConflict"
        return _ids(cards) or f"1/{len(cards)} NumaNotFit"
    return [Taken(each, request.memory.on(each.device), request.cores) for each in chosen]


def _ids(cards: Sequence[Card]) -> str:
    refused = sum(1 for each in cards if not each.wanted)
    return f"{refused}/{len(cards)} CardUuidMismatch" if refused else ""


def _selected(cards: Sequence[Card], count: int, fits: Fits) -> list[Card]:
    by_index = {each.device.index: each for each in cards}
    left = [each for each in cards[:4] if fits(each)]
    right = [each for each in cards[4:] if fits(each)]
    if count == 8:
        return [by_index[index] for index in range(8)] if len(left) + len(right) == 8 else []
    if count not in (1, 2, 4):
        return []
    if len(left) >= count or len(right) >= count:
        for size in (1, 3, 2, 4) if count == 1 else range(count, 5):
            for wing in (left, right):
                if len(wing) == size:
                    return wing[:count]
    return [by_index[index] for index in _across([each.device.index for each in (*left, *right)], count)]


def _across(free: Sequence[int], count: int) -> Sequence[int]:
    if count == 2:
        pairs = ((one, other) for one in free for other in free)
        return next((pair for pair in pairs if tuple(sorted(pair)) in _PAIRS), ())
    quads = [quad for quad in _QUADS if count == 4 and set(quad) <= set(free)]
    if len(free) in (4, 5):
        return quads[0] if quads else ()
    if len(free) != 6:
        return ()
    for quad in quads:
        low, high = sorted(set(free) - set(quad))
        if (low, high) in _PAIRS or low // 4 == high // 4:
            return quad
    return quads[-1] if quads else ()


RULES = (
    Rule(
        name="kunlun-wings-are-those-of-the-cards",
        reason="HAMi takes the first four cards of its list for the left wing, but it has sorted the list by load: "
        "once cards are busy it takes cards of both wings for one, and misses sets that one wing has. We go by the "
        "cards' indexes.",
        aspects=frozenset({"fits", "reason", "devices", "annotations"}),
        holds=_by_place,
        vendors=("kunlun",),
        examples=("kunlun-xpu-088", "kunlun-xpu-051", "kunlun-xpu-080"),
    ),
    Rule(
        name="kunlun-negative-memory-is-refused",
        reason="HAMi's webhook turns a negative amount of memory into a quarter of a card. We deny the pod.",
        aspects=frozenset({"admission", "mutated", "fits", "reason", "devices", "annotations"}),
        holds=_negative_memory,
        vendors=("kunlun-vxpu",),
    ),
)
