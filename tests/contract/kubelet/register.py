"""Where cases are put down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.contract.kubelet.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One promise of the kubelet: a sentence, where it was first seen, and a function that goes through it.

    ``source`` is a row of ``docs/reference/trials.md``, or this suite, run against kubelet 1.34.4 and
    containerd 2.1.4.
    """

    sentence: str
    source: str
    run: Callable[[Trial], None]

    @property
    def name(self) -> str:
        """The function's name: short enough for names of pods and resources."""
        return self.run.__name__.replace("_", "-")


CASES: list[Case] = []


def case(sentence: str, source: str) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Puts a function down as a case."""

    def put(run: Callable[[Trial], None]) -> Callable[[Trial], None]:
        CASES.append(Case(sentence=sentence, source=source, run=run))
        return run

    return put
