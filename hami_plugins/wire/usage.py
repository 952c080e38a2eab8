"""Containers' usage of their cards, compared with their allocation: the values, and the document that carries them.

One document describes one node. ``volcano-vgpu usage -o json`` writes it, ``explain`` reads it. Workloads can forge the
measurements: show them, but never decide by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from typing_extensions import TypedDict

from hami_plugins.errors import WireError
from hami_plugins.model.units import DeviceId, NodeName, PodUid
from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json, wrong

API_VERSION: Final = "hami-plugins.io/v1alpha1"
KIND: Final = "DeviceUsage"


class MemoryDocument(TypedDict):
    """Device memory by kind, in bytes; the kinds add up to all of it."""

    context: int
    module: int
    data: int
    other: int


class CardUsageDocument(TypedDict):
    """A container's usage of one card, and its allocation. Unknown values are null."""

    id: str
    memoryAllocatedBytes: int | None
    coresAllocatedRatio: float | None
    memoryLimitBytes: int | None
    """What the library lets the container book; null where it has no limit."""
    memoryUsedBytes: int | None
    memoryUsedByKindBytes: MemoryDocument | None
    utilizationRatio: float | None
    """The sum over the container's processes, each 1 at most."""


class ContainerUsageDocument(TypedDict):
    """What a container uses. An unknown pod has neither namespace nor name."""

    namespace: str
    pod: str
    podUid: str
    container: str
    reading: str
    """read, not-ready, no-file or unreadable; ``problem`` says why."""
    problem: str
    processes: int
    unconfirmedProcesses: int
    """Those of them that may have been killed."""
    goneProcesses: int
    """Killed ones, which do not count."""
    lastKernelAgeSeconds: float | None
    doubts: list[str]
    """Why the numbers may be off: may-be-stale, unsettled, invalid-counters, unnamed-cards."""
    cards: list[CardUsageDocument]


class NodeUsageDocument(TypedDict):
    """The answer of ``hami-plugins volcano-vgpu usage``: the containers of one node."""

    apiVersion: str
    kind: Literal["DeviceUsage"]
    node: str
    time: str
    """When it was measured, RFC 3339."""
    containers: list[ContainerUsageDocument]


class ReadStatus(StrEnum):
    """What could be read of a container."""

    READ = "read"
    NOT_READY = "not-ready"
    NO_FILE = "no-file"
    UNREADABLE = "unreadable"


class UsageDoubt(StrEnum):
    """Why the numbers of a container may be off."""

    STALE = "may-be-stale"
    UNSETTLED = "unsettled"
    INVALID = "invalid-counters"
    UNNAMED = "unnamed-cards"


class MemoryUse(NamedTuple):
    """Device memory by kind, in bytes. ``other`` is what is booked in all and belongs to none of the kinds."""

    context: int
    module: int
    data: int
    other: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUsage:
    """One container on one card; ``None`` for what is not known.

    Memory is in bytes (``limit`` is what the library enforces; without one it enforces none), shares of a card are
    ratios. ``utilization`` is the sum over the container's processes, so that it may pass 1.
    """

    card: DeviceId
    allocated: int | None = None
    cores_allocated: float | None = None
    limit: int | None = None
    used: MemoryUse | None = None
    utilization: float | None = None

    @property
    def unused(self) -> int:
        """How much of the allocation is not used, in bytes; 0 where either is not known."""
        return max((self.allocated or 0) - self.used.total, 0) if self.used is not None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUsage:
    """One container. An unknown pod has no namespace and no name.

    ``processes`` counts those whose numbers count, ``unconfirmed`` those of them that may have been killed, ``gone``
    those that were and still have a slot. ``problem`` says why nothing could be read. ``foreign`` counts cards that the
    container names and the node does not have; it is not in the document.
    """

    pod_uid: PodUid
    container: str
    namespace: str = ""
    pod: str = ""
    reading: ReadStatus = ReadStatus.READ
    problem: str = ""
    cards: tuple[CardUsage, ...] = ()
    processes: int = 0
    unconfirmed: int = 0
    gone: int = 0
    last_kernel_age: float | None = None
    doubts: frozenset[UsageDoubt] = field(default=frozenset())
    foreign: int = 0

    @property
    def full_name(self) -> str:
        """``namespace/name`` of the pod, or its UID where that is all that is known."""
        return f"{self.namespace}/{self.pod}" if self.pod else f"pod {self.pod_uid}"

    @property
    def unused(self) -> int:
        """How much of its allocations it does not use, in bytes."""
        return sum(card.unused for card in self.cards)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """The containers of one node at one time (RFC 3339)."""

    node: NodeName
    time: str
    containers: tuple[ContainerUsage, ...] = ()


