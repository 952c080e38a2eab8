"""What a node says about its cards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.model.units import DeviceId, MiB
from hami_plugins.vendors.volcano import TOUCHED_KEY
from hami_plugins.wire import node_devices, volcano
from tests.unit.volcano_vgpu.cards import GEOMETRIES, card, inventory, settings, sick, uuid
from volcano_vgpu.core import register
from volcano_vgpu.core.model import SharingMode
from volcano_vgpu.core.register import HANDSHAKE, HANDSHAKE_KEY, REGISTER_KEY, desired

MEMORY, CORES, NUMBER = "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores", "volcano.sh/vgpu-number"


def node(annotations: dict[str, str] | None = None, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n1", "annotations": annotations}, "status": status}


def said(words: register.NodeRegistration) -> dict[str, Any]:
    """A node that says what it is to say."""
    return node(dict(words.annotations), capacity={name: str(amount) for name, amount in words.capacity.items()})


def ids(words: register.NodeRegistration) -> list[str]:
    return [each.id for each in words.registered]


def test_a_card_is_registered_in_six_fields_and_a_colon() -> None:
    words = desired(inventory(card(3)), settings())
    assert words.annotations == {
        REGISTER_KEY: f"{uuid(3)},10,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,hami-core:",
        HANDSHAKE_KEY: "Requesting_2099.01.01 00:00:00",
    }
    assert words.capacity == {MEMORY: 40960, CORES: 100}


def test_a_scheduler_that_needs_no_handshake_gets_none() -> None:
    assert HANDSHAKE_KEY not in desired(inventory(card()), settings(), handshake=False).annotations


def test_cards_stand_in_the_order_of_their_minor_numbers_then_of_their_ids() -> None:
    cards = (card(2, minor=5), card(1, minor=5), card(9, minor=0))
    for order in (cards, cards[::-1]):
        assert ids(desired(inventory(*order), settings())) == [uuid(9), uuid(1), uuid(2)]


def test_an_unhealthy_card_is_left_out_of_the_register_and_the_sums_but_keeps_its_slots() -> None:
    words = desired(inventory(card(0), *sick(1)), settings())
    assert ids(words) == [uuid(0)]
    assert words.capacity == {MEMORY: 40960, CORES: 100}
    assert [each.uuid for each in words.cards] == [uuid(0), uuid(1)]
    assert words.healthy == {uuid(0)}
    assert words.passed_over == {}


def test_without_a_healthy_card_the_register_is_empty_and_the_sums_are_zero() -> None:
    words = desired(inventory(*sick(0)), settings())
    assert words.annotations[REGISTER_KEY] == ""
    assert words.capacity == {MEMORY: 0, CORES: 0}


def test_what_discovery_passed_over_is_handed_on() -> None:
    assert desired(inventory(passed_over={"GPU-x": "lost"}), settings()).passed_over == {"GPU-x": "lost"}


@pytest.mark.parametrize("wrong", ["", "GPU-a,b", "GPU-a:b", "GPU-a;b", "GPU-a[1", "GPU a", "GPU-\ud800"])
def test_an_id_that_the_register_cannot_carry_is_passed_over(wrong: str) -> None:
    words = desired(inventory(card(0, uuid=DeviceId(wrong)), card(1)), settings())
    assert ids(words) == [uuid(1)]
    assert repr(wrong) in words.passed_over[wrong]


def test_of_two_ids_one_of_which_contains_the_other_the_longer_is_passed_over() -> None:
    words = desired(inventory(card(0, uuid=DeviceId("GPU-ab")), card(1, uuid=DeviceId("GPU-a"))), settings())
    assert ids(words) == ["GPU-a"]
    assert "GPU-a," in words.passed_over["GPU-ab"]


def test_an_id_may_contain_that_of_an_excluded_card() -> None:
    cards = inventory(card(0, uuid=DeviceId("GPU-ab")), card(1, uuid=DeviceId("GPU-a")))
    words = desired(cards, settings(exclude={"uuids": ["GPU-a"]}))
    assert ids(words) == ["GPU-ab"]
    assert "exclude.uuids" in words.passed_over["GPU-a"]


def test_an_id_may_not_contain_that_of_a_sick_card_for_it_comes_back() -> None:
    cards = inventory(card(0, uuid=DeviceId("GPU-ab")), card(1, uuid=DeviceId("GPU-a"), problems=("hot",)))
    assert ids(desired(cards, settings())) == []


def test_cards_are_excluded_by_index() -> None:
    words = desired(inventory(card(0), card(1)), settings(exclude={"indexes": [0]}))
    assert ids(words) == [uuid(1)]
    assert "index 0" in words.passed_over[uuid(0)]


def test_a_card_that_is_found_twice_is_registered_once() -> None:
    words = desired(inventory(card(0), card(0, minor=1)), settings())
    assert ids(words) == [uuid(0)]
    assert "twice" in words.passed_over[uuid(0)]


def test_a_card_whose_slots_would_be_called_like_anothers_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "key_of", lambda card_id: "vgpu-same-000000")
    words = desired(inventory(card(0), card(1)), settings())
    assert ids(words) == [uuid(0)]
    assert uuid(0) in words.passed_over[uuid(1)]


@pytest.mark.parametrize(
    ("model", "type_"),
    [
        ("Tesla T4", "NVIDIA-Tesla T4"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA-NVIDIA A100-SXM4-40GB"),
        ("Odd, name: v;2[x]", "NVIDIA-Odd- name- v-2-x-"),
        ("A\n\ud800B", "NVIDIA-A--B"),
        ("", "NVIDIA-GPU"),
    ],
)
def test_a_model_is_made_safe_and_is_known_as_nvidias(model: str, type_: str) -> None:
    assert desired(inventory(card(model=model)), settings()).registered[0].model == type_


@pytest.mark.parametrize(
    ("memory", "scaling", "factor", "registered"),
    [
        (81920, 1.0, 1, 81920),
        (81920, 1.0, 2, 40960),
        (16384, 1.0, 10, 1638),
        (40960, 1.5, 1, 61440),
        (40960, 1.1, 1, 45056),
        (40961, 0.5, 1, 20480),
        (196608, 1.0, 1, 196608),
    ],
)
def test_memory_is_scaled_then_divided_and_rounded_down(
    memory: int, scaling: float, factor: int, registered: int
) -> None:
    chosen = settings(device_memory_scaling=scaling, gpu_memory_factor=factor)
    words = desired(inventory(card(memory=MiB(memory))), chosen)
    assert words.registered[0].memory == registered
    assert words.capacity[MEMORY] == registered


def test_a_card_without_memory_is_passed_over() -> None:
    words = desired(inventory(card(0, memory=MiB(0)), card(1, memory=MiB(99))), settings(gpu_memory_factor=100))
    assert words.registered == ()
    assert "gpuMemoryFactor" in words.passed_over[uuid(1)]


def test_sixteen_cards_of_192_gib_fit() -> None:
    words = desired(inventory(*(card(number, memory=MiB(196608)) for number in range(16))), settings())
    assert words.capacity == {MEMORY: 3145728, CORES: 1600}


def test_core_scaling_is_for_the_sum_alone() -> None:
    words = desired(inventory(card(0), card(1)), settings(device_core_scaling=1.1))
    assert words.capacity[CORES] == 220
    assert words.registered[0].cores == 100


def test_a_percentage_that_has_a_name_is_offered() -> None:
    words = desired(inventory(card(0), card(1)), settings(resources={"memoryPercentage": "volcano.sh/percent"}))
    assert words.capacity["volcano.sh/percent"] == 200


def test_mps_is_hami_core_to_volcano() -> None:
    assert desired(inventory(card()), settings(mode=SharingMode.MPS)).registered[0].mode == "hami-core"


def test_a_card_in_mig_mode_is_registered_whole_and_unscaled_where_a_geometry_is_for_it() -> None:
    chosen = settings(mode=SharingMode.MIG, known_mig_geometries=GEOMETRIES, device_memory_scaling=2.0)
    words = desired(inventory(card(0, mig=True)), chosen)
    assert words.annotations[REGISTER_KEY].endswith(",40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,mig:")


@pytest.mark.parametrize(
    ("mode", "facts", "why"),
    [
        (SharingMode.MIG, {}, "MIG is off"),
        (SharingMode.MIG, {"mig": True, "model": "NVIDIA H100"}, "no geometry"),
        (SharingMode.HAMI_CORE, {"mig": True}, "cut by MIG"),
        (SharingMode.MPS, {"mig": True}, "cut by MIG"),
    ],
)
def test_a_card_whose_mode_is_not_the_nodes_is_passed_over(mode: SharingMode, facts: dict[str, Any], why: str) -> None:
    words = desired(inventory(card(0, **facts)), settings(mode=mode, known_mig_geometries=GEOMETRIES))
    assert words.registered == ()
    assert why in words.passed_over[uuid(0)]


def test_a_node_that_says_it_all_needs_nothing_written() -> None:
    words = desired(inventory(card(0), card(1)), settings())
    assert not register.changes(said(words), words)


def test_an_untouched_node_needs_everything_written() -> None:
    words = desired(inventory(card(0)), settings())
    found = register.changes(node(), words)
    assert found
    assert found.node == {"metadata": {"annotations": words.annotations}}
    assert found.status == {"status": {"capacity": {MEMORY: "40960", CORES: "100"}}}


@pytest.mark.parametrize(
    ("amount", "differs"),
    [("320k", False), (320000, False), ("320000", False), ("320M", True), ("x", True), (None, True), ([], True)],
)
def test_amounts_are_compared_by_value(amount: Any, differs: bool) -> None:
    words = desired(inventory(*(card(number, memory=MiB(40000)) for number in range(8))), settings())
    found = register.changes(node(dict(words.annotations), capacity={MEMORY: amount, CORES: "800"}), words)
    assert found.status == ({"status": {"capacity": {MEMORY: "320000"}}} if differs else {})


def test_only_what_differs_is_written() -> None:
    words = desired(inventory(card(0)), settings())
    found = register.changes(node({HANDSHAKE_KEY: HANDSHAKE, "other": "x"}, capacity={CORES: "100", "cpu": "4"}), words)
    assert found.node == {"metadata": {"annotations": {REGISTER_KEY: words.annotations[REGISTER_KEY]}}}
    assert found.status == {"status": {"capacity": {MEMORY: "40960"}}}


@pytest.mark.parametrize("text", ["Reported", "Deleted_2026.11.21 07:39:03", "Requesting_2026.11.21 07:38:00", ""])
def test_a_handshake_that_is_there_is_set_right_even_where_none_is_needed(text: str) -> None:
    words = desired(inventory(card(0)), settings(), handshake=False)
    held = said(words)
    held["metadata"]["annotations"][HANDSHAKE_KEY] = text
    assert register.changes(held, words).node == {"metadata": {"annotations": {HANDSHAKE_KEY: HANDSHAKE}}}


def test_withdrawing_takes_back_what_was_written_and_nothing_else() -> None:
    words = desired(inventory(card(0)), settings())
    held = said(words)
    held["metadata"]["annotations"] |= {TOUCHED_KEY: "now", "other": "x"}
    held["status"]["capacity"] |= {"cpu": "4", NUMBER: "0"}
    found = register.withdrawal(held, settings())
    assert found.node == {"metadata": {"annotations": {REGISTER_KEY: None, HANDSHAKE_KEY: None, TOUCHED_KEY: None}}}
    assert found.status == {"status": {"capacity": {MEMORY: None, CORES: None, NUMBER: None}}}
    assert not register.withdrawal(node(), settings())


def test_a_node_says_whose_agents_speak_for_it_until_that_is_taken_back() -> None:
    words = desired(inventory(card(0)), settings(daemon_set="vgpu/agents"))
    assert words.annotations[node_devices.AGENTS_KEY] == "vgpu/agents"
    assert node_devices.AGENTS_KEY not in desired(inventory(card(0)), settings()).annotations
    taken = register.withdrawal(said(words), settings()).node["metadata"]["annotations"]
    assert taken[node_devices.AGENTS_KEY] is None


def test_a_node_says_what_cannot_be_removed_from_it_until_nothing_is_left() -> None:
    words = desired(inventory(card(0)), settings(), leftovers="files of pod uid-a")
    held = said(words)
    assert held["metadata"]["annotations"]["hami-plugins.io/volcano-vgpu-leftovers"] == "files of pod uid-a"
    assert not register.changes(held, desired(inventory(card(0)), settings())), "not known yet: left as it is"
    healed = register.changes(held, desired(inventory(card(0)), settings(), leftovers=""))
    assert healed.node == {"metadata": {"annotations": {"hami-plugins.io/volcano-vgpu-leftovers": None}}}
    taken = register.withdrawal(held, settings()).node["metadata"]["annotations"]
    assert taken["hami-plugins.io/volcano-vgpu-leftovers"] is None
    clean = said(desired(inventory(card(0)), settings()))
    assert not register.changes(clean, desired(inventory(card(0)), settings(), leftovers=""))


@pytest.mark.parametrize(
    ("annotations", "valid"),
    [
        ({REGISTER_KEY: "GPU-a,10,1,T,true,hami-core:", HANDSHAKE_KEY: HANDSHAKE}, True),
        ({REGISTER_KEY: "GPU-a,10,1,T,true,hami-core:", HANDSHAKE_KEY: "Deleted_2026.11.21 07:39:03"}, False),
        ({REGISTER_KEY: "GPU-a,10,1,T,true,hami-core:"}, False),
        ({REGISTER_KEY: "", HANDSHAKE_KEY: HANDSHAKE}, False),
        ({HANDSHAKE_KEY: HANDSHAKE}, False),
        ({REGISTER_KEY: "GPU-a,10,1,T,true:", HANDSHAKE_KEY: HANDSHAKE}, False),
        (None, False),
    ],
)
def test_a_node_is_valid_where_no_scheduler_would_fall(annotations: dict[str, str] | None, valid: bool) -> None:
    assert register.is_valid(node(annotations)) is valid


def test_without_need_of_a_handshake_its_absence_is_fine_but_a_given_up_node_is_not() -> None:
    text = "GPU-a,10,1,T,true,hami-core:"
    assert register.is_valid(node({REGISTER_KEY: text}), handshake=False)
    assert not register.is_valid(node({REGISTER_KEY: text, HANDSHAKE_KEY: "Deleted_x"}), handshake=False)


def test_the_cards_that_a_node_registers_are_read_back() -> None:
    words = desired(inventory(card(0), card(1)), settings())
    assert register.registered_on(said(words)) == {uuid(0), uuid(1)}
    assert register.registered_on(node({REGISTER_KEY: "broken"})) == frozenset()


@pytest.mark.parametrize(
    ("found", "amount"), [({NUMBER: "20"}, 20), ({NUMBER: "1k"}, 1000), ({NUMBER: "x"}, 0), ({NUMBER: []}, 0), ({}, 0)]
)
def test_what_is_allocatable_is_read_as_an_amount(found: dict[str, Any], amount: int) -> None:
    assert register.allocatable(node(allocatable=found), NUMBER) == amount
    assert register.allocatable({}, NUMBER) == 0


CARDS = st.builds(
    card,
    st.integers(0, 20),
    minor=st.integers(0, 5),
    model=st.text(max_size=8),
    memory=st.integers(0, 2**18).map(MiB),
    mig=st.booleans(),
    problems=st.sampled_from([(), ("hot",)]),
)


@given(st.lists(CARDS, max_size=6), st.permutations(range(6)))
def test_what_is_said_reads_back_whatever_the_cards_and_their_order(found: list[Any], order: list[int]) -> None:
    words = desired(inventory(*found), settings())
    shuffled = [found[at] for at in order if at < len(found)]
    if len({each.uuid for each in found}) == len(found):
        assert desired(inventory(*shuffled), settings()) == words
    read = volcano.decode_register(REGISTER_KEY, words.annotations[REGISTER_KEY])
    assert [each.id for each in read] == [each.id for each in words.registered]
    assert [each.memory for each in read] == [each.memory for each in words.registered]
    assert all("NVIDIA" in each.model and each.healthy for each in read)
    assert not register.changes(said(words), words)
    assert register.is_valid(said(words)) is bool(words.registered)
