"""What koordlet does on a node, out of the arguments of its pod: it says it nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

LABEL: Final = "koord-app"
NAME: Final = "koordlet"
ACCELERATORS: Final = "Accelerators"
INJECTION: Final = "GPUEnvInject"
_OPTION: Final = "feature-gates"
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_ALL: Final = frozenset({"AllAlpha", "AllBeta"})


class Koordlet(NamedTuple):
    """Whether it reports the cards of its node, and whether it puts limits into containers."""

    reports: bool
    injects: bool


def koordlet_of(pod: Mapping[str, Any]) -> Koordlet | None:
    """The koordlet that a pod is; ``None`` for every other pod.

    Both gates are off unless an argument says otherwise (``koordinator.md`` 5.5).
    """
    labels = (pod.get("metadata") or {}).get("labels") or {}
    if not isinstance(labels, Mapping) or labels.get(LABEL) != NAME:
        return None
    gates = dict(_gates(pod))
    return Koordlet(reports=gates.get(ACCELERATORS, False), injects=gates.get(INJECTION, False))


def _gates(pod: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    for container in (pod.get("spec") or {}).get("containers") or ():
        if not isinstance(container, Mapping):
            continue
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        yield from _of_arguments([str(each) for each in words])


def _of_arguments(arguments: list[str]) -> Iterator[tuple[str, bool]]:
    for at, argument in enumerate(arguments):
        name, equals, value = argument.lstrip("-").partition("=")
        if name != _OPTION or not argument.startswith("-"):
            continue
        text = value if equals else "".join(arguments[at + 1 : at + 2])
        for each in text.split(","):
            gate, _, on = each.strip().partition("=")
            if gate and gate not in _ALL:
                yield gate, on in _TRUE
