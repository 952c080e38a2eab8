"""The names under which the kubelet hands out cards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.model.units import DeviceId
from hami_plugins.node.kubelet import sockets
from hami_plugins.node.kubelet.deviceplugin_pb2 import Device, ListAndWatchResponse, NUMANode, TopologyInfo
from tests.unit.volcano_vgpu.cards import card, uuid
from volcano_vgpu.core import slots
from volcano_vgpu.core.slots import MOST_SLOTS, SlotCollisionError, Slots

UUIDS = st.text(st.characters(codec="utf-8", exclude_characters=",:;"), min_size=1, max_size=60).map(DeviceId)


def test_a_slot_is_named_after_its_card() -> None:
    (first, *_, last) = Slots.of([card(0x5BB1E1D8)], 10).slots_of(uuid(0x5BB1E1D8))
    assert first == "vgpu-5bb1e1d8-f13067-0"
    assert last == "vgpu-5bb1e1d8-f13067-9"


@given(UUIDS, st.integers(1, MOST_SLOTS))
def test_no_name_is_long_or_looks_like_a_card(card_id: DeviceId, split_count: int) -> None:
    names = Slots.of([card(uuid=card_id)], split_count).slots_of(card_id)
    assert len(set(names)) == split_count
    for name in (names[0], names[-1]):
        assert len(name.encode()) <= 24
        assert not name.startswith(("GPU-", "MIG-"))
        assert "::" not in name


@given(st.lists(UUIDS, min_size=1, max_size=6, unique_by=slots.key_of), st.integers(1, 20))
def test_every_slot_leads_back_to_its_card_whatever_else_is_on_the_node(ids: list[DeviceId], split_count: int) -> None:
    together = Slots.of([card(uuid=each) for each in ids], split_count)
    for each in ids:
        alone = Slots.of([card(uuid=each)], split_count)
        assert together.slots_of(each) == alone.slots_of(each)
        assert {together.card_of(name) for name in alone.slots_of(each)} == {each}


def test_a_slot_beyond_the_split_count_still_has_its_card() -> None:
    before = Slots.of([card(0)], 10)
    after = Slots.of([card(0)], 4)
    assert after.card_of(before.slots_of(uuid(0))[9]) == uuid(0)


@pytest.mark.parametrize("name", ["", "vgpu", "vgpu-5bb1e1d8-f13067", "vgpu-00000000-ffffff-1", f"{uuid(0)}-1", "x-²"])
def test_a_name_of_nobody_has_no_card(name: str) -> None:
    known = Slots.of([card(0)], 2)
    assert known.card_of(name) is None
    assert known.slots_of(DeviceId("GPU-elsewhere")) == ()


def test_two_cards_whose_slots_would_be_called_alike_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "key_of", lambda card_id: "vgpu-same-000000")
    with pytest.raises(SlotCollisionError, match=f"{uuid(0)}.*{uuid(1)}"):
        Slots.of([card(0), card(1)], 2)


def test_a_card_cannot_be_there_twice() -> None:
    with pytest.raises(SlotCollisionError):
        Slots.of([card(0), card(0)], 2)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        (f"{uuid(7)}-0", uuid(7)),
        (f"{uuid(7)}-12", uuid(7)),
        ("GPU-a-3", "GPU-a"),
        ("GPU-00000001-0000-0000-0000-000000000007", None),
        (f"{uuid(7)}-memory-3", None),
        (f"{uuid(7)}-core-3", None),
        ("MIG-5bb1-3", None),
        ("vgpu-5bb1e1d8-f13067-0", None),
        ("0-17", None),
    ],
)
def test_the_existing_plugins_names_are_recognised(name: str, owner: str | None) -> None:
    assert slots.foreign_card_of(name) == owner


def test_sixteen_cards_of_a_hundred_slots_fit_into_one_message_many_times() -> None:
    known = Slots.of([card(number) for number in range(16)], 100)
    message = ListAndWatchResponse(
        devices=[
            Device(ID=name, health=sockets.UNHEALTHY, topology=TopologyInfo(nodes=[NUMANode(ID=7)]))
            for names in known.by_card.values()
            for name in names
        ]
    )
    assert len(message.devices) == 1600
    assert len(message.SerializeToString()) < 100 * 1024
