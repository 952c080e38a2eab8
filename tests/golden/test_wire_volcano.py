"""Volcano's annotations against the vectors. Volcano guesses where a text is wrong; we refuse and say what is wrong."""

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire import volcano
from hami_plugins.wire.node_devices import RegisteredDevice
from hami_plugins.wire.pod_devices import AssignedDevice
from tests.golden import cases

REFUSED = {
    "register-decode-002": "Volcano sees no card and says nothing; we say that the ':' is missing",
    "register-decode-004": "Volcano sees no card on the whole node; we say which record is short",
    "register-decode-005": "Volcano takes words that are no numbers for 0; a card of 0 MiB is nobody's intent",
    "register-decode-011": "Volcano takes negative numbers for huge ones and overbooks the card",
    "register-decode-s03": "Volcano sees no card on the whole node; we say which record is short",
    "register-decode-s05": "Volcano up to 1.11 took five fields; the supported ones do not",
    "pod-devices-decode-016": "Volcano drops the record and takes the card for free; the card is held",
    "pod-devices-decode-017": "Volcano drops the record and takes the card for free; the card is held",
    "pod-devices-decode-018": "Volcano drops the record and takes the card for free; the card is held",
    "pod-devices-decode-019": "Volcano drops the record and takes the card for free; the card is held",
    "pod-devices-decode-020": "Volcano drops one record and keeps the other; nobody knows what the first card lost",
    "pod-devices-decode-030": "the plugin hands out negative memory; we refuse",
    "mig-id-168-plugin": "the plugin reads a group with a hyphen up to it; its scheduler refuses, and so do we",
    "mig-id-172": "the plugin trims blanks in the brackets; nothing writes them, and we refuse",
}
DEVIATIONS = {
    **REFUSED,
    "register-decode-001": "an empty register is what an agent without cards writes: no cards, no error",
    "register-decode-006": "the codec keeps the mode 'mig'; whether a geometry is configured is the scheduler's affair",
}

NODE_MEMBERS = {
    "uuid": "id",
    "count": "slots",
    "memory": "memory",
    "type": "model",
    "health": "healthy",
    "index": "index",
}


def is_refused(case: cases.Case, read: Any) -> bool:
    """Whether the case is one that we refuse; if so, that has been checked."""
    if case.id not in REFUSED:
        return False
    with pytest.raises(WireError):
        read()
    return True


@cases.each("volcano/register-decode.yaml")
def test_register_is_read_as_its_vector_says(case: cases.Case) -> None:
    def read() -> tuple[RegisteredDevice, ...]:
        return volcano.decode_register(case.id, case.given["value"])

    if is_refused(case, read):
        return
    cards = read()
    wanted = case.expect.get("devices", [])
    if case.id == "register-decode-001":
        assert wanted is None
        assert cards == ()
        return
    if "devices" in case.expect:
        assert len(cards) == len(wanted)
    for card, members in zip(cards, wanted, strict=False):
        assert {name: getattr(card, NODE_MEMBERS[name]) for name in members} == members
    if "mode" in case.expect and cards:
        assert cards[-1].mode == ("mig" if case.id == "register-decode-006" else case.expect["mode"])


@cases.each("volcano/register-encode.yaml")
def test_register_is_written_as_its_vector_says(case: cases.Case) -> None:
    cards = [
        RegisteredDevice(
            id=DeviceId(raw["uuid"]),
            slots=raw["count"],
            memory=MiB(raw["memory"]),
            model=raw["type"],
            healthy=raw["health"],
            mode=raw["mode"],
        )
        for raw in case.given["devices"]
    ]
    assert volcano.encode_register(cards) == case.expect["value"]


@cases.each("volcano/register-grammar.yaml")
def test_register_fields_stand_where_the_grammar_says(case: cases.Case) -> None:
    values = {"uuid": "U", "count": "7", "devmem": "8", "type": "T", "health": "true", "mode": "mig"}
    assert list(values)[case.given["position"]] == case.expect["name"]
    (card,) = volcano.decode_register(case.id, f"{','.join(values.values())}:")
    member = {"devmem": "memory", "mode": "mode"}.get(case.expect["name"]) or NODE_MEMBERS[case.expect["name"]]
    text = str(getattr(card, member))
    assert (text.lower() if member == "healthy" else text) == values[case.expect["name"]]


@cases.each("volcano/pod-devices-decode.yaml")
def test_assignment_is_read_as_its_vector_says(case: cases.Case) -> None:
    def read() -> tuple[tuple[AssignedDevice, ...], ...]:
        return volcano.decode_assignment(case.id, case.given["value"])

    if is_refused(case, read):
        return
    containers = read()
    assert sum(map(len, containers)) == case.expect["count"]
    assert [
        [{"uuid": device.device, "memory": device.memory, "cores": device.cores} for device in container]
        for container in containers
    ] == case.expect["segments"]


@cases.each("volcano/pod-devices-encode.yaml")
def test_assignment_is_written_as_its_vector_says(case: cases.Case) -> None:
    containers = [
        [
            AssignedDevice(DeviceId(raw["uuid"]), raw["type"], MiB(raw["memory"]), CoreShare(raw["cores"]))
            for raw in segment
        ]
        for segment in case.given["segments"]
    ]
    assert volcano.encode_assignment(containers) == case.expect["value"]


@cases.each("volcano/plugin-erase.yaml")
def test_assignment_with_a_served_container_is_what_the_plugin_leaves(case: cases.Case) -> None:
    containers = list(volcano.decode_assignment(case.id, case.given["value"]))
    served = next(at for at, container in enumerate(containers) if container)
    containers[served] = ()
    assert volcano.encode_assignment(containers) == case.expect["value"]
    assert any(containers) is not case.expect["done"]


@cases.each("volcano/mig-id.yaml")
def test_slot_id_is_read_as_its_vector_says(case: cases.Case) -> None:
    def read() -> volcano.MigSlot | None:
        return volcano.decode_slot(case.id, case.given["id"])

    if is_refused(case, read):
        return
    if case.expect["valid"]:
        slot = read()
        assert slot is not None
        assert (slot.group, slot.position) == (case.expect["group"], case.expect["position"])
    elif "[" in case.given["id"]:
        with pytest.raises(WireError):
            read()
    else:
        assert read() is None
