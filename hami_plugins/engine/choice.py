"""Why this node: how its score came about, and which node would have been next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hami_plugins.model.decisions import Placed, Refusal
from hami_plugins.model.nodes import DEVICE_WEIGHT, NodeEntry, NodeState
from hami_plugins.model.policy import NodePolicy, Policy
from hami_plugins.model.units import NodeName
from hami_plugins.model.verdicts import Fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen node among those that fit.

    ``slots``, ``cores`` and ``memory`` are how full the node was before the pod, 0 to 10 each, and ``vendor`` what the
    devices' vendors add; together they are ``score``. Under binpack the highest score wins, under spread the lowest.
    """

    node: NodeName
    policy: NodePolicy
    score: float
    slots: float
    cores: float
    memory: float
    vendor: float
    nodes: int
    candidates: int
    next_node: NodeName | None = None
    next_score: float = 0.0


def choice_of(answers: Iterable[tuple[NodeEntry, Fit | Refusal]], placed: Placed, policy: Policy) -> Choice:
    """What the answers of all nodes say about the decision that was made from them."""
    sign = -1 if policy.node is NodePolicy.SPREAD else 1
    slots = cores = memory = vendor = 0.0
    nodes = 0
    second: tuple[float, NodeName] | None = None
    for entry, answer in answers:
        nodes += 1
        if entry.name == placed.node:
            slots, cores, memory = _fullness(entry.state)
            vendor = placed.fit.score - entry.state.base_score
        elif isinstance(answer, Fit) and (second is None or sign * answer.score > sign * second[0]):
            second = (answer.score, entry.name)
    return Choice(
        node=placed.node,
        policy=policy.node,
        score=placed.fit.score,
        slots=slots,
        cores=cores,
        memory=memory,
        vendor=vendor,
        nodes=nodes,
        candidates=placed.candidates,
        next_node=None if second is None else second[1],
        next_score=0.0 if second is None else second[0],
    )


def _fullness(state: NodeState) -> tuple[float, float, float]:
    """The three parts of the node's own score; all 0 where the node has none of one of them, as it is scored then."""
    shape = state.shape
    if not (shape.total_slots and shape.total_cores and shape.total_memory):
        return 0.0, 0.0, 0.0
    return (
        DEVICE_WEIGHT * sum(used.slots for used in state.usage) / shape.total_slots,
        DEVICE_WEIGHT * sum(used.cores for used in state.usage) / shape.total_cores,
        DEVICE_WEIGHT * sum(used.memory for used in state.usage) / shape.total_memory,
    )
