"""Which known word a misspelt one was meant to be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.inputs import typos

KNOWN = ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "amd.com/gpu", "aws.amazon.com/neuron")
words = st.text(alphabet="abcd-", max_size=8)


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [
        ("", "", 0),
        ("gpu", "gpu", 0),
        ("gpu", "", 3),
        ("gpu", "gpus", 1),
        ("gpu", "gp", 1),
        ("gpu", "cpu", 1),
        ("gpu", "gup", 1),
        ("neuron", "nuerno", 2),
    ],
)
def test_distance_counts_letters_added_dropped_replaced_and_swapped(one: str, other: str, steps: int) -> None:
    assert typos.distance(one, other) == steps


@given(words, words)
def test_distance_is_zero_for_equal_words_alone_and_the_same_both_ways(one: str, other: str) -> None:
    found = typos.distance(one, other)
    assert found == typos.distance(other, one)
    assert (found == 0) == (one == other)
    assert abs(len(one) - len(other)) <= found <= max(len(one), len(other))


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("nvidia.com/gpu-mem", ("nvidia.com/gpumem",)),
        ("nvidia.com/GPUMem", ("nvidia.com/gpumem",)),
        ("nvidia.com/gpumemory", ("nvidia.com/gpumem",)),
        ("nvdia.com/gpu", ("nvidia.com/gpu",)),
        ("awa.amazon.com/neuron", ("aws.amazon.com/neuron",)),
        ("nvidia.com/memory", ()),
        ("intel.com/gpu", ()),
        ("acme.com/gpu", ()),
        ("nvidia.com/", ()),
        ("gpu", ()),
        ("nvidia.com/" + "g" * 200, ()),
    ],
)
def test_closest_finds_a_near_name_in_the_same_or_almost_the_same_domain(word: str, meant: tuple[str, ...]) -> None:
    assert typos.closest(word, KNOWN) == meant


def test_closest_gives_all_names_that_are_equally_near() -> None:
    known = ("huawei.com/Ascend910A", "huawei.com/Ascend910C", "huawei.com/Ascend310P")
    assert typos.closest("huawei.com/Ascend910X", known) == known[:2]


@pytest.mark.parametrize(
    ("word", "meant"),
    [("bin-pack", "binpack"), ("Spread", "spread"), ("", None), ("yes", None), ("x" * 200, None)],
)
def test_nearest_finds_a_near_plain_word(word: str, meant: str | None) -> None:
    assert typos.nearest(word, ("binpack", "spread", "true", "false")) == meant


def test_an_unknown_word_is_answered_with_the_nearest_or_with_some_that_are_known() -> None:
    assert typos.instead("reserch", ["research", "default"]) == "did you mean research?"
    assert typos.instead("x", "gfedcba") == "known are a, b, c, d, e and 2 more"
