"""Enflame's hardware slices: the node's cards and profiles, and the pod's slices."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.units import INT32_MAX
from hami_plugins.wire import drs
from hami_plugins.wire.drs import DrsCard, DrsNode, DrsSlice
from tests.unit.wire import mutations

NODE = '{"devices":[{"index":"0","minor":"8","capacity":6}],"profiles":{"1g.6gb":"0","3g.20gb":"1","6g.40gb":"2"}}'
ASSIGNED = '{"main":{"allocated":false,"request":3,"profileID":"1","profileName":"3g.20gb"}}'

words = st.text(st.characters(codec="utf-8"), max_size=8)
naturals = st.integers(0, INT32_MAX)
nodes = st.builds(
    DrsNode,
    st.lists(
        st.builds(DrsCard, naturals, words.filter(lambda text: text.strip() == text != ""), st.integers(1, INT32_MAX)),
        max_size=3,
    ).map(tuple),
    st.dictionaries(words, words, max_size=3),
)
slices = st.builds(
    DrsSlice,
    slices=naturals,
    profile=words,
    profile_id=words,
    allocated=st.booleans(),
    instance=words,
    instance_uuid=words,
)


def with_card(members: str) -> str:
    return f'{{"devices":[{{{members}}}],"profiles":{{"6g.40gb":"2"}}}}'


def with_profiles(*names: str) -> DrsNode:
    return DrsNode((DrsCard(0, "0", 6),), {name: str(at) for at, name in enumerate(names)})


@given(nodes)
def test_decode_undoes_encode_of_nodes(node: DrsNode) -> None:
    assert drs.decode_node("k", drs.encode_node(node)) == node


@given(st.dictionaries(words, slices, max_size=3))
def test_decode_undoes_encode_of_assigned_slices(given_slices: dict[str, DrsSlice]) -> None:
    assert drs.decode_assigned("k", drs.encode_assigned(given_slices)) == given_slices


def test_both_texts_are_what_hami_writes() -> None:
    node = DrsNode((DrsCard(0, "8", 6),), {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"})
    assert drs.encode_node(node) == NODE
    assert drs.encode_assigned({"main": DrsSlice(slices=3, profile="3g.20gb", profile_id="1")}) == ASSIGNED


@pytest.mark.parametrize(
    ("members", "card"),
    [
        ('"index":"3","minor":" 5 ","capacity":"6"', DrsCard(3, "5", 6)),
        ('"index":"3","capacity":6.0', DrsCard(3, "3", 6)),
        ('"index":"abc","capacity":6', DrsCard(0, "0", 6)),
        ('"capacity":"99999999999"', DrsCard(0, "0", INT32_MAX)),
    ],
)
def test_a_card_may_leave_its_numbers_to_its_place(members: str, card: DrsCard) -> None:
    assert drs.decode_node("k", with_card(members)).cards == (card,)


@pytest.mark.parametrize("capacity", ["0", "-1", '"0"', '"NaN"', "3e9", "null", "true", "[]", "0.5"])
def test_a_card_without_slices_is_refused(capacity: str) -> None:
    with pytest.raises(WireError) as caught:
        drs.decode_node("k", with_card(f'"index":"0","capacity":{capacity}'))
    assert caught.value.key == "k.devices[0].capacity"


def test_profiles_are_sized_by_their_names() -> None:
    profiles, memory = drs.profiles_of("k", with_profiles("6g.40gb", " 3G.20GB ", "1g.6gb"))
    assert [(profile.slices, profile.memory, profile.cores) for profile in profiles] == [
        (1, 6 * 1024, 17),
        (3, 20 * 1024, 50),
        (6, 40 * 1024, 100),
    ]
    assert [profile.profile_id for profile in profiles] == ["2", "1", "0"]
    assert memory == 40 * 1024


def test_names_that_say_too_little_or_too_much_are_passed_over() -> None:
    profiles, memory = drs.profiles_of("k", with_profiles("6g.x", "6g", "xg.6gb", "2g.3000000gb"))
    assert profiles == ()
    assert memory == 2_147_482_624


def test_a_card_whose_profiles_name_no_memory_has_a_gigabyte_per_slice() -> None:
    assert drs.profiles_of("k", with_profiles("6g.?")) == ((), 6 * 1024)


@pytest.mark.parametrize("names", [(), ("0g.6gb",), ("6g",), ("3000000000g.6gb",)])
def test_a_node_whose_profiles_name_no_slices_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(WireError, match="no profile says"):
        drs.profiles_of("k", with_profiles(*names))


@given(st.one_of(st.text(), mutations.garbled(NODE), mutations.garbled(ASSIGNED)))
def test_any_text_gives_values_or_a_wire_error(text: str) -> None:
    with suppress(WireError):
        drs.profiles_of("k", drs.decode_node("k", text))
    with suppress(WireError):
        drs.decode_assigned("k", text)
