"""A Volcano queue for the Neuron devices of a cluster: it limits the scarce resource alone.

A limit of cpu that is smaller than a machine (the blueprint's queue ``test`` has ``cpu: 2``) keeps every job out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hami_plugins.errors import ConfigError, WireError
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import lenient, quantity
from hami_plugins.wire.fields import Json
from neuron_topology.core import names

API_VERSION: Final = "scheduling.volcano.sh/v1beta1"
LIMITED: Final = (names.DEVICES, names.EFA)


def queue(name: str, nodes: Iterable[Mapping[str, Any]], *, weight: int = 1) -> Json:
    """The queue, as large as the nodes' allocatable devices. Raises ``ConfigError`` without any device."""
    sums = dict.fromkeys(LIMITED, 0)
    for node in nodes:
        status = lenient.inside(node, "status")
        offered = lenient.mapping(status.get("allocatable")) or lenient.mapping(status.get("capacity"))
        for resource in LIMITED:
            sums[resource] += _whole(offered.get(resource))
    if not sums[names.DEVICES]:
        raise ConfigError(f"no node offers {names.DEVICES}; run AWS's device plugin there, or write the queue by hand")
    capability = {resource: str(amount) for resource, amount in sums.items() if amount}
    return {
        "apiVersion": API_VERSION,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight, "reclaimable": True, "capability": capability},
    }


def _whole(written: object) -> int:
    """A whole number of devices; 0 for what is none."""
    try:
        return quantity.parse(str(written), key="").nano // NANO if written is not None else 0
    except WireError:
        return 0
