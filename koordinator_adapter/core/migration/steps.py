"""One step of a migration as a value: what it changes of which object, from what and to what.

A step looks only at the places that it changes, so it can tell of any object whether the step is still to come, has
been taken, or has been overtaken by another client's change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.model.edits import Path, PutEdit, made
from hami_plugins.wire import fields, quantity
from hami_plugins.wire.fields import Json
from koordinator_adapter.core.translation.model import TranslationFinding
from koordinator_adapter.core.translation.model import at as value_at


class StepKind(StrEnum):
    """The purpose of a step: allocations of running pods, groups that pods belong to, workloads that create pods."""

    RECORD = "record"
    GROUP = "group"
    WORKLOAD = "workload"


class StepState(StrEnum):
    """How an object stands to a step.

    ``GONE``: the object is deleted, or replaced by another of its name; ``FOREIGN``: it is as the step would make it,
    and another client made it.
    """

    BEFORE = "before"
    AFTER = "after"
    FOREIGN = "foreign"
    OTHER = "other"
    GONE = "gone"


MADE_BY: Final = "hami-plugins.io/migration"
"""Annotation of objects that a migration has created: the name of its journal, so that only its own are undone."""

_AMOUNTS: Final = frozenset({"limits", "requests", "minResources"})
_TEXTS: Final = frozenset({"annotations", "labels", "nodeSelector"})
"""Members that other clients may write as well, and of which an empty one counts as missing."""

_MADE_BY_PATH: Final[Path] = ("metadata", "annotations", MADE_BY)


class FieldChange(NamedTuple):
    """One place of an object. Both values are in a list, which is empty where there is nothing."""

    path: Path
    before: tuple[object, ...]
    after: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStep:
    """``name`` is the object (``deployment/ml/serving``), ``at`` its path in the API, ``words`` say what is done.

    ``made`` is an object that the step creates; then there are no ``changes``. With a ``uid`` no other object of the
    name is meant.
    """

    kind: StepKind
    name: str
    at: str
    words: str
    changes: tuple[FieldChange, ...] = ()
    made: Json | None = None
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Something that a migration leaves as it is, or changes with a loss: which object, and what there is to know."""

    name: str
    finding: TranslationFinding


