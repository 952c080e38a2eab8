"""What koordlet does on a node, out of the arguments of its pod: it says it nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hami_plugins.wire import lenient

LABEL: Final = "koord-app"
NAME: Final = "koordlet"
ACCELERATORS: Final = "Accelerators"
INJECTION: Final = "GPUEnvInject"
_OPTION: Final = "feature-gates"
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_ALL: Final = "AllAlpha"
"""The gate that switches on what is not named, both of ours among it: they are alpha."""


class Koordlet(NamedTuple):
    """Whether it reports the cards of its node, and whether it puts limits into containers."""

    reports: bool
    injects: bool


def koordlet_of(pod: Mapping[str, Any]) -> Koordlet | None:
    """The koordlet that a pod is; ``None`` for every other pod.

    Both gates are off unless an argument says otherwise (Koordinator 1.7.0 ``pkg/features/koordlet_features.go``).
    """
    if lenient.inside(pod, "metadata", "labels").get(LABEL) != NAME:
        return None
    gates = dict(_gates(pod))
    return Koordlet(reports=is_on(gates, ACCELERATORS), injects=is_on(gates, INJECTION))


def is_on(gates: Mapping[str, bool], gate: str) -> bool:
    """Whether one of koordlet's two gates is on, by the gates that it is started with."""
    return gates.get(gate, gates.get(_ALL, False))


def gates_of(arguments: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The feature gates that a command line names; the later of two wins."""
    for at, argument in enumerate(arguments):
        name, equals, value = argument.lstrip("-").partition("=")
        if name != _OPTION or not argument.startswith("-"):
            continue
        text = value if equals else "".join(arguments[at + 1 : at + 2])
        for each in text.split(","):
            gate, _, on = each.strip().partition("=")
            if gate:
                yield gate, on.strip() in _TRUE


def _gates(pod: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    for container in lenient.mappings(lenient.inside(pod, "spec").get("containers")):
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        yield from gates_of([str(each) for each in words])
