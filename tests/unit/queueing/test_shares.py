"""How a cluster is divided among queues."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.queueing.shares import QueueDemand, divided


def claim(queue: str, asks: int, *, weight: int = 1, limit: int = 1000, guarantee: int = 0) -> QueueDemand:
    return QueueDemand(queue, weight, {"gpu": asks}, {"gpu": limit}, {"gpu": guarantee})


def gpus(*claims: QueueDemand, total: int = 100) -> dict[str, int]:
    return {queue: share.get("gpu", 0) for queue, share in divided(claims, {"gpu": total}).items()}


def test_queues_that_ask_for_more_than_there_is_get_by_weight() -> None:
    assert gpus(claim("a", 100), claim("b", 100, weight=3)) == {"a": 25, "b": 75}


def test_what_one_leaves_goes_to_the_others() -> None:
    assert gpus(claim("a", 10), claim("b", 200)) == {"a": 10, "b": 90}
    assert gpus(claim("a", 100, limit=30), claim("b", 200)) == {"a": 30, "b": 70}


def test_nobody_gets_more_than_it_asks() -> None:
    assert gpus(claim("a", 10), claim("b", 20)) == {"a": 10, "b": 20}
    assert gpus() == {}


def test_a_guarantee_is_kept_even_for_a_queue_that_asks_less() -> None:
    assert gpus(claim("a", 0, guarantee=40), claim("b", 100)) == {"a": 40, "b": 60}


def test_a_resource_that_nobody_has_is_nobodys_share() -> None:
    wants = QueueDemand("a", 1, {"gpu": 1, "fpga": 1}, {"gpu": 10}, {})
    assert divided([wants], {"gpu": 10}) == {"a": {"gpu": 1}}


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 300), st.integers(0, 300)), max_size=5), st.integers(0, 200)
)
def test_shares_never_exceed_the_cluster_and_never_what_is_asked(asks: list[tuple[int, int, int]], total: int) -> None:
    claims = [claim(str(at), each[1], weight=each[0], limit=each[2]) for at, each in enumerate(asks)]
    found = gpus(*claims, total=total)
    assert sum(found.values()) <= total
    for each in claims:
        assert found[each.queue] <= min(each.request["gpu"], each.limit["gpu"])
