"""Charges from Prometheus: what is asked, minute by minute, and what the answers amount to.

A sample counts for one minute. Minutes in which no allocator answered have no sample and are not charged to anyone;
their number is known, because the metric of an answering allocator has none either. A span of more than a day is
queried in pieces, so that no query needs more samples than Prometheus allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

from hami_plugins.model.charges import ChargedAmount, ChargeKey
from hami_plugins.model.units import MEBIBYTE, VendorName
from hami_plugins.occupancy.charges import ChargeReport, IdlePod, TimeSpan, UsedMemory
from hami_plugins.wire.prometheus import Series

LEAST_MINUTES: Final = 10
"""A pod that was seen for less time has hardly begun, and is not called idle."""

MINUTE: Final = 60_000
"""Milliseconds."""

MOST_MINUTES: Final = 1440
"""Of one query."""

_BYTES_PER_GIB: Final = 1 << 30
_MINUTES_PER_HOUR: Final = 60

_PAYER: Final = "pod_namespace, queue, owner, vendor"
_POD: Final = "namespace, pod, exported_namespace, exported_pod"
"""Where the agents are scraped with labels of their own pods, Prometheus has renamed those of the measured pods."""


def _of_agents(name: str) -> str:
    """A metric of containers, from whichever node agent measures them."""
    return f"volcano_vgpu_container_{name} or neuron_agent_container_{name}"


class ChargeQuery(StrEnum):
    """A query; the value is what it sums up over the minutes."""

    DEVICES = f"max by ({_PAYER}) (hami_allocator_allocated_devices)"
    MEMORY = f"max by ({_PAYER}) (hami_allocator_allocated_memory_bytes)"
    ANSWERED = "max(hami_allocator_active) == 1"
    ALLOCATED = f"sum by ({_POD}) ({_of_agents('memory_allocated_bytes')})"
    USED = f"sum by ({_POD}) ({_of_agents('memory_used_bytes')})"
    BUSY = f"max by ({_POD}) ({_of_agents('utilization_ratio')})"
    MINUTES = f"sum by ({_POD}) ({_of_agents('memory_allocated_bytes')}) >= bool 0"

    def text(self, minutes: int) -> str:
        """The query for so many minutes before the time of the call."""
        return f"sum_over_time(({self.value})[{minutes}m:1m])"


class QueryWindow(NamedTuple):
    """The time of a call, in Unix seconds, and the minutes before it that are asked for.

    The time is half a minute after the last one: whether a release of Prometheus counts the first moment of a range
    does not matter then.
    """

    at: int
    minutes: int


ChargeAnswers = Mapping[ChargeQuery, Sequence[Series]]


def windows(now: int, minutes: int) -> Iterator[QueryWindow]:
    """The calls for the ``minutes`` before ``now`` (Unix seconds), the newest first."""
    at = now // 60 * 60 - 30
    while minutes > 0:
        part = min(minutes, MOST_MINUTES)
        yield QueryWindow(at, part)
        at -= part * 60
        minutes -= part


def charges_of(answers: Iterable[ChargeAnswers], span: TimeSpan, *, idle_below: Fraction) -> ChargeReport:
    """What the answers charge in all. Pods that used less than the share ``idle_below`` are idle."""
    told = _Sums()
    for each in answers:
        told.take(each)
    minutes = span.milliseconds // MINUTE
    missing = minutes - int(told.answered)
    defects, remarks = [], []
    if missing > 0:
        defects.append(
            f"no allocator answered in {missing} of {minutes} minutes, or Prometheus did not scrape it; nothing is "
            "charged for them"
        )
    pods = tuple(told.allocated)
    if not pods:
        remarks.append("no node agent reports what containers use, so that used memory and idle pods are not known")
    return ChargeReport(
        span=span,
        charged={
            key: ChargedAmount(
                told.devices.get(key, Fraction(0)) * MINUTE, told.memory.get(key, Fraction(0)) * MINUTE / MEBIBYTE
            )
            for key in (*told.devices, *(each for each in told.memory if each not in told.devices))
        },
        defects=tuple(defects),
        remarks=tuple(remarks),
        used=tuple(told.used_memory()) if pods else None,
        idle=tuple(told.idle(idle_below)) if pods else None,
    )


_Pod = tuple[str, str]


class _Sums:
    """The sums of all windows. A minute in which nothing was allocated has no sample of a pod."""

    def __init__(self) -> None:
        self.devices: dict[ChargeKey, Fraction] = {}
        self.memory: dict[ChargeKey, Fraction] = {}
        self.answered = Fraction(0)
        self.allocated: dict[_Pod, Fraction] = {}
        self._used: dict[_Pod, Fraction] = {}
        self._busy: dict[_Pod, Fraction] = {}
        self._minutes: dict[_Pod, Fraction] = {}

    def take(self, answers: ChargeAnswers) -> None:
        """The answers for one window."""
        for query, into in ((ChargeQuery.DEVICES, self.devices), (ChargeQuery.MEMORY, self.memory)):
            for each in answers[query]:
                key = _payer(each.labels)
                into[key] = into.get(key, Fraction(0)) + each.value
        self.answered += sum(each.value for each in answers[ChargeQuery.ANSWERED])
        for query, of_pods in (
            (ChargeQuery.ALLOCATED, self.allocated),
            (ChargeQuery.USED, self._used),
            (ChargeQuery.BUSY, self._busy),
            (ChargeQuery.MINUTES, self._minutes),
        ):
            for each in answers[query]:
                pod = _pod(each.labels)
                of_pods[pod] = of_pods.get(pod, Fraction(0)) + each.value

    def used_memory(self) -> Iterator[UsedMemory]:
        """By namespace."""
        for namespace in sorted({namespace for namespace, _ in self.allocated}):
            allocated, used = (
                sum((value for pod, value in of_pods.items() if pod[0] == namespace), Fraction(0))
                for of_pods in (self.allocated, self._used)
            )
            yield UsedMemory(namespace=namespace, allocated_gib_hours=_hours(allocated), used_gib_hours=_hours(used))

    def idle(self, below: Fraction) -> Iterator[IdlePod]:
        """The pods that use less than a share of their memory and of their time; what holds most comes first."""
        found = []
        for pod, allocated in self.allocated.items():
            minutes = self._minutes.get(pod, Fraction(0))
            if minutes < LEAST_MINUTES or not allocated:
                continue
            used = self._used[pod] / allocated if pod in self._used else None
            busy = self._busy[pod] / minutes if pod in self._busy else None
            if max(used or Fraction(0), busy or Fraction(0)) < below:
                gib, hours = allocated / minutes / _BYTES_PER_GIB, minutes / _MINUTES_PER_HOUR
                found.append(IdlePod(namespace=pod[0], pod=pod[1], hours=hours, gib=gib, used=used, busy=busy))
        return iter(sorted(found, key=lambda each: (-each.gib * each.hours, each.namespace, each.pod)))


def _hours(byte_minutes: Fraction) -> Fraction:
    return byte_minutes / (_BYTES_PER_GIB * _MINUTES_PER_HOUR)


def _payer(labels: Mapping[str, str]) -> ChargeKey:
    namespace, queue, owner = (labels.get(each, "") for each in ("pod_namespace", "queue", "owner"))
    return ChargeKey(namespace, queue, owner, VendorName(labels.get("vendor", "")))


def _pod(labels: Mapping[str, str]) -> _Pod:
    return (
        labels.get("exported_namespace") or labels.get("namespace", ""),
        labels.get("exported_pod") or labels.get("pod", ""),
    )
