"""What a cluster's HyperNodes are, what they should be, and the steps from one to the other.

Nothing is written over HyperNodes of others. Where one of them holds a node or a HyperNode that has its place in our
tree, that would have two parents, which Volcano does not take well: it is a conflict, and nothing is written at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from hami_plugins.wire.fields import Json
from neuron_topology.core.hypernodes import objects
from neuron_topology.core.hypernodes.generator import HyperNode
from neuron_topology.core.hypernodes.objects import ExistingHyperNode


class Verb(StrEnum):
    """The action of a step."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class HyperNodeStep(NamedTuple):
    """One write. ``body`` is the object as it will be, empty for a deletion; ``version`` is the one that was found."""

    verb: Verb
    name: str
    body: Json
    version: str = ""


class Conflict(NamedTuple):
    """A HyperNode that stands in the way, and why."""

    name: str
    why: str
    remedy: str


class Comparison(NamedTuple):
    """The steps in the order in which they may be made, and what forbids all of them.

    ``kept`` are HyperNodes of ours that nothing wants any more and that stay because pruning was not asked for.
    """

    steps: tuple[HyperNodeStep, ...]
    conflicts: tuple[Conflict, ...] = ()
    kept: tuple[str, ...] = ()


def compare(
    wanted: Sequence[HyperNode],
    found: Iterable[ExistingHyperNode],
    labels: Mapping[str, Mapping[str, str]],
    *,
    prune: bool,
) -> Comparison:
    """The way from the HyperNodes that were found to the wanted ones; ``labels`` are those of the wanted nodes.

    At no moment of it does anything have two parents: members leave before they arrive elsewhere.
    """
    there = {each.name: each for each in found}
    ours = {name: each for name, each in there.items() if each.ours}
    by_name = {each.name: each for each in wanted}
    stale = [each for name, each in ours.items() if name not in by_name]
    conflicts = [
        *_taken(wanted, there),
        *(each for other in there.values() if not other.ours for each in _claims(other, wanted, labels)),
        *(() if prune else _needs_pruning(stale, wanted)),
    ]
    if conflicts:
        return Comparison((), tuple(sorted(conflicts)), tuple(sorted(each.name for each in stale)))
    steps = (*_removals(stale if prune else []), *_changes(wanted, ours))
    return Comparison(steps, kept=() if prune else tuple(sorted(each.name for each in stale)))


def _taken(wanted: Sequence[HyperNode], there: Mapping[str, ExistingHyperNode]) -> Iterator[Conflict]:
    for each in wanted:
        held = there.get(each.name)
        if held is not None and not held.ours:
            remedy = f"delete it, or label it {objects.MANAGED_LABEL}={objects.MANAGED_BY} to hand it over"
            yield Conflict(each.name, "is not ours and has a name that is needed", remedy)


def _claims(
    other: ExistingHyperNode, wanted: Sequence[HyperNode], labels: Mapping[str, Mapping[str, str]]
) -> Iterator[Conflict]:
    """Members of this generator that a foreign HyperNode holds."""
    below = {child for each in wanted for child in each.children}
    held = sorted(
        {node for each in wanted for node in each.nodes if other.holds(node, labels.get(node, {}))}
        | (other.children & below)
    )
    if held:
        more = f" and {len(held) - 3} more" if len(held) > 3 else ""
        remedy = (
            "turn Volcano's discovery by label off (volcano-controller.conf) and delete what it made"
            if other.discovered
            else "delete it, or take them out of it"
        )
        yield Conflict(other.name, f"is not ours and holds {', '.join(held[:3])}{more}", remedy)


def _needs_pruning(stale: Sequence[ExistingHyperNode], wanted: Sequence[HyperNode]) -> Iterator[Conflict]:
    placed = {member for each in wanted for member in (*each.nodes, *each.children)}
    for each in stale:
        if (each.nodes | each.children) & placed:
            yield Conflict(each.name, "is no longer needed and holds members that moved elsewhere", "prune")


def _removals(stale: Sequence[ExistingHyperNode]) -> Iterator[HyperNodeStep]:
    """From the top down, so that no HyperNode names a deleted one."""
    for each in sorted(stale, key=lambda held: (-held.tier, held.name)):
        yield HyperNodeStep(Verb.DELETE, each.name, {}, _version(each))


def _changes(wanted: Sequence[HyperNode], ours: Mapping[str, ExistingHyperNode]) -> Iterator[HyperNodeStep]:
    """Members leave in all HyperNodes before any arrive; one that all members leave is made again."""
    arrivals: list[HyperNodeStep] = []
    for each in wanted:
        name, body, held = each.name, objects.encode(each), ours.get(each.name)
        if held is None:
            arrivals.append(HyperNodeStep(Verb.CREATE, name, body))
            continue
        if objects.spec_of(held.raw) == objects.spec_of(body):
            continue
        members = frozenset((*each.nodes, *each.children))
        before = held.nodes | held.children
        leave, staying = bool(held.patterns or held.selectors or before - members), members & before
        if leave and not staying:
            yield HyperNodeStep(Verb.DELETE, name, {}, _version(held))
            arrivals.append(HyperNodeStep(Verb.CREATE, name, body))
            continue
        if leave:
            yield HyperNodeStep(Verb.UPDATE, name, _body(_with_members(body, staying), held), _version(held))
        if not leave or staying != members:
            arrivals.append(HyperNodeStep(Verb.UPDATE, name, _body(body, held), _version(held)))
    yield from arrivals


def _with_members(body: Json, names: frozenset[str]) -> Json:
    spec = body["spec"]
    members = [each for each in spec["members"] if each["selector"]["exactMatch"]["name"] in names]
    return {**body, "spec": {**spec, "members": members}}


def _body(body: Json, held: ExistingHyperNode) -> Json:
    """The object, with the labels and annotations that others have put on it."""
    before = held.raw.get("metadata") or {}
    metadata = body["metadata"]
    kept = {name: before[name] for name in ("annotations", "finalizers", "ownerReferences") if before.get(name)}
    labels = {key: value for key, value in (before.get("labels") or {}).items() if key not in objects.OUR_LABELS}
    return {**body, "metadata": {**kept, **metadata, "labels": labels | metadata["labels"]}}


def _version(held: ExistingHyperNode) -> str:
    return str((held.raw.get("metadata") or {}).get("resourceVersion") or "")
