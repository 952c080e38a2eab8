"""The pods of a workload as runs of equal ones: a million replicas take no more memory than one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import overload

from hami_plugins.inputs.workloads.pods import PodCopy, PodTemplate


@dataclass(frozen=True, slots=True, eq=False)
class CopyRun:
    """``count`` pods of one template, numbered from ``first``: ``name-0`` and so on, or one pod of that very ``name``.

    ``index_key`` is the label and annotation that carries a pod's number, empty for none.
    """

    of: PodTemplate
    name: str
    count: int
    first: int = 0
    numbered: bool = True
    index_key: str = ""

    def copy(self, at: int) -> PodCopy:
        """One of the pods, from 0."""
        if not self.numbered:
            return self.of.pod(self.name)
        number = str(self.first + at)
        of = self.of.with_texts({self.index_key: number}) if self.index_key else self.of
        return of.pod(f"{self.name}-{number}")


@dataclass(frozen=True, slots=True, eq=False)
class PodCopies(Sequence[PodCopy]):
    """Runs of pods, created one by one on demand. ``single`` is a pod as it is written, in addition to the runs."""

    runs: tuple[CopyRun, ...] = ()
    single: tuple[PodCopy, ...] = ()

    def __len__(self) -> int:
        return sum(run.count for run in self.runs) + len(self.single)

    def __iter__(self) -> Iterator[PodCopy]:
        return chain(self.single, (run.copy(at) for run in self.runs for at in range(run.count)))

    @overload
    def __getitem__(self, at: int) -> PodCopy: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[PodCopy]: ...

    def __getitem__(self, at: int | slice) -> PodCopy | Sequence[PodCopy]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        number = at + len(self) if at < 0 else at
        if 0 <= number < len(self.single):
            return self.single[number]
        number -= len(self.single)
        for run in self.runs:
            if 0 <= number < run.count:
                return run.copy(number)
            number -= run.count
        raise IndexError(at)


def copies(of: PodTemplate, name: str, count: int, *, first: int = 0) -> PodCopies:
    """``count`` pods, numbered from ``first``: ``name-0`` and so on."""
    return PodCopies((CopyRun(of, name, count, first),))


def scheduler_of(made: Sequence[PodCopy]) -> str:
    """The scheduler that the first of some pods names; empty for the default one, or without pods."""
    spec = made[0].raw["spec"] if made else {}
    named = spec.get("schedulerName") if isinstance(spec, Mapping) else ""
    return named if isinstance(named, str) else ""
