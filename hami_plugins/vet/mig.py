"""HP739: nodes whose labels tell other MIG instances than they offer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.engine import static_mig
from hami_plugins.model.quantity import NANO
from hami_plugins.vendors import nvidia
from hami_plugins.vet.context import Context
from hami_plugins.vet.findings import VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import Subject


def contradictory_labels(subject: Subject, _: Context) -> Iterator[Violation]:
    """Labels of feature discovery that differ from the capacity of a node that is NVIDIA's device plugin's alone."""
    node = subject.node
    if node is None or nvidia.SPEC.keys.register in node.annotations:
        return  # HAMi's slots are not instances
    capacity = {name: amount.nano // NANO for name, amount in (node.capacity or node.allocatable).items()}
    for words in static_mig.contradictions(node.labels, capacity):
        yield Violation(
            ("metadata", "labels", static_mig.STRATEGY_LABEL),
            f"{words}: the scheduler counts what is offered, and selectors by label choose by the other",
            "restart feature discovery and NVIDIA's device plugin on the node with one MIG strategy (the GPU Operator "
            "has one value for both, mig.strategy)",
        )


RULES: Final = (
    VetRule(
        id="HP739",
        name="mig-labels-differ",
        severity=VetSeverity.WARNING,
        summary="The labels of a node tell other MIG instances than the node offers.",
        why="Feature discovery and device plugin run with different strategies, or one of them has not seen that the "
        "card was cut anew. Plans and the scheduler count what the node offers.",
        fix="Run both with one strategy, and restart them after a card was cut anew.",
        check=contradictory_labels,
    ),
)
