"""The queues for the locks of nodes, and what a new leader learns of them. B1 to B23 are HAMi's own cases."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hami_plugins.allocations.lock_demand import PodProgress, ReleaseReason
from hami_plugins.allocations.lock_queue import PLACE
from hami_plugins.allocations.lock_records import GRACE
from hami_plugins.allocations.lock_steps import Foreign, Held, Inspect, LockRefused, LockRelease, Take, Wait
from hami_plugins.model.units import PodUid
from tests.unit.allocations.locks import (
    MLU,
    N1,
    N2,
    ONE,
    OTHER,
    SHARED,
    A,
    B,
    C,
    LockSite,
    a_lock,
    a_pod,
    progress,
)


def test_pods_have_the_lock_in_the_order_in_which_they_asked(site: LockSite) -> None:
    site.take(A)
    site.after(2)
    assert site.ask(B) == Wait(SHARED, 0, A, 2.0)
    assert site.ask(C) == Wait(SHARED, 1, A, 2.0)
    site.node(shared=None)
    assert site.decide(C) == Wait(SHARED, 1)
    step = site.decide(B)
    assert isinstance(step, Take)


def test_only_a_pod_whose_lock_is_on_the_node_and_still_its_own_has_no_need_to_wait(site: LockSite) -> None:
    assert not site.locks.holds(N1, A.uid)
    step = site.ask(A)
    assert isinstance(step, Take)
    assert not site.locks.holds(N1, A.uid)
    site.write(step)
    assert site.decide(A) == Held()
    assert site.locks.holds(N1, A.uid)
    assert not site.locks.holds(N1, B.uid)
    assert not site.locks.holds(N2, A.uid)
    site.locks.failed(N1, A.uid, site.now)
    assert not site.locks.holds(N1, A.uid)


@pytest.mark.parametrize("adopted", [True, False])
def test_the_pod_that_a_former_leaders_lock_names_goes_before_those_that_wait_for_it(
    site: LockSite, adopted: bool
) -> None:
    if adopted:
        site.locks.see_pod(progress(A, None), site.now)
    site.node(shared=a_lock(A))
    assert not isinstance(site.ask(B), Take)
    step = site.ask(A)
    assert isinstance(step, Take)
    site.write(step)
    assert site.decide(A) == Held()


def test_a_pod_whose_lock_a_former_leader_wrote_has_to_ask_for_it_again(site: LockSite) -> None:
    site.locks.see_pod(progress(A, None), site.now)
    site.node(shared=a_lock(A))
    assert not site.locks.holds(N1, A.uid)


def test_b19_b20_every_pod_waits_whether_it_belongs_to_a_gang_or_not(site: LockSite) -> None:
    """HAMi tries once for a single pod and for 28 s for a member of a gang, which so comes first."""
    gang = [a_pod(f"gang-{number}") for number in range(3)]
    for member in gang[:2]:
        site.enter(member)
    site.enter(C)
    site.enter(gang[2])
    order = []
    for pod in (gang[0], gang[1], C, gang[2]):
        step = site.decide(pod)
        assert isinstance(step, Take)
        site.write(step)
        assert site.decide(pod) == Held()
        order.append(pod)
        site.node(shared=None)
    assert order == [*gang[:2], C, gang[2]]


def test_pods_that_need_different_locks_do_not_wait_for_each_other(site: LockSite) -> None:
    site.take(A)
    assert isinstance(site.ask(B, OTHER), Take)


def test_nodes_do_not_wait_for_each_other(site: LockSite) -> None:
    site.take(A)
    site.node(N2)
    assert isinstance(site.ask(B, ONE, N2), Take)


def test_a_pod_whose_call_ended_keeps_its_place_and_is_in_nobodys_way(site: LockSite) -> None:
    site.take(A)
    for pod in (B, C):
        site.enter(pod)
    site.leave(B)
    assert site.decide(C) == Wait(SHARED, 0, A, 0.0)
    site.after(PLACE - 1)
    site.enter(B)
    assert site.decide(C) == Wait(SHARED, 1, A, PLACE - 1)


def test_a_place_is_lost_in_the_end(site: LockSite) -> None:
    site.take(A)
    site.show_pod(progress(A))
    site.enter(B)
    site.leave(B)
    site.locks.release(N1, site.now)
    site.enter(C)
    site.after(PLACE)
    assert site.locks.next_time(N1) == 1_020
    site.release()
    site.enter(B)
    assert site.decide(C) == Wait(SHARED, 0, A, PLACE)


def test_a_write_is_not_interrupted_by_an_earlier_pod_that_comes_back(site: LockSite) -> None:
    site.enter(A)
    site.leave(A)
    step = site.ask(B)
    assert isinstance(step, Take)
    assert site.ask(A) == Wait(SHARED, 1)


def test_several_calls_for_one_pod_share_its_place_and_its_lock(site: LockSite) -> None:
    site.enter(A)
    step = site.ask(A)
    assert isinstance(step, Take)
    site.leave(A)
    site.write(step)
    assert site.decide(A) == Held()
    assert site.decide(A) == Held()
    site.leave(A)
    assert site.ended() == []


def test_a_call_whose_pod_lost_the_lock_to_another_call_is_refused(site: LockSite) -> None:
    site.take(A)
    site.node(shared=None)
    assert site.decide(A) == LockRefused("another call for the pod had its lock, which is released again")


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (progress(B, N2), "the pod is bound to node n2 already"),
        (progress(B, N1), "the pod is bound to node n1 already"),
        (progress(B, N1, phase="Failed"), "the pod has finished (Failed)"),
    ],
)
def test_a_waiting_pod_that_is_bound_or_has_finished_leaves_the_queue(
    site: LockSite, seen: PodProgress, why: str
) -> None:
    site.take(A)
    for pod in (B, C):
        site.enter(pod)
    site.show_pod(progress(B, None))
    assert isinstance(site.decide(B), Wait)
    site.show_pod(seen)
    assert site.decide(B) == LockRefused(why)
    assert site.decide(C) == Wait(SHARED, 0, A, 0.0)
    site.leave(B)
    site.enter(B)
    assert site.decide(B) == Wait(SHARED, 1, A, 0.0)


def test_a_waiting_pod_that_is_deleted_leaves_the_queue(site: LockSite) -> None:
    site.take(A)
    for pod in (B, C):
        site.enter(pod)
    site.leave(B)
    assert site.locks.forget_pod(B.uid, B.owner, site.now) == {N1}
    assert site.locks.forget_pod(C.uid, C.owner, site.now) == {N1}
    assert site.decide(C) == LockRefused("the pod was deleted")
    site.enter(B)
    assert isinstance(site.decide(B), Wait)


def test_a_pod_asks_again_while_its_former_lock_is_being_removed(site: LockSite) -> None:
    site.take(A)
    site.locks.failed(N1, A.uid, site.now)
    step = site.release()
    assert isinstance(step, LockRelease)
    site.after(1)
    assert site.ask(A) == Wait(SHARED, 0, A, 1.0)
    site.write(step)
    assert isinstance(site.decide(A), Take)


def test_b16_nothing_is_remembered_of_a_node_that_was_deleted(site: LockSite) -> None:
    site.take(A)
    site.enter(B)
    site.locks.forget_node(N1, site.now)
    assert site.reasons() == [ReleaseReason.NODE_GONE]
    assert site.decide(B) == LockRefused("the node does not exist")
    assert len(site.locks) == 1
    site.leave(B)
    assert len(site.locks) == 0
    assert site.locks.see_pod(progress(A), site.now) == set()


def test_a_node_that_comes_back_has_its_lock_from_before(site: LockSite) -> None:
    site.locks.forget_node(N1, site.now)
    site.node(mlu=a_lock(age=100))
    assert site.ask(A, OTHER) == Foreign(MLU, "", 100.0, 20.0)


# Another leader


def test_a_new_leader_learns_from_nodes_and_pods_who_has_locks() -> None:
    for first in ("node", "pod"):
        site = LockSite()
        seen = progress(A, None)
        if first == "pod":
            site.show_pod(seen)
        site.node(shared=a_lock(A))
        if first == "node":
            assert site.show_pod(seen) == {N1}
        assert site.ask(B) == Wait(SHARED, 0, A, 0.0)
        site.after(1)
        site.show_pod(progress(A))
        site.after(20)
        assert site.release() == LockRelease(A, (SHARED,), "1", ReleaseReason.EXPIRED, unsettled=True)


def test_a_new_leader_learns_that_a_plugin_has_answered() -> None:
    site = LockSite()
    site.show_pod(progress(A, N1, "success"))
    site.node(shared=a_lock(A))
    site.after(GRACE)
    assert site.release() == LockRelease(A, (SHARED,), "1", ReleaseReason.ANSWERED)


@pytest.mark.parametrize(
    "seen",
    [progress(A, N1, ours=False), progress(A, N2), progress(A, phase="Running"), progress(A, phase="Failed")],
)
def test_a_new_leader_leaves_locks_of_others_and_of_pods_without_use_for_them(seen: PodProgress) -> None:
    """The next pod that needs such a lock has the pod that it names read, and replaces it."""
    for first in ("node", "pod"):
        site = LockSite()
        if first == "pod":
            site.show_pod(seen)
        site.node(shared=a_lock(A))
        if first == "node":
            site.show_pod(seen)
        site.after(1e6)
        assert site.release() is None


def test_a_lock_that_appears_while_this_leader_watches_is_not_its_own(site: LockSite) -> None:
    """It was written by a new leader, while this one still runs."""
    site.show_pod(progress(A))
    site.node(shared=a_lock(A))
    site.show_pod(progress(A, N1, "success"))
    site.after(1e6)
    assert site.release() is None


def test_a_lock_that_appears_is_another_clients_although_its_pod_is_bound_here(site: LockSite) -> None:
    """Two leaders at the same time would otherwise end each other's locks."""
    site.node(shared=a_lock(A))
    step = site.ask(B)
    assert isinstance(step, Inspect)
    site.locks.inspected(N1, step, progress(A))
    assert isinstance(site.decide(B), Foreign)
    site.after(20)
    assert site.release() is None


