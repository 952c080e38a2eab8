"""Differences for Ascend NPUs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from hami_plugins.engine.registry import Registry
from hami_plugins.model.vendor import Candidate, ContainerRequest, Unselectable
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import ascend
from tests.golden import corpus
from tests.golden.rules import Answer, Case, Rule
from tests.golden.rules.common import ADMITTED, answers_after, containers, registry

_STABLE_UP_TO = 12


class _Scripted:
    """Takes the cards that upstream took, container by container, as long as they are as good as ours."""

    def __init__(self, chip: ascend.Chip, ids: Sequence[str], text: str) -> None:
        self._chip = chip
        self._ids = ids
        parts = (part for part in text.split(";") if part)
        self._segments = iter([re.findall(rf"([^:;,]+),{chip.word},", part) for part in parts])

    def __call__(self, candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate] | Unselectable:
        named = {self._ids[each.position]: each for each in candidates}
        theirs = [named[name] for name in next(self._segments, []) if name in named]
        if len(ask.shape.devices) > _STABLE_UP_TO:
            candidates = _reordered(candidates, theirs)
        if self._chip.has_modules and ask.request.count > 1:
            return _modules(candidates, ask.request.count, theirs)
        first = {each.device.group: -at for at, each in reversed(list(enumerate(theirs)))}
        # The first answer of equal rings is the ring that comes first: bring theirs to the front of its equals.
        renamed = {group: f"{-rank:03}" for group, rank in first.items()}
        relabelled = [
            each._replace(device=replace(each.device, group=renamed.get(each.device.group, f"z{each.device.group}")))
            if each.device.group is not None
            else each
            for each in candidates
        ]
        chosen = ascend.together(self._chip, relabelled, ask)
        assert not isinstance(chosen, Unselectable)
        back = {each.position: each for each in candidates}
        return [back[each.position] for each in chosen]


def _reordered(candidates: Sequence[Candidate], theirs: Sequence[Candidate]) -> Sequence[Candidate]:
    """The candidates in another order of equals (which Go's sort does not keep): those that upstream took first."""

    def looks(candidate: Candidate) -> object:
        return replace(candidate.device, index=0, group=None), candidate.used

    rank = {each.position: at for at, each in enumerate(theirs)}
    alike = defaultdict(list)
    for each in sorted(candidates, key=lambda each: rank.get(each.position, len(rank))):
        alike[looks(each)].append(each)
    return [alike[looks(each)].pop(0) for each in candidates]


def _modules(
    candidates: Sequence[Candidate], count: int, theirs: Sequence[Candidate]
) -> Sequence[Candidate] | Unselectable:
    """The modules that upstream took first, the dies of each in the order in which they are tried."""
    by_module = defaultdict(list)
    for each in candidates:
        by_module[each.device.index // ascend.DIES].append(each)
    wanted = dict.fromkeys(each.device.index // ascend.DIES for each in theirs)
    order = [*wanted, *(number for number in sorted(by_module) if number not in wanted)]
    whole = [by_module[number] for number in order if len(by_module[number]) == ascend.DIES]
    chosen = [die for dies in whole[: -(-count // ascend.DIES)] for die in dies]
    return chosen if len(chosen) == count else Unselectable(Reason.TOPOLOGY, len(candidates))


def _as_good(case: Case, ours: Answer) -> bool:
    """Upstream took other equal cards: with those taken, and nothing else changed, our answer is one of its own."""
    entry, _, _ = corpus.situation(case, registry())
    chips = {chip.word: chip for chip in ascend.CHIPS}
    for recorded in case["answers"]:
        for key, text in (recorded.get("annotations") or {}).items():
            chip = chips.get(key.removeprefix("hami.io/").removesuffix("-devices-allocated"))
            if chip is None:
                continue
            scripted = Registry(
                replace(spec, fitting=replace(spec.fitting, select=_Scripted(chip, entry.ids, text)))
                if spec.name == chip.word
                else spec
                for spec in registry()
            )
            if not corpus.differing({**case, "answers": [recorded]}, corpus.answer(case, scripted)) - ADMITTED:
                return True
    return False


def _negative_memory(case: Case, ours: Answer) -> bool:
    """Upstream's webhook turns a negative amount into the smallest template."""
    return bool(ours.refusal) and answers_after(case, _smallest, ADMITTED)


def _smallest(case: Case) -> None:
    for container in containers(case["pod"]):
        for amounts in (container.get("resources") or {}).values():
            for name, amount in amounts.items():
                if name.startswith(ascend.PREFIX) and name.endswith("-memory") and amount.startswith("-"):
                    amounts[name] = "1"


RULES = (
    Rule(
        name="ascend-equals-in-order",
        reason="Among equal rings, and equal modules of a 910C, HAMi takes what the iteration over a Go map yields, "
        "another one each time; among more than twelve equal cards what is left of Go's sort. We take the first by "
        "number, or the last listed.",
        aspects=frozenset({"devices", "annotations"}),
        holds=_as_good,
        vendors=("ascend910",),
        examples=("ascend910c-045", "ascend910c-049", "ascend910c-075"),
    ),
    Rule(
        name="ascend-negative-memory-is-refused",
        reason="HAMi's webhook turns a negative amount of memory into the smallest template. We deny the pod.",
        aspects=frozenset({"admission", "mutated", "fits", "reason", "devices", "annotations"}),
        holds=_negative_memory,
        vendors=("ascend",),
    ),
)
