"""Which NVIDIA cards are near each other."""

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.model.devices import IDLE
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.vendor import Candidate, ContainerRequest
from hami_plugins.vendors.nvidia import nearest
from tests.builders import a_device, a_request

Links = tuple[tuple[int, ...], ...]


def shares_of(cards: Sequence[int]) -> list[Candidate]:
    """One candidate per share, the shares of a card in sequence."""
    return [Candidate(at, a_device(index=at), IDLE) for at, shares in enumerate(cards) for _ in range(shares)]


def chosen(cards: Sequence[int], count: int, links: Links) -> list[int]:
    shape = NodeShape(tuple(a_device(index=at) for at in range(len(cards))), links)
    ask = ContainerRequest(a_request(count=count), DEFAULT_POLICY, shape)
    return [candidate.position for candidate in nearest(shares_of(cards), ask)]


def equal(cards: int, score: int = 10) -> Links:
    return tuple(tuple(0 if one == other else score for other in range(cards)) for one in range(cards))


@st.composite
def linked_nodes(draw: st.DrawFn) -> tuple[list[int], int, Links]:
    cards = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    count = draw(st.integers(2, max(2, sum(cards))))
    scores = {pair: draw(st.integers(0, 2)) for pair in combinations(range(len(cards)), 2)}
    links = tuple(
        tuple(scores.get((min(one, other), max(one, other)), 0) for other in range(len(cards)))
        for one in range(len(cards))
    )
    return cards, min(count, sum(cards)), links


@given(linked_nodes())
def test_the_first_of_the_best_sets_is_taken(node: tuple[list[int], int, Links]) -> None:
    cards, count, links = node
    positions = [candidate.position for candidate in shares_of(cards)]
    best = max(combinations(positions, count), key=lambda them: sum(links[a][b] for a, b in combinations(them, 2)))
    assert chosen(cards, count, links) == list(best)


def test_shares_of_one_card_count_once_so_that_many_can_be_searched() -> None:
    assert chosen([7, 7, 7], 7, equal(3)) == [0, 0, 0, 1, 1, 2, 2]


def test_cards_are_added_one_by_one_where_there_are_too_many_sets() -> None:
    links = tuple(tuple(40 if {one, other} == {0, 30} else 1 for other in range(31)) for one in range(31))
    assert chosen([1] * 31, 15, links)[:2] == [0, 30]


def test_without_links_cards_are_taken_as_they_come() -> None:
    assert chosen([1, 1, 1], 2, ()) == [0, 1]


def test_a_single_card_is_the_one_that_the_others_miss_least() -> None:
    assert chosen([1, 1, 1], 1, ((0, 9, 1), (9, 0, 2), (1, 2, 0))) == [2]
