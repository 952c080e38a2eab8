"""JSON with Go's habits."""

import pytest

from hami_plugins.errors import WireError
from hami_plugins.wire import documents, fields


@pytest.mark.parametrize("text", ["", "not-json", "{", "[1,]", "NaN", "1e999", "[" * 5000, '"\\ud800"', "\ud800"])
def test_a_text_that_is_no_json_is_refused_with_its_key(text: str) -> None:
    with pytest.raises(WireError, match="k: not JSON"):
        documents.load("k", text)


def test_null_is_an_empty_list_and_anything_else_is_none() -> None:
    assert documents.load_list("k", "null") == []
    with pytest.raises(WireError, match="k: expected a list"):
        documents.load_list("k", "{}")


def test_what_go_escapes_is_escaped() -> None:
    assert documents.dump({"a<b": "R&D > \u2028\u2029 é"}) == r'{"a\u003cb":"R\u0026D \u003e \u2028\u2029 é"}'


def test_what_json_cannot_carry_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="cannot be written"):
        documents.dump({"a": 2**70})
    with pytest.raises(WireError, match="cannot be written"):
        documents.dump("\ud800")


def test_member_names_match_whatever_their_case_and_the_last_one_wins() -> None:
    assert documents.folded({"DevMem": 1, "devmem": 2}, "k") == {"devmem": 2}


def test_empty_members_are_left_out() -> None:
    assert documents.filled({"a": 0, "b": "", "c": False, "d": [], "e": 1}) == {"e": 1}


@pytest.mark.parametrize("value", [-1, 2**31, 1.0, True, "1", [1]])
def test_a_natural_number_is_an_int32_that_is_not_negative(value: object) -> None:
    with pytest.raises(WireError, match=r"k\.n: expected an integer from 0"):
        fields.natural({"n": value}, "n", "k")
    assert fields.natural({"n": None}, "n", "k") == 0


@pytest.mark.parametrize("value", [2**63, -(2**64), 1.5])
def test_a_number_is_an_int64(value: object) -> None:
    with pytest.raises(WireError, match=r"k\.n: expected an integer"):
        fields.number({"n": value}, "n", "k")
