"""Who is active, over histories of candidates that are slow, cut off or frozen."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from hami_plugins.errors import AlreadyExistsError, ConfigError, ContentionError, KubeError
from hami_plugins.kube.election import Election, LeaseTiming
from hami_plugins.kube.port import KubeApi
from hami_plugins.wire.fields import Json

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TIMING = LeaseTiming(duration=15, deadline=10, retry=2)


class World:
    """One Lease, one time that passes for all, and what happens around each request."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.candidates: list[Election] = []
        self.around: list[Request] = []

    def clock(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds
        assert sum(candidate.active for candidate in self.candidates) <= 1

    def candidate(self, name: str, *, wrong: timedelta = timedelta(), **more: Any) -> Election:
        made = Election(
            Server(self),
            namespace="ns",
            name="leader",
            identity=name,
            timing=more.pop("timing", TIMING),
            clock=self.clock,
            now=lambda: EPOCH + wrong + timedelta(seconds=self.now),
            luck=random.Random(0),
            **more,
        )
        self.candidates.append(made)
        return made

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        return cast("dict[str, Any]", self.lease["spec"])


@dataclass
class Request:
    """What happens to one request: it takes time before and after the server acts, and may be lost in either half."""

    before: float = 0.0
    after: float = 0.0
    lost: str = ""
    meanwhile: list[int] = field(default_factory=list)
    afterwards: list[int] = field(default_factory=list)


class Server:
    """The part of ``KubeApi`` that an election uses; requests that take too long are given up, and may act later."""

    def __init__(self, world: World, seconds: float = 0.0) -> None:
        self._world = world
        self._seconds = seconds

    def within(self, seconds: float) -> KubeApi:
        assert seconds > 0
        return cast("KubeApi", Server(self._world, seconds))

    def get(self, path: str) -> Json:
        def act() -> Json:
            if self._world.lease is None:
                raise KubeError("no such lease", status=404)
            return copy.deepcopy(self._world.lease)

        return self._asked(act)

    def create(self, path: str, body: Json) -> Json:
        def act() -> Json:
            if self._world.lease is not None:
                raise AlreadyExistsError("taken", status=409)
            return self._stored(body)

        return self._asked(act)

    def replace(self, path: str, body: Json) -> Json:
        def act() -> Json:
            lease = self._world.lease
            if lease is None or body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
                raise ContentionError("moved on", status=409)
            return self._stored(body)

        return self._asked(act)

    def _stored(self, body: Json) -> Json:
        self._world.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self._world.version)}
        self._world.lease = copy.deepcopy({**body, "metadata": metadata})
        return copy.deepcopy(self._world.lease)

    def _asked(self, act: Callable[[], Json]) -> Json:
        world = self._world
        happens = world.around.pop(0) if world.around else Request()
        world.passes(happens.before)
        for other in happens.meanwhile:
            world.candidates[other].step()
        if happens.lost == "before":
            raise KubeError("no answer", retryable=True)
        answer = act()
        for other in happens.afterwards:
            world.candidates[other].step()
        world.passes(happens.after)
        if happens.lost == "after" or happens.before + happens.after > self._seconds:
            raise KubeError("no answer in time", retryable=True)
        return answer


def test_the_first_candidate_is_active_and_others_are_not() -> None:
    world = World()
    one, other = world.candidate("one"), world.candidate("other")
    one.step()
    other.step()
    assert (one.active, other.active) == (True, False)
    assert (one.check(), other.check()) == ("", "lease ns/leader is held by one")
    assert world.spec == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }


def test_a_renewal_keeps_when_it_was_taken_and_members_that_are_not_ours() -> None:
    world = World()
    one = world.candidate("one")
    one.step()
    world.spec["strategy"] = "theirs"
    world.passes(2)
    one.step()
    assert world.spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert world.spec["renewTime"] == "2026-01-01T00:00:02.000000Z"
    assert (world.spec["leaseTransitions"], world.spec["strategy"]) == (0, "theirs")


