"""Cards that are cut by fixed templates."""

from hami_plugins.engine.templates import Cut, CutCard, SliceTemplate
from hami_plugins.model.units import MiB

SMALL, LARGE = SliceTemplate("small", MiB(3_072), 1, 1), SliceTemplate("large", MiB(6_144), 2, 2)
CARD = CutCard.of(21_527, 24_576, (LARGE, SMALL))


def test_templates_are_kept_smallest_first() -> None:
    assert CARD.templates == (SMALL, LARGE)


def test_the_smallest_template_that_holds_the_memory_serves() -> None:
    assert CARD.cut(0) == Cut(SMALL.memory, "small")
    assert CARD.cut(3_072) == Cut(SMALL.memory, "small")
    assert CARD.cut(3_073) == Cut(LARGE.memory, "large")


def test_more_than_the_largest_template_is_the_card_as_far_as_it_can_be_used() -> None:
    assert CARD.cut(6_145) == Cut(MiB(21_527), "")
    assert CARD.cut(24_576) == Cut(MiB(21_527), "")
    assert CARD.cut(24_577) is None


def test_a_card_has_as_many_slots_as_smallest_slices() -> None:
    assert CARD.slots == 7
    assert CutCard.of(1_000, 1_000, ()).slots == 1
