"""Answers: a refusal is a value with counted reasons and the numbers that were missing, never an exception."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from hami_plugins.model.devices import DeviceShare
from hami_plugins.model.units import VendorName


class Reason(StrEnum):
    """Why a device was passed over, or why a node was, spelled as HAMi spells it in events where HAMi has a word."""

    MODEL = "CardTypeMismatch"
    ID = "CardUuidMismatch"
    SLOTS = "CardTimeSlicingExhausted"
    COMPUTE = "CardComputeUnitsExhausted"
    MEMORY = "CardInsufficientMemory"
    CORES = "CardInsufficientCore"
    HEALTH = "CardNotHealth"
    CORDON = "CardCordoned"
    NUMA = "NumaNotFit"
    EXCLUSIVE = "ExclusiveDeviceAllocateConflict"
    VENDOR_RULE = "CardNotFoundCustomFilterRule"
    PARTITION = "CardMigTopologyInfeasible"
    TOO_FEW_CARDS = "NodeInsufficientDevice"
    TOO_FEW = "AllocatedCardsInsufficientRequest"
    QUOTA = "ResourceQuotaNotFit"
    MODE = "ModeNotFit"
    UNHEALTHY_SGPU = "CardUnhealthy"
    QOS = "CardQosPolicyMismatch"
    APP_CLASS = "CardAppClassMismatch"
    GROUP = "CardHoldsSamePodGroup"
    TOPOLOGY = "NoLinkedSet"
    WITHHELD = "CardsNotAllocatable"


NODE: Final = "{node}"
"""Where upstream's words name the node: verdicts are about states, which have no name."""


@dataclass(frozen=True, slots=True)
class NoFit:
    """One container's request cannot be met on one node.

    ``reasons`` counts each candidate device under its first objection (plus ``TOO_FEW`` with the number that could have
    been had); ``devices`` is how many candidates there were; ``container`` and ``vendor`` say which request failed;
    ``words`` is the reason as the upstream scheduler of the dialect spells it (see ``NODE``).
    """

    reasons: tuple[tuple[Reason, int], ...]
    devices: int
    container: int
    vendor: VendorName
    words: str

    def __str__(self) -> str:
        return self.words

    def on(self, node: str) -> NoFit:
        """The refusal with the node's name in its words."""
        return replace(self, words=self.words.replace(NODE, node)) if NODE in self.words else self


@dataclass(frozen=True, slots=True)
class ContainerShares:
    """The shares of one container, per request of its demand, in the order in which they were chosen."""

    by_vendor: tuple[tuple[VendorName, tuple[DeviceShare, ...]], ...] = ()

    def shares(self) -> tuple[DeviceShare, ...]:
        """All shares of the container."""
        return tuple(share for _, shares in self.by_vendor for share in shares)


@dataclass(frozen=True, slots=True)
class Fit:
    """A node can hold the pod: shares per container (by position), and the node's score for ranking."""

    containers: tuple[ContainerShares, ...]
    score: float


Verdict = Fit | NoFit