def test_b7_a_lock_of_a_former_leader_for_the_same_pod_is_stamped_anew() -> None:
    """HAMi writes nothing then; here the former leader must not be able to remove it any more."""
    for seen in (None, progress(A, None)):
        site = LockSite()
        if seen is not None:
            site.show_pod(seen)
        site.node(shared=a_lock(A))
        assert site.take(A).replaced == (a_lock(A),)
        site.after(20)
        assert site.release() == LockRelease(A, (SHARED,), "2", ReleaseReason.EXPIRED)


def test_the_former_leader_does_not_remove_a_lock_that_was_stamped_anew() -> None:
    old, new = LockSite(), LockSite()
    old.node()
    old.take(A)
    new.nodes = old.nodes
    new.after(5)
    new.show()
    new.show_pod(progress(A, None))
    new.take(A)
    old.locks.failed(N1, A.uid, old.now)
    step = old.release()
    assert isinstance(step, LockRelease)
    assert not old.write(step)
    old.show()
    assert old.release() is None
    assert new.ask(A) == Held()


def test_a_lost_write_does_not_hide_what_a_former_leader_wrote() -> None:
    site = LockSite()
    site.show_pod(progress(A, None))
    site.node(shared=a_lock(A))
    assert isinstance(site.ask(A), Take)
    site.leave(A)
    site.after(20)
    assert site.release() == LockRelease(A, (SHARED,), "1", ReleaseReason.EXPIRED)


