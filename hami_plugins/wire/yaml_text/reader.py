"""YAML and JSON text to plain values, with the place of every one of them when asked. Knows nothing of Kubernetes.

YAML goes through libyaml's parser but not through its composer, which overflows the C stack at a depth that fits in a
hundred kilobytes.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, Protocol

import yaml
from yaml import events

from hami_plugins.wire.yaml_text import scalars
from hami_plugins.wire.yaml_text.builder import MAX_DEPTH, MERGE, NOWHERE, TextPosition, TreeBuilder, YamlDocument

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ONLY_IN_YAML: Final = re.compile("[\r\x85\u2028\u2029]")
"""What ends a line for YAML 1.1, but not in an editor."""
_JSON_WORDS: Final = {"true": True, "false": False, "null": None}
_JSON_SPACE: Final = re.compile(r"[ \t\r\n]*")
_JSON_PIECE: Final = re.compile(r'[{}\[\]]|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>[^\s{}\[\],:"]+)', re.DOTALL)


def read(text: str, *, source: str, places: bool = False, number_keys: bool = False) -> tuple[YamlDocument, ...]:
    """Every document of a YAML stream, or of JSON texts one after another; empty documents count but are left out.

    Raises ``ManifestError`` with file, document, line and column for text that is neither, duplicate keys, keys that
    are not text (with ``number_keys`` whole numbers are taken), values that JSON cannot hold, and for documents that
    are too deep or multiply themselves by aliases.
    """
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in {"{", "["}:
        found = _read_json(text, source, places=places)
        if found is not None:
            return found
    return _read_yaml(text, source, places=places, number_keys=number_keys)


def _read_yaml(text: str, source: str, *, places: bool, number_keys: bool) -> tuple[YamlDocument, ...]:
    found: list[YamlDocument] = []
    builder = TreeBuilder(source, 1, places=places, number_keys=number_keys)
    spot_of = _spots(text)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, events.DocumentEndEvent):
                if builder.tree is not None and builder.tree.value is not None:
                    found.append(builder.tree)
                builder = TreeBuilder(source, builder.number + 1, places=places, number_keys=number_keys)
            else:
                _hand_over(event, spot_of(event.start_mark), builder)
    except yaml.YAMLError as error:
        spot, why = _syntax_error(text, error, spot_of)
        raise builder.complaint(spot, why) from None
    except UnicodeEncodeError as error:
        raise builder.complaint(_spot(text, error.start), "half of a surrogate pair is not a character") from None
    return tuple(found)


class _Mark(Protocol):
    """A place as either of the two parsers gives it, counted from 0."""

    index: int
    line: int
    column: int


def _spots(text: str) -> Callable[[_Mark | None], TextPosition]:
    """The parser's marks as lines and columns of an editor, which ends a line at a line feed and nowhere else."""
    if _ONLY_IN_YAML.search(text) is None:
        return lambda mark: TextPosition(1, 1) if mark is None else TextPosition(mark.line + 1, mark.column + 1)
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def spot_of(mark: _Mark | None) -> TextPosition:
        at = 0 if mark is None else mark.index
        line = bisect_right(starts, at)
        return TextPosition(line, at - starts[line - 1] + 1)

    return spot_of


def _hand_over(event: yaml.Event, spot: TextPosition, builder: TreeBuilder) -> None:
    if isinstance(event, events.ScalarEvent):
        plain = event.implicit[0]
        value = _value(event, spot, builder, plain=plain)
        merge = plain and value == MERGE
        builder.scalar(value, spot, size=len(event.value) + 1, anchor=event.anchor, merge=merge)
    elif isinstance(event, (events.MappingStartEvent, events.SequenceStartEvent)):
        mapping = isinstance(event, events.MappingStartEvent)
        if event.tag not in {None, scalars.TAG + ("map" if mapping else "seq")}:
            raise builder.complaint(spot, f"the tag {str(event.tag)[:60]!r} means nothing in a manifest; drop it")
        builder.open(spot, mapping=mapping, anchor=event.anchor)
    elif isinstance(event, (events.MappingEndEvent, events.SequenceEndEvent)):
        builder.close()
    elif isinstance(event, events.AliasEvent):
        builder.alias(event.anchor or "", spot)


def _value(event: events.ScalarEvent, spot: TextPosition, builder: TreeBuilder, *, plain: bool) -> scalars.Scalar:
    try:
        if event.tag is not None:
            return scalars.tagged(event.tag, event.value)
        return scalars.plain(event.value) if plain else event.value
    except ValueError as error:
        raise builder.complaint(spot, str(error)) from None


def _syntax_error(
    text: str, error: yaml.YAMLError, spot_of: Callable[[_Mark | None], TextPosition]
) -> tuple[TextPosition, str]:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        why = ", ".join(part for part in (error.problem, error.context) if part)
        return spot_of(mark), why
    # libyaml counts bytes when it meets a character that cannot be.
    before = text.encode()[: getattr(error, "position", 0)].decode(errors="ignore")
    return _spot(text, len(before)), str(getattr(error, "reason", error))


def _spot(text: str, at: int) -> TextPosition:
    """Line and column of a character."""
    return TextPosition(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _read_json(text: str, source: str, *, places: bool) -> tuple[YamlDocument, ...] | None:
    """The documents of JSON text, ``None`` when it is not JSON."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_unique, parse_float=_number, parse_int=_number, parse_constant=_number
    )
    found: list[YamlDocument] = []
    at = _after_space(text, 0)
    while at < len(text):
        number = len(found) + 1
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return None
        except (ValueError, RecursionError):
            return (*found, _json_tree(text, at, source, number))  # which raises: it meets the same, and knows where
        if places or _too_deep(value):
            found.append(_json_tree(text, at, source, number))
        else:
            found.append(YamlDocument(value, number, _spot(text, at), NOWHERE))
        at = _after_space(text, end)
    return tuple(found)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return unique


def _number(text: str) -> int | float:
    """A JSON number as the same digits mean in YAML."""
    number = scalars.plain(text)
    if isinstance(number, (int, float)):
        return number
    raise ValueError(f"{text[:60]} is not a number that JSON can hold")


def _after_space(text: str, at: int) -> int:
    space = _JSON_SPACE.match(text, at)
    return at if space is None else space.end()


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _json_tree(text: str, at: int, source: str, number: int) -> YamlDocument:
    """The document with its places; slower than the JSON reader, but it knows where it is when something is wrong."""
    builder = TreeBuilder(source, number, places=True)
    line, column = _spot(text, at)
    seen, start = at, at - column + 1
    pieces = _JSON_PIECE.finditer(text, at)
    while builder.tree is None:
        match = next(pieces)
        breaks = text.count("\n", seen, match.start())
        if breaks:
            line, start = line + breaks, text.rfind("\n", seen, match.start()) + 1
        seen = match.start()
        _hand_over_json(match, TextPosition(line, seen - start + 1), builder)
    return builder.tree


def _hand_over_json(match: re.Match[str], spot: TextPosition, builder: TreeBuilder) -> None:
    if match["text"] is not None:
        builder.scalar(json.loads(match[0], strict=False), spot)
    elif match["word"] is not None:
        builder.scalar(_json_word(match[0], spot, builder), spot)
    elif match[0] in "{[":
        builder.open(spot, mapping=match[0] == "{")
    else:
        builder.close()


def _json_word(word: str, spot: TextPosition, builder: TreeBuilder) -> int | float | None:
    if word in _JSON_WORDS:
        return _JSON_WORDS[word]
    try:
        return _number(word)
    except ValueError as error:
        raise builder.complaint(spot, str(error)) from None
