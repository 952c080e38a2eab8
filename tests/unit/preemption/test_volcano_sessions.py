"""What a session of Volcano has tried and not taken back: one claim for each call that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hami_plugins.model.decisions import Placed
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.verdicts import Fit
from hami_plugins.preemption.values import EvictedPod, EvictionPlan
from hami_plugins.preemption.volcano_sessions import ClosedTry, SessionVictim, VolcanoSessions
from tests.builders import a_pod, a_record, a_snapshot

N1, N2, N3 = NodeName("n1"), NodeName("n2"), NodeName("n3")
M1, M2 = PodUid("m1"), PodUid("m2")
JOB = "ns/train"


def victim(name: str, node: NodeName = N1, group: str = "") -> EvictedPod:
    return EvictedPod(replace(a_record(name=name), uid=PodUid(name), group=group), node)


def a_plan(places: Mapping[NodeName, int], *victims: EvictedPod) -> EvictionPlan:
    pods = [
        (a_pod(name=f"{node}-{at}"), Placed(node=node, containers=(), fit=Fit((), 0.0), candidates=1))
        for node, copies in places.items()
        for at in range(copies)
    ]
    return EvictionPlan(victims=victims, ending=(), places=tuple(pods), after=a_snapshot())


def begun(places: Mapping[NodeName, int], *victims: EvictedPod, missing: int = 1) -> VolcanoSessions:
    sessions = VolcanoSessions()
    sessions.begin(JOB, a_plan(places, *victims), missing, 0.0)
    return sessions


def asked(sessions: VolcanoSessions, node: NodeName | None, *others: str, own: str = "", pod: PodUid = M1) -> list[str]:
    candidates = [SessionVictim(PodUid(name), f"ns/{name}") for name in others]
    candidates += [SessionVictim(PodUid(own), JOB)] if own else []
    return list(sessions.victims(JOB, pod, node, candidates))


def test_only_planned_pods_of_that_node_may_go_and_only_those_that_volcano_lets_go() -> None:
    sessions = begun({N1: 1, N2: 1}, victim("low"), victim("far", N2), victim("kept"))
    assert asked(sessions, N1, "low", "far", "other") == ["low"]
    assert asked(sessions, N2, "far") == ["far"]
    assert asked(sessions, N3, "low") == []


def test_without_a_plan_no_pod_may_go() -> None:
    sessions = VolcanoSessions()
    assert asked(sessions, N1, "low") == []
    assert sessions.begun(JOB) is None
    assert sessions.may_count_on(JOB, M1, N1, evicts=True) == (frozenset(),)
    assert not sessions.take_back(JOB, M1)
    assert sessions.looked_for(JOB, M1) is None
    assert sessions.close() == ()


def test_what_the_session_gives_up_leaves_until_it_is_spared() -> None:
    sessions = begun({N1: 1}, victim("low"))
    sessions.give_up(PodUid("low"))
    assert sessions.may_count_on(JOB, M1, N1, evicts=False) == (frozenset({"low"}),)
    sessions.spare(PodUid("low"))
    sessions.spare(PodUid("low"))
    assert sessions.may_count_on(JOB, M1, N1, evicts=False) == (frozenset(),)


def test_planned_pods_leave_only_where_pods_are_also_evicted_without_the_session() -> None:
    sessions = begun({N1: 1}, victim("low"))
    asked(sessions, N1, "low")
    assert sessions.may_count_on(JOB, M1, N1, evicts=True) == (frozenset(), frozenset({"low"}))
    assert sessions.may_count_on(JOB, M1, N1, evicts=False) == (frozenset(),)


@pytest.mark.parametrize(("node", "own"), [(None, ""), (N1, "sibling")])
def test_what_is_asked_without_pods_of_other_jobs_is_the_phase_that_places_members_alone(
    node: NodeName | None, own: str
) -> None:
    sessions = begun({N1: 1}, victim("low"))
    assert asked(sessions, N1, "low", pod=M2) == ["low"]
    assert asked(sessions, N1, "low") == ["low"]
    assert asked(sessions, node, own=own) == []
    assert sessions.may_count_on(JOB, M1, N1, evicts=True) == (frozenset(),)
    assert sessions.may_count_on(JOB, M2, N1, evicts=True) == (frozenset(), frozenset({"low"}))


def test_what_the_session_has_given_up_is_counted_on_before_what_is_planned() -> None:
    sessions = begun({N1: 1}, victim("low"))
    asked(sessions, N1, "low")
    sessions.give_up(PodUid("of-another-job"))
    few, more = sessions.may_count_on(JOB, M1, N1, evicts=True)
    assert few == {"of-another-job"}
    assert more == {"of-another-job", "low"}


def test_planned_pods_on_which_no_accepted_pod_counts_need_not_leave_unless_their_gang_does() -> None:
    """Their room was made by others of the session, or by those of the plan whom Volcano evicts."""
    gang = (victim("one", group="gang"), victim("two", N2, group="gang"), victim("three", N2, group="gang"))
    sessions = begun({N1: 1, N2: 1}, victim("low"), victim("spared"), *gang)
    sessions.accept(JOB, M1, N1)
    sessions.accept(JOB, M2, N2)
    (closed,) = sessions.close()
    assert [each.pod.name for each in closed.needed({PodUid("low")})] == ["low"]
    assert [each.pod.name for each in closed.needed({PodUid("two")})] == ["one", "two", "three"]
    evicted = closed._replace(evicted=frozenset([PodUid("one")]))
    assert [each.pod.name for each in evicted.needed(())] == ["one", "two", "three"]
    assert closed.needed(()) == ()


def test_a_pod_of_its_own_job_may_not_go_for_it() -> None:
    sessions = begun({N1: 1}, victim("low"), victim("sibling"))
    assert asked(sessions, N1, "low", own="sibling") == ["low"]


def test_a_pod_that_was_not_asked_about_on_a_node_counts_on_no_one_there() -> None:
    sessions = begun({N1: 1, N2: 1}, victim("low"), victim("far", N2))
    asked(sessions, N1, "low")
    assert sessions.may_count_on(JOB, M1, N2, evicts=True) == (frozenset(),)


def test_places_are_counted_down_as_pods_are_accepted() -> None:
    sessions = begun({N1: 2, N2: 1})
    found = sessions.begun(JOB)
    assert found is not None
    sessions.accept(JOB, M1, N1)
    sessions.accept(JOB, M2, N3)
    assert found.nodes == {N1: 1, N2: 1, N3: -1}


def closed(sessions: VolcanoSessions) -> ClosedTry:
    (found,) = sessions.close()
    return found


def leaving(found: ClosedTry) -> list[str]:
    return [each.pod.name for each in found.leaving]


def test_a_gang_of_which_too_few_were_accepted_comes_to_nothing() -> None:
    sessions = begun({N1: 2}, victim("low"), missing=2)
    sessions.accept(JOB, M1, N1)
    found = closed(sessions)
    assert (found.job, found.accepted, found.kept) == (JOB, {M1: N1}, False)


def test_a_whole_gang_is_kept_and_all_who_have_to_leave_are_named() -> None:
    sessions = begun({N1: 1, N2: 1}, victim("low"), victim("far", N2), missing=2)
    sessions.accept(JOB, M1, N1)
    sessions.accept(JOB, M2, N2)
    sessions.give_up(PodUid("far"))
    found = closed(sessions)
    assert (found.accepted, found.kept) == ({M1: N1, M2: N2}, True)
    assert leaving(found) == ["low", "far"]
    assert found.evicted == {"far"}


def test_a_part_is_kept_where_volcano_evicts_for_it() -> None:
    """It does so only for jobs that it takes for complete; those pods must not leave in vain."""
    sessions = begun({N1: 2}, victim("low"), missing=2)
    asked(sessions, N1, "low")
    sessions.give_up(PodUid("low"))
    sessions.accept(JOB, M1, N1)
    found = closed(sessions)
    assert (found.accepted, found.kept) == ({M1: N1}, True)


def test_a_part_is_not_kept_where_volcano_evicts_for_another_job() -> None:
    sessions = begun({N1: 2}, victim("low"), missing=2)
    sessions.victims("ns/other", PodUid("o"), N1, [SessionVictim(PodUid("low"), "ns/low")])
    sessions.give_up(PodUid("low"))
    sessions.accept(JOB, M1, N1)
    found = closed(sessions)
    assert (found.evicted, found.kept) == (frozenset({"low"}), False)


def test_a_plan_that_cannot_be_carried_out_is_dropped_unless_it_is_by_now() -> None:
    sessions = begun({N1: 1})
    sessions.accept(JOB, M1, N1)
    sessions.drop(JOB)
    assert sessions.begun(JOB) is not None
    sessions.take_back(JOB, M1)
    sessions.drop(JOB)
    sessions.drop(JOB)
    assert sessions.begun(JOB) is None


def test_who_leaves_a_node_on_which_no_pod_was_put_stays() -> None:
    sessions = begun({N1: 1, N2: 1}, victim("low"), victim("far", N2))
    sessions.accept(JOB, M1, N1)
    assert leaving(closed(sessions)) == ["low"]


def test_the_rest_of_a_gang_that_goes_as_a_whole_goes_as_well() -> None:
    """Wherever it runs: on a node where no place is planned, or where one is that was not needed."""
    plan = (victim("a", N1, "g"), victim("b", N2, "g"), victim("c", N3, "g"), victim("d", N2), victim("e", N2, "h"))
    sessions = begun({N1: 1, N2: 1}, *plan)
    sessions.accept(JOB, M1, N1)
    assert leaving(closed(sessions)) == ["a", "b", "c"]


def test_what_is_taken_back_is_not_kept() -> None:
    sessions = begun({N1: 1}, victim("low"))
    sessions.accept(JOB, M1, N1)
    assert sessions.take_back(JOB, M1)
    assert not sessions.take_back(JOB, M1)
    assert sessions.close() == ()


def test_after_a_session_nothing_is_left_of_it() -> None:
    sessions = begun({N1: 1}, victim("low"))
    asked(sessions, N1, "low")
    sessions.give_up(PodUid("low"))
    sessions.accept(JOB, M1, N1)
    sessions.close()
    assert sessions.begun(JOB) is None
    assert sessions.given_up == frozenset()
    sessions.begin(JOB, a_plan({N1: 1}, victim("low")), 1, 0.0)
    assert sessions.may_count_on(JOB, M1, N1, evicts=True) == (frozenset(),)


def test_a_session_that_looks_for_an_accepted_pod_is_another_one_and_the_first_has_died() -> None:
    sessions = begun({N1: 2}, victim("low"))
    asked(sessions, N1, "low")
    sessions.give_up(PodUid("low"))
    sessions.accept(JOB, M1, N1)
    sessions.accept(JOB, M2, N1)
    assert sessions.looked_for(JOB, PodUid("m3")) is None
    found = sessions.looked_for(JOB, M1)
    assert found is not None
    assert found.accepted.keys() == {M1, M2}
    assert found.evicted == {"low"}
    assert sessions.begun(JOB) is None
    assert sessions.given_up == frozenset()
    sessions.begin(JOB, a_plan({N1: 1}, victim("low")), 1, 0.0)
    assert sessions.may_count_on(JOB, M1, N1, evicts=True) == (frozenset(),)
