"""What ``vet`` says: rules, what a check found, and the finding that a reader gets. Knows no rule in particular."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hami_plugins.inputs.manifests import Path
from hami_plugins.vendors.volcano_releases import Quirk

if TYPE_CHECKING:
    from hami_plugins.vet.context import Context
    from hami_plugins.vet.resources import Subject


class VetSeverity(StrEnum):
    """How bad it is: an error will not work, a warning does something else than it says, a note only informs."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def fails(self) -> bool:
        """Whether a run with such a finding fails."""
        return self is not VetSeverity.NOTE


class RenameFix(NamedTuple):
    """The mechanical fix of a member with a wrong name."""

    path: Path
    key: str


class RewriteFix(NamedTuple):
    """The mechanical fix of a wrong value."""

    path: Path
    value: str


Edit: TypeAlias = RenameFix | RewriteFix
"""A change of the document that a program can make: the key or the value of one member."""


class Replacement(NamedTuple):
    """A change of the text that a program can make: what stands from one column up to another on a line."""

    line: int
    column: int
    end_column: int
    old: str
    new: str


class Violation(NamedTuple):
    """What a check found at one place of an object: what is wrong, and what to do.

    ``path`` starts at the object; ``edit`` is the fix where a program can make it; ``severity`` overrides the rule's.
    A flaw with a ``scope`` steps back when another rule finds an error inside that part of the object, because then the
    other says more. ``quirk`` overrides the rule's.
    """

    path: Path
    what: str
    fix: str
    edit: Edit | None = None
    severity: VetSeverity | None = None
    scope: Path | None = None
    quirk: Quirk | None = None


Check: TypeAlias = "Callable[[Subject, Context], Iterator[Violation]]"
"""One rule's look at one object, in the context of all that was given."""


def no_flaw(_: Subject, __: Context) -> Iterator[Violation]:
    """The check of rules whose findings are made before there are objects."""
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class VetRule:
    """One thing that ``vet`` looks for.

    ``id`` is the key for suppressions and programs; it never changes its meaning. ``name`` is in kebab case. ``quirk``
    is the Volcano behaviour that makes it a mistake, with the affected releases; ``None`` if it does not depend on a
    release.
    """

    id: str
    name: str
    severity: VetSeverity
    summary: str
    why: str
    fix: str
    check: Check
    quirk: Quirk | None = None

    @property
    def holds_for(self) -> str:
        """The releases of Volcano that it is about, and what puts it right for all; empty for all clusters alike."""
        if self.quirk is None:
            return ""
        cured = " and ".join(sorted(self.quirk.cured_by))
        return f"{self.quirk}; not with devices assigned by {cured}" if cured else str(self.quirk)


@dataclass(frozen=True, slots=True, kw_only=True)
class VetFinding:
    """One rule broken at one place; numbers count from 1.

    ``message`` names the object, the key, the value and the remedy; ``what`` is the same without the object, the
    ``part`` of it (the task and the container, where the message begins with them) and the remedy. ``fix`` is the
    remedy alone, ``replacement`` the same for programs where there is one. ``path`` leads from the top of the document
    to what is wrong. ``holds_for`` names the releases of Volcano that it is about, if it is about some.
    """

    rule: str
    name: str
    severity: VetSeverity
    message: str
    what: str
    file: str
    document: int
    line: int
    column: int
    path: Path
    fix: str
    object: str = ""
    part: str = ""
    replacement: Replacement | None = None
    holds_for: str = ""

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """Sorts findings as a reader meets them."""
        return self.file, self.line, self.column, self.rule, self.message
