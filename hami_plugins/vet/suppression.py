"""What an author asks ``vet`` to overlook: an annotation or a comment ``hami-plugins.io/vet-ignore: HP101,HP204``.

An annotation, and a comment on a line of its own, speak for the whole object; a comment behind a value for its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hami_plugins.inputs.manifests import Document
from hami_plugins.inputs.vocabulary import IGNORE_KEY
from hami_plugins.vet.reader import lines_of
from hami_plugins.vet.resources import Subject

_COMMENT: Final = re.compile(rf"#\s*{re.escape(IGNORE_KEY)}\s*[:=]\s*(?P<words>[^#\n]*)")


@dataclass(frozen=True, slots=True)
class Suppression:
    """Rules to overlook, by id or name in the author's spelling: in the whole object, and on single lines."""

    everywhere: frozenset[str] = frozenset()
    by_line: Mapping[int, frozenset[str]] = field(default_factory=dict)

    def covers(self, names: Iterable[str], line: int) -> bool:
        """Whether any of a rule's names is overlooked on a line."""
        words = self.everywhere | self.by_line.get(line, frozenset())
        return bool(words) and any(name.lower() in words for name in names)

    @property
    def words(self) -> tuple[str, ...]:
        """Every word used, in order."""
        return tuple(sorted(self.everywhere.union(*self.by_line.values())))


NOTHING: Final = Suppression()


def suppressions(subjects: Iterable[Subject]) -> Mapping[Document, Suppression]:
    """What the author of each object asks to overlook."""
    by_file: dict[int, list[Subject]] = {}
    for subject in subjects:
        by_file.setdefault(id(subject.document.file), []).append(subject)
    found: dict[Document, Suppression] = {}
    for of_file in by_file.values():
        text = of_file[0].document.file.text
        annotated = {subject.document: _annotated(subject) for subject in of_file}
        if IGNORE_KEY not in text:  # objects of a cluster have no text
            found.update((document, Suppression(words)) for document, words in annotated.items() if words)
            continue
        comments = {at: said for at, line in enumerate(text.split("\n"), start=1) if (said := _comment(line))}
        for document, lines in lines_of(annotated, text):
            everywhere = set(annotated[document])
            by_line: dict[int, frozenset[str]] = {}
            for at in lines:
                alone, listed = comments.get(at, (True, frozenset()))
                if alone:
                    everywhere |= listed
                else:
                    by_line[at] = listed
            found[document] = Suppression(frozenset(everywhere), by_line)
    return found


def words_of(text: str) -> frozenset[str]:
    """The rule names in a list, in lower case."""
    return frozenset(re.split(r"[\s,]+", text.strip().lower())) - {""}


def _annotated(subject: Subject) -> frozenset[str]:
    texts = [subject.annotations.get(IGNORE_KEY, ""), *(pod.annotations.get(IGNORE_KEY, "") for pod in subject.pods)]
    return frozenset[str]().union(*map(words_of, texts))


def _comment(line: str) -> tuple[bool, frozenset[str]] | None:
    """Whether the comment stands alone, and its words."""
    match = _COMMENT.search(line)
    if match is None:
        return None
    return not line[: match.start()].strip(), words_of(match["words"])
