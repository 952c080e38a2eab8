"""The three places where vendors tell what a node has."""

from dataclasses import replace

import pytest

from hami_plugins.engine.inventories import (
    MOST_CARDS,
    capacity_of,
    cards,
    colon_register,
    json_register,
)
from hami_plugins.errors import WireError
from hami_plugins.model.inventory import DeviceInventory
from hami_plugins.model.units import INT32_MAX, CoreShare, DeviceId, MiB
from hami_plugins.wire import node_devices
from hami_plugins.wire.node_devices import RegisteredDevice
from tests import acme
from tests.builders import COUNT, a_device, a_node_object

KEY = acme.SPEC.keys.register
DEVICE = RegisteredDevice(
    id=DeviceId("GPU-a"),
    index=3,
    slots=10,
    memory=MiB(16_384),
    cores=CoreShare(100),
    model="Acme",
    numa=1,
    mode="hami-core",
    healthy=True,
)
EXPECTED = DeviceInventory((a_device(index=3, numa=1, mode="hami-core"),), (DeviceId("GPU-a"),))


def test_a_json_register_names_its_devices() -> None:
    node = a_node_object(annotations={KEY: node_devices.encode_json([DEVICE])})
    assert json_register(acme.SPEC, node) == EXPECTED


def test_a_colon_register_names_its_devices() -> None:
    node = a_node_object(annotations={KEY: node_devices.encode_csv([DEVICE])})
    assert colon_register(acme.SPEC, node) == EXPECTED


def test_equal_devices_of_two_nodes_are_one_value_under_the_ids_of_each() -> None:
    one, other = (
        json_register(acme.SPEC, a_node_object(annotations={KEY: node_devices.encode_json([each])}))
        for each in (DEVICE, replace(DEVICE, id=DeviceId("GPU-b")))
    )
    assert one.devices is other.devices
    assert (one.ids, other.ids) == (("GPU-a",), ("GPU-b",))
    smaller = node_devices.encode_json([replace(DEVICE, memory=MiB(1))])
    assert json_register(acme.SPEC, a_node_object(annotations={KEY: smaller})).devices[0].memory == 1


def test_a_register_with_two_mistakes_is_refused_for_the_first() -> None:
    text = '[{"id":"a","count":-1},{"id":"a,b"}]'
    with pytest.raises(WireError, match="count"):
        json_register(acme.SPEC, a_node_object(annotations={KEY: text}))


@pytest.mark.parametrize("read", [json_register, colon_register])
def test_a_node_without_a_register_has_no_devices(read: object) -> None:
    assert read(acme.SPEC, a_node_object()) == DeviceInventory()  # type: ignore[operator]


@pytest.mark.parametrize("read", [json_register, colon_register])
def test_half_a_register_is_refused_by_its_key(read: object) -> None:
    with pytest.raises(WireError) as caught:
        read(acme.SPEC, a_node_object(annotations={KEY: '[{"id":"GPU'}))  # type: ignore[operator]
    assert caught.value.key.startswith(KEY)


def test_facts_of_the_vendor_become_group_and_traits() -> None:
    device = replace(DEVICE, custom={"ring": 2.0, "half": 0.5, "safe": True, "name": "x", "none": None, "big": 7})
    node = a_node_object(annotations={KEY: node_devices.encode_json([device])})
    found = json_register(
        acme.SPEC, node, cores=CoreShare(16), group="ring", traits=("safe", "name", "none", "half", "big", "gone")
    )
    (known,) = found.devices
    assert (known.cores, known.group) == (16, "2")
    assert known.traits == (("big", "7"), ("half", "0.5"), ("name", "x"), ("safe", "true"))
    plain = a_node_object(annotations={KEY: node_devices.encode_json([DEVICE])})
    (bare,) = json_register(acme.SPEC, plain, group="ring").devices
    assert bare.group is None


def test_equal_cards_are_numbered_after_their_node() -> None:
    found = cards(acme.SPEC, a_node_object("n7"), 3, infix="acme", slots=2, memory=MiB(5), cores=CoreShare(9))
    assert found.ids == ("n7-acme-0", "n7-acme-1", "n7-acme-2")
    assert [device.index for device in found.devices] == [0, 1, 2]
    assert {(device.model, device.slots, device.memory, device.cores, device.numa) for device in found.devices} == {
        ("Acme", 2, 5, 9, 0)
    }


def test_the_right_half_of_the_cards_may_be_on_another_numa_node() -> None:
    found = cards(
        acme.SPEC,
        a_node_object(),
        5,
        infix="x",
        slots=1,
        memory=MiB(0),
        cores=CoreShare(0),
        right_half_numa=True,
    )
    assert [device.numa for device in found.devices] == [0, 0, 1, 1, 1]
    assert {device.model for device in found.devices} == {acme.SPEC.name}


@pytest.mark.parametrize("count", [-1, MOST_CARDS + 1])
def test_a_count_of_cards_that_no_machine_has_is_refused(count: int) -> None:
    with pytest.raises(WireError, match="not a number of cards"):
        cards(acme.SPEC, a_node_object(), count, infix="x", slots=1, memory=MiB(0), cores=CoreShare(0))


def test_more_memory_than_a_card_can_have_is_refused() -> None:
    with pytest.raises(WireError, match="more MiB per card than any has"):
        cards(acme.SPEC, a_node_object(), 1, infix="x", slots=1, memory=MiB(INT32_MAX + 1), cores=CoreShare(0))


@pytest.mark.parametrize(("amount", "expected"), [("8", 8), ("1k", 1000), ("0", None)])
def test_capacity_is_a_whole_number_or_nothing(amount: str, expected: int | None) -> None:
    assert capacity_of(a_node_object(capacity={COUNT: amount}), COUNT) == expected


def test_a_resource_that_the_node_or_the_vendor_does_not_have_has_no_capacity() -> None:
    assert capacity_of(a_node_object(), COUNT) is None
    assert capacity_of(a_node_object(capacity={COUNT: 8}), "") is None


@pytest.mark.parametrize("amount", ["-1", "1500m", str(INT32_MAX * 1024 + 1)])
def test_a_capacity_that_no_plugin_can_mean_is_refused(amount: str) -> None:
    with pytest.raises(WireError, match="not a whole amount of devices"):
        capacity_of(a_node_object(capacity={COUNT: amount}), COUNT)
