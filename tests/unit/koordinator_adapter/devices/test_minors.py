"""Numbers of cards: kept for life, unique, and never one that a pod still holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.model.units import DeviceId
from koordinator_adapter.core.devices.minors import numbered

IDS = st.integers(0, 80).map(lambda at: DeviceId(f"GPU-{at}"))
CARDS = st.lists(st.tuples(IDS, st.integers(-1, 80)), max_size=80, unique_by=lambda each: each[0])
MINORS = st.integers(0, 62)


def ids(*names: str) -> list[tuple[DeviceId, int]]:
    return [(DeviceId(name), at) for at, name in enumerate(names)]


def test_a_new_card_gets_its_place_by_which_the_runtime_calls_it() -> None:
    assert numbered([(DeviceId("a"), 4)], {}).of == {"a": 4}


def test_a_card_keeps_its_number_whatever_place_it_has_now() -> None:
    assert numbered(ids("b", "c"), {DeviceId("b"): 1, DeviceId("c"): 2}).of == {"b": 1, "c": 2}


def test_a_place_that_is_taken_gives_way_to_the_lowest_free_number() -> None:
    assert numbered(ids("new", "b"), {DeviceId("b"): 0}, {1}).of == {"b": 0, "new": 2}


def test_there_are_sixty_three_numbers_and_who_gets_none_is_named() -> None:
    found = numbered(ids(*(str(at) for at in range(65))), {})
    assert len(found.of) == 63
    assert found.without == ("63", "64")


@given(CARDS, st.dictionaries(IDS, MINORS, max_size=20), st.sets(MINORS, max_size=20))
def test_numbers_are_unique_in_range_kept_and_not_taken(
    cards: list[tuple[DeviceId, int]], known: dict[DeviceId, int], taken: set[int]
) -> None:
    known = {name: minor for at, (name, minor) in enumerate(known.items()) if minor not in list(known.values())[:at]}
    taken -= set(known.values())
    found = numbered(cards, known, taken)
    assert len(set(found.of.values())) == len(found.of)
    assert all(0 <= minor <= 62 for minor in found.of.values())
    assert not set(found.of.values()) & taken
    assert {*found.of, *found.without} == {name for name, _ in cards}
    assert all(found.of[name] == known[name] for name, _ in cards if name in known)
    assert numbered(list(reversed(cards)), dict(found.of), taken).of == found.of
