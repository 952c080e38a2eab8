"""What a check of a takeover looks at, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hami_plugins.allocations.product import Product
from hami_plugins.engine.registry import Registry
from hami_plugins.wire.fields import Json


class TakeoverSeverity(StrEnum):
    """Severity of a finding: a takeover with errors allocates wrong devices or none; ``info`` is not a defect."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class TakeoverStage(StrEnum):
    """How far a cluster is: who changes and binds new pods."""

    NEITHER = "neither"
    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class TakeoverFinding:
    """Something about an object of the cluster (``node n1``), and what to do about it."""

    severity: TakeoverSeverity
    object: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverObjects:
    """The objects of a cluster as the API server has them; ``None`` for what is not known.

    ``configurations`` are those of kube-schedulers, by their place (``ConfigMap ns/name``), ``volcano`` those of
    Volcano's. ``missing`` are rights that
    the allocator's ``account`` lacks, as ``verb resource``. ``pod_groups`` is whether the cluster has Volcano's.
    """

    nodes: Sequence[Json] = ()
    pods: Sequence[Json] = ()
    webhooks: Sequence[Json] | None = None
    configurations: Mapping[str, Json] | None = None
    volcano: Mapping[str, Json] = field(default_factory=dict)
    account: str = ""
    missing: Sequence[str] | None = None
    version: str = ""
    pod_groups: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverContext:
    """The settings of the allocator, and the time of the check.

    ``known`` are the vendors of HAMi's dialect, served or not; ``extender`` is the path by which kube-scheduler asks
    the allocator; ``evicts`` is whether pods are evicted for devices.
    """

    product: Product
    known: Registry
    extender: str
    now: datetime
    evicts: bool = False


def error(what_of: str, what: str, remedy: str) -> TakeoverFinding:
    """A finding that must be corrected."""
    return TakeoverFinding(TakeoverSeverity.ERROR, what_of, what, remedy)


def warning(what_of: str, what: str, remedy: str) -> TakeoverFinding:
    """A finding that is to be looked at."""
    return TakeoverFinding(TakeoverSeverity.WARNING, what_of, what, remedy)


def info(what_of: str, what: str, remedy: str = "") -> TakeoverFinding:
    """What is so, without being wrong."""
    return TakeoverFinding(TakeoverSeverity.INFO, what_of, what, remedy)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Some names, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
