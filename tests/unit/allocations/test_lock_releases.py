"""What releases a lock, once and never another client's. B1 to B23 are HAMi's own cases."""

from __future__ import annotations

import pytest

from hami_plugins.allocations.lock_demand import LockDemand, PodProgress, ReleaseReason
from hami_plugins.allocations.lock_records import GRACE
from hami_plugins.allocations.lock_steps import LockRelease, Take, Wait
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
    progress,
)

PENDING = frozenset({"hami.io/vgpu-devices-to-allocate", "hami.io/dcu-devices-to-allocate"})


def test_b8_nothing_is_released_where_there_is_no_lock(site: LockSite) -> None:
    assert site.release() is None
    site.locks.failed(N1, A.uid, site.now)
    assert site.release() is None
    assert site.locks.next_time(N2) is None


def test_b8_the_lock_of_another_client_is_left_alone(site: LockSite) -> None:
    site.node(shared=a_lock(THEIRS))
    site.after(1e6)
    assert site.release() is None


def test_b9_the_pods_own_lock_is_removed(site: LockSite) -> None:
    site.take(A)
    site.after(3)
    site.locks.failed(N1, A.uid, site.now)
    step = site.release()
    assert step == LockRelease(A, (SHARED,), "2", ReleaseReason.UNBOUND)
    assert site.write(step)
    assert site.text() is None
    (end,) = site.ended()
    assert (end.node, end.pod, end.reason, end.held, end.report) == (N1, A, ReleaseReason.UNBOUND, 3.0, "")
    assert len(site.locks) == 1
    assert site.locks.next_time(N1) is None


def test_b9_a_lock_without_owner_that_others_wrote_is_left_to_them(site: LockSite) -> None:
    """HAMi lets anybody release a legacy lock; here it can only expire."""
    site.node(shared=a_lock())
    site.take(B, OTHER)
    site.locks.failed(N1, B.uid, site.now)
    assert site.release() == LockRelease(B, (MLU,), "3", ReleaseReason.UNBOUND)


def test_b10_a_release_that_finds_another_pods_lock_leaves_it(site: LockSite) -> None:
    site.take(A)
    site.locks.failed(N1, A.uid, site.now)
    step = site.release()
    assert isinstance(step, LockRelease)
    site.node(shared=a_lock(THEIRS))
    assert not site.write(step)
    assert site.release() is None
    assert site.text() == a_lock(THEIRS)
    assert site.reasons() == [ReleaseReason.UNBOUND]


def test_b11_a_lock_that_another_client_stamped_for_the_same_pod_is_left_to_it(site: LockSite) -> None:
    """HAMi removes it with a second patch. Here it belongs to another process, which may be the new leader."""
    site.take(A)
    site.locks.failed(N1, A.uid, site.now)
    step = site.release()
    assert isinstance(step, LockRelease)
    site.node(shared=a_lock(A, age=-1))
    assert not site.write(step)
    assert site.release() is None
    assert site.text() == a_lock(A, age=-1)


def test_a_release_that_conflicts_with_another_change_of_the_node_is_tried_again(site: LockSite) -> None:
    site.take(A)
    site.locks.failed(N1, A.uid, site.now)
    first = site.release()
    assert isinstance(first, LockRelease)
    site.node()
    assert not site.write(first)
    second = site.release()
    assert second == LockRelease(A, (SHARED,), "3", ReleaseReason.UNBOUND)
    assert site.write(second)
    assert site.reasons() == [ReleaseReason.UNBOUND]


def test_a_lock_that_the_plugin_removes_is_not_removed_again(site: LockSite) -> None:
    site.take(A)
    site.show_pod(progress(A, N1, "success"))
    site.after(0.5)
    site.node(shared=None)
    site.after(60)
    assert site.release() is None
    (end,) = site.ended()
    assert (end.reason, end.held) == (ReleaseReason.PLUGIN, 0.5)


