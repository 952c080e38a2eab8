"""What a whole decision says: where a pod goes and with which shares, or why no node takes it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.pods import ContainerAllocation
from hami_plugins.model.units import NodeName
from hami_plugins.model.verdicts import Fit, NoFit


@dataclass(frozen=True, slots=True)
class FilterReason:
    """A node is out of the question before its devices are looked at: the scheduler's own rules say no.

    ``resource`` names what the node has too little of, where that is the reason.
    """

    words: str
    resource: str = ""

    def __str__(self) -> str:
        return self.words


UNREGISTERED = FilterReason("node unregistered")
"""HAMi's word for a node that no vendor has registered devices for."""

Refusal = NoFit | FilterReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A pod fits: the node, the allocations per container (the pod's order), and how the node scored among the others.

    ``candidates`` is how many nodes fit.
    """

    node: NodeName
    containers: tuple[ContainerAllocation, ...]
    fit: Fit
    candidates: int

    def shares(self) -> tuple[AllocatedShare, ...]:
        """All shares of the pod, container by container."""
        return tuple(share for container in self.containers for share in container.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No node takes the pod. ``by_node`` is in node order; ``whole`` is set when the pod itself is the reason."""

    by_node: tuple[tuple[NodeName, Refusal], ...] = ()
    whole: str = ""

    def counted(self) -> tuple[tuple[str, int], ...]:
        """How many nodes gave each answer, most frequent first."""
        counts = Counter(refusal.words for _, refusal in self.by_node)
        return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


Decision = Placed | Refused
