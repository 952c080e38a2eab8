"""Differences for Ascend NPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hami_plugins.engine.registry import Registry
from hami_plugins.model.vendor import Ask, Candidate, Unselectable
from hami_plugins.vendors import ascend
from tests.golden import corpus
from tests.golden.rules import Answer, Case, Rule
from tests.golden.rules.common import ADMITTED, answers_after, containers, registry

_STABLE_UP_TO = 12
_LIST = "hami.io/Ascend910C-devices-allocated"


class _Scripted:
    """Takes the modules that upstream took, container by container, as long as they are as good as ours."""

    def __init__(self, ids: Sequence[str], text: str) -> None:
        self._ids = ids
        self._segments = iter([re.findall(r"([^:;,]+),Ascend910C,", part) for part in text.split(";") if part])

    def __call__(self, candidates: Sequence[Candidate], ask: Ask) -> Sequence[Candidate] | Unselectable:
        ours = ascend.modules(candidates, ask.request.count)
        named = {self._ids[each.position]: each for each in candidates}
        wanted = next(self._segments, [])
        theirs = [named[name] for name in wanted if name in named]
        whole = {each.device.index // ascend.DIES for each in theirs}
        if len(theirs) != len(wanted) or len(theirs) != len(ours) or len(whole) * ascend.DIES != len(theirs):
            return ours
        return theirs if len(ask.shape.devices) > _STABLE_UP_TO or _in_order(theirs, candidates) else ours


def _in_order(chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> bool:
    """Whether the dies of each module come in the order in which they are tried, module after module."""
    pairs = zip(chosen[::2], chosen[1::2], strict=True)
    return all(
        one.device.index // ascend.DIES == other.device.index // ascend.DIES
        and candidates.index(one) < candidates.index(other)
        for one, other in pairs
    )


def _other_modules(case: Case, ours: Answer) -> bool:
    """Upstream took other free modules: with those taken, and nothing else changed, our answer is one of its own."""
    entry, _, _ = corpus.situation(case, registry())
    for recorded in case["answers"]:
        text = (recorded.get("annotations") or {}).get(_LIST, "")
        scripted = Registry(
            replace(spec, select=_Scripted(entry.ids, text)) if spec.name == "Ascend910C" else spec
            for spec in registry()
        )
        if text and not corpus.differing({**case, "answers": [recorded]}, corpus.answer(case, scripted)):
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
        name="ascend-modules-in-order",
        reason="Among equal free modules of a 910C HAMi takes what the iteration over a Go map yields, another one "
        "each time. We take the first by number.",
        aspects=frozenset({"devices", "annotations"}),
        holds=_other_modules,
        vendors=("ascend910c",),
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
