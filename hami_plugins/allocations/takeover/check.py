"""The whole check of a takeover: errors first, then warnings, then what is so."""

from __future__ import annotations

from hami_plugins.allocations.takeover.nodes import of_nodes
from hami_plugins.allocations.takeover.pods import of_pods
from hami_plugins.allocations.takeover.programs import of_programs
from hami_plugins.allocations.takeover.values import (
    TakeoverContext,
    TakeoverFinding,
    TakeoverObjects,
    TakeoverSeverity,
)


def findings(found: TakeoverObjects, context: TakeoverContext) -> tuple[TakeoverFinding, ...]:
    """What is missing or in the way, in the order in which it matters."""
    every = (*of_programs(found, context), *of_nodes(found, context), *of_pods(found, context))
    order = list(TakeoverSeverity)
    return tuple(sorted(every, key=lambda each: order.index(each.severity)))
