"""What an allocator has to know about Neuron devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from hami_plugins.allocations.planner import AllocationPlanner
from hami_plugins.allocations.product import Product
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.shortfall import CardShortage, NodeShortage
from hami_plugins.errors import WireError
from hami_plugins.model.decisions import Refusal
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Container
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors.awsneuron import IDS_KEY, KIND_KEY
from hami_plugins.wire import pod_devices
from neuron_topology.core.allocator import marks
from neuron_topology.core.allocator.names import ALLOCATION_KEYS, HELD_KEYS, MARKED, MARKER_KEY
from neuron_topology.core.jobs.admission import admit
from neuron_topology.core.names import CORES, DEVICES
from neuron_topology.core.nodes import HEALTH_KEY
from neuron_topology.core.vendor import SPEC

METRICS: Final = "neuron_allocator"
"""What the names of the server's metrics begin with."""

AUDIT: Final = "NeuronAllocationAudit"

_REMEDIES: Final[Mapping[Reason, str]] = {
    Reason.CORES: "ask for fewer cores or wait until pods end",
    Reason.EXCLUSIVE: "wait until pods end, or ask for fewer devices",
    Reason.TOO_FEW_CARDS: "ask for fewer devices",
    Reason.TOO_FEW: "ask for fewer devices or wait until pods end",
    Reason.TOPOLOGY: "wait until pods end, or ask for fewer devices",
    Reason.ID: "change or remove that annotation of the pod",
    Reason.WITHHELD: f"name the broken devices in {HEALTH_KEY} of the node, or wait until pods end",
    Reason.HEALTH: f"{HEALTH_KEY} of the node names the broken devices",
}


_OF_ONE: Final = "wait until pods end, or ask for cores instead of a whole device"


def product_of(
    rules: Rules, planner: Callable[[], AllocationPlanner] = AllocationPlanner, *, binds: bool = True
) -> Product:
    """Allocations for pods of every scheduler; ``planner`` makes what knows of jobs and of machines that go.

    ``binds`` is whether kube-scheduler may leave Bindings to the server.
    """
    return Product(
        audit=AUDIT,
        word="Neuron",
        spec=SPEC,
        rules=rules,
        marker=(MARKER_KEY, MARKED),
        keys=ALLOCATION_KEYS,
        held=HELD_KEYS,
        unregistered=_unregistered,
        jobs=admit,
        kube_scheduler=True,
        binds=binds,
        groups=True,
        planner=planner,
        mark=lambda raw: marks.mark(raw, rules),
        containers_of=_containers_of,
        wording=_wording,
        remedy=_remedy,
    )


def _unregistered(problems: Sequence[str]) -> str:
    reasons = problems or [f"its capacity has no {DEVICES}"]
    return f"the node offers no Neuron devices ({'; '.join(reasons)}); run AWS's device plugin there"


def _containers_of(annotations: Mapping[str, str]) -> tuple[Container, ...]:
    """A container for each segment of HAMi's list, or one for AWS's numbers alone; each asks for what it has."""
    written = annotations.get(IDS_KEY, "")
    amounts = [written.count(",") + 1] if written else []
    with suppress(WireError):
        segments = pod_devices.decode(SPEC.keys.allocated, annotations.get(SPEC.keys.allocated, ""))
        amounts = [len(each) for each in segments] or amounts
    name = CORES if KIND_KEY in annotations else DEVICES
    return tuple(
        Container(name=f"{at}", limits={name: Quantity(amount * NANO, f"{amount}")})
        for at, amount in enumerate(amounts)
    )


def _wording(reason: CardShortage | NodeShortage, refusal: Refusal) -> str:
    """Where sets are the matter, the sentence of the vendor: it says what could be had. No pods and nodes are named."""
    if not isinstance(reason, CardShortage) or reason.blocked is None:
        return ""
    spelled = reason.reason in {Reason.TOPOLOGY, Reason.WITHHELD} or not reason.blocked.members
    return refusal.words if spelled else ""


def _remedy(reason: CardShortage | NodeShortage, _entry: NodeEntry | None) -> str:
    if not isinstance(reason, CardShortage):
        return ""
    if reason.blocked is not None and not reason.blocked.members:
        return "request one of these"
    if reason.reason is Reason.EXCLUSIVE and reason.request.count == 1:
        return _OF_ONE
    return _REMEDIES.get(reason.reason, "")
