"""The journal of a migration: its whole plan first, then a line before and a line after every step.

A line is on the disk before the step it is about begins, so that whoever goes on after an interruption knows which step
may have been taken. The last line may be torn; it then says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

import orjson

from hami_plugins.errors import ManifestError, WireError
from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json
from koordinator_adapter.migration import steps
from koordinator_adapter.migration.steps import Step

VERSION: Final = "hami-plugins.io/v1alpha1"
KIND: Final = "Migration"


class Mark(StrEnum):
    """What a journal says of a step."""

    BEGUN = "begun"
    DONE = "done"
    TAKING_BACK = "taking-back"
    TAKEN_BACK = "taken-back"


@dataclass(slots=True)
class Journal:
    """``cluster`` is the uid of the cluster's first namespace. ``marks`` are the last ones of the steps, by number."""

    path: Path
    cluster: str
    target: str
    steps: tuple[Step, ...]
    marks: dict[int, Mark] = field(default_factory=dict)

    def done(self, number: int) -> bool:
        """Whether a step has been taken, and stays."""
        return self.marks.get(number) is Mark.DONE

    @property
    def complete(self) -> bool:
        """Whether every step has been taken."""
        return all(self.done(number) for number in range(len(self.steps)))

    @property
    def undone(self) -> bool:
        """Whether taking back has begun."""
        return any(mark in {Mark.TAKING_BACK, Mark.TAKEN_BACK} for mark in self.marks.values())

    def mark(self, number: int, mark: Mark) -> None:
        """Write down what is about to happen, or has happened, with a step; it is on the disk when this returns."""
        _append(self.path, {"step": number, "mark": mark.value})
        self.marks[number] = mark


def begun(path: Path, *, cluster: str, target: str, planned: Iterable[Step]) -> Journal:
    """A new journal with a plan in it. Raises ``ManifestError`` where the file is there already."""
    journal = Journal(path=path, cluster=cluster, target=target, steps=tuple(planned))
    head: Json = {"apiVersion": VERSION, "kind": KIND, "cluster": cluster, "target": target}
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    _append(new, {**head, "steps": [steps.written(each) for each in journal.steps]})
    try:
        path.hardlink_to(new)
    except FileExistsError:
        raise ManifestError(f"{path}: there is a journal already; give another --journal, or remove it") from None
    finally:
        new.unlink()
    return journal


def read(path: Path) -> Journal:
    """The journal in a file, without the torn end of its last line. Raises ``ManifestError`` for one that is none."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
    lines = data[:whole].split(b"\n")[:-1]
    try:
        head = fields.whole(orjson.loads(lines[0]), "head") if lines else {}
        if head.get("kind") != KIND:
            raise fields.wrong("head.kind", head.get("kind"), KIND)
        found = Journal(
            path=path,
            cluster=fields.text(head, "cluster", "head"),
            target=fields.text(head, "target", "head"),
            steps=tuple(
                steps.read(each, f"head.steps[{at}]") for at, each in enumerate(fields.items(head, "steps", "head"))
            ),
        )
        for line in lines[1:]:
            body = fields.whole(orjson.loads(line), "line")
            found.marks[fields.natural(body, "step", "line")] = Mark(fields.text(body, "mark", "line"))
    except (ValueError, WireError) as error:
        raise ManifestError(f"{path}: not the journal of a migration: {error}") from error
    return found


def _append(path: Path, line: Json) -> None:
    with path.open("ab") as file:
        file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        file.flush()
        os.fsync(file.fileno())
