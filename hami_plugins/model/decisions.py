"""What a whole decision says: where a pod goes and with which shares, or why no node takes it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hami_plugins.model.claims import PlacedClaim
from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.pods import ContainerAllocation
from hami_plugins.model.units import NodeName
from hami_plugins.model.verdicts import Fit, NoFit


@dataclass(frozen=True, slots=True)
class FilterReason:
    """A node is out of the question before its devices are looked at: the scheduler's own rules say no.

    ``resource`` names what the node has too little of, where that is the reason. ``event`` is the scheduler's word
    where ``words`` are ours. With ``unknown`` it is not known here what the scheduler says: it may take the pod.
    """

    words: str
    resource: str = ""
    event: str = ""
    unknown: bool = False

    def __str__(self) -> str:
        return self.words


UNREGISTERED = FilterReason("node unregistered")
"""HAMi's word for a node that no vendor has registered devices for."""

Refusal = NoFit | FilterReason


def event_of(refusal: Refusal) -> str:
    """A refusal as the scheduler spells it."""
    return (isinstance(refusal, FilterReason) and refusal.event) or refusal.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A pod fits: the node, the allocations per container (the pod's order), and how the node scored among the others.

    ``candidates`` is how many nodes fit, ``claims`` what the pod's claims get.
    """

    node: NodeName
    containers: tuple[ContainerAllocation, ...]
    fit: Fit
    candidates: int
    claims: tuple[PlacedClaim, ...] = ()

    def shares(self) -> tuple[AllocatedShare, ...]:
        """All shares of the pod, container by container."""
        return tuple(share for container in self.containers for share in container.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No node takes the pod. ``by_node`` is in node order; ``whole`` is set when the pod itself is the reason."""

    by_node: tuple[tuple[NodeName, Refusal], ...] = ()
    whole: str = ""

    @property
    def unknown(self) -> bool:
        """Whether some node may take the pod all the same: what it says is not known here."""
        return any(isinstance(why, FilterReason) and why.unknown for _, why in self.by_node)

    def counted(self) -> tuple[tuple[str, int], ...]:
        """How many nodes gave each answer, most frequent first."""
        counts = Counter(event_of(refusal) for _, refusal in self.by_node)
        return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


Decision = Placed | Refused
