"""Which pods, were they gone, could make room for another: one by arithmetic, several where devices go in sets."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from operator import ge
from typing import Final, NamedTuple

from hami_plugins.engine.blockers import MOST_NODES, Blocked, blocked_on
from hami_plugins.engine.bounds import ENOUGH, DeviceShortage, RequestBounds
from hami_plugins.engine.eligibility import objection, shortages
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import DeviceId
from hami_plugins.model.verdicts import Reason
from hami_plugins.suggest.refusals import Refusals

TAKEN: Final = frozenset(
    {
        Reason.SLOTS,
        Reason.COMPUTE,
        Reason.MEMORY,
        Reason.CORES,
        Reason.HEALTH,
        Reason.EXCLUSIVE,
        Reason.VENDOR_RULE,
        Reason.PARTITION,
        Reason.QOS,
        Reason.APP_CLASS,
        Reason.GROUP,
        Reason.MODE,
    }
)
"""Objections to a device that can be there because of who uses it."""


class Victim(NamedTuple):
    """A pod whose leaving could be enough."""

    pod: PodRecord
    entry: NodeEntry
    memory: int
    cores: int

    @property
    def size(self) -> tuple[bool, int, int, int, str]:
        """The sort key: what is lost. A pod that is going anyway is no loss."""
        cpu = dict(self.pod.requests).get("cpu", 0)
        return not self.pod.terminating, self.memory, self.cores, cpu, self.pod.full_name


def victims(refusals: Refusals) -> Iterator[Victim]:
    """Every pod whose leaving could be enough, in no particular order."""
    gauges = refusals.gauges(refusals.question)
    for entry in refusals.lifted_by(TAKEN):
        wanted = [each for gauge in gauges if (each := _Wanted.of(gauge, entry)).missing > 0]
        if any(each.missing > len(each.lacks) for each in wanted):
            continue
        for pod in entry.pods:
            if all(each.comes_free_with(pod) for each in wanted):
                yield _victim(pod, entry)
    for entry in refusals.objecting:
        needs = _needs(refusals, entry)
        for pod in entry.pods if needs else ():
            given = {"pods": NANO, **dict(pod.requests)}
            if all(given.get(resource, 0) >= need for resource, need in needs.items()):
                yield _victim(pod, entry)


def victims_together(refusals: Refusals, may_go: Callable[[PodRecord], bool]) -> Iterator[Blocked]:
    """The sets of devices that two or more pods keep from the question, none of which has to stay."""
    question = refusals.question
    requests = dict.fromkeys(each for container in question.demand.devices.containers for each in container.requests)
    for request in requests:
        spec = refusals.registry[request.vendor]
        if spec.topology.together is None:
            continue
        for entry in islice(refusals.lifted_by(TAKEN | {Reason.TOPOLOGY}), MOST_NODES):
            for blocked in blocked_on(spec, request, question.policy, entry):
                if len(blocked.holders) > 1 and all(may_go(each.pod) for each in blocked.holders):
                    yield blocked


class _Wanted(NamedTuple):
    """How many devices are missing on a node for one request, and what lacks on those that could be among them."""

    missing: int
    lacks: Mapping[DeviceId, DeviceShortage]

    @classmethod
    def of(cls, gauge: RequestBounds, entry: NodeEntry) -> _Wanted:
        missing = gauge.request.count - gauge.capable(entry)
        return cls(missing, {entry.ids[at]: lack for at, lack in gauge.lacking(entry)} if missing > 0 else {})

    def comes_free_with(self, pod: PodRecord) -> bool:
        """Whether what a pod holds makes up for what lacks, on as many devices as are missing."""
        missing, lacks = self
        held = _held(pod, lacks)
        return missing <= sum(1 for device, gives in held.items() if all(map(ge, gives, lacks[device])))


def _held(pod: PodRecord, devices: Container[DeviceId]) -> Mapping[DeviceId, DeviceShortage]:
    """What a pod gives back of some devices, or more: init containers count as if they ran beside the others."""
    held: dict[DeviceId, DeviceShortage] = {}
    for allocation in pod.allocations:
        for share in allocation.shares:
            if share.device in devices:
                slots, memory, cores = held.get(share.device, ENOUGH)
                held[share.device] = DeviceShortage(slots + 1, memory + share.memory, cores + share.cores)
    return held


def _victim(pod: PodRecord, entry: NodeEntry) -> Victim:
    shares = [share for allocation in pod.allocations for share in allocation.shares]
    return Victim(pod, entry, sum(share.memory for share in shares), sum(share.cores for share in shares))


def _needs(refusals: Refusals, entry: NodeEntry) -> Mapping[str, int]:
    """What is missing of plain resources (nano units) on a node that objects to nothing else; empty for other nodes."""
    constraints = refusals.question.demand.constraints
    if objection(replace(entry, requested={}), replace(constraints, requests=()), refusals.uncounted) is not None:
        return {}
    return {each.resource: each.asked - each.free for each in shortages(entry, constraints, refusals.uncounted)}