def encode(usage: NodeUsage) -> NodeUsageDocument:
    """The document of a node."""
    return {
        "apiVersion": API_VERSION,
        "kind": "DeviceUsage",
        "node": usage.node,
        "time": usage.time,
        "containers": [encode_container(each) for each in usage.containers],
    }


def encode_container(usage: ContainerUsage) -> ContainerUsageDocument:
    """One container of such a document."""
    return {
        "namespace": usage.namespace,
        "pod": usage.pod,
        "podUid": usage.pod_uid,
        "container": usage.container,
        "reading": usage.reading.value,
        "problem": usage.problem,
        "processes": usage.processes,
        "unconfirmedProcesses": usage.unconfirmed,
        "goneProcesses": usage.gone,
        "lastKernelAgeSeconds": usage.last_kernel_age,
        "doubts": sorted(doubt.value for doubt in usage.doubts),
        "cards": [_card(each) for each in usage.cards],
    }


def decode(document: object) -> NodeUsage:
    """A document of one node; members that are not known are passed over. Raises ``WireError``."""
    body = fields.whole(document, "usage")
    kind = fields.text(body, "kind", "usage:")
    if kind != KIND:
        raise WireError("usage: kind", kind, f"expected {KIND}, as volcano-vgpu usage -o json writes it")
    return NodeUsage(
        node=NodeName(fields.text(body, "node", "usage:")),
        time=fields.text(body, "time", "usage:"),
        containers=tuple(
            _decoded(raw, f"usage: containers[{at}]")
            for at, raw in enumerate(fields.items(body, "containers", "usage:"))
        ),
    )


def by_pod(usages: Iterable[NodeUsage]) -> Mapping[str, tuple[ContainerUsage, ...]]:
    """The containers of several nodes by ``full_name`` of their pod."""
    found: dict[str, list[ContainerUsage]] = {}
    for usage in usages:
        for each in usage.containers:
            found.setdefault(each.full_name, []).append(each)
    return {name: tuple(containers) for name, containers in found.items()}


def _card(usage: CardUsage) -> CardUsageDocument:
    used = usage.used
    kinds: MemoryDocument | None = None
    if used is not None:
        kinds = {"context": used.context, "module": used.module, "data": used.data, "other": used.other}
    return {
        "id": usage.card,
        "memoryAllocatedBytes": usage.allocated,
        "coresAllocatedRatio": usage.cores_allocated,
        "memoryLimitBytes": usage.limit,
        "memoryUsedBytes": None if used is None else used.total,
        "memoryUsedByKindBytes": kinds,
        "utilizationRatio": usage.utilization,
    }


def _decoded(raw: object, place: str) -> ContainerUsage:
    body = fields.whole(raw, place)
    return ContainerUsage(
        pod_uid=PodUid(fields.text(body, "podUid", place)),
        container=fields.text(body, "container", place),
        namespace=fields.text(body, "namespace", place),
        pod=fields.text(body, "pod", place),
        reading=_one_of(ReadStatus, fields.text(body, "reading", place) or ReadStatus.READ, f"{place}.reading"),
        problem=fields.text(body, "problem", place),
        cards=tuple(
            _decoded_card(each, f"{place}.cards[{at}]") for at, each in enumerate(fields.items(body, "cards", place))
        ),
        processes=fields.natural(body, "processes", place),
        unconfirmed=fields.natural(body, "unconfirmedProcesses", place),
        gone=fields.natural(body, "goneProcesses", place),
        last_kernel_age=_ratio(body, "lastKernelAgeSeconds", place),
        doubts=frozenset(_one_of(UsageDoubt, each, f"{place}.doubts") for each in fields.texts(body, "doubts", place)),
    )


def _decoded_card(raw: object, place: str) -> CardUsage:
    body = fields.whole(raw, place)
    kinds = fields.member(body, "memoryUsedByKindBytes", place)
    inside = f"{place}.memoryUsedByKindBytes"
    used = MemoryUse(*(_bytes(kinds, name, inside) or 0 for name in MemoryUse._fields)) if kinds else None
    return CardUsage(
        card=fields.device(body, "id", place),
        allocated=_bytes(body, "memoryAllocatedBytes", place),
        cores_allocated=_ratio(body, "coresAllocatedRatio", place),
        limit=_bytes(body, "memoryLimitBytes", place),
        used=used,
        utilization=_ratio(body, "utilizationRatio", place),
    )


def _one_of(kind: Any, text: str, place: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise wrong(place, text, f"one of {', '.join(kind)}") from None


def _bytes(holder: Json, name: str, place: str) -> int | None:
    if holder.get(name) is None:
        return None
    found = fields.number(holder, name, place)
    if found < 0:
        raise wrong(fields.path(place, name), found, "a number of bytes")
    return found


def _ratio(holder: Json, name: str, place: str) -> float | None:
    value = holder.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise wrong(fields.path(place, name), value, "a number that is not negative")
    return float(value)