def test_who_cannot_renew_stops_before_another_may_begin() -> None:
    world = World()
    one, other = world.candidate("one"), world.candidate("other")
    one.step()
    other.step()
    world.passes(9.9)
    assert (one.active, other.active) == (True, False)
    world.passes(0.2)
    other.step()
    assert (one.active, other.active) == (False, False)
    world.passes(4.9)
    other.step()
    assert other.active
    assert world.spec["leaseTransitions"] == 1


def test_an_answer_that_comes_late_does_not_make_it_longer() -> None:
    world = World()
    one, other = world.candidate("one"), world.candidate("other")
    world.around = [Request(), Request(after=9, afterwards=[1])]
    one.step()
    assert one.active
    world.passes(6.1)
    other.step()
    assert (one.active, other.active) == (False, True)


def test_the_time_that_another_writes_does_not_matter() -> None:
    for wrong in (timedelta(days=-400), timedelta(days=400)):
        world = World()
        one, other = world.candidate("one", wrong=wrong), world.candidate("other")
        one.step()
        other.step()
        world.passes(14.9)
        other.step()
        assert not other.active
        world.passes(0.1)
        other.step()
        assert other.active


def test_a_holder_counts_for_as_long_as_its_own_record_says() -> None:
    world = World()
    one = world.candidate("one", timing=LeaseTiming(duration=60, deadline=50, retry=2))
    other = world.candidate("other")
    one.step()
    other.step()
    world.passes(59.9)
    other.step()
    assert not other.active
    world.passes(0.1)
    other.step()
    assert other.active


def test_a_lease_that_cannot_be_read_is_waited_for_like_one_of_ours() -> None:
    world = World()
    one, other = world.candidate("one"), world.candidate("other")
    one.step()
    world.spec["renewTime"] = "yesterday"
    with capture_logs() as logs:
        other.step()
    assert [line["event"] for line in logs] == ["lease_not_readable"]
    world.passes(15)
    other.step()
    assert other.active


def test_who_waits_looks_again_at_the_moment_at_which_it_may_begin() -> None:
    world = World()
    holder, other = world.candidate("a"), world.candidate("b")
    holder.step()
    world.passes(1)
    other.step()
    assert TIMING.retry <= other.pause() <= 1.2 * TIMING.retry
    world.passes(14.5)
    other.step()
    assert other.pause() == pytest.approx(0.5)
    world.passes(other.pause())
    other.step()
    assert other.active


def test_a_lease_that_is_handed_back_is_taken_at_once() -> None:
    world = World()
    one, other = world.candidate("one"), world.candidate("other")
    one.step()
    other.step()
    one.resign()
    assert (one.active, world.spec["holderIdentity"]) == (False, "")
    other.step()
    assert other.active


def test_who_is_not_active_hands_nothing_back() -> None:
    world = World()
    one, other = world.candidate("one"), world.candidate("other")
    one.step()
    world.passes(11)
    one.resign()
    other.resign()
    assert world.spec["holderIdentity"] == "one"


def test_a_lease_that_was_taken_meanwhile_is_not_handed_back() -> None:
    world = World()
    one = world.candidate("one")
    one.step()
    world.spec["holderIdentity"] = "other"
    one.resign()
    assert world.spec["holderIdentity"] == "other"


def test_a_deleted_lease_is_not_taken_from_a_holder_that_was_seen() -> None:
    world = World()
    one, other = world.candidate("one"), world.candidate("other")
    one.step()
    other.step()
    world.lease = None
    other.step()
    assert not other.active
    world.passes(2)
    one.step()
    assert one.active
    world.lease = None
    other.step()
    world.passes(15)
    other.step()
    assert other.active


def test_a_lease_that_another_took_is_lost_at_once() -> None:
    world = World()
    one = world.candidate("one")
    one.step()
    world.spec["holderIdentity"] = "other"
    one.step()
    assert not one.active


def test_an_answer_that_is_lost_after_the_write_leaves_the_lease_ours() -> None:
    world = World()
    one = world.candidate("one")
    world.around = [Request(), Request(lost="after")]
    one.step()
    assert not one.active
    one.step()
    assert one.active


