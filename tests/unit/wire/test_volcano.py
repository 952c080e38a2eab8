"""Volcano's register, assignment and MIG slots: there and back, and strictness where Volcano guesses."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.units import INT32_MAX, CoreShare, DeviceId, MiB
from hami_plugins.wire import volcano
from hami_plugins.wire.node_devices import RegisteredDevice
from hami_plugins.wire.pod_devices import AssignedContainers, AssignedDevice
from hami_plugins.wire.volcano import MigSlot
from tests.unit.wire import mutations
from tests.unit.wire.test_pod_devices import devices

KEY = "volcano.sh/node-vgpu-register"
CARD = "GPU-a,10,16384,NVIDIA-T4,true,hami-core:"

words = st.text(st.characters(exclude_characters=",:;", codec="utf-8"), max_size=10)
names = st.text(st.characters(exclude_characters="[]-,:;", exclude_categories=["Z", "C"]), min_size=1, max_size=10)
naturals = st.integers(0, INT32_MAX)
cards = st.builds(
    RegisteredDevice,
    id=words.filter(bool).map(DeviceId),
    slots=naturals,
    memory=naturals.map(MiB),
    cores=st.just(volcano.WHOLE_CARD),
    model=words,
    healthy=st.booleans(),
    mode=st.sampled_from(["hami-core", "mig"]),
)
assignments = st.lists(st.lists(devices, max_size=3).map(tuple), max_size=4).map(tuple).filter(lambda it: it != ((),))


def a_card(*, index: int = 0, device: str = "GPU-a", mode: str = "hami-core") -> RegisteredDevice:
    return RegisteredDevice(
        id=DeviceId(device),
        slots=10,
        memory=MiB(16384),
        cores=CoreShare(100),
        model="NVIDIA-T4",
        healthy=True,
        index=index,
        mode=mode,
    )


@given(st.lists(cards, max_size=4))
def test_decode_undoes_encode_of_registers(given_cards: list[RegisteredDevice]) -> None:
    read = volcano.decode_register(KEY, volcano.encode_register(given_cards))
    assert [card.index for card in read] == list(range(len(given_cards)))
    assert volcano.encode_register(read) == volcano.encode_register(given_cards)
    assert [(card.id, card.slots, card.memory, card.mode) for card in read] == [
        (card.id, card.slots, card.memory, card.mode) for card in given_cards
    ]


@given(
    st.dictionaries(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True), st.lists(devices).map(tuple))
)
def test_decode_undoes_encode_of_named_containers(containers: dict[str, tuple[AssignedDevice, ...]]) -> None:
    assert volcano.decode_named(KEY, volcano.encode_named(containers)) == containers


@pytest.mark.parametrize("text", ["GPU-a,NVIDIA,1,0:", "=GPU-a,NVIDIA,1,0:", "a=;", "a=;a=", "a=GPU-a,NVIDIA,-1,0:"])
def test_named_containers_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(WireError, match=KEY):
        volcano.decode_named(KEY, text)


@given(assignments)
def test_decode_undoes_encode_of_assignments(containers: AssignedContainers) -> None:
    assert volcano.decode_assignment(KEY, volcano.encode_assignment(containers)) == containers


@given(st.builds(MigSlot, names.map(DeviceId), names, st.integers(0, 999_999_999)))
def test_decode_undoes_encode_of_slots(slot: MigSlot) -> None:
    assert volcano.decode_slot(KEY, volcano.encode_slot(slot)) == slot


def test_a_card_is_read_with_whole_compute() -> None:
    assert volcano.decode_register(KEY, CARD) == (a_card(),)


def test_an_empty_record_leaves_a_gap_in_the_indexes() -> None:
    found = volcano.decode_register(KEY, f"{CARD}:{CARD.replace('GPU-a', 'GPU-b')}")
    assert found == (a_card(), a_card(index=2, device="GPU-b"))


@pytest.mark.parametrize("mode", ["mps", "hami-core ", "MIG", ""])
def test_every_mode_but_mig_means_hami_core(mode: str) -> None:
    (card,) = volcano.decode_register(KEY, CARD.replace("hami-core", mode))
    assert card.mode == "hami-core"


@pytest.mark.parametrize(
    ("text", "key", "why"),
    [
        (CARD.removesuffix(":"), KEY, "no ':' after the last card"),
        (
            f"{CARD}GPU-b,10,16384,NVIDIA-T4,true:",
            f"{KEY}[1]",
            "5 fields, want .* and mode; Volcano sees no card on this node",
        ),
        (CARD.replace("10", "x"), f"{KEY}[0]", "'x' is not an integer"),
        (CARD.replace("16384", "-5"), f"{KEY}[0]", "-5 is negative"),
        (CARD.replace("true", "maybe"), f"{KEY}[0]", "neither true nor false"),
        (CARD.replace("GPU-a", ""), f"{KEY}[0]", "not a device id"),
    ],
)
def test_a_card_that_volcano_would_guess_at_is_refused(text: str, key: str, why: str) -> None:
    with pytest.raises(WireError, match=why) as caught:
        volcano.decode_register(KEY, text)
    assert caught.value.key == key


def test_a_node_without_cards_has_an_empty_register() -> None:
    assert volcano.encode_register([]) == ""
    assert volcano.decode_register(KEY, "") == ()
    assert volcano.decode_register(KEY, ":") == ()


def test_a_card_that_would_break_the_register_is_not_written() -> None:
    with pytest.raises(WireError, match="cannot carry"):
        volcano.encode_register([a_card(device="a,b")])
    with pytest.raises(WireError, match="cannot carry"):
        volcano.encode_register([a_card(device="")])


def test_served_containers_keep_their_place() -> None:
    card = AssignedDevice(DeviceId("GPU-b"), "NVIDIA", MiB(3000), CoreShare(0))
    assert volcano.decode_assignment(KEY, ";GPU-b,NVIDIA,3000,0:") == ((), (card,))


def test_a_record_that_volcano_would_drop_is_refused() -> None:
    with pytest.raises(WireError, match="cores of GPU-0: -1 is negative"):
        volcano.decode_assignment(KEY, "GPU-0,NVIDIA,4096,-1:")


def test_a_slot_id_names_card_group_and_position() -> None:
    assert volcano.decode_slot(KEY, "GPU-m[group2-3]") == MigSlot(DeviceId("GPU-m"), "group2", 3)
    assert volcano.decode_slot(KEY, "GPU-m") is None


@pytest.mark.parametrize(
    "text", ["GPU-m[group2]", "GPU-m[g-1-2]", "GPU-m[g-x]", "GPU-m[-3]", "[g-1]", "GPU-m[g-1", "m]"]
)
def test_half_a_slot_id_is_refused(text: str) -> None:
    with pytest.raises(WireError, match="no MIG slot"):
        volcano.decode_slot(KEY, text)


def test_a_group_with_a_hyphen_is_not_written() -> None:
    with pytest.raises(WireError, match="cannot carry"):
        volcano.encode_slot(MigSlot(DeviceId("GPU-m"), "a-b", 0))


@given(st.one_of(st.text(), mutations.garbled(CARD + CARD), mutations.garbled("GPU-m[group2-0],NVIDIA,8000,0:;")))
def test_any_text_gives_values_or_a_wire_error(text: str) -> None:
    for decode in (volcano.decode_register, volcano.decode_assignment, volcano.decode_named, volcano.decode_slot):
        with suppress(WireError):
            decode(KEY, text)


@pytest.mark.parametrize(
    ("text", "unseen"),
    [
        ("", True),
        (CARD[:-1], True),
        (":::", True),
        ("GPU-a,10,16384,NVIDIA-T4,true:", True),
        (CARD + "GPU-b,10,16384,NVIDIA-T4,true:", True),
        (CARD, False),
        (CARD + "GPU-b,ten,16384,NVIDIA-T4,true,mig,more", False),
    ],
)
def test_volcano_sees_no_card_of_a_register_with_a_short_record_or_none(text: str, unseen: bool) -> None:
    assert volcano.is_unseen(text) is unseen
