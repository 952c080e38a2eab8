"""The annotations of a resize: what they say, and what is wrong with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.wire import resizes

ASK, BOOKED = "hami-plugins.io/resize-memory", "hami-plugins.io/booked-memory"
IN_FORCE, REFUSED = "hami-plugins.io/memory-in-force", "hami-plugins.io/resize-refused"

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@given(st.dictionaries(names, st.integers(1, 2**31 - 1), min_size=1, max_size=3))
def test_amounts_are_read_as_they_were_written(amounts: dict[str, int]) -> None:
    assert resizes.amounts("k", resizes.encode(amounts)) == amounts  # type: ignore[arg-type]


def test_an_ask_may_end_with_the_time() -> None:
    found = resizes.decode({ASK: "main=8192,side=1 2026-11-26T21:00:00Z"})
    assert found is not None
    assert found.asked == {"main": 8192, "side": 1}


def test_a_pod_without_these_annotations_is_not_resized() -> None:
    assert resizes.decode({"other": "main=1"}) is None
    assert resizes.decode({ASK: "", BOOKED: ""}) is None


def test_a_refusal_is_of_the_ask_that_it_names_and_of_no_later_one() -> None:
    ask = "main=8192 2026-11-26T21:00:00Z"
    said = resizes.refusal(ask, "card x: full")
    again = resizes.decode({ASK: ask, REFUSED: said})
    later = resizes.decode({ASK: "main=8192 2026-11-26T22:00:00Z", REFUSED: said})
    assert again is not None
    assert later is not None
    assert (again.refused, later.refused) == ("card x: full", "")


def test_an_ask_that_looks_like_a_refusal_is_still_refused() -> None:
    ask = "a: b"
    found = resizes.decode({ASK: ask, REFUSED: resizes.refusal(ask, "no")})
    assert found is not None
    assert found.refused == "no"


def test_the_message_has_all_that_is_known() -> None:
    found = resizes.decode({ASK: "main=8", BOOKED: "main=4", IN_FORCE: "main=2", REFUSED: "main=8: full"})
    assert found is not None
    assert found.message == "asked main=8 MiB; booked main=4 MiB; in force main=2 MiB; refused: full"


@pytest.mark.parametrize("text", ["8192", "main=", "main=0", "main=-1", "main=x", "=5", "main=2147483648", "main=²"])
def test_what_is_no_amount_is_a_problem_and_hides_no_other_annotation(text: str) -> None:
    found = resizes.decode({BOOKED: text, IN_FORCE: "main=2"})
    assert found is not None
    assert found.booked == {}
    assert found.in_force == {"main": 2}
    assert f"{BOOKED}: expected CONTAINER=MIB with MIB above 0, such as main=8192" in found.problems[0]
    assert found.problems[0] in found.message


def test_a_container_that_is_named_twice_is_refused() -> None:
    with pytest.raises(WireError, match="container main is named twice"):
        resizes.amounts("k", "main=1,main=2")
