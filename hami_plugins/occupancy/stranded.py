"""Which free part of a card no request can get.

Room is *stranded* on a card that is in use and that refuses every request: all its slots are taken, all its cores are
promised, or its vendor's own rules (partitions, templates, sharing) refuse even the smallest request that an idle card
of its kind would take. Where pods are planned, the requests that count are theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hami_plugins.engine.demand import request_of
from hami_plugins.engine.fit import Fitter
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import InvalidRequestError
from hami_plugins.model.devices import Instance
from hami_plugins.model.nodes import NodeShape, NodeState
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.policy import DEFAULT_POLICY, Policy
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import Candidate, ContainerRequest, VendorSpec
from hami_plugins.plan import Plan

NO_PLACE: Final = "no place for a further partition"
TOO_LITTLE: Final = "too little for the smallest request"
TOO_LITTLE_FOR_PLANNED: Final = "too little for any planned pod"

_ONE: Final = Quantity(NANO, "1")


class PlannedRequest(NamedTuple):
    """What one container of a planned pod asks of one vendor, and the pod's policy."""

    request: DeviceRequest
    policy: Policy


def planned_requests(plan: Plan) -> Iterable[PlannedRequest]:
    """The distinct requests of a plan."""
    return dict.fromkeys(
        PlannedRequest(request, pod.intake.policy)
        for pod in plan.pods
        for container in pod.intake.demand.devices.containers
        for request in container.requests
    )


class StrandedRule:
    """Says why the rest of a used card cannot be allocated. Equal nodes are judged once."""

    def __init__(self, registry: Registry, planned: Iterable[PlannedRequest] = ()) -> None:
        self._registry = registry
        self._planned: dict[VendorName, list[Fitter]] = {}
        for request, policy in planned:
            fitter = Fitter.of(registry[request.vendor], request, policy)
            self._planned.setdefault(request.vendor, []).append(fitter)
        self._smallest: dict[VendorName, Sequence[Fitter]] = {}
        self._possible: dict[tuple[NodeShape, int], Sequence[Fitter]] = {}
        self._known: dict[tuple[NodeState, int], str] = {}

    def why(self, state: NodeState, at: int) -> str:
        """Why no request can get what is left of a device; empty where one can, and for a device that is not in use."""
        if not state.usage[at].slots:
            return ""
        known = self._known.get((state, at))
        if known is None:
            known = self._known[state, at] = self._why(state, at)
        return known

    def _why(self, state: NodeState, at: int) -> str:
        device, usage = state.shape.devices[at], state.usage[at]
        if usage.slots >= device.slots:
            return "its only slot is taken" if device.slots == 1 else f"all {device.slots} slots are taken"
        if device.cores and usage.cores >= device.cores:
            return f"all {device.cores} cores are promised"
        planned = self._planned.get(device.vendor)
        if planned:
            return "" if any(_has_room(fitter, state, at) for fitter in planned) else TOO_LITTLE_FOR_PLANNED
        possible = self._possible_on(state.shape, at)
        if not possible or any(_has_room(fitter, state, at) for fitter in possible):
            return ""
        return NO_PLACE if any(isinstance(mark, Instance) for mark in usage.marks) else TOO_LITTLE

    def _possible_on(self, shape: NodeShape, at: int) -> Sequence[Fitter]:
        """The smallest requests that the device takes where nothing is in use."""
        found = self._possible.get((shape, at))
        if found is None:
            vendor, idle = shape.devices[at].vendor, NodeState.idle(shape)
            if vendor not in self._smallest:
                self._smallest[vendor] = tuple(_smallest(self._registry[vendor]))
            found = tuple(each for each in self._smallest[vendor] if _has_room(each, idle, at))
            self._possible[shape, at] = found
        return found


def _smallest(spec: VendorSpec) -> Iterator[Fitter]:
    """The smallest requests that can be written: one unit of each resource, together and alone."""
    names = spec.resources
    for wanted in (
        (names.count, names.memory),
        (names.count, names.cores),
        (names.count, names.memory, names.cores),
        (names.memory_percentage, names.cores),
        (names.count,),
        (names.memory,),
        (names.cores,),
    ):
        if not all(wanted):
            continue
        container = Container(name="", limits=dict.fromkeys(wanted, _ONE))
        try:
            request = request_of(spec, container, Pod(namespace="", name="", containers=(container,)))
        except InvalidRequestError:
            continue  # the vendor knows no such request
        if request is not None:
            yield Fitter.of(spec, request, DEFAULT_POLICY)


def _has_room(fitter: Fitter, state: NodeState, at: int) -> bool:
    fitter, fitting = fitter.on(state.shape), fitter.spec.fitting
    candidate = Candidate(at, state.shape.devices[at], state.usage[at])
    ask = ContainerRequest(
        fitter.request, fitter.policy, state.shape, (), fitting.cores_of, fitting.memory_of, state.usage
    )
    return all(check(candidate, ask) is None for check in fitter.room)
