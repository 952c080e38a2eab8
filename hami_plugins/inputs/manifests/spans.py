"""Where the values of a YAML text begin and end, by the parser's own account."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import yaml
from yaml import events

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True, kw_only=True, eq=False)
class TextSpan:
    """A value from ``start`` to ``end`` (characters from the start of the text), and the values inside it.

    ``text`` is what a value without parts says; ``flow`` says that it stands in braces or brackets; ``column`` is that
    of the value, from 0; ``alias`` that it stands elsewhere.
    """

    start: int
    end: int
    column: int
    text: str = ""
    flow: bool = False
    alias: bool = False
    pairs: list[tuple[TextSpan, TextSpan]] = field(default_factory=list)
    items: list[TextSpan] = field(default_factory=list)


def roots(text: str) -> Iterator[TextSpan | None]:
    """The value of every document, ``None`` for an empty one. Raises ``yaml.YAMLError`` for what is no YAML."""
    stack: list[_Open] = []
    root: TextSpan | None = None
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, events.DocumentStartEvent):
            root = None
        elif isinstance(event, events.DocumentEndEvent):
            yield None if root is None or root.start == root.end else root
        elif isinstance(event, events.MappingStartEvent | events.SequenceStartEvent):
            stack.append(_Open(event))
        elif isinstance(event, events.MappingEndEvent | events.SequenceEndEvent):
            done = stack.pop().closed(event)
            root = _placed(stack, done)
        elif isinstance(event, events.ScalarEvent | events.AliasEvent):
            root = _placed(stack, _leaf(event, text))


class _Open:
    """A mapping or sequence whose parts are still coming."""

    __slots__ = ("_key", "_mapping", "_span")

    def __init__(self, event: events.MappingStartEvent | events.SequenceStartEvent) -> None:
        start, column = _place(event.start_mark)
        self._mapping = isinstance(event, events.MappingStartEvent)
        self._key: TextSpan | None = None
        self._span = TextSpan(start=start, end=start, column=column, flow=bool(event.flow_style))

    def take(self, part: TextSpan) -> None:
        """The next key, value or item."""
        if not self._mapping:
            self._span.items.append(part)
        elif self._key is None:
            self._key = part
        else:
            self._span.pairs.append((self._key, part))
            self._key = None

    def closed(self, event: yaml.Event) -> TextSpan:
        """The whole. In block style the parser ends it where the next thing starts; it ends with its last part."""
        span = self._span
        last = span.items[-1] if span.items else span.pairs[-1][1] if span.pairs else None
        if span.flow or last is None:
            span.end, _ = _place(event.end_mark)
        else:
            span.end = max(last.end, span.pairs[-1][0].end if span.pairs else 0)
        return span


def _placed(stack: list[_Open], part: TextSpan) -> TextSpan:
    if stack:
        stack[-1].take(part)
    return part


def _leaf(event: events.ScalarEvent | events.AliasEvent, text: str) -> TextSpan:
    (start, column), (end, _) = _place(event.start_mark), _place(event.end_mark)
    if isinstance(event, events.AliasEvent):
        return TextSpan(start=start, end=end, column=column, alias=True)
    if event.style in ("|", ">"):
        end = len(text[:end].rstrip("\r\n"))
    return TextSpan(start=start, end=end, column=column, text=event.value)


class _Mark(Protocol):
    """A place as either of the two parsers gives it, counted from 0."""

    index: int
    column: int


def _place(mark: _Mark | None) -> tuple[int, int]:
    return (0, 0) if mark is None else (mark.index, mark.column)
