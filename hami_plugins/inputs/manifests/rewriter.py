"""Changed objects back into the text that they were read from: comments, order and style of the rest stay.

What changed is found by comparing the object before and after. Whatever the text does not allow to be changed in place
(an alias that no longer says the same, say) makes that document be written anew; every result is read again to be sure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Final, NamedTuple

import orjson
import yaml

from hami_plugins.errors import ManifestError
from hami_plugins.inputs.manifests.renderer import block, block_member, flow, scalar
from hami_plugins.inputs.manifests.spans import TextSpan, roots
from hami_plugins.wire import yaml_text
from hami_plugins.wire.fields import Json

_Entry = tuple[TextSpan, TextSpan]
"""A key and its value."""


class Rewritten(NamedTuple):
    """The text, the numbers of the documents that were written anew, and those of them that had comments."""

    text: str
    anew: tuple[int, ...] = ()
    commented: tuple[int, ...] = ()


class _Splice(NamedTuple):
    """``text`` instead of what stands from ``start`` to ``end``."""

    start: int
    end: int
    text: str


_COMMENT: Final = re.compile(r"(?m)(?:^|\s)#")
"""The beginning of a comment. A blank and a # within a text look the same: then one warning too many is given."""


class _NotInPlaceError(Exception):
    """The text does not show this value where it could be changed."""


def rewritten(text: str, changed: Mapping[int, Sequence[Json]], added: Sequence[Json] = ()) -> Rewritten:
    """The text with other objects in some documents (by number, from 1), and further ones at its end.

    Of several objects for one document the later ones follow as documents of their own; none at all leaves it out.
    """
    text = text.removeprefix("\ufeff")
    before = {tree.number: tree.value for tree in yaml_text.read(text, source="manifest")}
    try:
        spans = {at: root for at, root in enumerate(roots(text), start=1) if root is not None}
    except yaml.YAMLError:
        return Rewritten(_json_lines(before, changed, added), tuple(changed))
    splices: list[_Splice] = []
    anew: list[int] = []
    for number, objects in changed.items():
        found = _in_place(text, spans[number], before[number], objects)
        if found is None:
            anew.append(number)
            found = [_Splice(spans[number].start, spans[number].end, _documents(objects, spans[number]))]
        splices += found
    result = _spliced(text, [each._replace(text=_broken_as(text, each.text)) for each in splices])
    for each in added:
        between = "\n---\n" if result.strip() else ""
        result = f"{result.rstrip()}{_broken_as(text, between + block(each))}"
    commented = (each for each in anew if _COMMENT.search(text, spans[each].start, spans[each].end))
    return Rewritten(result, tuple(anew), tuple(commented))


def _broken_as(text: str, new: str) -> str:
    """New lines that end as the first line of the file does."""
    first = text.find("\n")
    return new.replace("\n", "\r\n") if first > 0 and text[first - 1] == "\r" else new


def _in_place(text: str, root: TextSpan, before: object, objects: Sequence[Json]) -> list[_Splice] | None:
    """The changes of one document, ``None`` where it has to be written anew."""
    if len(objects) != 1 or root.flow:
        return None
    try:
        splices = sorted(_changes(text, root, before, objects[0]), key=lambda each: each[:2])
    except _NotInPlaceError:
        return None
    if any(later.start < earlier.end for earlier, later in pairwise(splices)):
        return None
    start, end = text.rfind("\n", 0, root.start) + 1, _next_line(text, root.end)
    part = _spliced(text[start:end], [_Splice(at - start, to - start, new) for at, to, new in splices])
    try:
        again = yaml_text.read(part.removeprefix("---"), source="manifest")
    except ManifestError:
        return None
    return splices if [tree.value for tree in again] == [objects[0]] else None


def _changes(text: str, node: TextSpan, before: object, after: object) -> Iterator[_Splice]:
    if before == after or node.alias:
        return
    if isinstance(before, dict) and isinstance(after, dict) and node.pairs:
        if node.flow:
            yield from _flow_changes(text, node, before, after)
        else:
            yield from _member_changes(text, node, before, after)
    elif isinstance(before, list) and isinstance(after, list) and node.items and not node.flow:
        yield from _item_changes(text, node, before, after)
    elif node.flow and not node.pairs and not node.items:
        yield _Splice(node.start, node.end, flow(after))
    elif isinstance(after, dict | list) or node.pairs or node.items:
        raise _NotInPlaceError
    else:
        yield _Splice(node.start, node.end, scalar(after))


class _Kept(NamedTuple):
    """An entry that stays, perhaps under another name."""

    old: str
    new: str


class _Gone(NamedTuple):
    """An entry that goes."""

    old: str


class _Fresh(NamedTuple):
    """An entry that comes."""

    new: str


