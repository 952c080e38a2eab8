"""Koordinator's record of what a pod was given, and its deprecated names, against the vectors."""

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire import koordinator, quantity
from tests.golden.cases import Case, each


@each("koordinator/device-allocated.yaml", without=("codec-106", "codec-110"))
def test_the_record_is_read_and_written_as_koordinator_does(case: Case) -> None:
    """No record at all and the order of members have a test of their own."""
    wire = case.given["wire"]
    if case.refused:
        with pytest.raises(WireError):
            koordinator.decode(wire)
        return
    found = koordinator.decode(wire)
    assert koordinator.encode(found) == case.expect.get("remarshal", koordinator.encode(found))
    for kind, devices in case.expect["allocations"].items():
        for device, expect in zip(found[kind], devices, strict=True):
            amounts = {name: quantity.parse(text, key=name) for name, text in expect["resources"].items()}
            assert (device.minor, device.resources) == (expect["minor"], amounts)
            assert device.id == expect.get("id", "")
            extension = expect.get("extension", {})
            assert device.template == extension.get("gpuSharedResourceTemplate", "")
            assert [{"minor": one.minor, "busID": one.bus} for one in device.functions] == extension.get("vfs", [])


def test_members_stand_in_the_order_of_the_record() -> None:
    text = '{"gpu":[{"id":"a","extension":{"gpuSharedResourceTemplate":"vir01"},"resources":{},"minor":2}]}'
    written = koordinator.encode(koordinator.decode(text))
    assert [written.index(name) for name in ("minor", "resources", '"id"', "extension")] == sorted(
        written.index(name) for name in ("minor", "resources", '"id"', "extension")
    )


@each("koordinator/deprecated-names.yaml")
def test_deprecated_names_are_read_and_not_written(case: Case) -> None:
    old = case.given["name"]
    assert koordinator.is_deprecated(old)
    assert koordinator.current(old) == case.expect["name"]
    text = f'{{"gpu":[{{"minor":0,"resources":{{"{old}":50}}}}]}}'
    assert old not in koordinator.encode(koordinator.decode(text))
