"""What became of manifests, as lines for people and as a document for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from typing_extensions import TypedDict

from hami_plugins.inputs.manifests import spelled
from hami_plugins.model.dialect import Dialect
from hami_plugins.output.schema import API_VERSION
from koordinator_adapter.core.manifests import File, TranslatedObject
from koordinator_adapter.core.translation.model import Fidelity


class TranslationFindingDocument(TypedDict):
    """One thing to know about a translation."""

    fidelity: Literal["lossless", "lossy", "refused"]
    about: str
    """The resource, key or member that it is about."""
    line: int
    path: str
    """Where it stands in the object; empty for the object as a whole."""
    words: str
    remedy: str


class TranslatedDocument(TypedDict):
    """What became of one object, or of one template in it."""

    file: str
    document: int
    line: int
    kind: str
    name: str
    part: str
    """Which template of the object; empty where there is one."""
    source: Literal["hami", "volcano", "koordinator"] | None
    """Whose words it was in; null for a group, a queue or a job as a whole."""
    fidelity: Literal["lossless", "lossy", "refused"]
    """The worst of the findings."""
    findings: list[TranslationFindingDocument]


class AnewDocument(TypedDict):
    """A document that could not be changed in place, so that its comments, if it had any, are gone."""

    file: str
    document: int


class TranslationDocument(TypedDict):
    """The answer of ``hami-plugins koordinator translate --report json``."""

    apiVersion: str
    kind: Literal["Translation"]
    target: Literal["hami", "volcano", "koordinator"]
    summary: dict[str, int]
    """How many objects and templates are lossless, lossy and refused."""
    items: list[TranslatedDocument]
    writtenAnew: list[AnewDocument]


def lines(files: Iterable[File]) -> Iterator[tuple[str, Fidelity]]:
    """A line for each finding (``file:line: fidelity: object: words``), with what it says."""
    for file in files:
        for found in file.objects:
            for each in found.findings:
                remedy = f"; {each.remedy}" if each.remedy else ""
                where = f"{file.source}:{found.line_of(each)}"
                yield f"{where}: {each.fidelity}: {_called(found)}: {each.about}: {each.words}{remedy}", each.fidelity
        for number in file.anew:
            without = ", without its comments" if number in file.commented else ", in another style"
            yield f"{file.source}: document {number} is rewritten{without}", Fidelity.LOSSLESS


def summary(files: Sequence[File], target: Dialect) -> str:
    """One line about everything."""
    counted = _counted(files)
    counts = ", ".join(f"{counted[each]} {each}" for each in Fidelity)
    if not counted:
        return "none of them requests cards from HAMi, Volcano or Koordinator"
    return f"{sum(counted.values())} translated to {target}: {counts}"


def document(files: Sequence[File], target: Dialect) -> TranslationDocument:
    """Everything, as a document."""
    counted = _counted(files)
    return {
        "apiVersion": API_VERSION,
        "kind": "Translation",
        "target": target.value,
        "summary": {each.value: counted[each] for each in Fidelity},
        "items": [_item(file, found) for file in files for found in file.objects],
        "writtenAnew": [{"file": file.source, "document": number} for file in files for number in file.anew],
    }


def _counted(files: Iterable[File]) -> Counter[Fidelity]:
    return Counter(found.fidelity for file in files for found in file.objects)


def _called(found: TranslatedObject) -> str:
    return f"{found.kind} {found.name} {found.part}".rstrip()


def _item(file: File, found: TranslatedObject) -> TranslatedDocument:
    return {
        "file": file.source,
        "document": found.document.number,
        "line": found.document.line,
        "kind": found.kind,
        "name": found.name,
        "part": found.part,
        "source": None if found.source is None else found.source.value,
        "fidelity": found.fidelity.value,
        "findings": [
            {
                "fidelity": each.fidelity.value,
                "about": each.about,
                "line": found.line_of(each),
                "path": spelled(each.path),
                "words": each.words,
                "remedy": each.remedy,
            }
            for each in found.findings
        ],
    }
