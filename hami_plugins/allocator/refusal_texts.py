"""Texts of why nodes cannot hold a pod: composed after the cache has answered, so that no request waits for a text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Final, NamedTuple

from hami_plugins.allocations.cache import shortage
from hami_plugins.allocations.product import Product, word_of
from hami_plugins.allocations.remedies import remedy, without_devices
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.shortfall import CardShortage, NodeShortage, decisive
from hami_plugins.explain.messages import reason_words
from hami_plugins.model.decisions import Refusal
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.policy import Policy
from hami_plugins.model.requests import DeviceDemand
from hami_plugins.model.verdicts import NoFit, Reason

_DEMANDS: Final = 16
_STATES: Final = 1_000
"""Texts that are remembered: for so many kinds of pods, of so many states of nodes each."""

_LONGEST: Final = 2_000
"""Characters: a text stands once for each node, and names containers and models as the pod spells them."""


DemandKey = tuple[DeviceDemand, Policy, tuple[str, ...]]


class NodeRefusal(NamedTuple):
    """A node's refusal, with the node as it was asked.

    ``entry`` is the node, ``None`` for one that is not known (``unreadable`` says why it cannot be read); ``asked`` is
    the node without what is assumed of the pod itself.
    """

    refusal: Refusal
    entry: NodeEntry | None
    asked: NodeEntry | None
    unreadable: str = ""


class Unfitting(NamedTuple):
    """Why a pod does not go to a node, and whether that is so however empty the node is."""

    why: NodeRefusal | str
    lasting: bool


class RefusalTexts:
    """Texts by demand, and state and refusal of the node. They do not name it: Volcano counts nodes by their texts.

    Safe to call from any thread.
    """

    def __init__(self, product: Product, registry: Registry) -> None:
        self._product = product
        self._registry = registry
        self._known: OrderedDict[DemandKey, dict[Hashable, str]] = OrderedDict()
        self._lock = Lock()

    def remembered(self, intake: PodInfo) -> dict[Hashable, str] | None:
        """The texts for such a pod; ``None`` where they depend on names of devices."""
        devices = intake.demand.devices
        if any(request.selector.names_ids for each in devices.containers for request in each.requests):
            return None
        key = demand_key(intake)
        with self._lock:
            known = self._known.setdefault(key, {})
            self._known.move_to_end(key)
            if len(self._known) > _DEMANDS:
                self._known.popitem(last=False)
        return known

    def text(self, found: NodeRefusal, intake: PodInfo, known: dict[Hashable, str] | None) -> str:
        """The text; ``known`` as ``remembered`` has it."""
        entry = found.entry
        if entry is None:
            why = f"cannot be read: {found.unreadable}" if found.unreadable else "is not known"
            return f"{self._product.word(intake.demand.devices)}: the node {why}"
        if known is None or entry.problems:
            return self._made(found, entry, intake)
        # a quota leaves the same wherever the pod goes
        own = (entry.state.shape, intake.demand.headroom) if is_of_quota(found.refusal) else entry.state
        key = found.refusal, own
        text = known.get(key)
        if text is None:
            text = self._made(found, entry, intake)
            if len(known) >= _STATES:
                known.clear()
            known[key] = text
        return text

    def _made(self, found: NodeRefusal, entry: NodeEntry, intake: PodInfo) -> str:
        asked = [self._registry[name] for name in intake.demand.devices.vendors]
        missing = next((spec for spec in asked if spec.name not in entry.state.shape.positions), None)
        if missing is not None:
            return f"{word_of(missing)}: {without_devices(missing, [each.what for each in entry.problems])}"
        why = shortage(found.asked, intake, found.refusal, self._registry)
        if why is None or not why.reasons:
            return f"{self._product.word(intake.demand.devices)}: {found.refusal.words}"
        names, reason = [container.name for container in intake.pod.containers], why.reasons[0]
        spec = self._registry[reason.vendor] if isinstance(reason, CardShortage) else asked[0]
        numbers = _of_sets(reason, found.refusal) or reason_words(reason, self._registry, names)
        text = f"{word_of(spec)} {numbers}".replace(f" ({entry.name})", "")
        what_to_do = remedy(reason, entry, spec)
        return (f"{text}; {what_to_do}" if what_to_do else text)[:_LONGEST]


def demand_key(intake: PodInfo) -> DemandKey:
    """The inputs of nodes' answers to a pod, besides its quota; texts name its containers if it has several."""
    names = tuple(container.name for container in intake.pod.containers)
    return intake.demand.devices, intake.policy, names if len(names) > 1 else ()


def is_of_quota(refusal: Refusal) -> bool:
    """Whether the text of a refusal has the numbers of a quota."""
    return isinstance(refusal, NoFit) and decisive(refusal.reasons) is Reason.QUOTA


def _of_sets(reason: CardShortage | NodeShortage, refusal: Refusal) -> str:
    """The vendor's own sentence where devices go in sets: it says what could be had. It names no pods and no nodes."""
    if not isinstance(reason, CardShortage) or reason.blocked is None:
        return ""
    spelled = reason.reason in {Reason.TOPOLOGY, Reason.WITHHELD} or not reason.blocked.members
    return refusal.words if spelled else ""
