"""Which single pod, were it gone, could make room for another: found by arithmetic, smallest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from hami_plugins.engine.eligibility import objection
from hami_plugins.engine.gauge import ENOUGH, Gauge, Lack
from hami_plugins.engine.refusals import Refusals
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import DeviceId
from hami_plugins.model.verdicts import Reason

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
        wanted = [_wanted(gauge, entry) for gauge in gauges]
        for pod in entry.pods:
            freed = _freed(pod)
            if freed and all(_enough(missing, lacks, freed) for missing, lacks in wanted):
                yield _victim(pod, entry, freed)
    for entry in refusals.objecting:
        needs = _shortages(refusals, entry)
        for pod in entry.pods if needs else ():
            given = {"pods": NANO, **dict(pod.requests)}
            if all(given.get(resource, 0) >= need for resource, need in needs.items()):
                yield _victim(pod, entry, _freed(pod))


def _victim(pod: PodRecord, entry: NodeEntry, freed: Mapping[DeviceId, Lack]) -> Victim:
    return Victim(pod, entry, sum(each.memory for each in freed.values()), sum(each.cores for each in freed.values()))


def _wanted(gauge: Gauge, entry: NodeEntry) -> tuple[int, Mapping[DeviceId, Lack]]:
    """How many devices are missing on a node, and what lacks on each of those that could be among them."""
    lacks = {entry.ids[at]: lack for at, lack in gauge.lacks(entry)}
    return gauge.request.count - gauge.capable(entry), {name: each for name, each in lacks.items() if each != ENOUGH}


def _enough(missing: int, lacks: Mapping[DeviceId, Lack], freed: Mapping[DeviceId, Lack]) -> bool:
    """Whether what a pod holds makes up for what lacks, on as many devices as are missing."""
    if missing <= 0:
        return True
    for device, gives in freed.items():
        lack = lacks.get(device)
        if lack and gives.slots >= lack.slots and gives.memory >= lack.memory and gives.cores >= lack.cores:
            missing -= 1
    return missing <= 0


def _freed(pod: PodRecord) -> Mapping[DeviceId, Lack]:
    """What a pod gives back of each device, or more: init containers count as if they ran beside the others."""
    freed: dict[DeviceId, Lack] = {}
    for grant in pod.grants:
        for share in grant.shares:
            slots, memory, cores = freed.get(share.device, ENOUGH)
            freed[share.device] = Lack(slots + 1, memory + share.memory, cores + share.cores)
    return freed


def _shortages(refusals: Refusals, entry: NodeEntry) -> Mapping[str, int]:
    """What is missing of plain resources (nano units) on a node that objects to nothing else; empty for other nodes."""
    constraints = refusals.question.demand.constraints
    if objection(replace(entry, requested={}), replace(constraints, requests=()), refusals.uncounted) is not None:
        return {}
    allocatable = entry.facts.allocatable
    asked = {"pods": NANO, **dict(constraints.requests)}
    return {
        resource: amount - free
        for resource, amount in asked.items()
        if resource in allocatable
        and resource not in refusals.uncounted
        and (free := allocatable[resource].nano - entry.requested.get(resource, 0)) < amount
    }
