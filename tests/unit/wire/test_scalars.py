"""Go's numbers and truth values, and values as messages quote them."""

import pytest

from hami_plugins.wire import scalars


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_gos_spellings_of_true(text: str) -> None:
    assert scalars.truth(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_gos_spellings_of_false(text: str) -> None:
    assert scalars.truth(text) is False


@pytest.mark.parametrize("text", ["", "yes", "tRUE", " true", "2"])
def test_no_other_spelling_is_a_truth_value(text: str) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        scalars.truth(text)


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("+5", 5), ("-5", -5), ("007", 7), ("2147483647", 2**31 - 1)])
def test_integers_are_read_in_base_ten(text: str, value: int) -> None:
    assert scalars.integer(text) == value


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_0", "0x1", "1.0", "²", "9" * 41, "2147483648", "-2147483649"])
def test_what_go_refuses_as_an_int32_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an integer|outside"):
        scalars.integer(text)


def test_a_natural_number_is_not_negative() -> None:
    assert scalars.natural("0") == 0
    with pytest.raises(ValueError, match="-1 is negative"):
        scalars.natural("-1")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ({"a": 1, "b": 2}, "an object with 2 members"),
        ([1], "a list of 1"),
        (2**5000, "an integer of 5001 bits"),
        (7, "7"),
        (1.5, "1.5"),
        (True, "True"),
        (None, "null"),
    ],
)
def test_foreign_values_are_quoted_shortly(value: object, text: str) -> None:
    assert scalars.shown(value) == text
