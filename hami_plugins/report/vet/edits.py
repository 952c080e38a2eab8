"""From a change of a document to a change of its text, where the text says the value on one line and plainly."""

from __future__ import annotations

import re
from typing import Final

from hami_plugins.report.manifests import Document
from hami_plugins.report.vet.findings import Edit, Rename, Replacement

_QUOTES: Final = "\"'"


def replacement(document: Document, edit: Edit) -> Replacement | None:
    """What to write where; ``None`` when the text does not show the key and the value as they are."""
    key = edit.path[-1] if edit.path else None
    if not isinstance(key, str):
        return None
    spot = document.spot_of(edit.path)
    lines = document.file.text.split("\n")
    if not 1 <= spot.line <= len(lines):
        return None
    line = lines[spot.line - 1].rstrip("\r")
    start = spot.column - 1
    quote = line[start] if line[start : start + 1] in {*_QUOTES} else ""
    written = f"{quote}{key}{quote}"
    if line[start : start + len(written)] != written:
        return None
    if isinstance(edit, Rename):
        first = start + len(quote)
        return Replacement(spot.line, first + 1, first + len(key) + 1, key, edit.key)
    match = re.compile(r"\s*:[ \t]+(?P<quote>[\"']?)(?P<value>[^\s\"'#,{}\[\]]+)(?P=quote)").match(
        line, start + len(written)
    )
    if match is None:
        return None
    old = match["value"]
    first = match.start("value")
    return Replacement(spot.line, first + 1, first + len(old) + 1, old, edit.value)
