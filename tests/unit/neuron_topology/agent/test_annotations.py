"""What the agent writes on its node, and what it leaves as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from hami_plugins.model.units import MiB, NodeName
from hami_plugins.wire import node_devices
from neuron_topology.core.agent.annotations import changes, withdrawal
from neuron_topology.core.hardware import neuron_ls
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.hardware.machines import MachineHealth
from neuron_topology.core.hardware.neuron_ls import Observation, ObservedDevice
from neuron_topology.core.vendor import SPEC
from tests.unit.neuron_topology.nodes import a_neuron_node

TRN1 = "trn1.32xlarge"
LINKS = "hami-plugins.io/neuron-ls"
HEALTH = "hami-plugins.io/neuron-health"
OWN = "hami-plugins.io/neuron-agent-health"
REGISTER = "hami.io/node-register-aws-neuron"
SOUND = MachineHealth()


def observed(*, without: frozenset[int] = frozenset()) -> Observation:
    fabric = INSTANCE_TYPES[TRN1].fabric
    return Observation(
        devices=tuple(
            ObservedDevice(
                index=at,
                cores=2,
                memory=MiB(32768),
                neighbours=tuple(to for to in linked if to not in without),
                bdf=f"10:{at:02x}.0",
                numa=0,
            )
            for at, linked in enumerate(fabric.neighbours)
            if at not in without
        ),
        instance_type=TRN1,
    )


def changed(
    annotations: Mapping[str, str], health: MachineHealth, seen: Observation | None = None
) -> dict[str, str | None]:
    return changes(NodeName("n"), annotations, TRN1, observed=seen or observed(), health=health)


def after(annotations: Mapping[str, str], health: MachineHealth, seen: Observation | None = None) -> dict[str, str]:
    written = changed(annotations, health, seen)
    return {key: text for key, text in {**annotations, **written}.items() if text is not None}


def test_a_described_node_is_not_written_again() -> None:
    first = after({}, MachineHealth(devices=frozenset({7}), repaired=frozenset({9})))
    assert set(first) == {LINKS, HEALTH, OWN, REGISTER}
    assert not changed(first, MachineHealth(devices=frozenset({7}), repaired=frozenset({9})))


def test_a_sound_machine_has_no_health_annotation() -> None:
    assert set(after({}, SOUND)) == {LINKS, REGISTER}


def test_the_annotations_are_what_the_allocator_reads() -> None:
    written = after({}, MachineHealth(devices=frozenset({7}), repaired=frozenset({9})))
    found = SPEC.inventory(SPEC, a_neuron_node(TRN1, annotations=written))
    assert [at for at, device in enumerate(found.devices) if not device.healthy] == [7]
    assert [at for at, device in enumerate(found.devices) if ("repaired", "True") in device.traits] == [9]
    assert found.remarks == ()


def test_entries_of_a_person_stay_and_the_agents_own_go() -> None:
    by_hand = {HEALTH: '{"links": [[4,5]], "devices": [2]}'}
    sick = after(by_hand, MachineHealth(devices=frozenset({7})))
    assert json.loads(sick[HEALTH]) == {"devices": [2, 7], "links": [[4, 5]]}
    well = after(sick, SOUND)
    assert json.loads(well[HEALTH]) == {"devices": [2], "links": [[4, 5]]}
    assert OWN not in well


def test_a_device_that_a_person_named_first_stays_when_its_errors_end() -> None:
    sick = after({HEALTH: '{"devices":[2]}'}, MachineHealth(devices=frozenset({2})))
    assert json.loads(after(sick, SOUND)[HEALTH]) == {"devices": [2]}


def test_a_persons_spelling_is_not_rewritten() -> None:
    by_hand = {HEALTH: '{ "devices" : [2] }'}
    assert HEALTH not in changed(by_hand, SOUND)


def test_an_unreadable_health_of_others_gives_way_to_what_is_broken() -> None:
    assert HEALTH not in changed({HEALTH: "device 2 is broken"}, SOUND)
    assert changed({HEALTH: "device 2 is broken"}, MachineHealth(devices=frozenset({7})))[HEALTH] == '{"devices":[7]}'


def test_the_register_lists_every_device_with_its_id_and_health() -> None:
    gone = observed(without=frozenset({3}))
    text = after({}, MachineHealth(devices=frozenset({7})), gone)[REGISTER]
    devices = node_devices.decode_json(REGISTER, text)
    assert [device.id for device in devices] == [f"n-AWSNeuron-{at}" for at in range(16)]
    assert [device.index for device in devices if not device.healthy] == [3, 7]
    assert {(device.slots, device.memory, device.cores) for device in devices} == {(2, 32768, 3)}
    assert devices[0].custom == {"AWSNodeType": TRN1}


def test_the_register_of_an_unknown_type_has_what_the_machine_lists() -> None:
    seen = Observation(devices=observed().devices[:1])
    seen = replace(seen, devices=(replace(seen.devices[0], neighbours=(), memory=MiB(7)),))
    text = changes(NodeName("n"), {}, "", observed=seen, health=SOUND)[REGISTER]
    assert text is not None
    (device,) = node_devices.decode_json(REGISTER, text)
    assert (device.memory, device.healthy, device.custom) == (7, True, {})


def test_what_is_written_is_read_back_as_the_same_machine() -> None:
    seen = replace(observed(), lnc=2)
    again = neuron_ls.decode("x", neuron_ls.encode(seen))
    assert [(d.index, d.cores, d.memory, set(d.neighbours), d.bdf, d.numa) for d in again.devices] == [
        (d.index, d.cores, d.memory, set(d.neighbours), d.bdf, d.numa) for d in seen.devices
    ]
    assert (again.lnc, again.instance_type) == (2, TRN1)


def test_processes_and_the_order_of_links_are_not_written() -> None:
    entry = {"neuron_device": 0, "nc_count": 2, "memory_size": 1 << 20, "connected_to": [2, 1]}
    other = [{"neuron_device": at, "nc_count": 2, "memory_size": 1 << 20, "connected_to": [0]} for at in (1, 2)]
    first = neuron_ls.decode("x", json.dumps([{**entry, "neuron_processes": [{"pid": 1}]}, *other]))
    second = neuron_ls.decode("x", json.dumps([{**entry, "connected_to": [1, 2]}, *other]))
    assert neuron_ls.encode(first) == neuron_ls.encode(second)


def test_what_an_agent_wrote_goes_with_it() -> None:
    written = after({}, MachineHealth(devices=frozenset({7}), repaired=frozenset({9})))
    assert withdrawal(written) == dict.fromkeys((LINKS, HEALTH, OWN, REGISTER))


def test_broken_devices_that_a_person_named_stay_without_the_agent() -> None:
    written = after({HEALTH: '{"devices": [3]}'}, MachineHealth(devices=frozenset({3, 7})))
    left = withdrawal(written)
    assert json.loads(left.pop(HEALTH) or "") == {"devices": [3]}
    assert left == dict.fromkeys((LINKS, OWN, REGISTER))


def test_a_node_that_only_people_described_is_left_alone() -> None:
    assert withdrawal({LINKS: "[]", HEALTH: '{"devices": [3]}'}) == {}


def test_health_that_the_agent_did_not_write_is_not_written_anew() -> None:
    written = after({HEALTH: '{"devices": [ 3 ]}'}, SOUND)
    assert withdrawal(written) == dict.fromkeys((LINKS, REGISTER))