def test_a_frozen_holder_is_not_active_when_it_wakes() -> None:
    world = World()
    one, other = world.candidate("one"), world.candidate("other")
    one.step()
    other.step()
    world.passes(16)
    other.step()
    assert (one.active, other.active) == (False, True)
    one.step()
    assert (one.active, one.holder) == (False, "other")


def test_who_cannot_begin_hands_the_lease_back_and_may_begin_with_a_later_try() -> None:
    told: list[str] = []

    def started() -> None:
        told.append("started")
        if told.count("started") == 1:
            raise RuntimeError("can't start new thread")

    world = World()
    one = world.candidate("one", on_started=started, on_stopped=lambda: told.append("stopped"))
    with capture_logs() as logs:
        one.step()
    assert (one.active, world.spec["holderIdentity"]) == (False, "")
    assert [line["event"] for line in logs] == [
        "lease_taken",
        "election_callback_failed",
        "lease_lost",
        "lease_released",
    ]
    other = world.candidate("other")
    other.step()
    assert other.active
    other.resign()
    one.step()
    assert (one.active, told) == (True, ["started", "stopped", "started"])


def test_changes_are_told_once_and_who_cannot_end_has_lost_all_the_same() -> None:
    told: list[str] = []

    def stopped() -> None:
        told.append("stopped")
        raise ValueError("of the callback")

    world = World()
    one = world.candidate("one", on_started=lambda: told.append("started"), on_stopped=stopped)
    with capture_logs() as logs:
        for _ in range(3):
            one.step()
        world.spec["holderIdentity"] = "other"
        one.step()
        one.step()
    assert told == ["started", "stopped"]
    assert [line["event"] for line in logs] == ["lease_taken", "lease_lost", "election_callback_failed"]


def test_what_goes_wrong_is_logged_once_and_told_to_probes() -> None:
    world = World()
    one = world.candidate("one")
    world.around = [Request(lost="before")] * 2
    with capture_logs() as logs:
        one.step()
        one.step()
    assert [line["event"] for line in logs] == ["lease_not_taken"]
    assert one.check() == "lease ns/leader is not held; no answer"


@pytest.mark.parametrize(
    "wrong", [{"deadline": 15.0}, {"duration": 10.0}, {"retry": 9.0}, {"retry": 0.0}, {"duration": -1.0}]
)
def test_times_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="duration has to be longer than the deadline"):
        LeaseTiming(**wrong)


def test_a_candidate_has_a_name() -> None:
    with pytest.raises(ConfigError, match="ns/leader: a candidate needs an identity"):
        World().candidate("")


_SECONDS = st.sampled_from([0.0, 0.1, 1.0, 4.0, 9.0, 10.0, 11.0, 16.0])
_REQUESTS = st.builds(
    Request,
    before=_SECONDS,
    after=_SECONDS,
    lost=st.sampled_from(["", "", "", "before", "after"]),
    meanwhile=st.lists(st.integers(0, 2), max_size=2),
    afterwards=st.lists(st.integers(0, 2), max_size=2),
)
_ACTS = st.sampled_from(["step", "step", "step", "step", "resign"])
_STEPS = st.lists(st.tuples(st.integers(0, 2), _SECONDS, _ACTS, st.lists(_REQUESTS, max_size=4)), max_size=25)


@given(_STEPS)
def test_two_are_never_active_at_once(steps: list[tuple[int, float, str, list[Request]]]) -> None:
    world = World()
    for at in range(3):
        world.candidate(f"c{at}", wrong=timedelta(days=at * 1000 - 1000))
    for who, seconds, act, around in steps:
        world.passes(seconds)
        world.around = list(around)
        getattr(world.candidates[who], act)()
        world.passes(0)


@given(_STEPS)
def test_whatever_happened_one_is_active_soon_after_it_is_over(
    steps: list[tuple[int, float, str, list[Request]]],
) -> None:
    world = World()
    for at in range(3):
        world.candidate(f"c{at}")
    for who, seconds, act, around in steps:
        world.passes(seconds)
        world.around = list(around)
        getattr(world.candidates[who], act)()
    world.around = []
    for _ in range(10):
        world.passes(2)
        for candidate in world.candidates:
            candidate.step()
    assert sum(candidate.active for candidate in world.candidates) == 1
