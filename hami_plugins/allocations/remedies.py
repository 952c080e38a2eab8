"""What to do about a refusal, in one clause for the event on the pod.

A clause depends on the kind of the refusal alone, so that events, and the counts of nodes in them, do not change by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hami_plugins.allocations.product import word_of
from hami_plugins.engine.shortfall import CardShortage, NodeShortage
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.requests import Absolute
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import Reason

_TOO_LARGE: Final = "ask for less {memory}, no card here has that much"
OVER_QUOTA: Final = "ask for less, raise the namespace's ResourceQuota, or wait until pods of the namespace end"
_ANNOTATION: Final = "change or remove that annotation of the pod"

_REMEDIES: Final[Mapping[Reason, str]] = {
    Reason.MEMORY: "ask for less {memory} or wait until pods end",
    Reason.CORES: "ask for less {cores} or wait until pods end",
    Reason.SLOTS: "wait until pods end, or give cards more slots (deviceSplitCount)",
    Reason.COMPUTE: "wait until the pod that has all cores ends",
    Reason.EXCLUSIVE: "ask for less than all {cores} or wait until pods end",
    Reason.TOO_FEW_CARDS: "ask for fewer {count}",
    Reason.TOO_FEW: "ask for fewer {count} or for less of each, or wait until pods end",
    Reason.PARTITION: "ask for as much {memory} as an instance has, or wait until pods end",
    Reason.MODEL: _ANNOTATION,
    Reason.ID: _ANNOTATION,
    Reason.QUOTA: OVER_QUOTA,
    Reason.HEALTH: "see the events of the node",
}


def remedy(reason: CardShortage | NodeShortage, entry: NodeEntry, spec: VendorSpec) -> str:
    """What to do about devices of a node that are short; empty where nothing is known to help."""
    if not isinstance(reason, CardShortage):
        return ""
    if reason.blocked is not None and not reason.blocked.members:
        return "request one of these"
    own = spec.allocation.remedy
    if own is not None and (found := own(reason.reason, reason.request)):
        return found
    large = reason.reason is Reason.MEMORY and _no_card_has_as_much(reason, entry)
    names = spec.resources
    words = _TOO_LARGE if large else _REMEDIES.get(reason.reason, "")
    return words.format(memory=names.memory, cores=names.cores, count=names.count)


def without_devices(spec: VendorSpec, problems: Sequence[str]) -> str:
    """That a node offers none of a vendor's devices, what is wrong with it, and what to do about that."""
    names, noun = spec.keys, f"{spec.noun}s"
    if names.register:
        what, why = f"no {noun} registered", f"{names.register} is missing or empty"
    else:
        what, why = f"the node offers no {word_of(spec)} {noun}", f"its capacity has no {spec.resources.count}"
    return f"{what} ({'; '.join(problems or [why])}); {spec.allocation.remedy_without}"


def _no_card_has_as_much(reason: CardShortage, entry: NodeEntry) -> bool:
    asked = reason.request.memory
    return isinstance(asked, Absolute) and all(device.memory < asked.mib for device in entry.state.shape.devices)
