"""Why vendors keep pods off nodes whatever is free there: the one rule for plans, explanations and allocators.

A vendor's filter may change with time alone, so it is not part of a cached verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from hami_plugins.engine.registry import Registry
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import NodeName

Notes: TypeAlias = tuple[tuple[str, str], ...]
"""``NodeEntry.notes``."""

Noted: TypeAlias = Mapping[Notes, frozenset[NodeName]]
"""Nodes of which vendors have noted something, by what that is."""

Barred: TypeAlias = tuple[tuple[str, frozenset[NodeName]], ...]
"""Nodes that a pod must not go to, by the reason, as ``NodeConstraints`` has them."""


def vendor_objection(notes: Notes, pod: Pod, registry: Registry, now: float) -> str:
    """Why a pod must not begin on a node with these notes; empty where no vendor of its devices minds.

    ``now`` is in Unix seconds.
    """
    if not notes:
        return ""
    told = dict(notes)
    asked = {spec.name for container in pod.containers for spec in registry.asked_by(container)}
    for spec in registry:
        if (
            spec.fitting.filter_reason is not None
            and spec.name in asked
            and (why := spec.fitting.filter_reason(told, pod, now))
        ):
            return why
    return ""


def noted(nodes: Iterable[NodeEntry]) -> Noted:
    """Those of the nodes of which vendors have noted something."""
    found: dict[Notes, set[NodeName]] = {}
    for entry in nodes:
        if entry.notes:
            found.setdefault(entry.notes, set()).add(entry.name)
    return {notes: frozenset(names) for notes, names in found.items()}


def barred(nodes: Noted, pod: Pod, registry: Registry, now: float) -> Barred:
    """Those of the nodes that vendors keep a pod from; ``now`` as in ``vendor_objection``."""
    return tuple((why, names) for notes, names in nodes.items() if (why := vendor_objection(notes, pod, registry, now)))
