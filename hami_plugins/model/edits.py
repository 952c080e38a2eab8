"""Changes of a JSON object as values: each stands at a path, can be made, shown, and written into a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""The way to a value inside an object: member names and item numbers."""


@dataclass(frozen=True, slots=True)
class PutEdit:
    """Sets a value. A new member comes after the others; mappings on the way are made where they are missing."""

    path: Path
    value: object


@dataclass(frozen=True, slots=True)
class RenameEdit:
    """Gives a member another name and value, in its place. Nothing else may have the name."""

    path: Path
    name: str
    value: object


@dataclass(frozen=True, slots=True)
class DropEdit:
    """Removes a value, and the mapping or list that it leaves empty."""

    path: Path


@dataclass(frozen=True, slots=True)
class AppendEdit:
    """Adds an item to the end of a list, which is made where it is missing."""

    path: Path
    value: object


Edit = PutEdit | RenameEdit | DropEdit | AppendEdit


def below(base: Path, edit: Edit) -> Edit:
    """The same change of an object that stands at ``base`` inside another."""
    path = (*base, *edit.path)
    match edit:
        case PutEdit(_, value):
            return PutEdit(path, value)
        case RenameEdit(_, name, value):
            return RenameEdit(path, name, value)
        case AppendEdit(_, value):
            return AppendEdit(path, value)
    return DropEdit(path)


def made(raw: Mapping[str, object], edits: Iterable[Edit]) -> dict[str, object]:
    """The object with the changes made one after another; the given one stays as it is.

    Raises ``LookupError`` or ``ValueError`` for a path that leads nowhere.
    """
    found = dict(raw)
    for edit in edits:
        changed = _changed(found, edit.path, edit)
        found = changed if isinstance(changed, dict) else {}
    return found


def _changed(value: object, path: Sequence[str | int], edit: Edit) -> object:
    """The value with a change at a path inside it, ``None`` when nothing is left of it."""
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        return _changed_list(value, int(step), rest, edit)
    holder: dict[str, object] = dict(value) if isinstance(value, dict) else {}
    name = str(step)
    if rest:
        missing: object = {} if isinstance(edit, PutEdit | AppendEdit) else holder[name]
        inner = _changed(holder.get(name) or missing, rest, edit)
        if inner is None:
            del holder[name]
        else:
            holder[name] = inner
        return holder or None
    return _changed_member(holder, name, edit)


def _changed_list(items: list[object], at: int, rest: Sequence[str | int], edit: Edit) -> object:
    copy = list(items)
    if rest:
        inner = _changed(copy[at], rest, edit)
        copy[at] = {} if inner is None else inner
        return copy
    if isinstance(edit, DropEdit):
        del copy[at]
    elif isinstance(edit, PutEdit):
        copy[at] = edit.value
    return copy or None


def _changed_member(holder: dict[str, object], name: str, edit: Edit) -> object:
    if isinstance(edit, RenameEdit):
        return {edit.name if key == name else key: edit.value if key == name else old for key, old in holder.items()}
    if isinstance(edit, PutEdit):
        holder[name] = edit.value
    elif isinstance(edit, DropEdit):
        del holder[name]
    else:
        known = holder.get(name)
        holder[name] = [*known, edit.value] if isinstance(known, list) else [edit.value]
    return holder or None
