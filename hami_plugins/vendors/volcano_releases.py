"""What releases of Volcano's scheduler do with cards that is not what the request says: data, by release.

Sources: ``volcano.md`` 1.8 and 2, ``peers.md`` 7.1 and 8. A quirk that was seen with one release, and of which the code
of others was not read, is taken to hold for all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[-+.].*)?", re.ASCII)


class Version(NamedTuple):
    """A release; what is before a release counts as the release."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        """As releases are called."""
        return f"{self.major}.{self.minor}.{self.patch}"


def version_of(text: str) -> Version | None:
    """The release that a text names: ``1.14.1``, ``v1.15.0-alpha.1``; ``None`` for ``latest`` and the like."""
    match = _VERSION.fullmatch(text.strip())
    return None if match is None else Version(int(match[1]), int(match[2]), int(match[3] or 0))


def version_of_image(image: str) -> Version | None:
    """The release that an image's tag names: ``registry:5000/volcanosh/vc-scheduler:v1.14.1@sha256:...``."""
    _, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    return version_of(tag)


class Span(NamedTuple):
    """Releases from ``first`` on (``None``: from the beginning) and before ``end`` (``None``: to this day)."""

    first: Version | None = None
    end: Version | None = None

    def covers(self, version: Version) -> bool:
        """Whether a release is among them."""
        return (self.first is None or version >= self.first) and (self.end is None or version < self.end)

    def __str__(self) -> str:
        """As messages say it, after the word Volcano."""
        match (self.first, self.end):
            case (None, None):
                return "of every release"
            case (first, None):
                return f"from {first} on"
            case (None, end):
                return f"before {end}"
            case (first, end):
                return f"from {first} to before {end}"


EVERY: Final = (Span(),)


class Grants(StrEnum):
    """Who writes down which cards a pod of Volcano gets: Volcano alone, or ``volcano-vgpu`` in one of its modes."""

    VOLCANO = "volcano"
    POLICY = "policy"
    GUARD = "guard"
    LEDGER = "ledger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirk:
    """Something that Volcano does, the releases that do it, and the ways to grant cards that put it right.

    ``seen`` is the release with which it was tried, where no more than that is known; then ``spans`` is all of them.
    """

    spans: tuple[Span, ...] = EVERY
    seen: Version | None = None
    cured_by: frozenset[Grants] = frozenset()

    def covers(self, version: Version | None) -> bool:
        """Whether a release does it; of one that nobody knows the worst is assumed."""
        return version is None or any(span.covers(version) for span in self.spans)

    def holds(self, version: Version | None, grants: Grants) -> bool:
        """Whether it is to be expected in a cluster."""
        return grants not in self.cured_by and self.covers(version)

    def __str__(self) -> str:
        """The releases, as messages say them."""
        if self.seen is not None:
            return f"seen with Volcano {self.seen}"
        return f"Volcano {' and '.join(map(str, self.spans))}"


_TRIED: Final = Version(1, 14, 1)
_OWN_LEDGER: Final = frozenset({Grants.GUARD, Grants.LEDGER})
_NODE_SUMS: Final = (Span(Version(1, 13, 0)),)
"""Since then memory and cores count in the sums of nodes and queues, too."""

HANDSHAKE: Final = Quirk(spans=(Span(None, Version(1, 14, 3)), Span(Version(1, 15, 0), Version(1, 15, 1))))
"""A node without a handshake has no cards."""

SIDE_CONTAINERS: Final = Quirk(cured_by=_OWN_LEDGER)
"""Cards are given to application containers alone; what others ask counts in the node's sums."""

CORES_ALONE: Final = Quirk(cured_by=_OWN_LEDGER)
"""A container that asks for cores, and for neither a number nor memory, is bound without a card."""

ID_LISTS: Final = Quirk(spans=(Span(None, Version(1, 16, 0)),), cured_by=_OWN_LEDGER)
"""``volcano.sh/vgpu-use-gpuuuid`` and its opposite are not read."""

FOREIGN_ID_LISTS: Final = Quirk(cured_by=_OWN_LEDGER)
"""``nvidia.com/use-gpuuuid`` and its opposite are not read."""

PERCENTAGE: Final = Quirk(spans=_NODE_SUMS)
"""A percentage of memory is had only where nodes advertise it."""

PLAIN_CAPS: Final = Quirk(spans=_NODE_SUMS)
"""What queues may hold of memory and cores is compared with plain requests, not with what cards give."""

OPEN_GATE: Final = Quirk(seen=_TRIED)
"""A PodGroup without ``minResources`` passes the enqueue gate always, and counts nothing there."""

NO_GANG: Final = Quirk(seen=_TRIED)
"""A Job that reaches the scheduler without ``minAvailable`` is no gang."""

HELD_GATE: Final = Quirk(seen=_TRIED)
"""A PodGroup that was let in counts at the gate for ever, also when its pods fit nowhere."""

HELD_BACK: Final = Quirk(seen=_TRIED)
"""The guarantee of a queue is kept from the others while the queue is idle."""

SILENT_QUEUE: Final = Quirk(seen=_TRIED)
"""Bare pods for a queue that is closed or missing wait without a word."""

PARTIAL_GANG: Final = Quirk(seen=_TRIED)
"""A quota lets in a part of a Job's pods, which then wait for the others."""

CRASH: Final = Quirk(spans=(Span(_TRIED, Version(1, 14, 2)),), seen=_TRIED, cured_by=frozenset({Grants.LEDGER}))
"""The scheduler ends with a nil pointer at the first pod that fits a node with slots and without known cards."""

READY_IGNORED: Final = Quirk(seen=_TRIED)
"""Taints and ``spec.unschedulable`` keep pods off a node, its ``Ready`` condition does not."""

HEALTH_IGNORED: Final = Quirk(cured_by=_OWN_LEDGER)
"""Cards that are registered as unhealthy are given out."""

SUMS: Final = Quirk(spans=_NODE_SUMS)
"""Pods have to fit the sums in the node's status before cards are looked at."""
