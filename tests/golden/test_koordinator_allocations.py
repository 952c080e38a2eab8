"""Koordinator's record read back and written for others, against the vectors."""

from __future__ import annotations

from typing import Any

from hami_plugins.model.units import DeviceId
from hami_plugins.wire import koordinator, pod_devices, quantity
from hami_plugins.wire.documents import dump
from koordinator_adapter.core.allocations import NodeDevice, assigned, hami_record, synthesised, volcano_record
from tests.golden.cases import Case, each


@each("koordinator/readback.yaml")
def test_the_record_reads_back_as_the_others_write_it(case: Case) -> None:
    given = case.given
    devices = assigned(koordinator.decode(dump(given["device_allocated"])))
    for words, write in (("hami", hami_record), ("volcano", volcano_record)):
        text = write(devices, containers=given["containers"], at=given["gpu_container"])
        assert text == case.expect.get(words, text)


@each("koordinator/synthesise.yaml")
def test_cards_of_others_are_recorded_as_koordinator_would(case: Case) -> None:
    given = case.given
    total = quantity.parse(given["card_memory"], key="card").ceiling
    cards = [NodeDevice(minor, DeviceId(uuid), total) for uuid, minor in given["minor_of_uuid"].items()]
    (devices,) = pod_devices.decode("record", given["record"])
    found = synthesised(devices, cards)
    assert [item(each) for each in found["gpu"]] == case.expect["items"]
    assert assigned(koordinator.decode(koordinator.encode(found))) == devices


def item(device: koordinator.AllocatedDevice) -> dict[str, Any]:
    """One card as the vectors print it, amounts by value."""
    amounts = {name: str(amount.ceiling) for name, amount in device.resources.items()}
    return {"minor": device.minor, "resources": amounts, "id": device.id}
