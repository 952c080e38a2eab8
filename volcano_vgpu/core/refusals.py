"""Refusals of containers: a value with a code for metrics and a message for the operator."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RefusalCode(StrEnum):
    """The kinds of refusals; also a label of a metric, so they are few and never change their spelling."""

    UNRECORDED = "not-recorded"
    DOUBLED = "id-given-twice"
    CONTRADICTED = "contradiction"
    UNREADABLE_CHECKPOINT = "unreadable-checkpoint"
    AWAY = "api-server-away"
    POD_GONE = "pod-gone"
    STATIC_POD = "static-pod"
    NOT_VOLCANO = "not-scheduled-by-volcano"
    NO_ALLOCATION = "no-allocation"
    OTHER_NODE = "allocation-of-another-node"
    MALFORMED = "malformed-allocation"
    SEGMENTS = "segments-do-not-match"
    COUNT = "count-does-not-match"
    REQUEST = "bad-request"
    LARGER = "larger-than-request"
    UNKNOWN_CARD = "unknown-card"
    UNHEALTHY_CARD = "unhealthy-card"
    CARD_MEMORY = "more-memory-than-the-card"
    CARD_CORES = "more-cores-than-the-card"
    CARD_FULL = "card-promised-twice"
    MODE = "wrong-mode"
    PARTITION = "no-such-partition"
    INIT_CONTAINER = "init-container-without-slice"
    SIDECAR = "sidecar-without-slice"
    MARKED_FAILED = "marked-failed"
    ALLOCATION_CHANGED = "allocation-changed"
    SPECIFICATION = "specification-not-written"
    DIRECTORY = "directory-not-made"
    LIBRARY = "library-missing"
    MPS = "mps-daemon-missing"
    NO_CDI = "no-cdi"


@dataclass(frozen=True, slots=True)
class ContainerRefusal:
    """One container is not served. ``text`` says what was asked, what was allocated and what to do.

    ``heals`` where the same pod may still be served later without anybody deleting it: the kubelet asks again.
    """

    code: RefusalCode
    text: str
    heals: bool = True

    def about(self, subject: str) -> ContainerRefusal:
        """The same refusal, with what it is about in front."""
        return ContainerRefusal(self.code, f"{subject}: {self.text}", self.heals)
