"""From a change of a document to a change of its text, where the text says the value on one line and plainly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from hami_plugins.inputs.manifests import Document, Path, Text
from hami_plugins.vet.findings import Edit, RenameFix, Replacement

_QUOTES: Final = "\"'"
_VALUE: Final = re.compile(r"""\s*:[ \t]+(?P<quote>["']?)(?P<value>[^\s"'#,{}\[\]]+)(?P=quote)""")


def replacement(document: Document, edit: Edit) -> Replacement | None:
    """What to write where; ``None`` when the text does not show the key and the value as they are."""
    key = edit.path[-1] if edit.path else None
    if not isinstance(key, str):
        return None
    spot = document.spot_of(edit.path)
    line = _lines(document.file)[spot.line - 1]
    start = spot.column - 1
    quote = line[start] if line[start : start + 1] in {*_QUOTES} else ""
    written = f"{quote}{key}{quote}"
    if line[start : start + len(written)] != written:
        return None
    if isinstance(edit, RenameFix):
        first = start + len(quote)
        return Replacement(spot.line, first + 1, first + len(key) + 1, key, edit.key)
    match = _VALUE.match(line, start + len(written))
    if match is None or match["value"] != _value(document, edit.path):
        return None
    old = match["value"]
    first = match.start("value")
    return Replacement(spot.line, first + 1, first + len(old) + 1, old, edit.value)


@lru_cache(maxsize=4)
def _lines(file: Text) -> Sequence[str]:
    """The lines as parsers count them, and an empty one for a place behind the end."""
    return (*file.text.replace("\r\n", "\n").split("\n"), "")


def _value(document: Document, path: Path) -> str | None:
    """What the document says there, as text; ``None`` for anything but text and numbers."""
    value: object = document.raw
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