def test_pods_of_which_nothing_is_known_concern_no_node(site: LockSite) -> None:
    site.take(A)
    assert site.show_pod(progress(B)) == set()
    assert site.locks.forget_pod(B.uid, B.owner, site.now) == set()
    assert site.locks.forget_pod(PodUid("unheard-of"), ("team", "x"), site.now) == set()


def test_a_pod_that_tries_one_node_after_the_other_is_followed_on_each_of_them(site: LockSite) -> None:
    site.node(N2)
    for node in (N1, N2):
        site.take(A, ONE, node)
    site.locks.forget_node(N2, site.now)
    assert site.show_pod(progress(A, N2)) == {N1}
    assert site.release() == LockRelease(A, (SHARED,), "2", ReleaseReason.ELSEWHERE)


def test_a_waiting_pod_that_is_deleted_leaves_the_queue_where_only_its_uid_is_known(site: LockSite) -> None:
    site.take(A)
    site.enter(B)
    assert site.locks.forget_pod(B.uid, None, site.now) == {N1}
    assert site.decide(B) == LockRefused("the pod was deleted")


def test_a_new_leader_forgets_a_deleted_pod_of_which_only_its_uid_is_known() -> None:
    site = LockSite()
    site.show_pod(progress(A, None))
    assert site.locks.forget_pod(A.uid, None, site.now) == set()
    site.node(shared=a_lock(A))
    assert isinstance(site.ask(B), Inspect)


