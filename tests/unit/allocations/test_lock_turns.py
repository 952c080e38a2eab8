"""Which calls have to look again after a change: all that have something to do, and few others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hami_plugins.allocations.lock_demand import LockDemand, LockPod
from hami_plugins.allocations.lock_steps import Foreign, Held, Inspect, LockRefused, Step, Take, Wait
from hami_plugins.model.units import NodeName
from tests.unit.allocations.locks import (
    BOTH,
    N1,
    N2,
    ONE,
    OTHER,
    THEIRS,
    A,
    B,
    C,
    LockSite,
    a_lock,
    a_pod,
    progress,
)

D, E = a_pod("d"), a_pod("e")
DEMANDS: Final = {A: ONE, B: BOTH, C: OTHER, D: ONE, E: BOTH}
pods = st.sampled_from(list(DEMANDS))


def test_of_many_pods_that_wait_only_the_first_has_to_look_again_once_the_lock_is_free(site: LockSite) -> None:
    site.take(A)
    for pod in (B, C, D):
        site.enter(pod)
    assert site.locks.behind_others(N1) == {B.uid, C.uid, D.uid}
    site.node(shared=None)
    assert site.locks.behind_others(N1) == {C.uid, D.uid}


def test_pods_that_wait_for_different_locks_have_to_look_again_apart(site: LockSite) -> None:
    for pod, demand in ((A, ONE), (B, OTHER), (C, BOTH), (D, ONE)):
        site.enter(pod, demand)
    assert site.locks.behind_others(N1) == {C.uid, D.uid}
    site.leave(A)
    assert site.locks.behind_others(N1) == {C.uid, D.uid}
    site.leave(B)
    assert site.locks.behind_others(N1) == {D.uid}


def test_a_refused_pod_has_to_look_again_and_keeps_nobody_from_it(site: LockSite) -> None:
    for pod in (A, B, C):
        site.enter(pod)
    site.show_pod(progress(A, N2))
    assert site.locks.behind_others(N1) == {C.uid}
    site.locks.forget_pod(C.uid, C.owner, site.now)
    assert site.locks.behind_others(N1) == set()


def test_the_pod_that_a_former_leaders_lock_names_has_to_look_again_whoever_came_first(site: LockSite) -> None:
    for pod in (B, A):
        site.enter(pod)
    site.node(shared=a_lock(A))
    assert site.locks.behind_others(N1) == set()


def test_nobody_waits_on_a_node_that_is_not_known(site: LockSite) -> None:
    assert site.locks.behind_others(N2) == set()


@pytest.mark.parametrize("foreign", [True, False])
def test_a_pod_whose_write_fails_goes_on_before_one_that_came_back_meanwhile(site: LockSite, *, foreign: bool) -> None:
    """If both waited for each other, nothing would wake them."""
    site.enter(A)
    site.leave(A)
    step = site.ask(B)
    assert isinstance(step, Take)
    site.enter(A)
    site.node(shared=a_lock() if foreign else None)
    assert not site.write(step)
    assert isinstance(site.decide(B), Foreign if foreign else Take)
    assert site.decide(A) == Wait("hami.io/mutex.lock", 1)


@dataclass(eq=False)
class Call:
    """A call that waits for its pod; ``asleep`` until it is woken, or the time has come."""

    pod: LockPod
    asleep: bool = False
    due: float = float("inf")
    write: Take | None = None


class Histories(RuleBasedStateMachine):
    """Calls of five pods, a node, and everything that other clients do; a call that sleeps has nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.site = WakingSite(self.wake)
        self.site.node()

    def wake(self) -> None:
        """What is done after each change that concerns the node."""
        behind = self.site.locks.behind_others(N1)
        for call in self.calls:
            if call.pod.uid not in behind:
                call.asleep = False

    @rule(pod=pods, demand=st.sampled_from([ONE, OTHER, BOTH, None]))
    def a_call_comes(self, pod: LockPod, demand: LockDemand | None) -> None:
        self.site.enter(pod, demand or DEMANDS[pod])
        self.calls.append(Call(pod))
        self.wake()

    @precondition(lambda self: self.calls)
    @rule(which=st.integers(0, 9))
    def a_call_ends(self, which: int) -> None:
        self.end(self.calls[which % len(self.calls)])

    def end(self, call: Call) -> None:
        self.calls.remove(call)
        self.site.leave(call.pod)
        self.wake()

    @precondition(lambda self: any(not each.asleep for each in self.calls))
    @rule(which=st.integers(0, 9), known=st.booleans())
    def a_call_looks(self, which: int, known: bool) -> None:
        awake = [each for each in self.calls if not each.asleep]
        call = awake[which % len(awake)]
        if call.write is not None:
            self.site.write(call.write)  # which another call may have done, or made impossible
            call.write = None
            return
        step = self.site.decide(call.pod)
        if isinstance(step, Held | LockRefused):
            self.end(call)
        elif isinstance(step, Inspect):
            self.site.locks.inspected(N1, step, progress(THEIRS, ours=False) if known else None)
            self.wake()
        elif isinstance(step, Take):
            call.write = step
        else:
            call.asleep = True
            call.due = self.site.now + step.left if isinstance(step, Foreign) else float("inf")

    @rule(mlu=st.booleans(), owner=st.sampled_from([None, THEIRS, A, B]))
    def another_client_takes_a_lock(self, mlu: bool, owner: LockPod | None) -> None:
        self.lock(mlu, a_lock(owner, age=-self.site.now))

    @rule(mlu=st.booleans())
    def a_lock_is_removed(self, mlu: bool) -> None:
        self.lock(mlu, None)

    def lock(self, mlu: bool, text: str | None) -> None:
        if mlu:
            self.site.node(mlu=text)
        else:
            self.site.node(shared=text)

    @rule()
    def the_node_changes_apart_from_its_locks(self) -> None:
        self.site.node()

    @rule()
    def the_node_is_created_again(self) -> None:
        self.site.locks.forget_node(N1, self.site.now)
        self.wake()
        self.site.node()

    @rule(
        pod=st.sampled_from([*DEMANDS, THEIRS]),
        node=st.sampled_from([None, N1, N2]),
        phase=st.sampled_from(["Pending", "Running", "Failed"]),
        bind_phase=st.sampled_from(["allocating", "success"]),
    )
    def a_pod_changes(self, pod: LockPod, node: NodeName | None, phase: str, bind_phase: str) -> None:
        if self.site.show_pod(progress(pod, node, bind_phase, phase=phase, ours=pod != THEIRS)):
            self.wake()

    @rule(pod=st.sampled_from([*DEMANDS, THEIRS]), named=st.booleans())
    def a_pod_is_deleted(self, pod: LockPod, named: bool) -> None:
        if self.site.locks.forget_pod(pod.uid, pod.owner if named else None, self.site.now):
            self.wake()

    @rule(pod=pods)
    def a_binding_fails(self, pod: LockPod) -> None:
        self.site.locks.failed(N1, pod.uid, self.site.now)
        self.wake()

    @rule(seconds=st.sampled_from([0.5, 5.0, 20.0, 120.0, 300.0]))
    def time_passes(self, seconds: float) -> None:
        self.site.after(seconds)
        for call in self.calls:
            call.asleep = call.asleep and call.due > self.site.now
        while (at := self.site.locks.next_time(N1)) is not None and at <= self.site.now:
            step = self.site.release()
            self.wake()
            if step is None or not self.site.write(step):
                break

    @invariant()
    def no_call_sleeps_that_has_something_to_do(self) -> None:
        behind = self.site.locks.behind_others(N1)
        for call in self.calls:
            step = self.seen_by(call)
            timed = isinstance(step, Foreign) and call.due <= self.site.now + step.left
            later = isinstance(step, Foreign | Inspect) and call.pod.uid in behind
            assert not call.asleep or isinstance(step, Wait) or timed or later, call

    @invariant()
    def a_call_that_has_to_wait_for_others_is_left_asleep(self) -> None:
        """Unless its pod has a lock that is being removed."""
        behind = self.site.locks.behind_others(N1)
        for call in self.calls:
            step = self.seen_by(call)
            if isinstance(step, Wait) and step.holder != call.pod:
                assert call.pod.uid in behind, call

    def seen_by(self, call: Call) -> Step:
        return copy.deepcopy(self.site.locks).decide(N1, call.pod.uid, self.site.now, self.site.wall)


class WakingSite(LockSite):
    """``changed`` is called after each change of the node's locks."""

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__()
        self.changed = changed

    def show(self, name: NodeName = N1, *, version: int | None = None, listed: bool = False) -> bool:
        """The watch shows the node."""
        if shown := super().show(name, version=version, listed=listed):
            self.changed()
        return shown


TestHistories = Histories.TestCase
