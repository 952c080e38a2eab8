"""The journal of a migration: its whole plan first, then a line before and a line after every step.

A line is on the disk before the step it is about begins, so that a run after an interruption knows which step may have
been taken. The last line may be torn; it then says nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import orjson

from hami_plugins.cli.kit import journal
from hami_plugins.errors import ManifestError, WireError
from hami_plugins.wire import fields
from koordinator_adapter.core.migration import steps
from koordinator_adapter.core.migration.steps import MigrationStep

KIND: Final = "Migration"


class JournalMark(StrEnum):
    """What a journal says of a step. ``FOUND`` was so without it, and is nothing to take back."""

    BEGUN = "begun"
    DONE = "done"
    FOUND = "found"
    TAKING_BACK = "taking-back"
    TAKEN_BACK = "taken-back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of the migration: the uid of the cluster's first namespace, a namespace or (empty) all, the target, and
    whether only running pods' allocations are migrated."""

    cluster: str
    namespace: str
    target: str
    records_only: bool = False

    def __str__(self) -> str:
        what = "the records" if self.records_only else "the migration"
        return f"{what} of {f'namespace {self.namespace}' if self.namespace else 'all namespaces'} to {self.target}"


@dataclass(slots=True)
class MigrationJournal:
    """``marks`` are the last ones of the steps, by number."""

    path: Path
    scope: Scope
    steps: tuple[MigrationStep, ...]
    marks: dict[int, JournalMark] = field(default_factory=dict)

    def done(self, number: int) -> bool:
        """Whether a step has been taken, and stays."""
        return self.marks.get(number) in {JournalMark.DONE, JournalMark.FOUND}

    @property
    def begun(self) -> tuple[int, ...]:
        """The steps that are to be taken back, the last first."""
        passed = {JournalMark.TAKEN_BACK, JournalMark.FOUND}
        return tuple(number for number in sorted(self.marks, reverse=True) if self.marks[number] not in passed)

    @property
    def complete(self) -> bool:
        """Whether every step has been taken."""
        return all(self.done(number) for number in range(len(self.steps)))

    @property
    def undone(self) -> bool:
        """Whether taking back has begun."""
        return any(mark in {JournalMark.TAKING_BACK, JournalMark.TAKEN_BACK} for mark in self.marks.values())

    def mark(self, number: int, mark: JournalMark) -> None:
        """Write down what is about to happen, or has happened, with a step; it is on the disk when this returns."""
        journal.append(self.path, {"step": number, "mark": mark.value})
        self.marks[number] = mark


def begun(path: Path, *, scope: Scope, planned: Iterable[MigrationStep]) -> MigrationJournal:
    """A new journal with a plan in it. Raises ``ManifestError`` where the file is there already."""
    maker = str(uuid.uuid4())
    made = MigrationJournal(path=path, scope=scope, steps=tuple(steps.signed(each, maker) for each in planned))
    head: dict[str, Any] = {"cluster": scope.cluster, "target": scope.target}
    head |= {"namespace": scope.namespace, "recordsOnly": scope.records_only}
    journal.begin(path, KIND, {**head, "steps": [steps.written(each) for each in made.steps]})
    return made


def read(path: Path) -> MigrationJournal:
    """The journal in a file, without the torn end of its last line. Raises ``ManifestError`` for one that is none."""
    text = journal.read(path)
    lines = text.lines
    try:
        head = fields.whole(orjson.loads(lines[0]), "head") if lines else {}
        if head.get("kind") != KIND:
            raise fields.wrong("head.kind", head.get("kind"), KIND)
        found = MigrationJournal(
            path=path,
            scope=Scope(
                cluster=fields.text(head, "cluster", "head"),
                namespace=fields.text(head, "namespace", "head"),
                target=fields.text(head, "target", "head"),
                records_only=fields.flag(head, "recordsOnly", "head"),
            ),
            steps=tuple(
                steps.read(each, f"head.steps[{at}]") for at, each in enumerate(fields.items(head, "steps", "head"))
            ),
        )
        for line in lines[1:]:
            body = fields.whole(orjson.loads(line), "line")
            number = fields.natural(body, "step", "line")
            if number >= len(found.steps):
                raise fields.wrong("line.step", number, f"less than {len(found.steps)}")
            found.marks[number] = JournalMark(fields.text(body, "mark", "line"))
    except (ValueError, WireError) as error:
        raise ManifestError(f"{path}: not the journal of a migration: {error}") from error
    journal.without_torn_end(path, text)
    return found
