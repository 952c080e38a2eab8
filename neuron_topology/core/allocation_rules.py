"""How an allocator gives Neuron devices to pods: what holds them, and what to do where they are short."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.pods import Container
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.vendor import AllocationRules, VendorSpec
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors.awsneuron import IDS_KEY, KIND_KEY
from hami_plugins.wire import pod_devices
from neuron_topology.core import capacity_block_end
from neuron_topology.core.names import CORES, DEVICES, EFA
from neuron_topology.core.nodes import HEALTH_KEY

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


def _remedy(reason: Reason, request: DeviceRequest) -> str:
    if reason is Reason.EXCLUSIVE and request.count == 1:
        return _OF_ONE
    return _REMEDIES.get(reason, "")


def _containers_of(spec: VendorSpec, annotations: Mapping[str, str]) -> tuple[Container, ...]:
    """A container for each segment of HAMi's list, or one for AWS's numbers alone; each asks for what it has."""
    written = annotations.get(IDS_KEY, "")
    amounts = [written.count(",") + 1] if written else []
    with suppress(WireError):
        segments = pod_devices.decode(spec.keys.allocated, annotations.get(spec.keys.allocated, ""))
        amounts = [len(each) for each in segments] or amounts
    name = CORES if KIND_KEY in annotations else DEVICES
    return tuple(
        Container(name=f"{at}", limits={name: Quantity(amount * NANO, f"{amount}")})
        for at, amount in enumerate(amounts)
    )


ALLOCATION_RULES: Final = AllocationRules(
    word="Neuron",
    held=(IDS_KEY,),
    remedy_without="run AWS's device plugin there",
    remedy=_remedy,
    any_scheduler=True,
    wrong=capacity_block_end.wrong,
    containers_of=_containers_of,
    network=((DEVICES, 10), (EFA, 5)),
)
