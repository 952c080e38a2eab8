"""The journal of a migration: its whole plan first, then a line before and a line after every step.

A line is on the disk before the step it is about begins, so that whoever goes on after an interruption knows which step
may have been taken. The last line may be torn; it then says nothing.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import orjson

from hami_plugins.errors import ManifestError, WireError
from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json
from koordinator_adapter.core.migration import steps
from koordinator_adapter.core.migration.steps import MigrationStep

VERSION: Final = "hami-plugins.io/v1alpha1"
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
    """What is migrated: the uid of the cluster's first namespace, a namespace or (empty) all, to whom, and whether only
    what running pods hold."""

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
        _append(self.path, {"step": number, "mark": mark.value})
        self.marks[number] = mark


def begun(path: Path, *, scope: Scope, planned: Iterable[MigrationStep]) -> MigrationJournal:
    """A new journal with a plan in it. Raises ``ManifestError`` where the file is there already."""
    maker = str(uuid.uuid4())
    journal = MigrationJournal(path=path, scope=scope, steps=tuple(steps.signed(each, maker) for each in planned))
    head: dict[str, Any] = {"apiVersion": VERSION, "kind": KIND, "cluster": scope.cluster, "target": scope.target}
    head |= {"namespace": scope.namespace, "recordsOnly": scope.records_only}
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    _append(new, {**head, "steps": [steps.written(each) for each in journal.steps]})
    try:
        path.hardlink_to(new)
    except FileExistsError:
        raise ManifestError(f"{path}: this journal already exists; give another --journal, or remove it") from None
    finally:
        new.unlink()
    _to_disk(path.parent)
    return journal


def read(path: Path) -> MigrationJournal:
    """The journal in a file, without the torn end of its last line. Raises ``ManifestError`` for one that is none."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].split(b"\n")[:-1]
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
    if whole < len(data):
        os.truncate(path, whole)  # only now is it known to be a journal, and no other file of somebody's
    return found


def _to_disk(directory: Path) -> None:
    """The names in a directory, which the files' own content on the disk does not bring along."""
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _append(path: Path, line: Json) -> None:
    with path.open("ab") as file:
        file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        file.flush()
        os.fsync(file.fileno())
