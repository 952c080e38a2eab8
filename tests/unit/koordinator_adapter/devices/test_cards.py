"""What is read of a node's cards, and what is left out."""

from __future__ import annotations

import json

import pytest

from hami_plugins.model.dialect import Dialect
from hami_plugins.vendors import BUILTIN
from hami_plugins.vendors.ascend import CHIPS
from hami_plugins.wire.koordinator import NPU_CORE, NPU_DVPP
from koordinator_adapter.core.devices.cards import NodeCards, label_value
from tests.unit.koordinator_adapter.devices.nodes import REGISTER, a_node, card, read


def test_a_card_has_its_id_place_memory_and_model_as_koordlet_spells_it() -> None:
    (found,) = read(a_node(card(3, numa=1))).cards
    assert (found.id, found.index, found.memory, found.numa, found.healthy) == ("GPU-3", 3, 40_960, 1, True)
    assert found.model == "NVIDIA-A100"
    assert read(a_node(card(0, type="NVIDIA-Tesla T4"))).cards[0].model == "Tesla-T4"


def test_cards_in_other_modes_and_without_memory_are_left_out_and_told() -> None:
    found = read(a_node(card(0), card(1, mode="mig"), card(2, devmem=0)))
    assert [each.id for each in found.cards] == ["GPU-0"]
    assert ["mode mig" in found.remarks[0], "memory" in found.remarks[1]] == [True, True]
    assert found.certain


def test_a_register_that_cannot_be_read_leaves_it_open_what_is_there() -> None:
    node = a_node()
    node["metadata"]["annotations"][REGISTER] = "[{"
    found = read(node)
    assert (found.cards, found.certain) == ((), False)
    assert REGISTER in found.remarks[0]


def test_cards_that_two_agents_tell_of_are_there_once() -> None:
    volcano = {"volcano.sh/node-vgpu-register": "GPU-0,10,40960,NVIDIA-A100,true,hami-core:"}
    found = read(a_node(card(0), **volcano))
    assert [each.id for each in found.cards] == ["GPU-0"]
    assert (found.vendor, found.remarks) == ("nvidia", ())


def test_of_several_makers_one_has_to_be_named() -> None:
    both = a_node(card(0), **{"hami.io/node-dcu-register": "DCU-0,4,16384,100,DCU-Z100,0,true,0,:"})
    found = read(both)
    assert (found.cards, found.certain) == ((), False)
    assert "dcu and nvidia" in found.remarks[0]
    assert "devices.vendors" in found.remarks[0]
    assert [each.id for each in read(both, ["DCU"]).cards] == ["DCU-0"]


def npus(chip: str) -> NodeCards:
    return read(a_node(**{f"hami.io/node-register-{chip}": json.dumps([card(0, type=chip, devcore=20)])}))


def test_an_npu_has_its_numbers_beside_its_memory() -> None:
    found = npus("Ascend910B3")
    assert found.vendor == "huawei"
    assert found.cards[0].model == "Ascend-910B3"
    assert found.cards[0].npu == {NPU_CORE: 20, "huawei.com/npu-cpu": 7, NPU_DVPP: 100}
    assert npus("Ascend910A").cards[0].npu == {NPU_CORE: 30, "huawei.com/npu-cpu": 14, NPU_DVPP: 100}


@pytest.mark.parametrize("chip", [chip.word for chip in CHIPS])
def test_every_npu_has_cores_and_cpus_without_which_no_template_fits_its_node(chip: str) -> None:
    npu = npus(chip).cards[0].npu
    assert min(npu[NPU_CORE], npu["huawei.com/npu-cpu"]) > 0


def test_koordinators_own_objects_are_no_source_of_themselves() -> None:
    assert any(spec.dialect is Dialect.KOORDINATOR for spec in BUILTIN)
    assert read(a_node()).cards == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [("NVIDIA A10", "NVIDIA-A10"), ("-x-", "x"), ("a" * 80, "a" * 63), ("日本", ""), ("a/b c", "a-b-c")],
)
def test_a_text_becomes_the_value_of_a_label(text: str, value: str) -> None:
    assert label_value(text) == value


def test_nothing_is_read_of_a_node_that_tells_of_nothing() -> None:
    found = read(a_node())
    assert (found.cards, found.vendor, found.remarks, found.certain) == ((), "", (), True)