def differences(before: object, after: object, path: Path = ()) -> Iterator[FieldChange]:
    """The smallest places at which two objects differ; lists of different lengths differ as a whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in (*before, *(name for name in after if name not in before)):
            one = (before[name],) if name in before else ()
            other = (after[name],) if name in after else ()
            if one and other:
                yield from differences(one[0], other[0], (*path, name))
            elif name in _TEXTS:
                yield from differences((one or ({},))[0], (other or ({},))[0], (*path, name))
            else:
                yield FieldChange((*path, name), one, other)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (one_item, other_item) in enumerate(zip(before, after, strict=True)):
            yield from differences(one_item, other_item, (*path, at))
    elif before != after:
        yield FieldChange(path, (before,), (after,))


def signed(step: MigrationStep, maker: str) -> MigrationStep:
    """The step as one of the migration with this name; only created objects are marked."""
    return step if step.made is None else replace(step, made=made(step.made, [PutEdit(_MADE_BY_PATH, maker)]))


def state_of(step: MigrationStep, current: Mapping[str, object] | None) -> StepState:
    """How an object, ``None`` for one that is not there, stands to a step."""
    if step.made is not None:
        return _state_of_made(step.made, current)
    if current is None or (step.uid and not _same_there(current, ("metadata", "uid"), (step.uid,))):
        return StepState.GONE
    if all(_same_there(current, each.path, each.after) for each in step.changes):
        return StepState.AFTER
    if all(_same_there(current, each.path, each.before) for each in step.changes):
        return StepState.BEFORE
    return StepState.OTHER


def _state_of_made(made_one: Json, current: Mapping[str, object] | None) -> StepState:
    if current is None:
        return StepState.BEFORE
    if not holds(current.get("spec"), made_one.get("spec")):
        return StepState.OTHER
    ours = value_at(current, _MADE_BY_PATH) == value_at(made_one, _MADE_BY_PATH)
    return StepState.AFTER if ours else StepState.FOREIGN


def changed(step: MigrationStep, current: Mapping[str, object], *, back: bool = False) -> Json:
    """The object with the step taken, or taken back. It has to stand right before it."""
    found: Json = dict(current)
    for each in step.changes:
        found = _put(found, each.path, each.before if back else each.after)
    return found


def merge_patch(before: Json, after: Json) -> Json:
    """What turns one object into the other (RFC 7386)."""
    patch: dict[str, Any] = {}
    for name in (*before, *(name for name in after if name not in before)):
        if name not in after:
            patch[name] = None
        elif name not in before:
            patch[name] = after[name]
        elif isinstance(before[name], dict) and isinstance(after[name], dict):
            if inner := merge_patch(before[name], after[name]):
                patch[name] = inner
        elif before[name] != after[name]:
            patch[name] = after[name]
    return patch


def written(step: MigrationStep) -> Json:
    """The step as a journal keeps it."""
    return {
        "kind": step.kind.value,
        "name": step.name,
        "at": step.at,
        "words": step.words,
        "changes": [[list(each.path), list(each.before), list(each.after)] for each in step.changes],
        "made": step.made,
        "uid": step.uid,
    }


def read(raw: object, place: str) -> MigrationStep:
    """A step from a journal; raises ``WireError``."""
    body = fields.whole(raw, place)
    kind = fields.text(body, "kind", place)
    if kind not in set(StepKind):
        raise fields.wrong(f"{place}.kind", kind, f"one of {', '.join(StepKind)}")
    changes = []
    for at, each in enumerate(fields.items(body, "changes", place)):
        if not (isinstance(each, list) and len(each) == 3 and all(isinstance(part, list) for part in each)):
            raise WireError(f"{place}.changes[{at}]", str(each), "not a path with what was and what is to be there")
        changes.append(FieldChange(*map(tuple, each)))
    return MigrationStep(
        kind=StepKind(kind),
        name=fields.text(body, "name", place),
        at=fields.text(body, "at", place),
        words=fields.text(body, "words", place),
        changes=tuple(changes),
        made=fields.member(body, "made", place) or None,
        uid=fields.text(body, "uid", place),
    )


def _same_there(current: object, path: Path, wanted: tuple[object, ...]) -> bool:
    for step in path:
        inside = isinstance(current, list) and isinstance(step, int) and step < len(current)
        if not inside and not (isinstance(current, Mapping) and step in current):
            return not wanted
        current = current[step]  # type: ignore[index]
    return bool(wanted) and _same(current, wanted[0], amount=not _AMOUNTS.isdisjoint(path))


def holds(there: object, wanted: object) -> bool:
    """Whether an object says all that is wanted of it; the API server and webhooks may add to it."""
    if isinstance(there, Mapping) and isinstance(wanted, Mapping):
        return all(name in there and holds(there[name], wanted[name]) for name in wanted)
    return _same(there, wanted)


def _same(one: object, other: object, *, amount: bool = False) -> bool:
    """Whether two values mean the same: the API server writes amounts as text, and its own way (``3000`` is ``3k``)."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            _same(one[name], other[name], amount=amount or name in _AMOUNTS) for name in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(partial(_same, amount=amount), one, other))
    return one == other or str(one) == str(other) or (amount and _is_as_much(one, other))


def _is_as_much(one: object, other: object) -> bool:
    if not (isinstance(one, str | int) and isinstance(other, str | int)):
        return False
    try:
        return quantity.parse(one, key="").nano == quantity.parse(other, key="").nano
    except WireError:
        return False


def _put(holder: object, path: Path, value: tuple[object, ...]) -> Json:
    """The object with something at a place, or nothing."""
    found = _placed(holder, path, value)
    return found if isinstance(found, dict) else {}


def _placed(holder: object, path: Path, value: tuple[object, ...]) -> object:
    step, rest = path[0], path[1:]
    if isinstance(holder, list) and isinstance(step, int):
        items = list(holder)
        items[step] = _placed(items[step], rest, value) if rest else value[0]
        return items
    members = dict(holder) if isinstance(holder, Mapping) else {}
    if rest:
        inner = _placed(members.get(str(step)), rest, value)
        members[str(step)] = inner
        if step in _TEXTS and not inner:
            del members[str(step)]
    elif value:
        members[str(step)] = value[0]
    else:
        members.pop(str(step), None)
    return members
