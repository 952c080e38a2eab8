"""Objects that were changed, written into the text that they came from: what did not change stays as it was written.

Order, comments and quotes of a person's file are worth keeping. Whatever the text does not show plainly (anchors, tags,
JSON) is written anew instead: the result is read again, and has to say exactly what it should.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import yaml

from hami_plugins.errors import ManifestError
from hami_plugins.report import manifests
from hami_plugins.report.manifests import Document
from hami_plugins.wire.fields import Json

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WIDE: Final = 1_000_000


class _Edit(NamedTuple):
    """The text to stand between two places; they are the same where something is only put in."""

    start: int
    end: int
    text: str


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the dumper asks so
        return True


def rewritten(text: str, documents: Sequence[tuple[Document, Json]]) -> str | None:
    """The text of one file with each document as given; ``None`` where it has to be written anew.

    The documents are all of the file's, in order, each with what it is to be.
    """
    wanted = [after for _, after in documents]
    try:
        roots = list(yaml.compose_all(text, Loader=_LOADER))
        edits = [edit for document, after in documents for edit in _of_document(text, roots, document, after)]
        edited = _applied(text, edits)
        again = [each.raw for each in manifests.read(edited, source="")]
    except (ManifestError, yaml.YAMLError, _UnclearError):
        return None
    return edited if again == wanted else None


class _UnclearError(Exception):
    """The text does not show where a value is."""


def _of_document(text: str, roots: Sequence[yaml.Node], document: Document, after: Json) -> Iterator[_Edit]:
    if document.raw == after:
        return
    if document.number > len(roots):
        raise _UnclearError
    node = roots[document.number - 1]
    for step in document.base:
        node = _inside(node, step)
    yield from _edits(text, node, document.raw, after)


def _inside(node: yaml.Node, step: str | int) -> yaml.Node:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item: yaml.Node = node.value[step]
        return item
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                inner: yaml.Node = value
                return inner
    raise _UnclearError


def _edits(text: str, node: yaml.Node, before: object, after: object) -> Iterator[_Edit]:
    if type(before) is type(after) and before == after:
        return
    block = not getattr(node, "flow_style", True)
    if block and isinstance(node, yaml.MappingNode) and isinstance(before, Mapping) and isinstance(after, dict):
        yield from _of_mapping(text, node, before, after)
    elif block and isinstance(node, yaml.SequenceNode) and isinstance(before, list) and isinstance(after, list):
        yield from _of_list(text, node, before, after)
    else:
        start, end = node.start_mark.index, node.end_mark.index
        yield _Edit(start, end, f"{'' if end > start else ' '}{_on_one_line(after)}")


def _of_mapping(text: str, node: yaml.MappingNode, before: Mapping[str, object], after: Json) -> Iterator[_Edit]:
    if not after:
        raise _UnclearError
    for key, value in node.value:
        if key.value in after:
            yield from _edits(text, value, before.get(key.value), after[key.value])
        elif _alone_on_its_line(text, key):
            yield _Edit(_line_start(text, key.start_mark.index), _end_of_lines(text, value), "")
        else:
            raise _UnclearError
    new = {name: held for name, held in after.items() if name not in before}
    if new:
        yield _added(text, node.value[-1][1], node.value[0][0].start_mark.column, new)


def _of_list(text: str, node: yaml.SequenceNode, before: list[object], after: list[object]) -> Iterator[_Edit]:
    if len(after) < len(before):
        raise _UnclearError
    for item, old, new in zip(node.value, before, after, strict=False):
        yield from _edits(text, item, old, new)
    if after[len(before) :]:
        yield _added(text, node.value[-1], node.start_mark.column, after[len(before) :])


def _added(text: str, last: yaml.Node, column: int, new: object) -> _Edit:
    """More members or items behind the last one."""
    place = _end_of_lines(text, last)
    lines = yaml.dump(new, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=_WIDE).splitlines(keepends=True)
    break_first = "" if place == 0 or text[place - 1] == "\n" else "\n"
    return _Edit(place, place, break_first + "".join(f"{' ' * column}{line}" for line in lines))


def _on_one_line(value: object) -> str:
    flow: str = yaml.dump(
        value, Dumper=_Plain, default_flow_style=True, sort_keys=False, allow_unicode=True, width=_WIDE
    )
    return flow.removesuffix("\n").removesuffix("\n...")


def _alone_on_its_line(text: str, key: yaml.Node) -> bool:
    return not text[_line_start(text, key.start_mark.index) : key.start_mark.index].strip()


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _end_of_lines(text: str, node: yaml.Node) -> int:
    """Where the line after the last one of a value begins. Block collections tell where the next token is instead."""
    while not getattr(node, "flow_style", True) and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    end = node.end_mark.index
    if end and text[end - 1] == "\n":
        return int(end)
    found = text.find("\n", end)
    return len(text) if found < 0 else found + 1


def _applied(text: str, edits: Sequence[_Edit]) -> str:
    """The edits made, from the last to the first; of two at one place the earlier stands first."""
    ordered = sorted(enumerate(edits), key=lambda each: (each[1].start, each[0]), reverse=True)
    ends = len(text)
    for _, edit in ordered:
        if edit.end > ends:
            raise _UnclearError
        text = f"{text[: edit.start]}{edit.text}{text[edit.end :]}"
        ends = edit.start
    return text
