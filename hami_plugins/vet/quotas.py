"""HP71x: quotas that limit nothing, because no component reads their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.inputs import old_names, typos
from hami_plugins.model.dialect import Dialect
from hami_plugins.vet import facts, memory
from hami_plugins.vet.context import Context
from hami_plugins.vet.findings import RenameFix, RewriteFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import ResourceEntry, Subject, amounts_of

_LIMITS: Final = "limits."
_REQUESTS: Final = "requests."


def misspelt(subject: Subject, context: Context) -> Iterator[Violation]:
    """Limits on resources that no vendor has."""
    for amount in _hard(subject):
        start, name = _parts(amount.resource)
        if "/" not in name or context.registry.owner_of(name) is not None:
            continue
        old = old_names.RESOURCES.get(name)
        strange = old is None and name not in facts.FOREIGN_RESOURCES
        matches = typos.closest(name, context.vocabulary.resources) if strange else ()
        if old is not None and old.successor:
            matches = (old.successor,)
        if matches:
            yield Violation(
                amount.path,
                f"{amount.resource}={amount.text}: no vendor has {name}",
                f"did you mean {' or '.join(start + match for match in matches)}?",
                RenameFix(amount.path, start + matches[0]) if len(matches) == 1 else None,
            )


def unread(subject: Subject, context: Context) -> Iterator[Violation]:
    """Limits that HAMi does not hold anybody to."""
    for amount in _hard(subject):
        start, name = _parts(amount.resource)
        spec = context.registry.owner_of(name)
        if spec is None or spec.dialect is not Dialect.HAMI:
            continue
        counted = name in (spec.resources.memory, spec.resources.cores)
        if start == _LIMITS and not counted:
            right, who = _REQUESTS + name, "HAMi limits memory and cores only, and Kubernetes counts requests"
        elif start == _REQUESTS and counted:
            right, who = _LIMITS + name, "HAMi reads limits, and Kubernetes would not multiply by the number of cards"
        else:
            continue
        yield Violation(
            amount.path,
            f"{amount.resource}={amount.text} limits no cards: {who}",
            f"write {right}",
            RenameFix(amount.path, right),
        )


def in_bytes(subject: Subject, context: Context) -> Iterator[Violation]:
    """Limits on memory in bytes."""
    for amount in _hard(subject):
        start, name = _parts(amount.resource)
        spec = context.registry.owner_of(name)
        mib = memory.meant(amount)
        if spec is None or start != _LIMITS or name != spec.resources.memory or mib is None:
            continue
        unit = memory.unit_of(spec)
        value = -(-mib // unit.mib)
        yield Violation(
            amount.path,
            f"{amount.resource}={amount.text}: memory is counted in {unit.words} here, so this limits nothing",
            f"write {value}",
            RewriteFix(amount.path, str(value)),
        )


def _hard(subject: Subject) -> Iterator[ResourceEntry]:
    if subject.group == "" and subject.kind == "ResourceQuota":
        yield from amounts_of(subject.inside("spec"), "hard", ("spec", "hard")).values()


def _parts(key: str) -> tuple[str, str]:
    for start in (_LIMITS, _REQUESTS):
        if key.startswith(start):
            return start, key.removeprefix(start)
    return "", key


RULES: Final = (
    VetRule(
        id="HP711",
        name="misspelt-quota",
        severity=VetSeverity.ERROR,
        summary="A ResourceQuota limits a resource that is spelled almost like one of a vendor.",
        why="Nothing is limited.",
        fix="Write the resource as the vendor spells it.",
        check=misspelt,
    ),
    VetRule(
        id="HP712",
        name="unread-quota",
        severity=VetSeverity.WARNING,
        summary="A ResourceQuota limits a vendor's resource by a key that HAMi does not read.",
        why="HAMi holds pods to limits.<memory> and limits.<cores>; numbers of cards are Kubernetes' own, under "
        "requests.<count>.",
        fix="Write limits. before memory and cores, requests. before counts.",
        check=unread,
    ),
    VetRule(
        id="HP713",
        name="quota-in-bytes",
        severity=VetSeverity.ERROR,
        summary="A ResourceQuota limits device memory in bytes.",
        why="The number is read in the vendor's unit, and is then more than all cards have.",
        fix="Write a plain number in the vendor's unit.",
        check=in_bytes,
    ),
)
