"""MetaX's node cards, pod shares and topology costs."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.units import INT32_MAX, CoreShare, DeviceId, MiB
from hami_plugins.wire import metax
from hami_plugins.wire.metax import SharedCard, SharedPart
from tests.unit.wire import mutations

KEY = "metax-tech.com/node-gpu-devices"
NODE = (
    '[{"uuid":"GPU-123","bdf":"0000:10:00.0","model":"C500","totalDevCount":16,"totalCompute":100,"totalVRam":65536,'
    '"availableVRam":1,"numa":1,"healthy":true,"qosPolicy":"fixed-share","linkZone":2}]'
)

words = st.text(st.characters(codec="utf-8"), max_size=10)
ids = st.text(st.characters(exclude_characters=",:;", codec="utf-8"), min_size=1, max_size=10).map(DeviceId)
naturals = st.integers(0, INT32_MAX)
cards = st.builds(
    SharedCard,
    id=ids,
    bus=words,
    model=words,
    slots=naturals,
    cores=naturals.map(CoreShare),
    memory=naturals.map(MiB),
    numa=st.integers(-1, 7),
    healthy=st.booleans(),
    qos=words,
    link_zone=st.integers(-1, 7),
)
parts = st.builds(SharedPart, ids, naturals.map(CoreShare), naturals.map(MiB))


def test_the_cards_of_a_node_are_read() -> None:
    assert metax.decode_cards(KEY, NODE) == (
        SharedCard(
            id=DeviceId("GPU-123"),
            bus="0000:10:00.0",
            model="C500",
            slots=16,
            cores=CoreShare(100),
            memory=MiB(65536),
            numa=1,
            healthy=True,
            qos="fixed-share",
            link_zone=2,
        ),
    )


def test_the_shares_of_a_pod_are_written_without_zero_members() -> None:
    card = DeviceId("GPU-1")
    text = metax.encode_parts(
        [[SharedPart(card, CoreShare(60), MiB(4096))], [], [SharedPart(card, CoreShare(0), MiB(8))]]
    )
    assert text == '[[{"uuid":"GPU-1","compute":60,"vRam":4096}],[],[{"uuid":"GPU-1","vRam":8}]]'


def test_topology_costs_are_read_by_number_of_cards() -> None:
    assert metax.decode_topology(KEY, '{"1":0,"2":110,"8":1240}') == {1: 0, 2: 110, 8: 1240}
    assert metax.decode_topology(KEY, "null") == {}


@given(st.lists(cards, max_size=3).map(tuple))
def test_decode_undoes_encode_of_cards(given_cards: tuple[SharedCard, ...]) -> None:
    assert metax.decode_cards(KEY, metax.encode_cards(given_cards)) == given_cards


@given(st.lists(st.lists(parts, max_size=2).map(tuple), max_size=3).map(tuple))
def test_decode_undoes_encode_of_shares(containers: tuple[tuple[SharedPart, ...], ...]) -> None:
    assert metax.decode_parts(KEY, metax.encode_parts(containers)) == containers


@given(st.dictionaries(naturals, st.integers(-1000, 10_000), max_size=5))
def test_decode_undoes_encode_of_topology_costs(costs: dict[int, int]) -> None:
    assert metax.decode_topology(KEY, metax.encode_topology(costs)) == costs


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("x", ""),
        ("{}", ""),
        ('[{"model":"C500"}]', "[0].uuid"),
        ('[{"uuid":"a","totalVRam":-1}]', "[0].totalvram"),
        ('[{"uuid":"a","healthy":1}]', "[0].healthy"),
    ],
)
def test_bad_cards_are_named_by_their_path(text: str, where: str) -> None:
    with pytest.raises(WireError) as caught:
        metax.decode_cards(KEY, text)
    assert caught.value.key == KEY + where


@pytest.mark.parametrize(("text", "where"), [("[1]", "[0]"), ("[[],[{}]]", "[1][0].uuid"), ("[[1]]", "[0][0]")])
def test_bad_shares_are_named_by_their_path(text: str, where: str) -> None:
    with pytest.raises(WireError) as caught:
        metax.decode_parts(KEY, text)
    assert caught.value.key == KEY + where


@pytest.mark.parametrize("text", ["[]", "1", '{"one":1}', '{"1":"x"}', '{"1":1.5}'])
def test_bad_topology_costs_are_refused(text: str) -> None:
    with pytest.raises(WireError, match=KEY):
        metax.decode_topology(KEY, text)


@given(st.one_of(st.text(), mutations.garbled(NODE), mutations.garbled('{"1":0,"2":110}')))
def test_any_text_gives_values_or_a_wire_error(text: str) -> None:
    for decode in (metax.decode_cards, metax.decode_parts, metax.decode_topology):
        with suppress(WireError):
            decode(KEY, text)