def test_a_pod_that_was_created_again_is_another_one() -> None:
    site = LockSite()
    again = a_pod("a", uid="again")
    site.show_pod(progress(A, None))
    site.show_pod(progress(again, None))
    site.locks.forget_pod(A.uid, A.owner, site.now)
    site.node(shared=a_lock(A))
    assert site.ask(B) == Wait(SHARED, 0, again, 0.0)
    for each in (again, A):
        site.locks.forget_pod(each.uid, each.owner, site.now)
    assert site.release() == LockRelease(again, (SHARED,), "1", ReleaseReason.DELETED)


def test_the_lock_of_a_deleted_pod_is_not_that_of_its_successor(site: LockSite) -> None:
    site.take(A)
    site.locks.forget_pod(A.uid, A.owner, site.now)
    again = a_pod("a", uid="again")
    assert site.ask(again) == Wait(SHARED, 0, A, 0.0)
    step = site.release()
    assert isinstance(step, LockRelease)
    site.write(step)
    assert isinstance(site.decide(again), Take)


# Words


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Wait(SHARED, 1), "1 pod waits before this one for hami.io/mutex.lock"),
        (
            Wait(SHARED, 2, A, 3.25),
            "2 pods wait before this one for hami.io/mutex.lock; pod team/a has had hami.io/mutex.lock for 3.2 s",
        ),
        (Wait(SHARED, 0, A, 3.0), "pod team/a has had hami.io/mutex.lock for 3.0 s"),
        (
            Foreign(SHARED, "team/x", 12.0, 288.0),
            "pod team/x, which another client binds, has had hami.io/mutex.lock for 12.0 s; it counts as left "
            "behind in 288 s",
        ),
        (
            Foreign(MLU, "", 12.0, 108.0),
            "another client has had cambricon.com/dsmlu.lock for 12.0 s; it counts as left behind in 108 s",
        ),
    ],
)
def test_what_a_pod_waits_for_in_words(step: Wait | Foreign, text: str) -> None:
    assert step.text == text


def test_every_order_of_events_leaves_one_holder_of_a_lock() -> None:
    """Each pod in turn, on a node whose plugin removes every lock."""
    site = LockSite()
    site.node()
    pods = [a_pod(f"p{number}") for number in range(5)]
    for pod in pods:
        site.enter(pod)
    held = []
    for pod, after in pairwise([*pods, a_pod("last")]):
        step = site.decide(pod)
        assert isinstance(step, Take)
        site.write(step)
        assert site.decide(pod) == Held()
        held.append(pod)
        if after.name != "last":
            assert site.decide(after) == Wait(SHARED, 0, pod, 0.0)
        site.show_pod(progress(pod, N1, "success"))
        site.node(shared=None)
    assert held == pods
    assert [each.pod for each in site.ended()] == pods
