"""What to do about a refusal, in one clause for the event on the pod.

A clause depends on the kind of the refusal alone, so that events, and the counts of nodes in them, do not change by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.engine.shortfall import CardShortage, NodeShortage
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.requests import Absolute
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import Reason

UNREGISTERED: Final = "run the node agent there"

_TOO_LARGE: Final = "ask for less {memory}, no card here has that much"
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
    Reason.HEALTH: "see the events of the node",
}


def remedy(reason: CardShortage | NodeShortage, entry: NodeEntry | None, spec: VendorSpec) -> str:
    """What to do about cards of a node that are short; empty where nothing is known to help."""
    if entry is None or not isinstance(reason, CardShortage):
        return ""
    large = reason.reason is Reason.MEMORY and _no_card_has_as_much(reason, entry)
    names = spec.resources
    words = _TOO_LARGE if large else _REMEDIES.get(reason.reason, "")
    return words.format(memory=names.memory, cores=names.cores, count=names.count)


def _no_card_has_as_much(reason: CardShortage, entry: NodeEntry) -> bool:
    asked = reason.request.memory
    return isinstance(asked, Absolute) and all(device.memory < asked.mib for device in entry.state.shape.devices)
