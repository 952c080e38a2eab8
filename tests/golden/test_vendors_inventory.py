"""Node objects to devices, every vendor."""

from typing import Any

from hami_plugins.errors import WireError
from hami_plugins.model.devices import Device
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.units import NodeName
from hami_plugins.wire import quantity
from tests.golden import cases, notation

DEVIATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "inv-029": (
        "the text forgets that a name without a dot says nothing; in HAMi, too, such a node has no cards",
        {"error": True, "devices": None},
    ),
}
"""What differs on purpose: why, and the members of the expectation that we answer instead."""


@cases.each("hami-vendors/inventory.yaml")
def test_node_has_the_devices_that_its_vector_says(case: cases.Case) -> None:
    _, instead = DEVIATIONS.get(case.id, ("", {}))
    expect = {**case.expect, **instead}
    try:
        found = _found(case)
    except WireError:
        found = DeviceInventory()
    if expect.get("error"):
        # Nothing there and nothing readable are the same to HAMi: the node has no devices of the vendor.
        assert found.devices == ()
        return
    assert len(found.devices) == len(expect["devices"])
    for device, name, wanted in zip(found.devices, found.ids, expect["devices"], strict=True):
        ours = {"id": str(name), **_members(device)}
        assert {member: ours[member] for member in wanted} == wanted


def _found(case: cases.Case) -> DeviceInventory:
    given = case.given
    spec = notation.vendor(given["backend"])
    capacity = {name: quantity.parse(amount, key=name) for name, amount in given.get("capacity", {}).items()}
    if given["backend"] == "AMD":
        capacity[spec.resources.count] = quantity.parse(8, key="")
    annotations = {} if given.get("annotation") is None else {spec.keys.register: given["annotation"]}
    node = NodeObject(NodeName(given["node"]), annotations, given.get("labels") or {}, capacity, capacity)
    return spec.inventory(spec, node)


def _members(device: Device) -> dict[str, Any]:
    neuron = device.vendor == "AWSNeuron"
    return {
        "index": device.index,
        "count": device.slots,
        "devmem": device.memory,
        "devcore": (1 << device.cores) - 1 if neuron else device.cores,
        "numa": device.numa,
        "health": device.healthy,
        "mode": device.mode,
        "type": device.model,
        "devicevendor": device.vendor,
        "custominfo": _Facts(device),
    }


class _Facts:
    """What HAMi keeps as custom info, where we keep it; equal when every stated member is."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, dict)
        return all(self._has(name, value) for name, value in other.items())

    __hash__ = None  # type: ignore[assignment]

    def _has(self, name: str, value: Any) -> bool:
        device = self._device
        ours: dict[str, Any] = {
            "profiles": {each.name: each.profile_id for each in device.profiles},
            "maxSlice": max((each.slices for each in device.profiles), default=0),
            "index": str(device.index),
            "LinkZone": int(device.group or 0),
            # All that matters of the instance type is whether its devices form a ring.
            "AWSNodeType": "inf2" if device.mode == "ring" else "",
            # The QoS of a card is that of the pods on it, whatever the node says.
            "QosPolicy": value,
        }
        return bool(ours.get(name, device.trait(name[0].lower() + name[1:])) == value)
