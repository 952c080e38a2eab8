"""Differences for AWS Neuron."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from hami_plugins.engine.registry import Registry
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.vendors import awsneuron
from hami_plugins.wire import objects
from tests.golden import corpus
from tests.golden.replay import Card, Replay, Taken, Writing, explains, replayed
from tests.golden.rules import Answer, Case, Rule
from tests.golden.rules.common import registry

PLACES = "places"
IDS = "ids"
TWO_CORES = "two cores"
UNSTABLE = "unstable"
DEFECTS = frozenset({PLACES, IDS, TWO_CORES})

LIST = "hami.io/aws-neuron-devices-allocated"
_DEVICE = re.compile(r"[^;:,]+(?=,AWSNeuron,)")
_STABLE_UP_TO = 12


@cache
def _as_written() -> Registry:
    """The vendors, with the masks of running pods taken for amounts, as upstream takes them."""
    return Registry(
        replace(spec, records=replace(spec.records, recall=None)) if spec is awsneuron.SPEC else spec
        for spec in registry()
    )


def _accounts_for(case: Case, ours: Answer, *, defect: str) -> bool:
    """Upstream's answer comes with its defects and not without this one, and ours without any."""
    for order in ((), _order(case)):
        theirs = _replayed(case, DEFECTS, order)
        other = _replayed(case, DEFECTS - {defect}, () if defect == UNSTABLE else order)
        if theirs is None or other is None or WRITING(case, ours, theirs) == WRITING(case, ours, other):
            continue
        if explains(case, ours, theirs, _replayed(case, frozenset(), ()), WRITING):
            return True
    return False


def _replayed(case: Case, defects: frozenset[str], order: Sequence[str]) -> Replay | None:
    return replayed(case, _as_written(), _Upstream(defects, _given_whole(case)), last=order)


def _order(case: Case) -> Sequence[str]:
    """Upstream's own choice among equals where Go's sort does not keep their order."""
    text = (case.get("annotations") or {}).get(LIST, "")
    many = int(case["node"]["status"]["capacity"].get("aws.amazon.com/neuron", "0")) > _STABLE_UP_TO
    return list(dict.fromkeys(_DEVICE.findall(text))) if many else ()


def _given_whole(case: Case) -> frozenset[str]:
    """The devices of pods that were told device numbers, not core numbers."""
    found: set[str] = set()
    for pod in case["pods"]:
        if pod["status"]["phase"] in corpus.FINISHED:
            continue
        annotations = pod["metadata"].get("annotations") or {}
        if "AWS_NEURON_IDS" in annotations and "NEURON_RESOURCE_TYPE" not in annotations:
            found.update(_DEVICE.findall(annotations[LIST]))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Upstream:
    """Upstream's choice with some of its defects; ``given_whole`` are devices that running pods have to themselves."""

    defects: frozenset[str]
    given_whole: frozenset[str]

    def __call__(self, cards: Sequence[Card], request: DeviceRequest, mutex: bool) -> list[Taken] | str:
        if request.count > 1:
            return self._neighbours(cards, request)
        tally: dict[str, int] = {}
        for card in reversed(cards):
            why = self._objection(card, request, mutex=mutex)
            if not why:
                return [self._single(card, request)]
            tally[why] = tally.get(why, 0) + 1
        return ", ".join(sorted(f"{count}/{len(cards)} {why}" for why, count in tally.items()))

    def _objection(self, card: Card, request: DeviceRequest, *, mutex: bool) -> str:
        asked = _asked(card, request)
        beside = TWO_CORES not in self.defects and card.used > 0 and asked == card.device.cores
        objections = (
            ("CardNotHealth", not card.device.healthy),
            ("CardUuidMismatch", not card.wanted),
            ("CardTimeSlicingExhausted", card.device.slots <= card.used),
            ("ExclusiveDeviceAllocateConflict", mutex and card.used > 0),
            ("CardInsufficientCore", card.device.cores - self._held(card).bit_count() < asked),
            ("ExclusiveDeviceAllocateConflict", beside),
        )
        return next((why for why, objects_to in objections if objects_to), "")

    def _single(self, card: Card, request: DeviceRequest) -> Taken:
        asked = _asked(card, request)
        if TWO_CORES not in self.defects:
            free = [core for core in range(card.device.cores) if not self._held(card) >> core & 1]
            return Taken(card, 0, sum(1 << core for core in free[:asked]))
        card.told = card.used_cores if card.told is None else card.told
        mask = {1: 1, 2: 3}.get(asked, 3) if card.told == 0 else 3 - card.told
        return Taken(card, 0, mask, told=mask)

    def _held(self, card: Card) -> int:
        if TWO_CORES not in self.defects and card.id in self.given_whole:
            return int(2**card.device.cores - 1)
        return card.used_cores

    def _neighbours(self, cards: Sequence[Card], request: DeviceRequest) -> list[Taken] | str:
        count = request.count
        listed = list(cards) if PLACES in self.defects else sorted(cards, key=lambda card: card.device.index)
        by_index = {card.device.index: card for card in cards}
        ring = cards[0].device.mode == "ring"
        step = 1 if ring else count
        for start in range(0, len(listed) - count + 1, step) if ring or count in (4, 8, 16) else ():
            run = listed[start : start + count]
            if all(each.used == 0 and each.device.healthy and (each.wanted or IDS in self.defects) for each in run):
                chosen = [by_index[start + at] for at in range(count)]
                return [Taken(each, 0, 2**each.device.cores - 1, told=3) for each in chosen]
        return f"1/{len(cards)} NumaNotFit"


