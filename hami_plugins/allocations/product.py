"""The configuration of an allocator: its vendors, and how it allocates in this cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from hami_plugins.allocations import unread
from hami_plugins.allocations.lock_demand import Notes, plugin_vendors
from hami_plugins.allocations.node_answers import as_it_is
from hami_plugins.allocations.planner import AllocationPlanner
from hami_plugins.engine.annotate import BIND_TIME_KEY, BOOKKEEPING, PHASE_KEY
from hami_plugins.engine.annotate import NODE_KEY as HAMI_NODE_KEY
from hami_plugins.engine.intake import PodInfo, Rules
from hami_plugins.engine.mutate import is_hamis
from hami_plugins.engine.registry import Registry
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container, Pod
from hami_plugins.model.requests import DeviceDemand
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors.volcano import NODE_KEY
from hami_plugins.wire.admission_review import Answer
from hami_plugins.wire.fields import Json


def nothing_carried(_node: NodeName, _intake: PodInfo, _annotations: Mapping[str, str]) -> None:
    """No other scheduler writes allocations."""


def volcano_carried(node: NodeName, intake: PodInfo, annotations: Mapping[str, str]) -> Mapping[str, str] | None:
    """The allocation that Volcano wrote for this node: on the pod up to 1.15, in the Binding later."""
    return next((each for each in (intake.pod.annotations, annotations) if each.get(NODE_KEY) == node), None)


def hami_carried(node: NodeName, intake: PodInfo, _annotations: Mapping[str, str]) -> Mapping[str, str] | None:
    """The allocation that HAMi's own scheduler wrote on the pod for this node."""
    return intake.pod.annotations if intake.pod.annotations.get(HAMI_NODE_KEY) == node else None


@dataclass(frozen=True, kw_only=True)
class Product:
    """The vendors of an allocator, and what it does.

    ``marker`` is the annotation, with its value, of pods that must not be bound without an allocation. ``binds``: the
    allocator binds pods for kube-scheduler. ``names_best``: it returns only the best node. ``planner`` creates, once
    per cache, the planner for decisions that need more than the devices of one node.

    ``schedulers`` are Volcano's. ``described`` is as in ``NodeAnswers``.
    ``jobs`` answers the creation of a Volcano Job (``None``: no webhook for those).
    ``carries`` are annotations of another scheduler that name an allocation on the node, which is taken if it is right;
    it is given the pod and the Binding's annotations. Those of HAMi's scheduler are on pods without the marker.
    """

    registry: Registry
    rules: Rules
    marker: tuple[str, str]
    schedulers: Collection[str] = ("volcano",)
    jobs: Callable[[Json], Answer] | None = None
    binds: bool = False
    names_best: bool = False
    planner: Callable[[], AllocationPlanner] = AllocationPlanner
    described: Callable[[Json], Json] = as_it_is
    carries: Callable[[NodeName, PodInfo, Mapping[str, str]], Mapping[str, str] | None] = nothing_carried

    def carried(self, node: NodeName, intake: PodInfo, annotations: Mapping[str, str]) -> Mapping[str, str] | None:
        """The allocation of another scheduler that goes with a Binding."""
        found = self.carries(node, intake, annotations)
        return hami_carried(node, intake, annotations) if found is None and self.of_hami(intake.pod) else found

    def of_hami(self, pod: Pod) -> bool:
        """Whether HAMi's own scheduler may have allocated a pod's devices: it is in HAMi's words, and not marked."""
        if self.marker[0] in pod.annotations:
            return False
        return any(
            spec.asked_of(each.limits) for spec in self.registry if served_by_hami(spec) for each in pod.containers
        )

    def vendors_for(self, scheduler: str) -> Registry:
        """The vendors whose devices a pod of this scheduler gets from the allocator."""
        if scheduler in self.schedulers:
            return self.registry
        return self._of_hami if is_hamis(scheduler, self.rules.webhook) else self._of_any

    @cached_property
    def takes_over(self) -> bool:
        """Whether pods that ask for HAMi's resources are given to HAMi's scheduler."""
        return any(map(served_by_hami, self.registry))

    @cached_property
    def _of_hami(self) -> Registry:
        return Registry(each for each in self.registry if each.dialect is Dialect.HAMI)

    @cached_property
    def _of_any(self) -> Registry:
        return Registry(each for each in self.registry if each.allocation.any_scheduler)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """All annotations of an allocation. One that uses some of them empties the others."""
        kept = BOOKKEEPING if self.takes_over else ()
        return tuple(dict.fromkeys((*kept, *(key for spec in self.registry for key in spec.keys.written()))))

    @cached_property
    def held(self) -> tuple[str, ...]:
        """The annotations by which a bound pod is known to hold something."""
        specs = (each for spec in self.registry for each in (spec, *spec.records.counterparts))
        found = ((spec.keys.allocated, spec.keys.more, *spec.allocation.held) for spec in specs)
        return tuple(dict.fromkeys(key for keys in found for key in keys if key))

    @cached_property
    def resources(self) -> frozenset[str]:
        """The names of all resources that its vendors' devices are asked for by."""
        return frozenset(self.registry.resources)

    @cached_property
    def noun(self) -> str:
        """What people call one of the devices."""
        return self.registry.noun(spec.name for spec in self.registry)

    def word(self, demand: DeviceDemand) -> str:
        """The noun that messages use for the requested devices."""
        return " and ".join(dict.fromkeys(word_of(self.registry[name]) for name in demand.vendors))

    def bookkeeping(self, demand: DeviceDemand, notes: Notes = (), *, now_ns: int) -> dict[str, str]:
        """What HAMi's device plugins look for on a pod that is on its way to them (HAMi 2.10.0 ``scheduler.go``).

        ``notes`` are those of the pod's node: an agent of ours looks for nothing.
        """
        vendors = plugin_vendors((self.registry[name] for name in demand.vendors), notes)
        if not any(map(served_by_hami, vendors)):
            return {}
        return {PHASE_KEY: "allocating", BIND_TIME_KEY: str(now_ns // 10**9)}

    def blocking_reason(self, pod: Pod) -> str:
        """Why a pod gets nothing whatever is free; empty where nothing is in its way."""
        asked = ((spec, spec.allocation.blocking_reason) for spec in self.registry)
        return next(filter(None, (ask(spec, pod) for spec, ask in asked if ask is not None)), "")

    def containers_of(self, annotations: Mapping[str, str]) -> tuple[Container, ...]:
        """The containers that an unreadable pod's annotations name: those of the vendor that names the most."""
        found = (unread.containers(spec, annotations) for spec in self.registry)
        return max(found, key=len, default=())


def served_by_hami(spec: VendorSpec) -> bool:
    """Whether HAMi's own device plugins give the devices to containers."""
    return spec.dialect is Dialect.HAMI and not spec.allocation.any_scheduler


def word_of(spec: VendorSpec) -> str:
    """What messages call a vendor's devices."""
    return spec.allocation.word or spec.name
