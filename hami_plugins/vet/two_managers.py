"""HP738: nodes whose devices two programs give out, neither of which knows what the other gives away."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.vet import known_managers
from hami_plugins.vet.context import Context
from hami_plugins.vet.findings import VetRule, VetSeverity, Violation
from hami_plugins.vet.managers import NodeManager, managers_of
from hami_plugins.vet.resources import Subject
from hami_plugins.wire import objects

_SHOWN: Final = 3
"""How much evidence a message gives of one program."""


def two_managers(subject: Subject, context: Context) -> Iterator[Violation]:
    """One finding for each two programs that may give out the same devices of a node."""
    node = subject.node
    if node is None:
        return
    try:
        facts = objects.node_facts(subject.document.raw)
    except WireError:
        return
    for one, other in combinations(managers_of(node, facts, context.registry, context.signs), 2):
        if one.known.vendor != other.known.vendor or _are_apart(one, other) or _work_together(one, other):
            continue
        yield Violation(
            ("metadata", "name"),
            f"{one.known.name} ({_words(one)}) and {other.known.name} ({_words(other)}) both give out the "
            f"{one.known.vendor} devices of the node, and neither counts what the other gives away",
            f"keep one of the two: {one.known.remedy}; or {other.known.remedy}",
        )


def _are_apart(one: NodeManager, other: NodeManager) -> bool:
    """Whether each is known to have devices of its own: a node may be divided by UUIDs (``filterdevices``)."""
    return bool(one.ids and other.ids) and one.ids.isdisjoint(other.ids)


def _work_together(one: NodeManager, other: NodeManager) -> bool:
    """Whether Koordinator decides and the vendor's device plugin does what it says."""
    names = {one.known.name, other.known.name}
    return known_managers.KOORDINATOR.name in names and not names.isdisjoint(known_managers.TOLD_BY_KOORDINATOR)


def _words(manager: NodeManager) -> str:
    more = len(manager.evidence) - _SHOWN
    return "; ".join((*manager.evidence[:_SHOWN], *((f"{more} more",) if more > 0 else ())))


RULES: Final = (
    VetRule(
        id="HP738",
        name="two-managers",
        severity=VetSeverity.ERROR,
        summary="Two programs give out the same devices of a node: device plugins, DRA drivers, Koordinator.",
        why="Each counts only what it gives out itself, so that a pod of one gets memory, cores or a whole card that a "
        "pod of the other has. Registers, resources, Device objects, ResourceSlices and pods of the node tell.",
        fix="Keep one of the two on the node.",
        check=two_managers,
    ),
)
