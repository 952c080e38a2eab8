"""With which headrooms the outcome of comparisons is the same."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.headroom import ANY_HEADROOM, HeadroomComparison, HeadroomRange
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import Headroom, Left

ACME, BETA = VendorName("Acme"), VendorName("Beta")

amounts = st.integers(0, 6)
rooms = st.builds(
    Headroom, st.none() | st.builds(MiB, st.integers(-1, 7)), st.none() | st.builds(CoreShare, st.integers(-1, 7))
)
headrooms = st.dictionaries(st.sampled_from([ACME, BETA]), rooms).map(lambda found: tuple(sorted(found.items())))
questions = st.lists(st.tuples(st.sampled_from([ACME, BETA]), amounts, amounts), max_size=5)


def left(memory: int | None = None, cores: int | None = None, vendor: VendorName = ACME) -> Left:
    room = Headroom(None if memory is None else MiB(memory), None if cores is None else CoreShare(cores))
    return ((vendor, room),)


def compared(room: Left, *asked: tuple[VendorName, int, int]) -> tuple[list[bool], HeadroomRange]:
    comparison = HeadroomComparison(room)
    return [comparison.allows(*each) for each in asked], comparison.range


def test_as_much_as_is_left_may_be_taken_of_each_amount() -> None:
    asked = [(ACME, 5, 3), (ACME, 6, 3), (ACME, 5, 4)]
    assert compared(left(5, 3), *asked)[0] == [True, False, False]
    assert compared(left(memory=5), *asked)[0] == [True, False, True]
    assert compared((), *asked)[0] == [True, True, True]
    assert compared(left(0, 0, BETA), *asked)[0] == [True, True, True]


def test_without_a_comparison_every_headroom_gives_the_same() -> None:
    found = compared(left(5))[1]
    assert found is ANY_HEADROOM
    assert found.holds(left(0, 0))
    assert found.holds(())


def test_what_is_enough_stays_enough_down_to_the_largest_amount() -> None:
    found = compared(left(5), (ACME, 3, 1), (ACME, 4, 1))[1]
    held = [found.holds(each) for each in (left(4), left(3), left(100), left(4, 1), left(4, 0), ())]
    assert held == [True, False, True, True, False, True]


def test_what_is_short_stays_short_up_to_the_smallest_amount() -> None:
    found = compared(left(2), (ACME, 4, 0), (ACME, 3, 0))[1]
    held = [found.holds(each) for each in (left(2), left(3), left(-1), ())]
    assert held == [True, False, True, False]


@given(questions, headrooms, headrooms)
def test_every_headroom_of_the_range_has_the_same_outcomes(
    asked: Sequence[tuple[VendorName, int, int]], room: Left, other: Left
) -> None:
    outcomes, found = compared(room, *asked)
    assert found.holds(room)
    if found.holds(other):
        assert compared(other, *asked)[0] == outcomes


@given(questions, questions, headrooms, headrooms)
def test_in_both_ranges_is_what_is_in_each(
    first: Sequence[tuple[VendorName, int, int]],
    second: Sequence[tuple[VendorName, int, int]],
    room: Left,
    other: Left,
) -> None:
    one, two = compared(room, *first)[1], compared(room, *second)[1]
    assert one.both(two).holds(other) is (one.holds(other) and two.holds(other))
