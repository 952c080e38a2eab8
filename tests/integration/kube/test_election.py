"""Candidates against an API server, in threads and in time that really passes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.kube.election import Election, LeaseTiming
from hami_plugins.sandbox.apiserver import ApiServer, Delay, Fault
from tests.waiting import wait_for

TIMING = LeaseTiming(duration=2.0, deadline=1.5, retry=0.1)
Candidate = Callable[..., Election]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def api(server: ApiServer) -> Iterator[KubeClient]:
    client = connect_to(server.url, component="test")
    yield client
    client.close()


@pytest.fixture
def candidate(api: KubeClient) -> Iterator[Candidate]:
    with contextlib.ExitStack() as stack:

        def make(name: str, timing: LeaseTiming = TIMING) -> Election:
            made = Election(api, namespace="kube-system", name="leader", identity=name, timing=timing)
            stack.callback(made.stop)
            made.start()
            return made

        yield make


def lease(server: ApiServer) -> dict[str, object]:
    spec: dict[str, object] = server.get("leases", "leader", "kube-system")["spec"]
    return spec


def test_the_next_one_takes_over_as_soon_as_the_lease_is_handed_back(server: ApiServer, candidate: Candidate) -> None:
    patient = LeaseTiming(duration=300, deadline=200, retry=0.05)
    one = candidate("one", patient)
    wait_for(lambda: one.active)
    other = candidate("other", patient)
    wait_for(lambda: other.holder == "one")
    one.stop()
    assert not one.active
    wait_for(lambda: other.active)
    assert (lease(server)["holderIdentity"], lease(server)["leaseTransitions"]) == ("other", 1)


def test_the_next_one_takes_over_from_one_that_was_killed(
    server: ApiServer, api: KubeClient, candidate: Candidate
) -> None:
    killed = Election(api, namespace="kube-system", name="leader", identity="killed", timing=TIMING)
    killed.step()
    assert lease(server)["holderIdentity"] == "killed"
    other = candidate("other")
    wait_for(lambda: other.active)
    assert not killed.active


def test_one_that_renews_keeps_the_lease(server: ApiServer, candidate: Candidate) -> None:
    one, other = candidate("one"), candidate("other")
    wait_for(lambda: one.active or other.active)
    first = lease(server)["acquireTime"]
    before = lease(server)["renewTime"]
    wait_for(lambda: lease(server)["renewTime"] != before)
    assert lease(server)["acquireTime"] == first
    wait_for(lambda: [one.active, other.active].count(True) == 1)


def test_without_an_api_server_nobody_stays_active_and_one_is_again_when_it_is_back(
    server: ApiServer, candidate: Candidate
) -> None:
    one = candidate("one")
    wait_for(lambda: one.active)
    server.pause()
    wait_for(lambda: not one.active)
    assert "does not answer" in one.check()
    server.resume()
    wait_for(lambda: one.active)


def test_a_request_that_hangs_does_not_hold_the_lease(server: ApiServer, candidate: Candidate) -> None:
    one = candidate("one")
    wait_for(lambda: one.active)
    number = server.faults.add(
        Fault(action=Delay(30), verb="update", resource="leases.coordination.k8s.io", times=None)
    )
    wait_for(lambda: not one.active)
    server.faults.remove(number)
    wait_for(lambda: one.active)


def test_two_candidates_that_come_and_go_are_never_active_together(candidate: Candidate) -> None:
    patient = LeaseTiming(duration=60, deadline=40, retry=0.02)
    rivals = [candidate(f"c{at}", patient) for at in range(3)]
    seen: set[str] = set()
    while rivals:
        wait_for(lambda: any(rival.active for rival in rivals))
        active = [rival for rival in rivals if rival.active]
        assert len(active) == 1
        seen.add(active[0].identity)
        rivals.remove(active[0])
        active[0].stop()
    assert seen == {"c0", "c1", "c2"}
