"""HAMi's node registers against the vectors of both HAMi references."""

import json
from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire import node_devices
from hami_plugins.wire.node_devices import RegisteredDevice
from tests.golden import cases

DEVIATIONS = {
    "error text": "the vectors' error texts are HAMi's; ours name the record, the field and the value",
    "negative amounts": "HAMi books negative counts, memory and cores of a node as they stand; we refuse the register",
    "register-c24": "an absent annotation is no text; the inventory, not the codec, says that the node has no devices",
    "register-c25": "an empty list is readable and gives no devices; HAMi calls it an error of the node",
    "devicevendor": "the vendor is known to who reads the annotation; the codec keeps what the text says",
    "register-enc-c22": "HAMi's plugin leaves out custom facts; ours writes what it is given (Ascend needs NetworkID)",
}

MEMBERS = {
    "id": "id",
    "index": "index",
    "count": "slots",
    "devmem": "memory",
    "devcore": "cores",
    "type": "model",
    "numa": "numa",
    "mode": "mode",
    "health": "healthy",
}


def device(members: dict[str, Any]) -> RegisteredDevice:
    """The device that a vector's members describe; those that it leaves open are zero."""
    profiles = tuple(
        Profile(
            raw["name"],
            MiB(raw["memoryMB"]),
            CoreShare(raw["core"]),
            raw["sliceCount"],
            tuple(SlicePlacement(**placement) for placement in raw["placements"]),
        )
        for raw in members.get("migProfiles", [])
    )
    known = {ours: members[theirs] for theirs, ours in MEMBERS.items() if theirs in members}
    return RegisteredDevice(**{"id": DeviceId("GPU-x"), **known}, profiles=profiles)


@cases.each("hami-core/node-list-decode.yaml")
def test_text_register_is_read_as_its_vector_says(case: cases.Case) -> None:
    if case.refused:
        with pytest.raises(WireError) as caught:
            node_devices.decode_csv(case.id, case.given["text"])
        if case.id.startswith(("node-list-c19", "node-list-s24a-order")):
            field = case.expect["error"]["text"].removeprefix("invalid ").removesuffix(" field:")
            assert caught.value.why.startswith(f"{field}: ")
    else:
        read = node_devices.decode_csv(case.id, case.given["text"])
        assert read == tuple(device(members) for members in case.expect["devices"])


@cases.each("hami-core/node-list-encode.yaml")
def test_text_register_is_written_as_its_vector_says(case: cases.Case) -> None:
    devices = tuple(device(members) for members in case.given["devices"])
    text = node_devices.encode_csv(devices)
    assert node_devices.decode_csv(case.id, text) == devices
    if "text" in case.expect:
        assert text == case.expect["text"]


@cases.each("hami-core/node-register-json.yaml")
def test_json_register_is_read_as_its_vector_says(case: cases.Case) -> None:
    register, score = case.given["register"], case.given["score"]
    if case.id == "register-c24":
        assert register is None
    elif case.id == "register-c25":
        assert node_devices.decode_json(case.id, register) == ()
    elif case.refused:
        with pytest.raises(WireError):
            node_devices.decode_pair_scores(case.id, score) if score else node_devices.decode_json(case.id, register)
    elif "pair_scores" in case.expect:
        ids = {device.id for device in node_devices.decode_json(case.id, register)}
        scores = node_devices.decode_pair_scores(case.id, score)
        assert {one: others for one, others in scores.items() if one in ids} == case.expect["pair_scores"]
    else:
        read = node_devices.decode_json(case.id, register)
        assert read == tuple(device(members) for members in case.expect["devices"])
        assert {one.vendor for one in read} == {""}


@cases.each("hami-core/node-register-json-encode.yaml")
def test_json_register_is_written_as_its_vector_says(case: cases.Case) -> None:
    devices = tuple(device(members) for members in case.given["devices"])
    text = node_devices.encode_json(devices)
    assert node_devices.decode_json(case.id, text) == devices
    written = json.loads(text)
    if "members" in case.expect:
        assert [list(members) for members in written] == case.expect["members"]
    if "mig_profile_members" in case.expect:
        (profile,) = written[0]["migProfiles"]
        assert list(profile) == case.expect["mig_profile_members"]
        assert {tuple(placement) for placement in profile["placements"]} == {tuple(case.expect["placement_members"])}


@cases.each("hami-vendors/node-json.yaml")
def test_device_members_are_read_as_their_vector_says(case: cases.Case) -> None:
    read = node_devices.decode_json(case.id, case.given["text"])
    assert read == tuple(device(members) for members in case.expect["devices"])
