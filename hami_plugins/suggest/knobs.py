"""Everything about one question that could be asked more modestly: each lever with the range in which it moves.

A lever says only what could be changed. Whether that helps is for ``suggest`` to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from hami_plugins.engine.decide import DecisionRequest
from hami_plugins.engine.policies import DEVICE_POLICY_KEY, NUMA_BIND_KEY
from hami_plugins.engine.registry import Registry
from hami_plugins.model.nodes import Taint
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import Absolute, DeviceRequest, Percent
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import Reason
from hami_plugins.suggest.changes import Change, ChangeKind, Dropped, LessOf, LessPlain, Tolerated

MOST_REQUESTS: Final = 8
"""Different requests of one pod that are looked at; further ones stay as they are."""

_MILLI: Final = NANO // 1000
_MEBI: Final = NANO << 20
_STEPS: Final = {"cpu": _MILLI, "memory": _MEBI, "ephemeral-storage": _MEBI}

_AMOUNTS: Final = frozenset({Reason.MEMORY, Reason.CORES, Reason.EXCLUSIVE, Reason.PARTITION, Reason.QUOTA})
_LIFTED: Final = {
    ChangeKind.MEMORY: _AMOUNTS,
    ChangeKind.PERCENTAGE: _AMOUNTS,
    ChangeKind.CORES: _AMOUNTS | {Reason.COMPUTE, Reason.QOS},
    ChangeKind.COUNT: frozenset(Reason),
    ChangeKind.EXCLUSIVE: frozenset({Reason.EXCLUSIVE}),
    ChangeKind.NEAR: frozenset({Reason.QUOTA, Reason.TOPOLOGY}),
    ChangeKind.ONE_NUMA: frozenset({Reason.NUMA}),
    ChangeKind.USE_IDS: frozenset({Reason.ID}),
    ChangeKind.AVOID_IDS: frozenset({Reason.ID}),
    ChangeKind.USE_MODELS: frozenset({Reason.MODEL}),
    ChangeKind.AVOID_MODELS: frozenset({Reason.MODEL}),
    ChangeKind.MODES: frozenset({Reason.MODEL, Reason.MODE}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One thing that may be changed: ``change(value)`` for a value from ``low`` (most modest) to ``high``.

    A wish that is kept or given up has one value. ``request`` says which container's request of which vendor is meant
    (the first of equals), where one is; ``unit`` is what one step of the value is worth (MiB, cores, nano units ...);
    ``resource`` is set for a plain resource.
    """

    kind: ChangeKind
    change: Callable[[int], Change]
    low: int = 0
    high: int = 0
    unit: int = 1
    request: tuple[int, VendorName] | None = None
    resource: str = ""

    @property
    def lifts(self) -> frozenset[Reason]:
        """The objections to a device that this may take away; empty for what is about nodes."""
        return _LIFTED.get(self.kind, frozenset())

    @property
    def is_amount(self) -> bool:
        """Whether it moves by degrees."""
        return self.high > self.low


def device_levers(question: DecisionRequest, registry: Registry, largest: Mapping[VendorName, int]) -> Iterator[Knob]:
    """What could be asked more modestly of devices. ``largest`` is the memory (MiB) of each vendor's largest card."""
    containers = question.demand.devices.containers
    requests: dict[DeviceRequest, list[int]] = {}
    for at, container in enumerate(containers):
        for request in container.requests:
            requests.setdefault(request, []).append(at)
    for request, where in islice(requests.items(), MOST_REQUESTS):
        spec = registry[request.vendor]
        yield from _amounts(tuple(where), request, spec, largest.get(spec.name, 0))
    yield from _policies(question.policy)
    for vendor in dict.fromkeys(request.vendor for request in requests):
        selecting = next(request for request in requests if request.vendor == vendor)
        yield from _selectors(registry[vendor], selecting)


