"""Changes of a card's health, and their messages. Pure.

Which errors count is NVIDIA's rule (volcano-vgpu-device-plugin 1.12.0 ``pkg/rm/health.go``): six XIDs are the fault of
applications; a list switches others off, another one switches on again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NamedTuple, assert_never

from hami_plugins.model.units import DeviceId
from volcano_vgpu.core.model import NodeInventory, PhysicalDevice

APPLICATIONS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that an application brings about; its card goes on working."""

_ALL: Final = frozenset({"all", "xids"})
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class XidFilter:
    """Which XID errors make a card unhealthy: all, but for ``disabled`` ones that are not ``enabled``.

    ``None`` stands for every XID.
    """

    disabled: frozenset[int] | None = APPLICATIONS
    enabled: frozenset[int] | None = frozenset()

    @classmethod
    def of(cls, disabled: str, enabled: str) -> XidFilter:
        """The filter of the two settings: ``all``, ``xids`` or a list of numbers; other text is skipped."""
        off, on = _listed(disabled), _listed(enabled)
        return cls(None if off is None else off | APPLICATIONS, on)

    def counts(self, xid: int) -> bool:
        """Whether the error makes a card unhealthy."""
        if self.enabled is None or xid in self.enabled:
            return True
        return self.disabled is not None and xid not in self.disabled


def _listed(text: str) -> frozenset[int] | None:
    words = [word.strip().lower() for word in text.split(",")]
    if not _ALL.isdisjoint(words):
        return None
    return frozenset(int(word) for word in words if word.isascii() and word.isdigit())


class HealthEventReason(StrEnum):
    """What happened to a card; the word is the reason of its events."""

    FAILED = "GPUUnhealthy"
    RECOVERED = "GPURecovered"
    GONE = "GPUGone"
    CAME = "GPUFound"


class Transition(NamedTuple):
    """A card whose health or presence changed; ``card`` as it is now, or was last."""

    turn: HealthEventReason
    card: PhysicalDevice


def transitions(before: NodeInventory | None, after: NodeInventory) -> tuple[Transition, ...]:
    """The changes, in the order of the cards. The first call reports only defects."""
    held = {} if before is None else {card.uuid: card for card in before.cards}
    found: list[Transition] = []
    for card in after.cards:
        old = held.pop(card.uuid, None)
        if old is None:
            if before is not None:
                found.append(Transition(HealthEventReason.CAME, card))
            if not card.healthy:
                found.append(Transition(HealthEventReason.FAILED, card))
        elif card.problems != old.problems:
            found.append(Transition(HealthEventReason.RECOVERED if card.healthy else HealthEventReason.FAILED, card))
    found.extend(Transition(HealthEventReason.GONE, card) for card in held.values())
    return tuple(found)


class AffectedContainer(NamedTuple):
    """A container that has a slice of a card."""

    namespace: str
    pod: str
    uid: str
    container: str


class HealthEvent(NamedTuple):
    """An event to be written about the node, or about a pod of it where ``holder`` names one."""

    holder: AffectedContainer | None
    reason: str
    message: str
    type: Literal["Normal", "Warning"]


def sayings(
    changes: Iterable[Transition], holders: Callable[[DeviceId], Iterable[AffectedContainer]]
) -> tuple[HealthEvent, ...]:
    """The events for the node and for the pods that hold a slice of the card."""
    return tuple(saying for change in changes for saying in _of_one(change, tuple(holders(change.card.uuid))))


def _of_one(change: Transition, held: tuple[AffectedContainer, ...]) -> Iterable[HealthEvent]:
    card = f"card {change.card.uuid} ({change.card.model}, index {change.card.index})"
    why = "; ".join(change.card.problems)
    match change.turn:
        case HealthEventReason.CAME:
            yield HealthEvent(None, change.turn, f"{card} was found and is offered", "Normal")
        case HealthEventReason.RECOVERED:
            yield HealthEvent(None, change.turn, f"{card} is healthy again and is offered", "Normal")
            for each in held:
                yield HealthEvent(
                    each, change.turn, f"container {each.container}: its {card} is healthy again", "Normal"
                )
        case HealthEventReason.FAILED:
            yield HealthEvent(None, change.turn, f"{card} is not offered any more: {why}{_on_it(held)}", "Warning")
            for each in held:
                yield HealthEvent(each, change.turn, _advice(each, f"is unhealthy: {why}", card), "Warning")
        case HealthEventReason.GONE:
            text = f"{card} is no longer reported by the driver{_on_it(held)}; check nvidia-smi and the kernel log"
            yield HealthEvent(None, change.turn, text, "Warning")
            for each in held:
                yield HealthEvent(
                    each, change.turn, _advice(each, "is no longer reported by the driver", card), "Warning"
                )
        case _:
            assert_never(change.turn)


def _advice(holder: AffectedContainer, what: str, card: str) -> str:
    return (
        f"container {holder.container}: its {card} {what}. It is left running, but will not be started again on this "
        "card; delete the pod to have it placed on another"
    )


def _on_it(held: tuple[AffectedContainer, ...]) -> str:
    pods = sorted({f"{each.namespace}/{each.pod}" for each in held})
    if not pods:
        return ""
    more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
    return f"; on it: {', '.join(pods[:_MOST_NAMED])}{more}"
