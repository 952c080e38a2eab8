"""What is wrong with what bound pods hold: looked for from time to time while a replica answers, told and shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Literal, NamedTuple

import structlog
from typing_extensions import TypedDict

from hami_plugins.allocations.answers import AuditFinding, AuditFindingKind
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.output.schema import API_VERSION

EVERY: Final = 30.0
"""Seconds between two looks while nothing changes: a clock alone makes few findings."""

SOON: Final = 2.0
"""Seconds after a look at which a change is looked at: each look takes some 20 ms in a cluster of 1,000 nodes."""

MOST_NAMED: Final = 4
"""Devices that a sentence names."""

_DEVICE: Final = "\0"
"""Stands for a device in a sentence, as no name does."""

_log = structlog.get_logger(__name__)


class AuditFindingDocument(TypedDict):
    """Something wrong with a device that pods hold, or with one pod."""

    finding: AuditFindingKind
    node: str
    pods: list[str]
    """As ``namespace/name``."""
    text: str
    device: str
    """Empty where it is about a pod."""


class AuditDocument(TypedDict):
    """What is wrong with what bound pods hold: the answer of ``audit``, and of ``/findings`` of an allocator."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["AllocationAudit"]
    findings: list[AuditFindingDocument]


class Auditor:
    """``found`` is what was wrong at the last look. What is new then stands in the log once."""

    def __init__(self, cache: LockedAllocationCache) -> None:
        self.found: tuple[AuditFinding, ...] = ()
        self._cache = cache
        self._last = -EVERY
        self._changes = -1

    def look(self, now: float) -> None:
        """Looks, unless that was done a short while before ``now``, and earlier where something has changed."""
        changes = self._cache.changes
        if now < self._last + (EVERY if changes == self._changes else SOON):
            return
        self._last, self._changes = now, changes
        before, self.found = set(self.found), self._cache.findings()
        new = (each for each in self.found if each not in before)
        for each in told(new, self._cache.product.noun):
            _log.warning("allocation_is_wrong", finding=each.finding.value, node=each.node, what=each.text)


class AuditMessage(NamedTuple):
    """What is wrong alike with some devices of a node, in one sentence. ``devices`` are their names, with commas."""

    finding: AuditFindingKind
    node: str
    devices: str
    pods: tuple[str, ...]
    text: str


def told(found: Iterable[AuditFinding], noun: str) -> tuple[AuditMessage, ...]:
    """One line per finding: a pod with sixteen devices is listed once, not sixteen times. ``noun`` names a device."""
    groups: dict[tuple[AuditFindingKind, str, tuple[str, ...], str], list[str]] = {}
    for each in found:
        text = each.text.replace(each.device, _DEVICE) if each.device else each.text
        groups.setdefault((each.finding, each.node, each.pods, text), []).append(each.device)
    return tuple(
        AuditMessage(finding, node, ", ".join(devices), pods, text.replace(_DEVICE, _named(devices, noun)))
        for (finding, node, pods, text), devices in groups.items()
    )


def _named(devices: Sequence[str], noun: str) -> str:
    if len(devices) == 1:
        return devices[0]
    rest = len(devices) - MOST_NAMED
    named = ", ".join(devices[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    return f"{len(devices)} {noun}s ({named})"


def counts(found: Iterable[AuditFinding]) -> Mapping[AuditFindingKind, int]:
    """How much of each kind there is, with those of which there is nothing."""
    counted = Counter(each.finding for each in found)
    return {finding: counted[finding] for finding in AuditFindingKind}


def document(found: Iterable[AuditFinding]) -> dict[str, Any]:
    """The same as a document, for other programs."""
    findings = [{**asdict(each), "finding": each.finding.value} for each in found]
    return {"apiVersion": API_VERSION, "kind": "AllocationAudit", "findings": findings}
