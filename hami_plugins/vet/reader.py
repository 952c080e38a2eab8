"""Manifest texts to documents for ``vet``: what cannot be read is set aside with its place, the rest is still read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from hami_plugins.errors import ManifestError, ManifestPlace
from hami_plugins.inputs import manifests
from hami_plugins.inputs.manifests import Document

_MARK: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)
"""A document marker; at the start of a line it cannot be anything else in YAML, not even inside quotes."""


class UnreadableManifest(NamedTuple):
    """A document that could not be read. ``foreign`` says that it is sound, but no Kubernetes object."""

    place: ManifestPlace
    why: str
    foreign: bool = False


class VetSources(NamedTuple):
    """What was read of some files."""

    documents: tuple[Document, ...] = ()
    unreadable: tuple[UnreadableManifest, ...] = ()


def read(text: str, *, source: str) -> VetSources:
    """The Kubernetes objects of a file, and what stands between them that is none. Never raises for its content."""
    try:
        return VetSources(manifests.read(text, source=source))
    except ManifestError as error:
        whole = error
    unreadable: list[UnreadableManifest] = []
    kept: list[str] = []
    lines = documents = 0
    for part in _parts(text):
        found = _trouble(part, source)
        unreadable.extend(_moved(each, source, lines=lines, documents=documents) for each in found)
        kept.append(_blanked(part) if found else part)
        lines += part.count("\n")
        documents += _says_something(part)
    try:
        return VetSources(manifests.read("".join(kept), source=source), tuple(unreadable))
    except ManifestError:
        return VetSources((), (*unreadable, UnreadableManifest(_place_of(whole, source), whole.why)))


def joined(sources: Iterable[VetSources]) -> VetSources:
    """Several files as one."""
    every = tuple(sources)
    return VetSources(
        tuple(document for each in every for document in each.documents),
        tuple(unreadable for each in every for unreadable in each.unreadable),
    )


def _parts(text: str) -> list[str]:
    """The text cut before every document marker; joined they are the text again."""
    cuts = [0, *(match.start() for match in _MARK.finditer(text) if match.start()), len(text)]
    return [text[start:end] for start, end in pairwise(cuts)]


def _says_something(part: str) -> bool:
    """Whether the part is a document; blanks, comments and directives alone are none."""
    return any(line.strip() and line.lstrip()[0] not in "#%" for line in part.split("\n"))


def _trouble(part: str, source: str) -> list[UnreadableManifest]:
    try:
        manifests.read(part, source=source)
    except ManifestError as error:
        return [UnreadableManifest(_place_of(error, source), error.why, foreign=_is_foreign(part, source))]
    return []


def _is_foreign(part: str, source: str) -> bool:
    """Whether the part is made of mappings, and one of them does not even claim to be an object."""
    try:
        found = manifests.mappings(part, source=source)
    except ManifestError:
        return False
    return any("kind" not in document.raw and "apiVersion" not in document.raw for document in found)


def _blanked(part: str) -> str:
    """An empty document instead of the part, so that what follows keeps its line and document numbers."""
    return "---" + "\n" * part.count("\n")


def _place_of(error: ManifestError, source: str) -> ManifestPlace:
    return error.place or ManifestPlace(source, 1, 1, 1)


def _moved(unreadable: UnreadableManifest, source: str, *, lines: int, documents: int) -> UnreadableManifest:
    place = unreadable.place
    there = ManifestPlace(source, place.document + documents, place.line + lines, place.column, place.path)
    return unreadable._replace(place=there)


def lines_of(documents: Iterable[Document], text: str) -> Iterator[tuple[Document, range]]:
    """The lines that belong to each document of one file: its own, and the comments right above it."""
    lines = text.removesuffix("\n").split("\n")
    ordered = sorted(documents, key=lambda document: document.line)
    starts = [_with_comments(lines, document.line) for document in ordered]
    for document, start, end in zip(ordered, starts, [*starts[1:], len(lines) + 1], strict=True):
        yield document, range(start, max(end, document.line + 1))


def _with_comments(lines: list[str], start: int) -> int:
    while start > 1 and (not lines[start - 2].strip() or lines[start - 2].lstrip().startswith("#")):
        start -= 1
    return start