def _moves(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[_Kept | _Gone | _Fresh]:
    """Every entry in its order; one that is new where others went takes the place of one of them, with its comment.

    Values with parts are written separately.
    """
    gone: list[str] = []
    fresh: list[str] = []
    new = iter(after)
    for old in (*before, None):
        if old is not None and old not in after:
            gone.append(old)
            continue
        for key in new:
            if key == old:
                break
            fresh.append(key)
        for one, other in zip_longest(gone, fresh):
            apart = one is None or other is None
            if not apart and not isinstance(before[one], dict | list) and not isinstance(after[other], dict | list):
                yield _Kept(one, other)
                continue
            if one is not None:
                yield _Gone(one)
            if other is not None:
                yield _Fresh(other)
        gone, fresh = [], []
        if old is not None:
            yield _Kept(old, old)


def _member_changes(
    text: str, node: TextSpan, before: Mapping[str, object], after: Mapping[str, object]
) -> Iterator[_Splice]:
    pairs = {key.text: (key, value) for key, value in node.pairs}
    if not pairs.keys() >= before.keys() - after.keys():
        raise _NotInPlaceError
    moves = list(_moves(before, after))
    if not any(isinstance(move, _Kept) for move in moves):
        column = node.pairs[0][0].column
        yield _Splice(node.pairs[0][0].start, node.end, block(after, column).strip())
        return
    last: TextSpan | None = None
    for move in moves:
        if isinstance(move, _Gone):
            yield _dropped(text, node, *pairs[move.old])
        elif isinstance(move, _Fresh):
            yield _inserted(text, node, last, (move.new, after[move.new]))
        elif move.old in pairs:  # and not of a merge
            yield from _entry(text, pairs[move.old], before[move.old], (move.new, after[move.new]))
            last = pairs[move.old][1]


def _entry(text: str, entry: _Entry, was: object, becomes: tuple[str, object]) -> Iterator[_Splice]:
    (key, value), (name, wanted) = entry, becomes
    if key.text != name:
        yield _Splice(key.start, key.end, scalar(name))
    empty = value.start == value.end and not value.alias
    if was == wanted:
        return
    if empty or isinstance(wanted, dict | list) is not isinstance(was, dict | list):
        column = key.start - text.rfind("\n", 0, key.start) - 1
        yield _Splice(key.end, max(value.end, _colon(text, key)), block_member("", wanted, column).lstrip())
        return
    yield from _changes(text, value, was, wanted)


def _colon(text: str, key: TextSpan) -> int:
    return text.index(":", key.end) + 1


def _line_end(text: str, at: int) -> int:
    """The end of the line on which a value ends, before its line break."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if end and text[end - 1 : end] == "\r" else end


def _dropped(text: str, node: TextSpan, key: TextSpan, value: TextSpan) -> _Splice:
    """A member with its line; the first one of a list's item leaves the dash to the next."""
    start = text.rfind("\n", 0, key.start) + 1
    if text[start : key.start].strip():
        following = [other for other, _ in node.pairs if other.start > key.start]
        if not following:
            raise _NotInPlaceError
        return _Splice(key.start, following[0].start, "")
    return _Splice(start, _next_line(text, value.end), "")


def _inserted(text: str, node: TextSpan, after: TextSpan | None, member: tuple[str, object]) -> _Splice:
    """A new member on lines of its own, after another or in front of all."""
    first = node.pairs[0][0]
    column = first.start - text.rfind("\n", 0, first.start) - 1
    new = block_member(*member, column)
    if after is None:
        return _Splice(first.start, first.start, f"{new.lstrip()}\n{' ' * column}")
    at = _line_end(text, after.end)
    return _Splice(at, at, f"\n{new}")


def _item_changes(text: str, node: TextSpan, before: list[object], after: list[object]) -> Iterator[_Splice]:
    if len(after) < len(before):
        kept = iter(after)
        wanted = next(kept, None)
        for item, value in zip(node.items, before, strict=True):
            if value == wanted:
                wanted = next(kept, None)
            else:
                yield _line_dropped(text, item)
        return
    for item, was, becomes in zip(node.items, before, after, strict=False):
        yield from _changes(text, item, was, becomes)
    if len(after) > len(before):
        at = _line_end(text, node.items[-1].end)
        lines = "".join(block([each], node.column) for each in after[len(before) :])
        yield _Splice(at, at, f"\n{lines}".rstrip("\n"))


def _line_dropped(text: str, item: TextSpan) -> _Splice:
    """An item with its line and its dash."""
    start = text.rfind("\n", 0, item.start) + 1
    if text[start : item.start].strip() != "-":
        raise _NotInPlaceError
    return _Splice(start, _next_line(text, item.end), "")


def _next_line(text: str, at: int) -> int:
    """Where the line after the one starts on which a value ends."""
    end = text.find("\n", _line_end(text, at))
    return len(text) if end < 0 else end + 1


def _flow_changes(
    text: str, node: TextSpan, before: Mapping[str, object], after: Mapping[str, object]
) -> Iterator[_Splice]:
    """Inside braces: values and names in place if that is all; otherwise the braces anew."""
    if "\n" in text[node.start : node.end] and "#" in text[node.start : node.end]:
        raise _NotInPlaceError
    moves = list(_moves(before, after))
    pairs = {key.text: (key, value) for key, value in node.pairs}
    kept = [move for move in moves if isinstance(move, _Kept) and move.old in pairs]
    if len(kept) < len(moves) or any(isinstance(after[move.new], dict | list) for move in kept):
        yield _Splice(node.start, node.end, flow(after))
        return
    for old, new in kept:
        key, value = pairs[old]
        if key.text != new:
            yield _Splice(key.start, key.end, flow(new))
        if before[old] != after[new]:
            yield _Splice(value.start, value.end, flow(after[new]))


def _documents(objects: Sequence[Json], root: TextSpan) -> str:
    if root.flow:
        return "\n---\n".join(_as_json(each) for each in objects)
    return "---\n".join(block(each) for each in objects).rstrip("\n")


def _json_lines(before: Mapping[int, object], changed: Mapping[int, Sequence[Json]], added: Iterable[Json]) -> str:
    kept = [each for number in before for each in changed.get(number, (before[number],))]
    return "\n".join(_as_json(each) for each in (*kept, *added)) + "\n"


def _as_json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _spliced(text: str, splices: Iterable[_Splice]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, new in sorted(splices, key=lambda each: each[:2]):
        parts += [text[at:start], new]
        at = end
    return "".join((*parts, text[at:]))
