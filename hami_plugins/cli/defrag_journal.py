"""The journal of a defragmentation: its moves first, then a line before and a line after each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from hami_plugins.cli.kit import journal
from hami_plugins.defrag.values import Move
from hami_plugins.errors import ManifestError, WireError
from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json

KIND: Final = "Defragmentation"

DevicesByContainer = tuple[tuple[str, ...], ...]
"""The sorted ids of the devices of each container."""


class DefragMark(StrEnum):
    """What a journal says of a move. After ``BEGUN`` the pod may have been evicted; ``ENDED`` is a surprise."""

    BEGUN = "begun"
    LANDED = "landed"
    ENDED = "ended"


class DefragStep(NamedTuple):
    """A move as it is carried out. ``owner`` is the UID of the controller that makes the pod anew."""

    namespace: str
    name: str
    uid: str
    owner: str
    source: str
    target: str
    devices: DevicesByContainer

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, move: Move, owner: str) -> DefragStep:
        """The step of a planned move."""
        record = move.pod
        devices = devices_of(move.placed.containers)
        return cls(record.namespace, record.name, record.uid, owner, move.source, move.placed.node, devices)


@dataclass(slots=True)
class DefragJournal:
    """``cluster`` is the UID of its first namespace. ``marks`` are the last ones of the steps, by number.

    ``known`` are, for each step that has begun, the UIDs of the controller's pods before the eviction.
    """

    path: Path
    cluster: str
    goal: str
    steps: tuple[DefragStep, ...]
    marks: dict[int, DefragMark] = field(default_factory=dict)
    known: dict[int, frozenset[str]] = field(default_factory=dict)

    def begun(self, number: int, known: Iterable[str]) -> None:
        """A pod is about to be evicted."""
        pods = frozenset(known)
        journal.append(self.path, {"step": number, "mark": DefragMark.BEGUN.value, "known": sorted(pods)})
        self.marks[number], self.known[number] = DefragMark.BEGUN, pods

    def ended(self, number: int, mark: DefragMark, words: str) -> None:
        """A pod has landed, as planned or not."""
        journal.append(self.path, {"step": number, "mark": mark.value, "words": words})
        self.marks[number] = mark


def begin(path: Path, *, cluster: str, goal: str, steps: Sequence[DefragStep]) -> DefragJournal:
    """A new journal with its moves. Raises ``ManifestError`` where the file is there already."""
    written = [{**step._asdict(), "devices": [list(each) for each in step.devices]} for step in steps]
    journal.begin(path, KIND, {"cluster": cluster, "goal": goal, "steps": written})
    return DefragJournal(path, cluster, goal, tuple(steps))


def read(path: Path) -> DefragJournal:
    """The journal in a file. Raises ``ManifestError`` for one that is none."""
    text = journal.read(path)
    try:
        head = fields.whole(orjson.loads(text.lines[0]), "head") if text.lines else {}
        if head.get("kind") != KIND:
            raise fields.wrong("head.kind", head.get("kind"), KIND)
        steps = tuple(_step(each, f"head.steps[{at}]") for at, each in enumerate(fields.items(head, "steps", "head")))
        found = DefragJournal(path, fields.text(head, "cluster", "head"), fields.text(head, "goal", "head"), steps)
        for line in text.lines[1:]:
            _take(found, fields.whole(orjson.loads(line), "line"))
    except (ValueError, WireError) as error:
        raise ManifestError(f"{path}: not the journal of a defragmentation: {error}") from error
    journal.without_torn_end(path, text)
    return found


def devices_of(containers: Iterable[Any]) -> DevicesByContainer:
    """The devices of containers, from allocations."""
    return tuple(tuple(sorted(share.device for share in each.shares)) for each in containers)


def _take(found: DefragJournal, body: Json) -> None:
    number = fields.natural(body, "step", "line")
    if number >= len(found.steps):
        raise fields.wrong("line.step", number, f"less than {len(found.steps)}")
    found.marks[number] = DefragMark(fields.text(body, "mark", "line"))
    if found.marks[number] is DefragMark.BEGUN:
        found.known[number] = frozenset(fields.texts(body, "known", "line"))


def _step(raw: object, place: str) -> DefragStep:
    body = fields.whole(raw, place)
    devices = tuple(tuple(fields.texts({"ids": each}, "ids", place)) for each in fields.items(body, "devices", place))
    words = {name: fields.text(body, name, place) for name in DefragStep._fields if name != "devices"}
    return DefragStep(**words, devices=devices)