def node_levers(question: DecisionRequest, taints: Iterable[Taint], registry: Registry) -> Iterator[Knob]:
    """What could be asked more modestly of nodes. ``taints`` are those that repel the pod somewhere.

    A pod that asks for no card of ours is there for the devices that others hand out, so it keeps some of them.
    """
    constraints, wants_cards = question.demand.constraints, question.demand.devices.wants_devices
    for resource, amount in constraints.requests:
        if amount and registry.owner_of(resource) is None:
            yield _plain(resource, amount, low=0 if wants_cards or "/" not in resource else 1)
    for key, value in constraints.selector:
        yield _wish(Dropped(kind=ChangeKind.NODE_SELECTOR, key=key, value=value))
    terms = constraints.affinity or ()
    for key in dict.fromkeys(each.key for term in terms for each in term):
        yield _wish(Dropped(kind=ChangeKind.NODE_AFFINITY, key=key))
    if constraints.node is not None:
        yield _wish(Dropped(kind=ChangeKind.NODE_NAME, key="spec.nodeName", value=constraints.node))
    for taint in taints:
        yield _wish(Tolerated(taint=taint))


def _amounts(where: tuple[int, ...], request: DeviceRequest, spec: VendorSpec, largest: int) -> Iterator[Knob]:
    """Less of each resource where this request stands; a lever that cannot move has ``high`` below ``low``."""

    def less(kind: ChangeKind, resource: str, before: int | None, most: int, unit: int = 1) -> Knob:
        def written(value: int) -> int:
            if kind is ChangeKind.COUNT:
                return value
            return spec.written(value, request.count, memory=kind is ChangeKind.MEMORY)

        def change(value: int) -> Change:
            return LessOf(
                kind=kind,
                resource=resource,
                before=None if before is None else written(before),
                after=written(value),
                containers=where,
                vendor=spec.name,
            )

        return Knob(kind=kind, change=change, low=1, high=most, unit=unit, request=(where[0], spec.name))

    names, factor, memory = spec.resources, spec.memory_factor(), request.memory
    if names.memory and isinstance(memory, Absolute):
        yield less(ChangeKind.MEMORY, names.memory, memory.mib // factor, memory.mib // factor - 1, factor)
    elif names.memory and memory == Percent(100):
        yield less(ChangeKind.MEMORY, names.memory, None, largest // factor, factor)
    if names.memory_percentage and isinstance(memory, Percent) and (memory.of_device < 100 or not names.memory):
        yield less(ChangeKind.PERCENTAGE, names.memory_percentage, memory.of_device, memory.of_device - 1)
    if names.cores:
        yield less(ChangeKind.CORES, names.cores, request.cores, request.cores - 1)
    count = request.slices or request.count
    yield less(ChangeKind.COUNT, names.count, count, count - 1)


def _policies(policy: Policy) -> Iterator[Knob]:
    if policy.exclusive:
        yield _wish(Dropped(kind=ChangeKind.EXCLUSIVE, key=DEVICE_POLICY_KEY, value="mutex"))
    if policy.near:
        yield _wish(Dropped(kind=ChangeKind.NEAR, key=DEVICE_POLICY_KEY, value="topology-aware"))
    if policy.one_numa:
        yield _wish(Dropped(kind=ChangeKind.ONE_NUMA, key=NUMA_BIND_KEY, value="true"))


def _selectors(spec: VendorSpec, request: DeviceRequest) -> Iterator[Knob]:
    selector, keys = request.selector, spec.keys
    said: tuple[tuple[ChangeKind, tuple[str, ...], Iterable[str] | None], ...] = (
        (ChangeKind.USE_IDS, keys.use_ids, selector.use_ids),
        (ChangeKind.AVOID_IDS, keys.avoid_ids, selector.avoid_ids),
        (ChangeKind.USE_MODELS, (keys.use_models,), selector.use_models),
        (ChangeKind.AVOID_MODELS, (keys.avoid_models,), selector.avoid_models),
        (ChangeKind.MODES, (keys.mode,), None if selector.modes is None else (selector.modes,)),
    )
    for kind, names, words in said:
        if words is not None:
            value = ",".join(sorted(words))
            yield _wish(Dropped(kind=kind, key=",".join(names), value=value, vendor=spec.name))


def _plain(resource: str, amount: int, *, low: int) -> Knob:
    step = _MEBI if resource.startswith("hugepages-") else _STEPS.get(resource, NANO)

    def change(value: int) -> Change:
        return LessPlain(resource=resource, before=amount, after=value * step)

    return Knob(
        kind=ChangeKind.RESOURCE, change=change, low=low, high=(amount - 1) // step, unit=step, resource=resource
    )


def _wish(dropped: Dropped | Tolerated) -> Knob:
    return Knob(kind=dropped.kind, change=lambda _: dropped)