def test_a_lock_that_another_client_replaces_is_its_own(site: LockSite) -> None:
    site.take(A)
    site.node(shared=a_lock(THEIRS))
    assert site.reasons() == [ReleaseReason.REPLACED]
    assert site.release() is None


@pytest.mark.parametrize("bind_phase", ["success", "failed"])
def test_a_plugin_that_answered_has_a_moment_to_remove_its_lock(site: LockSite, bind_phase: str) -> None:
    site.take(A)
    site.show_pod(progress(A, N1, bind_phase))
    assert site.release() is None
    assert site.locks.next_time(N1) == site.now + GRACE
    site.after(GRACE)
    assert site.release() == LockRelease(A, (SHARED,), "2", ReleaseReason.ANSWERED)


def test_the_phase_says_nothing_of_cambricons_plugin_which_does_not_write_it(site: LockSite) -> None:
    site.take(A, BOTH)
    site.show_pod(progress(A, N1, "success"))
    site.after(GRACE)
    assert site.release() is None
    site.show_pod(progress(A, N1, "success", phase="Running"))
    assert site.release() == LockRelease(A, (MLU, SHARED), "2", ReleaseReason.RUNNING)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (progress(A, phase="Running"), ReleaseReason.RUNNING),
        (progress(A, phase="Failed"), ReleaseReason.FINISHED),
        (progress(A, None, phase="Succeeded"), ReleaseReason.FINISHED),
        (progress(A, N2), ReleaseReason.ELSEWHERE),
    ],
)
def test_a_lock_is_released_at_once_when_its_pod_needs_it_no_more(
    site: LockSite, seen: PodProgress, reason: ReleaseReason
) -> None:
    site.take(A)
    site.show_pod(progress(A, None))
    assert site.release() is None
    assert site.show_pod(seen) == {N1}
    step = site.release()
    assert isinstance(step, LockRelease)
    assert (step.pod, step.keys, step.version, step.reason) == (A, (SHARED,), "2", reason)


def test_a_lock_is_released_at_once_when_its_pod_is_deleted(site: LockSite) -> None:
    site.take(A)
    assert site.locks.forget_pod(A.uid, A.owner, site.now) == {N1}
    assert site.release() == LockRelease(A, (SHARED,), "2", ReleaseReason.DELETED)


def test_the_first_reason_is_the_reason(site: LockSite) -> None:
    site.take(A)
    site.show_pod(progress(A, phase="Failed"))
    site.locks.forget_pod(A.uid, A.owner, site.now)
    step = site.release()
    assert isinstance(step, LockRelease)
    assert step.reason is ReleaseReason.FINISHED


def test_a_plugin_that_never_answers_loses_the_lock_and_the_pods_owner_is_told(site: LockSite) -> None:
    site.take(A)
    site.after(5)
    site.show_pod(progress(A))
    site.after(6)
    site.show_pod(progress(A))
    assert site.locks.next_time(N1) == site.now + 14
    site.after(13.9)
    assert site.release() is None
    site.after(0.1)
    step = site.release()
    assert step == LockRelease(A, (SHARED,), "2", ReleaseReason.EXPIRED, unsettled=True)
    assert site.write(step)
    (end,) = site.ended()
    assert end.report == (
        "no device plugin on node n1 has allocated this pod's devices within 20 s after its binding "
        "(hami.io/bind-phase is allocating); its lock (hami.io/mutex.lock) is released for the next pod. Check the "
        "device plugin's pod on the node, then delete this pod, so that it is scheduled again"
    )


@pytest.mark.parametrize(
    ("seen", "unsettled"),
    [
        (progress(A, phase="Failed"), True),
        (progress(A, None, phase="Failed"), False),
        (progress(A, N2, phase="Failed"), False),
        (progress(A, bind_phase="failed", phase="Failed"), False),
        (progress(A, phase="Running"), False),
        (progress(A, N2), False),
    ],
    ids=["failed", "unbound", "elsewhere", "told", "running", "moved"],
)
def test_a_pod_that_no_plugin_is_on_its_way_to_must_not_say_that_one_is(
    site: LockSite, seen: PodProgress, unsettled: bool
) -> None:
    site.take(A)
    site.show_pod(seen)
    step = site.release()
    assert isinstance(step, LockRelease)
    assert step.unsettled is unsettled


