"""Expiry while a replica is the active one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from hami_plugins.allocations.answers import Assumption, Declined, PodAllocation
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.session import LeaderSession
from hami_plugins.allocator.settings import SETTINGS
from hami_plugins.errors import KubeError
from hami_plugins.kube.port import ListPage, Selection, WatchEvent
from hami_plugins.model.units import NodeName
from hami_plugins.wire.fields import Json
from tests.unit.allocator.products import product
from tests.unit.volcano_vgpu.allocation.cluster import a_node, a_pod
from tests.waiting import wait_for

N1 = NodeName("n1")


class Quiet:
    """An API server with one node. It sends ``events`` of pods, each once, while they are not ``away``.

    Without ``told`` its lists never end.
    """

    def __init__(self, *, told: bool = True) -> None:
        self._told = told
        self.events: list[WatchEvent] = []
        self.away = False
        self.tries = 0

    def list_pages(
        self, selection: Selection, *, version: str = "", stop: threading.Event | None = None, page_size: int = 500
    ) -> Iterator[ListPage]:
        assert stop is not None
        if not self._told:
            stop.wait()
            raise KubeError("it was given up")
        yield ListPage((a_node(),) if selection.kind == "Node" else (), "1")

    def watch(self, selection: Selection, *, since: str, stop: threading.Event, timeout: float) -> Iterator[WatchEvent]:
        if selection.kind == "Pod" and self.away:
            self.tries += 1
            raise KubeError("out of reach", retryable=True)
        return self._told_of(selection, stop)

    def _told_of(self, selection: Selection, stop: threading.Event) -> Iterator[WatchEvent]:
        while not stop.wait(0.01):
            if selection.kind == "Pod" and self.away:
                raise KubeError("torn", retryable=True)
            if selection.kind == "Pod" and self.events:
                yield self.events.pop(0)


PRODUCT = product()


def nobody(_namespace: str, _name: str) -> Json | None:
    return None


def test_whoever_may_not_list_is_told_what_he_lacks() -> None:
    class Forbidden(Quiet):
        """Lists nothing."""

        def list_pages(self, *_args: object, **_kwargs: object) -> Iterator[ListPage]:
            raise KubeError("403 it needs a ClusterRole", status=403)

    session = LeaderSession(Forbidden(), SETTINGS.load("", {}), PRODUCT, metrics=AllocatorMetrics(), read=nobody)
    session.start()
    wait_for(lambda: session.check() == "the API server has not listed all nodes yet: 403 it needs a ClusterRole")
    session.stop()


def test_what_is_promised_and_never_comes_ends_and_is_counted() -> None:
    now, metrics = [0.0], AllocatorMetrics()
    session = LeaderSession(Quiet(), SETTINGS.load("", {}), PRODUCT, metrics=metrics, read=nobody, clock=lambda: now[0])
    assert "has not listed all nodes yet" in session.check()
    session.start()
    wait_for(lambda: session.ready)
    assert session.check() == ""
    intake = session.cache.intake(a_pod())
    assert isinstance(session.cache.reserve(N1, intake), PodAllocation)
    now[0] = 15.0
    wait_for(lambda: metrics.metrics.value("assumptions_expired_total", state="reserved"))
    assert session.cache.statistics.reservations == 0
    session.stop()


def test_whatever_goes_wrong_once_the_cache_is_filled_what_is_promised_ends() -> None:
    def odd() -> None:
        raise LookupError("odd")

    now, metrics = [0.0], AllocatorMetrics()
    session = LeaderSession(
        Quiet(), SETTINGS.load("", {}), PRODUCT, metrics=metrics, read=nobody, on_filled=odd, clock=lambda: now[0]
    )
    session.start()
    wait_for(lambda: session.ready)
    assert isinstance(session.cache.reserve(N1, session.cache.intake(a_pod())), PodAllocation)
    now[0] = 15.0
    wait_for(lambda: metrics.metrics.value("assumptions_expired_total", state="reserved"))
    session.stop()


def test_what_a_binding_was_answered_with_ends_only_when_the_watch_has_told_of_that_time() -> None:
    now, metrics, api = [0.0], AllocatorMetrics(), Quiet()
    session = LeaderSession(api, SETTINGS.load("", {}), PRODUCT, metrics=metrics, read=nobody, clock=lambda: now[0])
    session.start()
    wait_for(lambda: session.ready)
    answered, reserved = (session.cache.intake(a_pod(name)) for name in ("answered", "reserved"))
    assert not isinstance(session.cache.allocate(N1, answered, carried=None, dry=False, now_ns=0), Declined)
    assert isinstance(session.cache.reserve(N1, reserved), PodAllocation)
    now[0] = 200.0
    wait_for(lambda: metrics.metrics.value("assumptions_expired_total", state="reserved"))
    assert session.cache.statistics.answered == 1
    api.events.append(WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
    wait_for(lambda: session.cache.statistics.answered == 0)
    session.stop()


def answered_at_zero(
    found: Json | KubeError | None, settings: str = ""
) -> tuple[LeaderSession, list[float], AllocatorMetrics, list[float]]:
    """A session that answered a Binding at 0, its clock, metrics, and when it read the pod (which gives ``found``)."""
    now, metrics, looked = [0.0], AllocatorMetrics(), list[float]()

    def read(namespace: str, name: str) -> Json | None:
        assert (namespace, name) == ("x", "p")
        looked.append(now[0])
        if isinstance(found, KubeError):
            raise found
        return found

    session = LeaderSession(
        Quiet(), SETTINGS.load(settings, {}), PRODUCT, metrics=metrics, read=read, clock=lambda: now[0]
    )
    session.start()
    wait_for(lambda: session.ready)
    assert not isinstance(
        session.cache.allocate(N1, session.cache.intake(a_pod()), carried=None, dry=False, now_ns=0), Declined
    )
    return session, now, metrics, looked


@pytest.mark.parametrize(("settings", "at"), [("", 60.0), ("reservation: 61", 60.0), ("reservation: 330", 300.0)])
def test_an_answer_whose_binding_failed_ends_as_soon_as_the_api_server_has_given_it_up(
    monkeypatch: pytest.MonkeyPatch, settings: str, at: float
) -> None:
    monkeypatch.setattr("hami_plugins.allocator.session.EXPIRY_SECONDS", 0.01)
    session, now, metrics, looked = answered_at_zero(a_pod(), settings)
    now[0] = at - 0.5
    time.sleep(0.05)
    now[0] = at
    wait_for(lambda: metrics.metrics.value("assumptions_expired_total", state="failed"))
    assert (set(looked), session.cache.statistics.answered) == ({at}, 0)
    session.stop()


@pytest.mark.parametrize(
    "found",
    [
        a_pod(node="n1"),
        {**a_pod(), "metadata": {"name": "p", "namespace": "x", "uid": "another"}},
        None,
        KubeError("out of reach", retryable=True),
    ],
    ids=["bound", "another", "gone", "away"],
)
def test_an_answer_that_may_have_come_true_is_left_to_the_watch(
    monkeypatch: pytest.MonkeyPatch, found: Json | KubeError | None
) -> None:
    monkeypatch.setattr("hami_plugins.allocator.session.EXPIRY_SECONDS", 0.01)
    session, now, metrics, looked = answered_at_zero(found)
    now[0] = 75.0
    wait_for(lambda: len(looked) >= 3)
    assert session.cache.statistics.answered == 1
    assert not metrics.metrics.value("assumptions_expired_total", state="failed")
    session.stop()


def test_a_term_whose_watch_of_pods_is_broken_is_not_ready_long_before_promises_end() -> None:
    now, api = [0.0], Quiet()
    session = LeaderSession(
        api, SETTINGS.load("", {}), PRODUCT, metrics=AllocatorMetrics(), read=nobody, clock=lambda: now[0]
    )
    session.start()
    wait_for(lambda: session.ready)
    api.away = True
    wait_for(lambda: api.tries)
    before = session.ready
    now[0] = 19.0
    still = session.ready
    now[0] = 20.0
    assert (before, still, session.ready) == (True, True, False)
    assert "the watch of pods is broken: out of reach" in session.check()
    session.stop()


def test_a_term_that_could_not_take_in_a_pod_is_not_ready_until_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    now, api = [0.0], Quiet()
    session = LeaderSession(
        api, SETTINGS.load("", {}), PRODUCT, metrics=AllocatorMetrics(), read=nobody, clock=lambda: now[0]
    )
    session.start()
    wait_for(lambda: session.ready)
    with monkeypatch.context() as patch:
        patch.setattr(session.cache, "_names", None)
        api.events.append(WatchEvent("ADDED", a_pod(node="n1", ids="GPU-n1-0,NVIDIA,30000,0:")))
        wait_for(lambda: not session.ready)
        assert (session.missed, session.check()) == (
            1,
            "the last change of some pods (1) could not be processed; see the log",
        )
    now[0] = 2.0
    api.events.append(WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
    wait_for(lambda: session.ready)
    assert (session.missed, session.cache.statistics.holders) == (0, 1)
    session.stop()


def test_an_error_in_what_ends_promises_is_not_the_end_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now, metrics = [0.0], AllocatorMetrics()
    session = LeaderSession(Quiet(), SETTINGS.load("", {}), PRODUCT, metrics=metrics, read=nobody, clock=lambda: now[0])
    expire, failures = session.cache.expire, [RuntimeError("a bug")]

    def failing(shown: float) -> tuple[Assumption, ...]:
        if failures:
            raise failures.pop()
        return expire(shown)

    monkeypatch.setattr(session.cache, "expire", failing)
    monkeypatch.setattr("hami_plugins.allocator.session.EXPIRY_SECONDS", 0.01)
    session.start()
    wait_for(lambda: session.ready)
    session.cache.reserve(N1, session.cache.intake(a_pod()))
    now[0] = 15.0
    wait_for(lambda: metrics.metrics.value("assumptions_expired_total", state="reserved"))
    assert not failures
    session.stop()


def test_a_term_that_ends_before_the_cluster_is_known_just_ends() -> None:
    session = LeaderSession(Quiet(told=False), SETTINGS.load("", {}), PRODUCT, metrics=AllocatorMetrics(), read=nobody)
    session.start()
    assert not session.ready
    session.stop()
    assert not session.ready
