"""Manifest files to documents: raw Kubernetes objects that know where in which file they and their parts stand.

Knows nothing of what the objects mean; ``workloads`` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from hami_plugins.errors import ManifestError
from hami_plugins.wire import yaml_text
from hami_plugins.wire.yaml_text import TextPosition, YamlDocument, complaint

Path: TypeAlias = tuple[str | int, ...]
"""The way to a value inside a document: member names and item numbers."""

_REQUEST: Final = "=== SCHEDULER REQUEST ==="
"""Where ``torchx run --dryrun`` begins to print the object it would submit; what stands before is for people."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Text:
    """One file: its name and text, and the places in it, which are worked out on the first request."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source

    @cached_property
    def places(self) -> Mapping[int, YamlDocument]:
        """The documents by number, with the places of all their values."""
        return {tree.number: tree for tree in yaml_text.read(self.text, source=self.source, places=True)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Document:
    """One object of a manifest file: ``raw`` as written, number ``number`` (from 1) of the file ``file``.

    ``base`` is the way to it from the top of the document (``("items", 3)`` for a member of a list); the paths that
    the methods take start at the object.
    """

    raw: Mapping[str, object]
    number: int
    file: Text = field(repr=False)
    base: Path = ()

    @property
    def source(self) -> str:
        """The file's name."""
        return self.file.source

    @property
    def line(self) -> int:
        """The line on which the object starts, from 1."""
        return self.line_of(())

    def line_of(self, path: Path) -> int:
        """The line (from 1) of a value's key or, for an item, of the item; of the nearest thing around it if absent."""
        return self.spot_of(path).line

    def spot_of(self, path: Path) -> TextPosition:
        """Line and column, as ``line_of``."""
        tree = self.file.places[self.number]
        spot, inside = tree.spot, tree.inside
        for step in (*self.base, *path):
            place = inside.get(step)
            if place is None:
                break
            spot, inside = place
        return spot

    def fault(self, path: Path, why: str) -> ManifestError:
        """The error for one value of the object."""
        whole = (*self.base, *path)
        said = f"{spelled(whole)}: {why}" if path else why
        return complaint(self.source, self.number, self.spot_of(path), said, whole)


def read(text: str, *, source: str) -> tuple[Document, ...]:
    """The Kubernetes objects of a YAML or JSON text, in order; lists (``kind: List``, ``PodList``...) give their items.

    ``source`` is the name that errors give the text. Raises ``ManifestError`` with file, document, line and column when
    the text is neither YAML nor JSON (see ``trees.read``), or a document is not a mapping or has no kind or apiVersion.
    """
    return tuple(item for document in mappings(text, source=source) for item in _objects(document))


def mappings(text: str, *, source: str) -> tuple[Document, ...]:
    """The documents of a text, which have to be mappings but not Kubernetes objects. Raises as ``read``."""
    file = Text(_without_preamble(text), source)
    return tuple(_mapping(tree, file) for tree in yaml_text.read(file.text, source=source))


def spelled(path: Path) -> str:
    """A path as people write it: ``spec.containers[0].resources.limits["nvidia.com/gpu"]``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step[:100]}"]'
    return text


def _without_preamble(text: str) -> str:
    """What TorchX prints before the request as blank lines, so that the rest keeps its line numbers."""
    before, marker, after = text.partition(f"{_REQUEST}\n")
    return "\n" * (before.count("\n") + 1) + after if marker else text


def _mapping(tree: YamlDocument, file: Text) -> Document:
    if not isinstance(tree.value, dict):
        kind = "a list" if isinstance(tree.value, list) else "a single value"
        raise complaint(file.source, tree.number, tree.spot, f"an object has to be a mapping, this is {kind}")
    return Document(raw=tree.value, number=tree.number, file=file)


def _objects(document: Document) -> Iterator[Document]:
    """The document, or the items of the list that it is, however deep lists stand in lists."""
    waiting = [document]
    while waiting:
        current = waiting.pop()
        kind = _word(current, "kind")
        version = _word(current, "apiVersion")
        items = current.raw.get("items")
        if not kind.endswith("List") or not isinstance(items, Sequence) or isinstance(items, str):
            yield current
            continue
        members = (_member(current, at, item, kind, version) for at, item in enumerate(items))
        waiting.extend(reversed(tuple(members)))


def _member(document: Document, at: int, item: object, kind: str, version: str) -> Document:
    base = (*document.base, "items", at)
    if not isinstance(item, dict):
        raise document.fault(("items", at), "an item of a list has to be a mapping")
    if kind != "List" and not {"kind", "apiVersion"} <= item.keys():
        # The API leaves both out of the items of its typed lists (PodList); kubectl does not.
        item = {"kind": kind.removesuffix("List"), "apiVersion": version, **item}
    return Document(raw=item, number=document.number, file=document.file, base=base)


def _word(document: Document, key: str) -> str:
    value = document.raw.get(key)
    if value is None or value == "":
        raise document.fault((), f"no {key}, so this is not a Kubernetes object")
    if not isinstance(value, str):
        raise document.fault((key,), "has to be text")
    return value
