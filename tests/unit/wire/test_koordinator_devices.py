"""Koordinator's Device objects: read, written, and what is wrong with some."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.units import NodeName
from hami_plugins.wire import koordinator_devices as wire

CARD: dict[str, Any] = {
    "type": "gpu",
    "id": "GPU-a",
    "minor": 0,
    "health": True,
    "resources": {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": "24564Mi",
        "koordinator.sh/gpu-memory-ratio": "100",
    },
    "labels": {"gpu-uuid": "GPU-a"},
    "topology": {"socketID": -1, "nodeID": 1, "pcieID": "pci0000:00", "busID": "0000:00:09.0"},
}


def an_object(*devices: Any, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {
            "name": "node-1",
            "labels": labels or {"node.koordinator.sh/gpu-vendor": "nvidia", "node.koordinator.sh/gpu-model": "A10"},
        },
        "spec": {"devices": list(devices)},
    }


def test_what_is_read_is_written_again() -> None:
    raw = an_object(CARD, {"type": "rdma", "minor": 0, "health": False, "resources": {"koordinator.sh/rdma": "100"}})
    found = wire.decode(raw)
    assert wire.encode(found) == raw
    assert (found.node, found.vendor, found.model, found.wrong) == ("node-1", "nvidia", "A10", ())
    assert [each.minor for each in found.cards] == [0]


def test_what_is_said_of_a_devices_health_is_read_and_written_again() -> None:
    said = {
        "type": "Healthy",
        "status": "False",
        "reason": "Unhealthy",
        "message": "reported by the node's agent",
        "lastTransitionTime": "2026-11-22T12:00:00Z",
    }
    raw = an_object({**CARD, "health": False, "conditions": [said]})
    found = wire.decode(raw)
    assert wire.encode(found) == raw
    assert [each.holds for each in found.cards[0].conditions] == [False]


def test_an_object_without_devices_and_labels_is_one() -> None:
    found = wire.decode({"metadata": {"name": "n"}, "spec": None})
    assert found == wire.DeviceObject(node=NodeName("n"))
    assert (found.vendor, found.model, found.cards) == ("", "", ())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"minor": None}, "without one Koordinator's scheduler ends"),
        ({"minor": -1}, "an integer from 0"),
        ({"type": ""}, "gpu, rdma or fpga"),
        ({"health": "yes"}, "true or false"),
        ({"resources": {"koordinator.sh/gpu-memory": "-1"}}, "0 or more"),
        ({"resources": {"koordinator.sh/gpu-memory": "much"}}, "not a quantity"),
        ({"topology": {"nodeID": "one"}}, "an integer"),
        ({"labels": {"a": 1}}, "text under a text"),
        ({"minor": 1}, "two devices of one kind have this number"),
    ],
)
def test_a_broken_card_hides_no_other(change: dict[str, Any], words: str) -> None:
    found = wire.decode(an_object({**CARD, "minor": 1}, {**CARD, **change}))
    assert [each.minor for each in found.cards] == [1]
    (error,) = found.wrong
    assert words in str(error)
    assert "device node-1: spec.devices[1]" in str(error)


@pytest.mark.parametrize("raw", [None, [], {"metadata": {}}, {"metadata": {"name": "n"}, "spec": {"devices": {}}}])
def test_what_is_no_device_object_is_refused(raw: object) -> None:
    with pytest.raises(WireError):
        wire.decode(raw)


def test_deprecated_names_of_resources_are_read_as_the_present_ones() -> None:
    old = {**CARD, "resources": {"kubernetes.io/gpu-core": 100}}
    (card,) = wire.decode(an_object(old)).cards
    assert {name: str(amount) for name, amount in card.resources.items()} == {"koordinator.sh/gpu-core": "100"}
