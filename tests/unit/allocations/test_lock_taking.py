"""Which pod may take a lock: free, another client's, left behind; what a failed write means. B1 to B23 are HAMi's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hami_plugins.allocations.lock_demand import LockPod, PodProgress, ReleaseReason
from hami_plugins.allocations.lock_queue import PLACE
from hami_plugins.allocations.lock_steps import Foreign, Held, Inspect, LockRefused, LockRelease, ReadNode, Take, Wait
from hami_plugins.model.units import PodUid
from hami_plugins.wire import node_lock
from tests.unit.allocations.locks import (
    BOTH,
    MLU,
    N1,
    N2,
    OTHER,
    SHARED,
    THEIRS,
    A,
    B,
    LockSite,
    a_lock,
    a_pod,
    progress,
)


def test_b1_a_node_that_was_not_seen_is_read_first() -> None:
    assert LockSite().ask(A) == ReadNode()


def test_b1_a_node_that_does_not_exist_refuses_the_pod() -> None:
    site = LockSite()
    site.enter(A)
    site.locks.forget_node(N1, site.now)
    assert site.decide(A) == LockRefused("the node does not exist")


def test_b4_a_free_lock_is_written_with_time_namespace_and_name(site: LockSite) -> None:
    step = site.take(A)
    lock = node_lock.parse(SHARED, step.texts[SHARED])
    assert (lock.since, lock.namespace, lock.name) == (site.wall, "team", "a")
    assert (step.version, step.replaced) == ("1", ())


def test_the_text_of_a_lock_is_like_no_other_so_that_it_can_be_compared(site: LockSite) -> None:
    site.after(0.25)
    assert site.take(A).texts == {SHARED: "2026-08-14T12:00:00.250000Z,team,a"}


def test_cambricons_lock_is_the_time_alone(site: LockSite) -> None:
    assert site.take(A, OTHER).texts == {MLU: "2026-08-14T12:00:00.000000Z"}


def test_b7_the_pod_that_has_its_lock_has_it_without_another_write(site: LockSite) -> None:
    site.take(A)
    assert site.ask(A) == Held()


def test_b23_two_locks_are_written_in_one_patch_so_that_none_has_to_be_taken_back(site: LockSite) -> None:
    """HAMi takes vendor after vendor and, where the third fails, releases the earlier two in reverse order."""
    step = site.take(A, BOTH)
    assert list(step.texts) == [MLU, SHARED]
    site.after(20)
    assert site.release() == LockRelease(A, (MLU, SHARED), "2", ReleaseReason.EXPIRED)


def test_a_pod_that_needs_two_locks_takes_none_while_one_is_held(site: LockSite) -> None:
    site.take(A, OTHER)
    assert site.ask(B, BOTH) == Wait(MLU, 0, A, 0.0)
    assert site.text(SHARED) is None


# The lock of another client


@pytest.mark.parametrize("owner", [THEIRS, LockPod(PodUid("x"), "other", "a")])
def test_b2_the_lock_of_a_living_pod_is_respected(owner: LockPod) -> None:
    site = LockSite()
    site.node(shared=a_lock(owner))
    step = site.ask(A)
    assert step == Inspect(SHARED, a_lock(owner), owner.namespace, owner.name)
    site.locks.inspected(N1, step, progress(owner, ours=False))
    assert site.decide(A) == Foreign(SHARED, owner.full_name, 0.0, 300.0)
    site.after(100)
    assert site.decide(A) == Foreign(SHARED, owner.full_name, 100.0, 200.0)


def test_b3_a_lock_that_cannot_be_read_refuses_with_what_to_do() -> None:
    site = LockSite()
    site.node(shared="lock")
    step = site.ask(A)
    assert isinstance(step, LockRefused)
    assert "cannot be read (hami.io/mutex.lock: 'lock' is not an RFC 3339 time" in step.text
    assert step.text.endswith("remove it: kubectl annotate node n1 hami.io/mutex.lock-")
    site.after(1e6)
    assert isinstance(site.decide(A), LockRefused)


@pytest.mark.parametrize(("age", "free"), [(0, False), (299, False), (300, True), (301, True)])
def test_b5_a_lock_is_respected_until_it_expires(age: int, free: bool) -> None:
    site = LockSite()
    site.node(shared=a_lock(THEIRS, age=age))
    step = site.ask(A)
    if isinstance(step, Inspect):
        site.locks.inspected(N1, step, progress(THEIRS, ours=False))
        step = site.decide(A)
    assert isinstance(step, Take) is free


def test_b5_while_it_is_watched_a_lock_expires_after_its_time(site: LockSite) -> None:
    site.node(mlu=a_lock())
    assert site.ask(A, OTHER) == Foreign(MLU, "", 0.0, 120.0)
    site.after(119.5)
    assert site.decide(A) == Foreign(MLU, "", 119.5, 0.5)
    site.after(0.5)
    step = site.decide(A)
    assert isinstance(step, Take)
    assert step.replaced == (a_lock(),)


def test_b6_the_lock_of_a_pod_that_does_not_exist_is_replaced() -> None:
    site = LockSite()
    site.node(shared=a_lock(THEIRS))
    step = site.ask(A)
    assert isinstance(step, Inspect)
    site.locks.inspected(N1, step, None)
    step = site.decide(A)
    assert isinstance(step, Take)
    assert step.replaced == (a_lock(THEIRS),)


@pytest.mark.parametrize(
    ("seen", "free"),
    [
        (progress(THEIRS, None, ours=False), False),
        (progress(THEIRS, N1, ours=False), False),
        (progress(THEIRS, N1, "success", ours=False), False),
        (progress(THEIRS, N2, ours=False), True),
        (progress(THEIRS, N1, phase="Running", ours=False), True),
        (progress(THEIRS, None, phase="Failed", ours=False), True),
        (progress(THEIRS, N1, phase="Succeeded", ours=False), True),
    ],
)
def test_a_lock_is_left_behind_once_its_pod_runs_has_finished_or_is_elsewhere(seen: PodProgress, free: bool) -> None:
    """HAMi waits five minutes for it. Its phase alone proves nothing: HAMi locks before it writes ``allocating``."""
    site = LockSite()
    site.node(shared=a_lock(THEIRS))
    step = site.ask(A)
    assert isinstance(step, Inspect)
    site.locks.inspected(N1, step, seen)
    assert isinstance(site.decide(A), Take if free else Foreign)


def test_an_unexpired_lock_without_owner_is_respected(site: LockSite) -> None:
    site.node(shared=a_lock())
    assert site.ask(A) == Foreign(SHARED, "", 0.0, 300.0)


def test_what_was_read_of_a_lock_that_is_another_by_now_does_not_count() -> None:
    site = LockSite()
    site.node(shared=a_lock(THEIRS))
    step = site.ask(A)
    assert isinstance(step, Inspect)
    site.node(shared=a_lock(B))
    site.locks.inspected(N1, step, None)
    assert site.decide(A) == Inspect(SHARED, a_lock(B), "team", "b")
    site.node(shared=None)
    site.locks.inspected(N1, step, None)
    assert isinstance(site.decide(A), Take)


@pytest.mark.parametrize("named", [True, False])
def test_a_pod_that_is_deleted_while_it_is_read_is_read_again(*, named: bool) -> None:
    """A list that finds a deletion out does not know the names of the pod."""
    site = LockSite()
    site.node(shared=a_lock(THEIRS))
    step = site.ask(A)
    assert isinstance(step, Inspect)
    site.locks.forget_pod(THEIRS.uid, THEIRS.owner if named else None, site.now)
    site.locks.inspected(N1, step, progress(THEIRS, ours=False))
    step = site.decide(A)
    assert isinstance(step, Inspect)
    site.locks.inspected(N1, step, None)
    assert isinstance(site.decide(A), Take)


@pytest.mark.parametrize("gone", [True, False])
def test_a_pod_that_a_lock_names_is_read_again_when_it_changes(*, gone: bool) -> None:
    site = LockSite()
    site.node(shared=a_lock(THEIRS))
    step = site.ask(A)
    assert isinstance(step, Inspect)
    site.locks.inspected(N1, step, progress(THEIRS, ours=False))
    assert isinstance(site.decide(A), Foreign)
    if gone:
        assert site.locks.forget_pod(THEIRS.uid, THEIRS.owner, site.now) == {N1}
    else:
        assert site.show_pod(progress(THEIRS, phase="Running", ours=False)) == {N1}
    assert site.decide(A) == replace(step, changes=1)


def test_a_pod_of_the_same_name_that_was_created_again_is_read_again_before_its_lock_is_replaced() -> None:
    site = LockSite()
    site.node(shared=a_lock(THEIRS))
    step = site.ask(A)
    assert isinstance(step, Inspect)
    site.locks.inspected(N1, step, None)
    site.show_pod(progress(a_pod("theirs", uid="new"), None, ours=False))
    assert site.decide(A) == replace(step, changes=1)


def test_a_clock_that_is_wrong_takes_no_lock_from_others(site: LockSite) -> None:
    """The age of a lock that appears while the node is watched is measured with our clock."""
    site.skew = 3_600.0
    site.node(mlu=a_lock())
    assert site.ask(A, OTHER) == Foreign(MLU, "", 0.0, 120.0)


def test_a_lock_of_the_future_expires_all_the_same() -> None:
    site = LockSite()
    site.node(mlu=a_lock(age=-3_600))
    assert site.ask(A, OTHER) == Foreign(MLU, "", 0.0, 120.0)
    site.after(120)
    assert isinstance(site.decide(A), Take)


def test_a_lock_that_another_client_takes_anew_is_a_new_one(site: LockSite) -> None:
    site.node(mlu=a_lock())
    site.after(100)
    site.show()
    assert site.ask(A, OTHER) == Foreign(MLU, "", 100.0, 20.0)
    site.node(mlu=a_lock(age=-1))
    assert site.decide(A) == Foreign(MLU, "", 0.0, 120.0)


# Writes that fail


def test_b12_a_write_whose_answer_was_lost_is_found_on_the_node(site: LockSite) -> None:
    step = site.ask(A)
    assert isinstance(step, Take)
    site.write(step)
    assert site.decide(A) == Held()


def test_b12_a_write_is_tried_again_with_the_same_text(site: LockSite) -> None:
    first = site.ask(A)
    site.after(1)
    site.node()
    second = site.decide(A)
    assert isinstance(first, Take)
    assert second == Take(first.texts, "2")


def test_a_pod_has_its_locks_once_all_of_them_are_on_the_node(site: LockSite) -> None:
    step = site.ask(A, BOTH)
    assert isinstance(step, Take)
    site.node(mlu=step.texts[MLU], shared=a_lock())
    assert isinstance(site.decide(A), Foreign)


def test_b13_another_owner_that_appears_during_the_write_is_respected(site: LockSite) -> None:
    step = site.ask(A)
    assert isinstance(step, Take)
    site.node(shared=a_lock(THEIRS))
    assert not site.write(step)
    assert site.decide(A) == Inspect(SHARED, a_lock(THEIRS), "team", "theirs")


def test_a_text_that_was_tried_before_others_had_the_lock_is_not_used_again(site: LockSite) -> None:
    first = site.ask(A)
    site.node(mlu=None, shared=a_lock())
    assert isinstance(site.decide(A), Foreign)
    site.after(2)
    site.node(shared=None)
    second = site.decide(A)
    assert isinstance(first, Take)
    assert isinstance(second, Take)
    assert first.texts != second.texts


def test_b14_of_many_that_ask_at_the_same_time_one_takes_the_lock(site: LockSite) -> None:
    pods = [a_pod(f"p{number}") for number in range(8)]
    steps = [site.ask(pod) for pod in pods]
    assert [type(step) for step in steps] == [Take, *[Wait] * 7]
    assert [step.before for step in steps if isinstance(step, Wait)] == [1, 2, 3, 4, 5, 6, 7]


def test_a_lock_whose_write_was_never_answered_is_removed_where_it_shows_up(site: LockSite) -> None:
    step = site.ask(A)
    assert isinstance(step, Take)
    site.leave(A)
    assert site.release() is None
    assert site.write(step)
    assert site.release() == LockRelease(A, (SHARED,), "2", ReleaseReason.ABANDONED)


def test_a_write_that_was_never_answered_and_arrived_is_removed_at_once(site: LockSite) -> None:
    step = site.ask(A)
    assert isinstance(step, Take)
    site.write(step)
    site.leave(A)
    assert site.locks.next_time(N1) == site.now
    assert site.release() == LockRelease(A, (SHARED,), "2", ReleaseReason.ABANDONED)


def test_a_write_that_was_never_answered_is_in_nobodys_way_and_forgotten_in_the_end(site: LockSite) -> None:
    site.ask(A)
    site.leave(A)
    assert isinstance(site.ask(B), Take)
    site.leave(B)
    assert site.locks.next_time(N1) == site.now + 20
    site.after(20)
    assert site.release() is None
    assert site.locks.next_time(N1) == site.now + PLACE - 20
    assert site.ended() == []


def test_a_pod_that_was_deleted_during_the_write_gives_its_lock_back(site: LockSite) -> None:
    step = site.ask(A)
    assert isinstance(step, Take)
    assert site.locks.forget_pod(A.uid, A.owner, site.now) == {N1}
    site.write(step)
    assert site.decide(A) == LockRefused("the pod was deleted")
    site.leave(A)
    assert site.release() == LockRelease(A, (SHARED,), "2", ReleaseReason.DELETED)


def test_an_older_version_of_the_node_takes_no_lock_away(site: LockSite) -> None:
    site.take(A)
    held = site.nodes[N1]
    site.nodes[N1] = (1, {})
    assert not site.show()
    site.nodes[N1] = held
    assert site.ask(A) == Held()


def test_an_older_version_counts_where_a_list_shows_it_after_a_restore(site: LockSite) -> None:
    site.take(A)
    site.nodes[N1] = (1, {})
    assert site.show(listed=True)
    assert site.reasons() == [ReleaseReason.PLUGIN]


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    site = LockSite()
    for version, locks in (("b", {}), ("a", {SHARED: a_lock(A)})):
        changed = site.locks.see_node(N1, version, locks, now=site.now, wall=site.wall)
        assert changed
    assert site.locks.see_node(N1, "1", {}, now=site.now, wall=site.wall)


def test_a_node_that_changes_apart_from_its_locks_wakes_nobody(site: LockSite) -> None:
    assert not site.node()
    assert site.node(shared=a_lock())
    assert not site.node()
