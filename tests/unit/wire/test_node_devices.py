"""Node registers: both forms there and back, what is refused, pair scores and the cordon list."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.units import INT32_MAX, CoreShare, DeviceId, MiB
from hami_plugins.wire import node_devices
from hami_plugins.wire.node_devices import RegisteredDevice
from tests.unit.wire import mutations

KEY = "hami.io/node-nvidia-register"

plain = st.text(st.characters(exclude_characters=",:;", codec="utf-8"), max_size=12)
any_text = st.text(st.characters(codec="utf-8"), max_size=12)
ids = plain.filter(bool).map(DeviceId)
naturals = st.integers(0, INT32_MAX)
mebibytes = naturals.map(MiB)
shares = naturals.map(CoreShare)
profiles = st.builds(
    Profile,
    name=any_text,
    memory=mebibytes,
    cores=shares,
    slices=naturals,
    placements=st.lists(st.builds(SlicePlacement, naturals, naturals), max_size=3).map(tuple),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), any_text)
text_devices = st.builds(
    RegisteredDevice,
    id=ids,
    slots=naturals,
    memory=mebibytes,
    cores=shares,
    model=plain,
    numa=st.integers(-(2**31), INT32_MAX),
    healthy=st.booleans(),
    index=naturals,
    mode=plain,
)
json_devices = st.builds(
    RegisteredDevice,
    id=ids,
    slots=naturals,
    memory=mebibytes,
    cores=shares,
    model=any_text,
    numa=st.integers(-(2**31), INT32_MAX),
    healthy=st.booleans(),
    index=naturals,
    mode=any_text,
    profiles=st.lists(profiles, max_size=3).map(tuple),
    vendor=any_text,
    custom=st.dictionaries(any_text, scalars.filter(lambda value: value not in (float("inf"), float("-inf")))),
)


def a_device(**fields: Any) -> RegisteredDevice:
    given = {"id": DeviceId("GPU-1"), "slots": 10, "memory": MiB(8192), "cores": CoreShare(100), "model": "A100"}
    return RegisteredDevice(**{**given, "mode": "hami-core", "healthy": True, **fields})


@given(st.lists(text_devices, min_size=1, max_size=4).map(tuple))
def test_decode_undoes_encode_in_the_text_form(devices: tuple[RegisteredDevice, ...]) -> None:
    assert node_devices.decode_csv(KEY, node_devices.encode_csv(devices)) == devices


@given(st.lists(json_devices, max_size=4).map(tuple))
def test_decode_undoes_encode_in_the_json_form(devices: tuple[RegisteredDevice, ...]) -> None:
    assert node_devices.decode_json(KEY, node_devices.encode_json(devices)) == devices


@given(st.dictionaries(ids, st.dictionaries(ids, st.integers(0, 10_000), max_size=3), max_size=3))
def test_decode_undoes_encode_of_pair_scores(scores: dict[DeviceId, dict[DeviceId, int]]) -> None:
    assert node_devices.decode_pair_scores(KEY, node_devices.encode_pair_scores(scores)) == scores


@given(st.frozensets(plain.map(str.strip).filter(bool).map(DeviceId)))
def test_decode_undoes_encode_of_the_cordon_list(devices: frozenset[DeviceId]) -> None:
    assert node_devices.decode_cordon(node_devices.encode_cordon(devices)) == devices


def test_the_cordon_list_tolerates_blanks() -> None:
    assert node_devices.decode_cordon(" GPU-a,,GPU-b ,") == {"GPU-a", "GPU-b"}
    assert node_devices.decode_cordon("") == frozenset()


def test_the_json_form_is_what_hamis_node_agents_write() -> None:
    two = a_device(index=1, numa=1, custom={"NetworkID": 0, "AIC": "0"})
    assert node_devices.encode_json([a_device(), two]) == (
        '[{"id":"GPU-1","count":10,"devmem":8192,"devcore":100,"type":"A100","mode":"hami-core","health":true},'
        '{"id":"GPU-1","index":1,"count":10,"devmem":8192,"devcore":100,"type":"A100","numa":1,"mode":"hami-core",'
        '"health":true,"custominfo":{"AIC":"0","NetworkID":0}}]'
    )


def test_custom_facts_keep_scalars_and_let_go_of_the_rest() -> None:
    text = '[{"id":"a","custominfo":{"n":1.0,"x":1.5,"s":"t","b":true,"z":null,"deep":{},"list":[1]}}]'
    (device,) = node_devices.decode_json(KEY, text)
    assert device.custom == {"n": 1, "x": 1.5, "s": "t", "b": True, "z": None}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{}", ""),
        ("[1]", "[0]"),
        ("[null]", "[0]"),
        ('[{"count":1}]', "[0].id"),
        ('[{"id":"a:b"}]', "[0].id"),
        ('[{"id":1}]', "[0].id"),
        ('[{"id":"a"},{"id":"b","devmem":"8"}]', "[1].devmem"),
        ('[{"id":"a","count":-1}]', "[0].count"),
        ('[{"id":"a","devcore":2147483648}]', "[0].devcore"),
        ('[{"id":"a","health":"true"}]', "[0].health"),
        ('[{"id":"a","index":-1}]', "[0].index"),
        ('[{"id":"a","custominfo":[]}]', "[0].custominfo"),
        (
            '[{"id":"a","migProfiles":[{"name":"1g.5gb","placements":[{"start":-1}]}]}]',
            "[0].migProfiles[0].placements[0].start",
        ),
    ],
)
def test_a_bad_json_register_is_named_by_its_path(text: str, where: str) -> None:
    with pytest.raises(WireError) as caught:
        node_devices.decode_json(KEY, text)
    assert caught.value.key == KEY + where


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("GPU-a,10,7680,100,P4,0,true", "no ':'"),
        ("GPU-a,10,7680,100,P4,0:", "6 fields, want 7 or 9"),
        (",10,7680,100,P4,0,true:", "id: '' is not a device id"),
        ("a;b,10,7680,100,P4,0,true:", "id: 'a;b' is not a device id"),
        ("GPU-a,-1,7680,100,P4,0,true:", "count: -1 is negative"),
        ("GPU-a,10,-5,100,P4,0,true:", "memory: -5 is negative"),
        ("GPU-a,10,7680,100,P4,0,yes:", "health: 'yes' is neither"),
        ("GPU-a,10,7680,100,P4,x,true:", "numa: 'x' is not an integer"),
    ],
)
def test_a_bad_text_register_says_which_field(text: str, why: str) -> None:
    with pytest.raises(WireError, match=why):
        node_devices.decode_csv(KEY, text)


def test_a_device_may_be_on_no_numa_node() -> None:
    (device,) = node_devices.decode_csv(KEY, "GPU-a,10,7680,100,P4,-1,true:")
    assert device.numa == -1


@pytest.mark.parametrize("device", [a_device(id=DeviceId("")), a_device(model="a,b"), a_device(mode="x:y")])
def test_a_device_that_would_break_the_text_form_is_not_written(device: RegisteredDevice) -> None:
    with pytest.raises(WireError, match="cannot carry"):
        node_devices.encode_csv([device])


@given(st.one_of(st.text(), mutations.garbled("GPU-a,10,7680,100,P4,0,true,1,mig:GPU-b,10,7680,100,P4,0,true:")))
def test_any_text_gives_devices_or_a_wire_error(text: str) -> None:
    for decode in (node_devices.decode_csv, node_devices.decode_json, node_devices.decode_pair_scores):
        with suppress(WireError):
            decode(KEY, text)
    node_devices.decode_cordon(text)


@given(
    mutations.garbled(
        '[{"id":"GPU-2","index":1,"count":7,"devmem":40960,"devcore":100,"type":"A100","mode":"mig","migProfiles":'
        '[{"name":"1g.5gb","memoryMB":4864,"core":14,"sliceCount":1,"placements":[{"start":0,"size":1}]}],'
        '"health":true,"custominfo":{"NetworkID":0},"uuid":"GPU-2","score":{"GPU-1":100}}]'
    )
)
def test_garbled_json_gives_devices_or_a_wire_error(text: str) -> None:
    for decode in (node_devices.decode_json, node_devices.decode_pair_scores):
        with suppress(WireError):
            decode(KEY, text)


@given(st.lists(json_devices, max_size=4))
def test_equal_devices_have_one_text_without_their_ids(devices: list[RegisteredDevice]) -> None:
    found, text = node_devices.without_ids(KEY, node_devices.encode_json(devices))
    assert found == tuple(each.id for each in devices)
    numbered = tuple(replace(each, id=DeviceId(str(at))) for at, each in enumerate(devices))
    assert node_devices.decode_json(KEY, text) == numbered
    assert node_devices.without_ids(KEY, node_devices.encode_json(numbered))[1] == text


@pytest.mark.parametrize("text", ["[{", "{}", "[1]", '[{"id":"a,b"}]', "[{}]"])
def test_a_text_without_readable_ids_stays_as_it_is(text: str) -> None:
    assert node_devices.without_ids(KEY, text) == ((), text)