def _asked(card: Card, request: DeviceRequest) -> int:
    return card.device.cores if request.option(awsneuron.WHOLE) else request.cores


def _ids(case: Case, replay: Replay) -> dict[str, str]:
    pod = objects.pod(case["mutated"] or case["pod"], default_requests=False)
    ids: list[int] = []
    of_cores = False
    for container, given in zip(pod.containers, replay.containers, strict=True):
        for taken in given:
            device = taken.card.device
            if "aws.amazon.com/neuron" in container.limits:
                ids.append(device.index)
                continue
            cores = [core for core in range(device.cores) if taken.cores >> core & 1][:2]
            of_cores = of_cores or bool(cores)
            ids += [device.cores * device.index + core for core in cores]
    kind = {"NEURON_RESOURCE_TYPE": "aws.amazon.com/neuroncore"} if of_cores else {}
    if not ids:
        return kind
    return {
        **kind,
        "AWS_NEURON_IDS": ",".join(map(str, ids)),
        "NEURON_ALLOC_TIME": "<unix-nanoseconds>",
        "NEURON_ALLOCATED": "false",
        "aws.amazon.com/predicate-node": case["node"]["metadata"]["name"],
    }


WRITING = Writing((LIST,), _ids)


def _rule(name: str, defect: str, reason: str, examples: tuple[str, ...]) -> Rule:
    return Rule(
        name=name,
        reason=reason,
        aspects=frozenset({"fits", "reason", "devices", "annotations"}),
        holds=partial(_accounts_for, defect=defect),
        vendors=("neuron",),
        examples=examples,
    )


RULES = (
    _rule(
        "neuron-books-the-cores-it-allocations",
        TWO_CORES,
        "HAMi knows two cores per device: on devices with more it books none for the third (and the pod is told no "
        "cores), two for a whole device (which others then share), and one where two were asked. We book what we "
        "allocation.",
        ("neuron-core-001", "neuron-core-007", "neuron-core-011", "neuron-core-019", "neuron-device-005"),
    ),
    _rule(
        "neuron-runs-are-those-of-the-devices",
        PLACES,
        "HAMi looks for a free run in a list that it has sorted by load, and then takes the devices whose indexes are "
        "the places of that run, in use or not. We go by the devices' indexes.",
        ("neuron-device-100",),
    ),
    _rule(
        "neuron-runs-obey-id-lists",
        IDS,
        "HAMi ignores the pod's id lists when it wants several devices.",
        ("neuron-device-149",),
    ),
    _rule(
        "neuron-equal-devices-beyond-twelve",
        UNSTABLE,
        "With more than twelve devices Go's sort does not keep the order of equals, so HAMi's choice among equal "
        "devices is arbitrary. Ours is the last.",
        (),
    ),
)
