"""The weights of the device score."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.policy import Weights
from hami_plugins.wire import scalars, scoring_weights
from tests.unit.wire import mutations

naturals = st.integers(0, 2**63 - 1)


@given(st.builds(Weights, naturals, naturals, naturals).filter(any))
def test_parse_undoes_encode(weights: Weights) -> None:
    assert scoring_weights.parse(scoring_weights.encode(weights)) == weights


@given(st.one_of(st.text(), mutations.garbled("slot=1,core=1,memory=3")))
def test_any_text_gives_weights_or_a_wire_error(text: str) -> None:
    with suppress(WireError):
        scoring_weights.parse(text)


def test_the_error_is_spelled_as_hami_spells_it() -> None:
    with pytest.raises(WireError) as caught:
        scoring_weights.parse('slot="1"')
    words = r'invalid hami.io/device-scoring-weights annotation "slot=\"1\"": expected slot, core, and memory weights'
    assert scoring_weights.spelled(caught.value) == words


def test_a_weight_beyond_int64_is_no_integer() -> None:
    with pytest.raises(WireError, match='"core" weight must be an integer'):
        scoring_weights.parse(f"slot=1,core={2**63},memory=1")


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain é", '"plain é"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\n\t\x00\x7f", r'"\n\t\x00\x7f"'),
        ("\u200b\U000e0001", r'"\u200b\U000e0001"'),
    ],
)
def test_texts_are_quoted_as_go_quotes_them(text: str, quoted: str) -> None:
    assert scalars.quoted(text) == quoted
