"""Kubernetes quantities: grammar, exactness, rounding, the stored form, and what is refused."""

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.wire import quantity

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

signs = st.sampled_from(["", "+", "-"])
digits = st.text("0123456789", min_size=1, max_size=30)
fractions = st.one_of(st.just(""), st.text("0123456789", max_size=15).map(lambda text: f".{text}"))
suffixes = st.one_of(
    st.sampled_from([*DECIMAL, *BINARY]),
    st.integers(-20, 20).map(lambda power: f"e{power}"),
)
quantities = st.builds("".join, st.tuples(signs, digits, fractions, suffixes))


def read(text: str | int | float) -> Quantity:
    return quantity.parse(text, key="cpu")


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("3000", "3k"),
        ("3001", "3001"),
        ("0", "0"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("00012", "12"),
        ("1.", "1"),
        (".5", "500m"),
        ("1.5", "1500m"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500000u", "1500m"),
        ("16.0Gi", "16Gi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("1024", "1024"),
        ("1Ki", "1Ki"),
        ("-1Ki", "-1Ki"),
        ("1.0001Ki", "1024102400u"),
        ("1025Ki", "1025Ki"),
        ("1024Ei", str(2**63 - 1)),
        ("-8Ei", str(1 - 2**63)),
        ("1Ei", "1Ei"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1E", "1E"),
        ("1e4", "10e3"),
        ("1.5e3", "1500"),
        ("5e-1", "500e-3"),
        ("+7", "7"),
        (" 7\n", "7"),
        ("1000E", "1000E"),
        ("100000000000000000000", "100E"),
    ],
)
def test_text_is_the_form_that_the_api_server_stores(text: str, stored: str) -> None:
    assert read(text).text == stored


def test_json_numbers_are_read_like_their_text() -> None:
    assert read(3000) == read("3k")
    assert read(1.5) == read("1500m")
    assert read(-2) == read("-2")
    assert read(1e22).nano == 10**22 * NANO


@pytest.mark.parametrize(("text", "nano"), [("0.1n", 1), ("-0.1n", -1), ("1.0000000001", NANO + 1), ("1e-12", 1)])
def test_amounts_below_a_billionth_are_rounded_away_from_zero(text: str, nano: int) -> None:
    assert read(text).nano == nano


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ".",
        "-",
        "+",
        "--1",
        "1 Gi",
        "1i",
        "1e",
        "K",
        "1ki",
        "1eE3",
        "0x1",
        "1_0",
        "1,5",
        "nan",
        "²",
        "\uff11",
        "1e99x",
    ],
)
def test_anything_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(WireError, match="cpu: not a quantity") as caught:
        read(text)
    assert caught.value.key == "cpu"
    assert caught.value.text == text


@pytest.mark.parametrize("text", ["9" * 129, "1e129", "1e-129", "1e" + "9" * 100, 10**4000, float("inf"), float("nan")])
def test_absurd_sizes_are_refused_at_once(text: str | float) -> None:
    with pytest.raises(WireError):
        read(text)


@pytest.mark.parametrize("amount", [None, True, [1], {"a": 1}])
def test_a_resource_list_refuses_what_is_no_amount_and_names_it(amount: object) -> None:
    with pytest.raises(WireError, match=r"^limits\[cpu\]: not a quantity"):
        quantity.amounts({"memory": "1Gi", "cpu": amount}, key="limits")


def test_a_resource_list_refuses_a_name_that_is_no_text() -> None:
    with pytest.raises(WireError, match=r"^limits: a resource name must be text"):
        quantity.amounts({1: "1"}, key="limits")


def test_a_resource_list_keeps_names_and_amounts() -> None:
    read_back = quantity.amounts({"cpu": "100m", "nvidia.com/gpu": 2}, key="limits")
    assert {name: amount.text for name, amount in read_back.items()} == {"cpu": "100m", "nvidia.com/gpu": "2"}


def test_canonical_prefers_the_binary_suffix_only_where_it_is_exact() -> None:
    assert quantity.canonical(2048 * NANO, binary=True) == "2Ki"
    assert quantity.canonical(512 * NANO, binary=True) == "512"
    assert quantity.canonical(2048 * NANO + 1, binary=True) == "2048000000001n"
    assert quantity.canonical(2048 * NANO) == "2048"


@given(quantities)
def test_the_amount_is_exact_up_to_a_billionth(text: str) -> None:
    number, suffix = text, ""
    for candidate in sorted([*DECIMAL, *BINARY], key=len, reverse=True):
        if candidate and text.endswith(candidate):
            number, suffix = text.removesuffix(candidate), candidate
            break
    exact = Fraction(number.replace(".e", "e").removesuffix(".") or "0")
    exact *= Fraction(10) ** DECIMAL[suffix] if suffix in DECIMAL else 2 ** BINARY[suffix]
    if suffix in BINARY:
        exact = max(-Fraction(2**63 - 1), min(exact, Fraction(2**63 - 1)))
    got = Fraction(read(text).nano, NANO)
    assert abs(got) >= abs(exact)
    assert abs(got - exact) < Fraction(1, NANO)


@given(quantities)
def test_the_stored_text_means_the_same_amount_and_is_stored_as_itself(text: str) -> None:
    once = read(text)
    assert read(once.text) == once


@given(st.one_of(st.text(), quantities.flatmap(st.permutations).map("".join)))
def test_any_text_gives_an_amount_or_a_wire_error(text: str) -> None:
    with suppress(WireError):
        read(text)
