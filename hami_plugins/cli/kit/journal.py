"""Files that record what a command does to a cluster: one JSON line each, on the disk before what it is about begins.

The first line is the whole plan, so that the command can go on after an interruption. The last line may be torn; it
then says nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from hami_plugins.errors import ManifestError
from hami_plugins.output.schema import API_VERSION
from hami_plugins.wire.fields import Json


class JournalText(NamedTuple):
    """The whole lines of a journal, and the number of their bytes; ``torn`` where there are more."""

    lines: tuple[bytes, ...]
    size: int
    torn: bool


def begin(path: Path, kind: str, head: Json) -> None:
    """A new journal with its first line. Raises ``ManifestError`` where the file is there already."""
    first: dict[str, Any] = {"apiVersion": API_VERSION, "kind": kind, **head}
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    append(new, first)
    try:
        path.hardlink_to(new)
    except FileExistsError:
        raise ManifestError(f"{path}: this journal already exists; give another --journal, or remove it") from None
    finally:
        new.unlink()
    _to_disk(path.parent)


def append(path: Path, line: Json) -> None:
    """One more line; it is on the disk when this returns."""
    with path.open("ab") as file:
        file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> JournalText:
    """What is in a journal, without the torn end of its last line."""
    data = path.read_bytes()
    size = data.rfind(b"\n") + 1
    return JournalText(tuple(data[:size].split(b"\n")[:-1]), size, size < len(data))


def without_torn_end(path: Path, text: JournalText) -> None:
    """Remove the torn end. Call it once the text is known to be a journal, and not another file."""
    if text.torn:
        os.truncate(path, text.size)


def _to_disk(directory: Path) -> None:
    """The names in a directory, which the files' own content on the disk does not bring along."""
    number = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
