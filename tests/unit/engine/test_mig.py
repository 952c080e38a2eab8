"""Which partition of a card serves a memory need."""

from hami_plugins.engine import mig
from hami_plugins.model.devices import Instance, Profile, SlicePlacement, Tenant
from hami_plugins.model.units import CoreShare, MiB


def a_profile(name: str, memory: int, slices: int, starts: range | list[int], size: int, *, group: str = "") -> Profile:
    places = tuple(SlicePlacement(start, size) for start in starts)
    return Profile(name, MiB(memory), CoreShare(0), slices, places, group=group)


A100 = (
    a_profile("7g.40gb", 40_192, 7, [0], 8),
    a_profile("1g.5gb", 4_864, 1, range(7), 1),
    a_profile("2g.10gb", 9_856, 2, [0, 2, 4], 2),
    a_profile("3g.20gb", 19_968, 3, [0, 4], 4),
)


def test_only_marks_of_instances_occupy_places() -> None:
    marks = (Instance("1g.5gb", SlicePlacement(3, 1)), Tenant("online", ""))
    assert mig.occupied(marks) == (SlicePlacement(3, 1),)


def test_the_smallest_sufficient_profile_serves() -> None:
    assert mig.choose(A100, MiB(4_864), ()) == (A100[1], SlicePlacement(6, 1))
    assert mig.choose(A100, MiB(4_865), ()) == (A100[2], SlicePlacement(0, 2))
    assert mig.choose(A100, MiB(9_857), ()) == (A100[3], SlicePlacement(4, 4))
    assert mig.choose(A100, MiB(40_193), ()) is None


def test_profiles_of_one_and_three_slices_are_placed_from_the_top() -> None:
    assert mig.choose(A100, MiB(1), (SlicePlacement(6, 1),)) == (A100[1], SlicePlacement(5, 1))
    assert mig.choose(A100, MiB(19_968), (SlicePlacement(4, 4),)) == (A100[3], SlicePlacement(0, 4))
    assert mig.choose(A100, MiB(9_856), (SlicePlacement(0, 2),)) == (A100[2], SlicePlacement(2, 2))


def test_a_profile_without_a_free_place_gives_way_to_the_next() -> None:
    taken = [SlicePlacement(start, 1) for start in range(7)]
    assert mig.choose(A100, MiB(1), taken) is None
    assert mig.choose(A100, MiB(9_000), [SlicePlacement(0, 1), SlicePlacement(2, 1), SlicePlacement(4, 1)]) is None
    assert mig.choose(A100, MiB(9_000), [SlicePlacement(0, 1), SlicePlacement(2, 1), SlicePlacement(5, 1)]) is None
    assert mig.choose(A100[:1] + A100[2:], MiB(1), [SlicePlacement(4, 2)]) == (A100[2], SlicePlacement(0, 2))


SMALL = a_profile("1g.5gb", 4_864, 1, range(2), 1, group="group1")
LARGE = a_profile("3g.20gb", 19_968, 3, [2], 1, group="group1")
HALVES = a_profile("2g.10gb", 9_856, 2, range(3), 1, group="group2")
GROUPS = (LARGE, SMALL, HALVES)


def held(group: str, *positions: int) -> list[Instance]:
    return [Instance(f"{group}-{at}", SlicePlacement(at, 1), group) for at in positions]


def test_an_idle_card_is_cut_by_the_first_group_that_serves() -> None:
    assert mig.choose_in_group(GROUPS, MiB(1_000), []) == (SMALL, SlicePlacement(0, 1))
    assert mig.choose_in_group(GROUPS, MiB(5_000), []) == (LARGE, SlicePlacement(2, 1))
    assert mig.choose_in_group(GROUPS[1:], MiB(5_000), []) == (HALVES, SlicePlacement(0, 1))
    assert mig.choose_in_group(GROUPS, MiB(20_000), []) is None


def test_a_card_in_use_stays_with_its_group() -> None:
    assert mig.choose_in_group(GROUPS, MiB(1_000), held("group2", 0)) == (HALVES, SlicePlacement(1, 1))
    assert mig.choose_in_group(GROUPS, MiB(1_000), held("group1", 0, 1)) == (LARGE, SlicePlacement(2, 1))
    assert mig.choose_in_group(GROUPS, MiB(1_000), held("group1", 0, 1, 2)) is None
    assert mig.choose_in_group(GROUPS, MiB(1_000), held("group9", 0)) is None


def test_a_card_that_holds_slices_of_two_groups_has_none_that_is_sure_to_be_free() -> None:
    assert mig.choose_in_group(GROUPS, MiB(1), held("group1", 0) + held("group2", 2)) is None
