"""What nodes have said to a demand, kept up to date by their changes."""

from __future__ import annotations

from hami_plugins.allocations.known_answers import AnswersByDemand, ChangeLog, KnownAnswers
from hami_plugins.engine.headroom import HeadroomRange
from hami_plugins.model.units import MiB, NodeName, VendorName
from hami_plugins.model.vendor import Headroom, Left

NVIDIA = VendorName("NVIDIA")
N1, N2, N3 = map(NodeName, ("n1", "n2", "n3"))
ALL = (N1, N2, N3)

Known = KnownAnswers[str, str]


def nothing() -> tuple[NodeName, ...]:
    raise AssertionError("all nodes were listed")


def caught_up(log: ChangeLog) -> Known:
    known = Known()
    known.catch_up(log, lambda: ALL)
    for name in tuple(known.stale):
        known.renew(name, 1.0, None)
    return known


def test_a_new_demand_asks_every_node_and_then_only_those_that_change() -> None:
    log = ChangeLog()
    log.add(N1)
    known = Known()
    known.catch_up(log, lambda: ALL)
    assert tuple(known.stale) == ALL
    for name in ALL:
        known.renew(name, 1.0, None)
    log.add(N2)
    log.add(N2)
    known.catch_up(log, nothing)
    assert tuple(known.stale) == (N2,)
    known.catch_up(log, nothing)
    assert tuple(known.stale) == (N2,)


def test_where_the_log_no_longer_reaches_back_all_nodes_are_asked() -> None:
    log = ChangeLog(most=2)
    log.add(N1)
    known = caught_up(log)
    for _ in range(2):
        log.add(N2)
    known.catch_up(log, nothing)
    for _ in range(3):
        log.add(N3)
    assert log.position == 6
    assert list(log.since(4) or ()) == [N3] * 2
    assert log.since(0) is None
    late = caught_up(log)
    late.position = 1
    late.catch_up(log, lambda: ALL)
    assert set(late.stale) == set(ALL)


def test_a_node_is_in_one_place_only() -> None:
    known = Known()
    known.renew(N1, 2.0, None)
    assert (known.scores, len(known)) == ({N1: 2.0}, 1)
    known.renew(N1, None, "no room")
    assert (known.scores, known.untold) == ({}, {N1: "no room"})
    known.tell([(N1, known.untold[N1], "words")])
    assert (known.untold, known.told, len(known)) == ({}, {N1: "words"}, 1)
    known.renew(N1, None, None)
    assert not known.told
    assert not len(known)


def test_a_text_of_what_a_node_no_longer_says_is_left_out() -> None:
    known = Known()
    known.renew(N1, None, "no room")
    old = known.untold[N1]
    known.renew(N1, None, "".join(("no ", "memory")))
    known.tell([(N1, old, "old words")])
    assert (known.told, known.untold) == ({}, {N1: "no memory"})


def left(memory: int) -> Left:
    return ((NVIDIA, Headroom(MiB(memory))),)


def of_quota(log: ChangeLog) -> Known:
    """Answers for 500 MiB that are left, the same with less than 1,000; the first is of the quota."""
    known = Known()
    known.catch_up(log, lambda: ALL, left(500))
    known.range = HeadroomRange(short=(((NVIDIA, 0), 1_000),))
    known.renew(N1, None, "quota", of_quota=True)
    known.renew(N2, None, "no room")
    known.renew(N3, 1.0, None)
    known.tell([(N1, "quota", "500 left"), (N2, "no room", "no room at all")], left(500))
    return known


def test_while_another_headroom_changes_no_answer_only_its_numbers_are_told_anew() -> None:
    log = ChangeLog()
    log.add(N1)
    known = of_quota(log)
    assert known.told == {N1: "500 left", N2: "no room at all"}
    known.catch_up(log, nothing, left(400))
    assert (known.untold, known.told) == ({N1: "quota"}, {N2: "no room at all"})
    assert not known.stale
    known.tell([(N1, "quota", "500 left")], left(500))
    assert known.untold == {N1: "quota"}, "the text has the numbers of an earlier call"
    known.tell([(N1, "quota", "400 left")], left(400))
    assert (known.untold, known.told[N1]) == ({}, "400 left")


def test_where_another_headroom_may_change_an_answer_all_nodes_are_asked_again() -> None:
    log = ChangeLog()
    log.add(N1)
    known = of_quota(log)
    known.catch_up(log, lambda: ALL, left(1_000))
    assert set(known.stale) == set(ALL)
    assert not known.scores
    assert not known.told
    assert not known.untold
    assert known.range.holds(left(1_000))


def test_a_node_that_the_quota_no_longer_holds_back_is_not_told_of_it_again() -> None:
    log = ChangeLog()
    log.add(N1)
    known = of_quota(log)
    known.renew(N1, 1.0, None)
    known.catch_up(log, nothing, left(400))
    assert not known.untold
    assert set(known.scores) == {N1, N3}


def test_answers_hold_for_what_is_left_now_and_while_all_of_them_would_be_the_same() -> None:
    known = of_quota(ChangeLog())
    assert [known.hold(left(each)) for each in (500, 400)] == [True, False]
    known.range = HeadroomRange(enough=(((NVIDIA, 0), 600),))
    assert not known.hold(left(500))


def test_demands_that_were_asked_about_longest_ago_are_dropped_first() -> None:
    kept = AnswersByDemand[str, str](most=3)
    for demand in ("a", "b"):
        for name in (N1, N2):
            kept.of(demand).renew(name, 1.0, None)
    assert len(kept) == 4
    assert len(kept.of("a")) == 2
    assert len(kept) == 2
    assert not len(kept.of("b"))


def test_the_latest_demand_is_kept_whatever_it_takes() -> None:
    kept = AnswersByDemand[str, str](most=1)
    for name in ALL:
        kept.of("a").renew(name, 1.0, None)
    assert len(kept.of("a")) == 3
