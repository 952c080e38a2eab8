"""How to choose among what fits: sort keys, not code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple


class SortKey(IntEnum):
    """One ascending sort key of the order in which devices are tried."""

    LEAST_SCORE = 1
    MOST_SCORE = 2
    LOW_NUMA = 3
    HIGH_NUMA = 4
    LEAST_SHARED = 5
    MOST_MEMORY = 6
    LOW_INDEX = 7
    HIGH_INDEX = 8
    FIRST = 9
    LAST = 10
    LEAST_MEMORY = 11


class NodePolicy(StrEnum):
    """Which of the fitting nodes to take: the fullest or the emptiest."""

    BINPACK = "binpack"
    SPREAD = "spread"


class Weights(NamedTuple):
    """Weights of the device score (annotation ``hami.io/device-scoring-weights``)."""

    slot: int = 1
    core: int = 1
    memory: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The preferences of one pod.

    ``order`` is the order in which a node's devices are tried, ``exclusive`` refuses devices that anybody uses
    (HAMi's ``mutex``), ``near`` asks for devices that are well linked (``topology-aware``), ``one_numa`` for devices of
    one NUMA node. ``node_words`` and ``device_words`` are the texts these came from.
    """

    node: NodePolicy = NodePolicy.BINPACK
    order: tuple[SortKey, ...] = (SortKey.LEAST_SCORE, SortKey.HIGH_NUMA, SortKey.LAST)
    exclusive: bool = False
    near: bool = False
    one_numa: bool = False
    weights: Weights = Weights()
    node_words: str = "binpack"
    device_words: str = "spread"


DEFAULT_POLICY = Policy()
