"""Plain values out of a parser's events, with the place of every one of them when asked. Knows no syntax.

Nothing recurses and nothing expands: aliased values are shared, and how much they would add if written out is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from hami_plugins.errors import ManifestError, ManifestPlace

MAX_DEPTH: Final = 200
"""Deepest nesting that is read; Kubernetes' own objects stay below 40."""

MAX_ALIASED: Final = 4_000_000
"""Most characters that aliases may add to one document."""

MERGE: Final = "<<"
"""The unquoted key whose value adds members that the mapping does not have itself."""

Inside: TypeAlias = "Mapping[str | int, ValuePlace]"
"""The places of a mapping's members or a sequence's items."""

_Merged: TypeAlias = "tuple[Mapping[str, object], Inside]"
"""The members that a merge adds, with their places."""


class TextPosition(NamedTuple):
    """A line and a column, from 1."""

    line: int
    column: int


class ValuePlace(NamedTuple):
    """Where a value stands (its key, if it has one), and the places inside it."""

    spot: TextPosition
    inside: Inside


class YamlDocument(NamedTuple):
    """One document as plain values: its number (from 1), where it starts, and its places if they were asked for."""

    value: object
    number: int
    spot: TextPosition
    inside: Inside


NOWHERE: Final[Inside] = {}
"""The inside of what has no members."""


class _Node(NamedTuple):
    """A finished value: what it is, the places inside it, and how many characters it would take."""

    value: object
    inside: Inside
    size: int


class _Open:
    """A mapping (``members``) or a sequence (``items``) that is being read."""

    __slots__ = ("anchor", "inside", "items", "key", "key_spot", "members", "merged", "merging", "size", "spot")

    def __init__(self, spot: TextPosition, anchor: str | None, *, mapping: bool) -> None:
        self.spot = spot
        self.anchor = anchor
        self.members: dict[str, object] | None = {} if mapping else None
        self.items: list[object] = []
        self.inside: dict[str | int, ValuePlace] = {}
        self.merged: list[_Merged] = []
        self.size = 2
        self.key: str | None = None
        self.key_spot = spot
        self.merging = False


def complaint(
    source: str, number: int, spot: TextPosition, why: str, path: tuple[str | int, ...] = ()
) -> ManifestError:
    """The error for one place in a text, with everything that finds it again."""
    place = ManifestPlace(source, number, spot.line, spot.column, path)
    where = f"{source}: document {number}, line {spot.line}, column {spot.column}"
    return ManifestError(f"{where}: {why}", place=place, why=why)


class TreeBuilder:
    """Takes the events of one document, in order; raises ``ManifestError`` with the place of what is wrong.

    ``tree`` is set once a whole value has been read. ``places`` asks for ``YamlDocument.inside``, which costs time
    and memory. ``number_keys`` takes whole numbers as keys, which become text as in JSON.
    """

    def __init__(self, source: str, number: int, *, places: bool, number_keys: bool = False) -> None:
        self.number = number
        self.tree: YamlDocument | None = None
        self._source = source
        self._places = places
        self._number_keys = number_keys
        self._stack: list[_Open] = []
        self._anchors: dict[str, _Node | None] = {}
        self._aliased = 0

    def complaint(self, spot: TextPosition, why: str) -> ManifestError:
        """The error for one place in this document."""
        return complaint(self._source, self.number, spot, why)

    def scalar(
        self, value: object, spot: TextPosition, *, size: int = 1, anchor: str | None = None, merge: bool = False
    ) -> None:
        """A value without parts, or a key; ``merge`` says that it is an unquoted ``<<``."""
        if self._awaits_key():
            self._take_key(value, spot, merge=merge)
            return
        self._finish(_Node(value, NOWHERE, size), spot, anchor)

    def open(self, spot: TextPosition, *, mapping: bool, anchor: str | None = None) -> None:
        """A mapping or a sequence starts."""
        if self._awaits_key():
            raise self.complaint(spot, "a key has to be text; if this is a template, render it first")
        if len(self._stack) >= MAX_DEPTH:
            raise self.complaint(spot, f"nested deeper than {MAX_DEPTH} levels")
        if anchor is not None:
            self._anchors[anchor] = None
        self._stack.append(_Open(spot, anchor, mapping=mapping))

    def close(self) -> None:
        """The mapping or sequence opened last ends."""
        done = self._stack.pop()
        value: object = done.items
        if done.members is not None:
            for more, inside in done.merged:
                _merge(done.members, done.inside, more, inside)
            value = done.members
        self._finish(_Node(value, done.inside, done.size), done.spot, done.anchor)

    def alias(self, name: str, spot: TextPosition) -> None:
        """The value of an anchor, once more."""
        if name not in self._anchors:
            raise self.complaint(spot, f"nothing before this alias is called &{name[:60]}")
        node = self._anchors[name]
        if node is None:
            raise self.complaint(spot, f"&{name[:60]} contains itself")
        self._aliased += node.size
        if self._aliased > MAX_ALIASED:
            raise self.complaint(spot, f"aliases add more than {MAX_ALIASED:,} characters; write the values out")
        if self._awaits_key():
            self._take_key(node.value, spot)
        else:
            self._finish(node, spot, None)

    def _awaits_key(self) -> bool:
        return bool(self._stack) and self._stack[-1].members is not None and self._stack[-1].key is None

    def _take_key(self, key: object, spot: TextPosition, *, merge: bool = False) -> None:
        top = self._stack[-1]
        if self._number_keys and type(key) is int:
            key = str(key)
        if not isinstance(key, str):
            raise self.complaint(spot, f"the key {_shown(key)} is not text; put it in quotes")
        if top.members is not None and key in top.members and not merge:
            raise self.complaint(spot, f"the key {key[:100]!r} stands twice in one mapping")
        top.key, top.key_spot, top.merging = key, spot, merge
        top.size += len(key) + 1

    def _finish(self, node: _Node, spot: TextPosition, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._stack:
            self.tree = YamlDocument(node.value, self.number, spot, node.inside)
            return
        top = self._stack[-1]
        top.size += node.size
        key, top.key = top.key, None
        if top.members is None or key is None:
            if self._places:
                top.inside[len(top.items)] = ValuePlace(spot, node.inside)
            top.items.append(node.value)
        elif top.merging:
            top.merged.extend(self._mergeable(node, spot))
        else:
            top.members[key] = node.value
            if self._places:
                top.inside[key] = ValuePlace(top.key_spot, node.inside)

    def _mergeable(self, node: _Node, spot: TextPosition) -> list[_Merged]:
        """The mappings that ``<<`` names: one, or a sequence of them."""
        if isinstance(node.value, dict):
            return [(node.value, node.inside)]
        if isinstance(node.value, list) and all(isinstance(item, dict) for item in node.value):
            places = [node.inside[at].inside if self._places else NOWHERE for at in range(len(node.value))]
            return list(zip(node.value, places, strict=True))
        raise self.complaint(spot, f"{MERGE} takes a mapping, or a sequence of mappings")


def _merge(
    members: dict[str, object], places: dict[str | int, ValuePlace], more: Mapping[str, object], inside: Inside
) -> None:
    """Adds what the members do not say themselves; of several merges the first wins."""
    for key, value in more.items():
        if key not in members:
            members[key] = value
            if key in inside:
                places[key] = inside[key]


def _shown(key: object) -> str:
    if isinstance(key, bool) or key is None:
        return "null" if key is None else str(key).lower()
    return str(key) if isinstance(key, (int, float)) else "of this alias"
