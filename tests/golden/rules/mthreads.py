"""Differences of Moore Threads."""

from __future__ import annotations

from tests.golden.rules import Answer, Case, Rule
from tests.golden.rules.common import answers_after, containers

_CORES = "mthreads.com/sgpu-core"
_MEMORY = "mthreads.com/sgpu-memory"
_LIST = "hami.io/mthreads-vgpu-devices-allocated"


def _shared_whole_card(case: Case, ours: Answer) -> bool:
    """With one core less, which nobody is refused for, our answer is theirs."""
    return bool(_takers(case)) and answers_after(case, _one_core_less)


def _takers(case: Case) -> list[int]:
    """Containers that name all cores of one card, but only a part of its memory."""
    return [
        at
        for at, container in enumerate(containers(case["pod"]))
        if (limits := (container.get("resources") or {}).get("limits") or {}).get(_CORES) == "16"
        and limits.get(_MEMORY, "96") != "96"
    ]


def _one_core_less(case: Case) -> None:
    takers = _takers(case)
    for pod in filter(None, (case["pod"], case["mutated"])):
        for at in takers:
            for amounts in containers(pod)[at]["resources"].values():
                if _CORES in amounts:
                    amounts[_CORES] = "15"
    for recorded in [case, *case["answers"]]:
        written = recorded.get("annotations") or {}
        if _LIST in written:
            segments = written[_LIST].split(";")
            for at in takers:
                segments[at] = segments[at].replace(",16:", ",15:")
            written[_LIST] = ";".join(segments)


RULES = (
    Rule(
        name="sixteen-cores-are-a-whole-card",
        reason="Who asks for all cores of a card takes the card: HAMi refuses that on a card in use, but compares the "
        "request with 100, so on cards of 16 cores it grants the card beside containers that named no cores.",
        aspects=frozenset({"fits", "reason", "devices", "annotations"}),
        holds=_shared_whole_card,
        vendors=("mthreads",),
    ),
)
