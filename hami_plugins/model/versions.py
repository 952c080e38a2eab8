"""Mappings that are read again and again while little of them changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import compress
from operator import is_not
from typing import TypeVar
from weakref import ref

Value = TypeVar("Value")


class MappingVersion(dict[str, Value]):
    """Values by name at one moment, and the names that came, went or changed since an earlier version."""

    def __init__(
        self, values: Mapping[str, Value], before: MappingVersion[Value] | None, changed: Collection[str]
    ) -> None:
        super().__init__(values)
        self._before = None if before is None else ref(before)
        self._changed = tuple(changed)

    def changed_since(self, before: object) -> tuple[str, ...] | None:
        """Those names, if that is the earlier version; ``None`` where it is another one."""
        known = None if self._before is None else self._before()
        return None if known is None or known is not before else self._changed


def changed_names(before: Mapping[str, Value], after: Mapping[str, Value]) -> Collection[str]:
    """The names of which two mappings do not have the same objects."""
    if before is after:
        return ()
    known = after.changed_since(before) if isinstance(after, MappingVersion) else None
    if known is not None:
        return known
    others = tuple(compress(after, map(is_not, map(before.get, after), after.values())))
    came = sum(name not in before for name in others)
    return (*others, *(before.keys() - after.keys())) if len(before) + came > len(after) else others
