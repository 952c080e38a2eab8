"""HP0xx: documents that are not objects, or that the API server would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.errors import ManifestError
from hami_plugins.inputs import workloads
from hami_plugins.inputs.vocabulary import IGNORE_KEY
from hami_plugins.vet.context import Context
from hami_plugins.vet.findings import VetFinding, VetRule, VetSeverity, Violation, no_flaw
from hami_plugins.vet.reader import UnreadableManifest
from hami_plugins.vet.resources import Subject


def refused(subject: Subject, context: Context) -> Iterator[Violation]:
    """What Kubernetes or Volcano would not store; only the first thing wrong with an object."""
    groups = None if context.snapshot is None else context.snapshot.pod_groups
    try:
        workloads.read((subject.document,), namespace=context.settings.namespace, pod_groups=groups)
    except ManifestError as error:
        path = () if error.place is None else error.place.path[len(subject.document.base) :]
        yield Violation(path, error.why, "correct it; the API server refuses the object as it is", scope=path)


def strange_words(subject: Subject, context: Context) -> Iterator[Violation]:
    """Suppressions that name no rule."""
    for word in context.overlooked(subject).words:
        if word not in context.rule_names:
            yield Violation(
                ("metadata", "annotations", IGNORE_KEY),
                f"{IGNORE_KEY} names {word}, which is not a rule",
                "write ids such as HP101; `hami-plugins vet --list-rules` lists them",
            )


def finding_of(unreadable: UnreadableManifest) -> VetFinding:
    """The finding for a document that could not be read."""
    rule = NOT_AN_OBJECT if unreadable.foreign else UNREADABLE
    place = unreadable.place
    return VetFinding(
        rule=rule.id,
        name=rule.name,
        severity=rule.severity,
        message=f"{unreadable.why}; {rule.fix}",
        what=unreadable.why,
        file=place.source,
        document=place.document,
        line=place.line,
        column=place.column,
        path=place.path,
        fix=rule.fix,
    )


UNREADABLE: Final = VetRule(
    id="HP001",
    name="unreadable-document",
    severity=VetSeverity.ERROR,
    summary="A document is neither YAML nor JSON, or not an object.",
    why="It cannot be checked, and kubectl refuses it.",
    fix="correct the text at this place",
    check=no_flaw,
)
NOT_AN_OBJECT: Final = VetRule(
    id="HP002",
    name="not-an-object",
    severity=VetSeverity.NOTE,
    summary="A document has neither kind nor apiVersion, such as a chart's values.",
    why="It is not checked.",
    fix="leave such files out, or ignore this rule",
    check=no_flaw,
)
REFUSED: Final = VetRule(
    id="HP003",
    name="refused-object",
    severity=VetSeverity.ERROR,
    summary="The API server, or Volcano's webhook, refuses the object.",
    why="It never reaches a scheduler.",
    fix="Correct the value at this place.",
    check=refused,
)
STRANGE_WORD: Final = VetRule(
    id="HP004",
    name="unknown-suppression",
    severity=VetSeverity.WARNING,
    summary="A vet-ignore annotation or comment names a rule that does not exist.",
    why="It suppresses nothing, and its author does not notice.",
    fix="Write the ids of rules.",
    check=strange_words,
)
RULES: Final = (UNREADABLE, NOT_AN_OBJECT, REFUSED, STRANGE_WORD)