def test_a_pod_that_was_never_bound_loses_the_lock_and_its_owner_is_told(site: LockSite) -> None:
    """Not earlier: the API server may still carry the Binding out, for example when it asks another slow webhook."""
    site.take(A, BOTH)
    site.show_pod(progress(A, None))
    site.after(19.9)
    assert site.release() is None
    site.after(0.1)
    step = site.release()
    assert isinstance(step, LockRelease)
    assert site.write(step)
    (end,) = site.ended()
    assert end.report == (
        "the pod was not bound to node n1 within 20 s after its lock (cambricon.com/dsmlu.lock and hami.io/mutex.lock) "
        "was taken; the lock is released for the next pod. If the pod stays Pending, see the events of its scheduler"
    )


def test_a_bound_pod_without_a_phase_is_told_so(site: LockSite) -> None:
    site.take(A)
    site.show_pod(progress(A, N1, ""))
    site.after(20)
    step = site.release()
    assert isinstance(step, LockRelease)
    site.write(step)
    assert "(hami.io/bind-phase is not set)" in site.ended()[0].report


def test_a_lock_that_went_before_its_holder_was_known_is_not_removed_again(site: LockSite) -> None:
    site.take(A)
    site.nodes[N1] = (9, {})
    site.locks.failed(N1, A.uid, site.now)
    site.show()
    assert site.release() is None


# Several vendors behind one lock


def test_the_turn_lasts_until_the_plugins_of_all_vendors_have_answered(site: LockSite) -> None:
    """The first plugin removes the lock for all of them (HAMi, chapter 11)."""
    site.take(A, LockDemand((SHARED,), PENDING))
    site.show_pod(progress(A, N1, "success", unserved=PENDING | {"other"}))
    site.node(shared=None)
    assert site.ended() == []
    assert site.ask(B) == Wait(SHARED, 0, A, 0.0)
    site.show_pod(progress(A, N1, "success", unserved=frozenset({min(PENDING)})))
    assert isinstance(site.decide(B), Wait)
    site.show_pod(progress(A, N1, "success", unserved=frozenset({"other"})))
    assert site.reasons() == [ReleaseReason.ANSWERED]
    assert isinstance(site.decide(B), Take)


def test_the_turn_ends_with_the_last_device_where_no_plugin_writes_a_phase(site: LockSite) -> None:
    site.take(A, LockDemand((SHARED,), PENDING))
    site.node(shared=None)
    site.show_pod(progress(A, N1, unserved=frozenset({min(PENDING)})))
    assert site.ended() == []
    site.show_pod(progress(A, N1))
    assert site.reasons() == [ReleaseReason.PLUGIN]


def test_the_turn_ends_when_one_of_several_plugins_never_answers(site: LockSite) -> None:
    site.take(A, LockDemand((SHARED,), PENDING))
    site.show_pod(progress(A, N1, "success", unserved=PENDING))
    site.node(shared=None)
    site.after(20)
    assert site.release() is None
    (end,) = site.ended()
    assert (end.reason, bool(end.report)) == (ReleaseReason.EXPIRED, True)


def test_the_lock_of_several_vendors_that_nobody_removed_is_released_like_any_other(site: LockSite) -> None:
    site.take(A, LockDemand((SHARED,), PENDING))
    site.show_pod(progress(A, N1, "failed", unserved=PENDING))
    site.after(GRACE)
    assert site.release() == LockRelease(A, (SHARED,), "2", ReleaseReason.ANSWERED)


def test_another_lock_is_free_during_the_turn(site: LockSite) -> None:
    site.take(A, LockDemand((SHARED,), PENDING))
    assert isinstance(site.ask(B, OTHER), Take)
