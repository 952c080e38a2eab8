"""The locks of nodes on an API server: calls, watches, two clients that compete, and everything that goes wrong.

B1 to B23 are HAMi's own cases; those that need no API server are in ``tests/unit/allocations``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs

from hami_plugins.allocations.lock_demand import LockDemand, LockPod
from hami_plugins.model.units import NodeName
from hami_plugins.sandbox.apiserver.faults import DropConnection, Fault, ObservedRequest, Refuse
from tests.integration.allocator.lock_replicas import (
    BOTH,
    MLU,
    N1,
    SHARED,
    LockCluster,
    LockReplica,
    a_lock,
    leading,
    lock_cluster,
)
from tests.waiting import PATIENCE, wait_for

SHORT = 0.3
"""Seconds of a wait that has to come to nothing."""


@pytest.fixture
def cluster() -> Iterator[LockCluster]:
    with lock_cluster() as made:
        yield made


@pytest.fixture
def replica(cluster: LockCluster) -> Iterator[LockReplica]:
    with leading(LockReplica(cluster, answer=2 * PATIENCE)) as made:
        yield made


def before_patch(cluster: LockCluster, act: Callable[[], None], *, times: int = 1) -> None:
    """Another client writes right before the server looks at a patch of the node."""
    left = [times]

    def where(_: ObservedRequest) -> bool:
        if left[0]:
            left[0] -= 1
            act()
        return False

    cluster.server.faults.add(Fault(action=Refuse(500), verb="patch", resource="nodes", times=None, where=where))


# One replica


def test_pods_have_the_lock_one_after_the_other_and_each_costs_one_write(
    cluster: LockCluster, replica: LockReplica
) -> None:
    pods = [cluster.pod(f"p{number}") for number in range(4)]
    calls = [replica.begin(pod) for pod in pods]
    for pod, call in zip(pods, calls, strict=True):
        assert call.result(PATIENCE) == ""
        assert cluster.owner() == pod.name
        cluster.bind(pod)
        cluster.serve(pod)
    wait_for(lambda: replica.released("plugin") == 4)
    assert cluster.lock() is None
    assert (cluster.writes(), cluster.writes(409)) == (4, 0)
    assert replica.value("node_lock_wait_seconds_count", outcome="held") == 4
    assert replica.value("node_lock_held_seconds_count") == 4
    assert replica.value("node_lock_waiting") == 0


def test_a_change_wakes_only_the_pods_that_have_something_to_do(cluster: LockCluster, replica: LockReplica) -> None:
    first, *others = [cluster.pod(f"p{number}") for number in range(9)]
    assert replica.acquire(first) == ""
    calls = [replica.begin(pod) for pod in others]
    before = replica.decisions
    for number in range(10):
        cluster.annotate("pods", first.name, note=str(number))
    cluster.delete(others[-1])
    assert calls[-1].result(PATIENCE) == "node n1: the pod was deleted"
    cluster.bind(first)
    cluster.serve(first)
    assert calls[0].result(PATIENCE) == ""
    assert replica.decisions - before < 10


def test_a_pod_that_asks_again_for_fewer_locks_lets_others_have_the_rest(
    cluster: LockCluster, replica: LockReplica
) -> None:
    assert replica.acquire(cluster.pod("first"), LockDemand((MLU,))) == ""
    second, third = cluster.pod("second"), cluster.pod("third")
    replica.begin(second, BOTH)
    waits = replica.begin(third)
    assert not waits.done()
    replica.begin(second, LockDemand((MLU,)))
    assert waits.result(PATIENCE) == ""


def test_pods_wait_no_longer_for_a_plugin_that_does_not_answer_after_another_removed_the_lock(
    cluster: LockCluster,
) -> None:
    key = "hami.io/vgpu-devices-to-allocate"
    with leading(LockReplica(cluster, answer=SHORT)) as replica:
        silent = cluster.pod("silent")
        assert replica.acquire(silent, LockDemand((SHARED,), frozenset({key}))) == ""
        cluster.annotate("pods", silent.name, **{key: "GPU-0,NVIDIA,1,0:;"})
        cluster.bind(silent)
        cluster.annotate("nodes", N1, shared=None)
        assert replica.begin(cluster.pod("other")).result(PATIENCE) == ""
        assert replica.released("plugin-unanswered") == 1


def test_a_pod_without_locked_devices_asks_nothing(cluster: LockCluster, replica: LockReplica) -> None:
    pod = cluster.pod("p")
    requests = sum(cluster.server.requests.counts().values())
    assert replica.acquire(pod, LockDemand()) == ""
    assert sum(cluster.server.requests.counts().values()) == requests
    assert replica.value("node_lock_wait_seconds_count", outcome="held") == 0


def test_two_locks_are_one_write_to_take_and_one_to_release(cluster: LockCluster, replica: LockReplica) -> None:
    pod = cluster.pod("p")
    assert replica.acquire(pod, BOTH) == ""
    assert cluster.lock(MLU) == (cluster.lock() or "").partition(",")[0]
    replica.locking.failed(N1, pod.uid)
    wait_for(lambda: cluster.lock() is None and cluster.lock(MLU) is None)
    assert cluster.writes() == 2


def test_b1_a_node_that_does_not_exist_refuses_the_pod(cluster: LockCluster, replica: LockReplica) -> None:
    pod, demand = cluster.pod("p"), LockDemand((SHARED,))
    assert replica.locking.acquire(NodeName("n9"), pod, demand, timeout=60) == "node n9: the node does not exist"


def test_a_node_that_the_watch_has_not_shown_yet_is_read(cluster: LockCluster) -> None:
    replica = LockReplica(cluster)
    replica.locking.start()
    assert replica.acquire(cluster.pod("p")) == ""
    assert cluster.owner() == "p"
    replica.stop()


def test_b7_the_same_pod_has_its_lock_without_another_write(cluster: LockCluster, replica: LockReplica) -> None:
    pod = cluster.pod("p")
    assert replica.acquire(pod) == ""
    assert replica.acquire(pod) == ""
    assert cluster.writes() == 1


def test_b9_the_lock_is_removed_when_the_binding_failed(cluster: LockCluster, replica: LockReplica) -> None:
    pod = cluster.pod("p")
    assert replica.acquire(pod) == ""
    replica.locking.failed(N1, pod.uid)
    wait_for(lambda: cluster.lock() is None)
    wait_for(lambda: replica.released("binding-failed") == 1)
    assert replica.acquire(pod) == ""
    assert cluster.writes() == 3


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (LockCluster.delete, "deleted"),
        (lambda cluster, pod: cluster.bind(pod, "elsewhere"), "bound-elsewhere"),
        (lambda cluster, pod: cluster.run(pod, "Failed"), "finished"),
        (lambda cluster, pod: cluster.bind(pod, phase="failed"), "answered"),
    ],
    ids=["deleted", "elsewhere", "finished", "answered"],
)
def test_the_lock_is_removed_when_the_watch_shows_that_the_pod_needs_it_no_more(
    cluster: LockCluster, replica: LockReplica, happens: Callable[[LockCluster, LockPod], None], reason: str
) -> None:
    pod, other = cluster.pod("p"), cluster.pod("other")
    assert replica.acquire(pod) == ""
    waits = replica.begin(other)
    happens(cluster, pod)
    assert waits.result(PATIENCE) == ""
    assert cluster.owner() == "other"
    assert replica.released(reason) == 1
    assert cluster.writes() == 3


def test_the_lock_of_a_running_pod_whose_plugin_left_it_is_removed(cluster: LockCluster, replica: LockReplica) -> None:
    pod = cluster.pod("p")
    assert replica.acquire(pod) == ""
    cluster.bind(pod)
    cluster.run(pod)
    wait_for(lambda: cluster.lock() is None)
    wait_for(lambda: replica.released("running") == 1)


def test_a_plugin_that_never_answers_loses_its_turn_and_the_pod_is_reported(cluster: LockCluster) -> None:
    with leading(LockReplica(cluster, answer=SHORT)) as replica, capture_logs() as logs:
        silent, other = cluster.pod("silent"), cluster.pod("other")
        assert replica.acquire(silent) == ""
        cluster.bind(silent)
        assert replica.acquire(other) == ""
        assert cluster.owner() == "other"
        cluster.bind(other)
        cluster.serve(other)
        wait_for(lambda: replica.released("plugin") == 1)
    ((name, text),) = replica.reports
    assert name == "silent"
    assert "no device plugin on node n1 has allocated this pod's devices within 0.3 s after its binding" in text
    (line,) = [each for each in logs if each["event"] == "node_lock_released" and each["log_level"] == "warning"]
    assert (line["pod"], line["node"], line["reason"]) == ("team/silent", "n1", "plugin-unanswered")


def test_b21_a_call_that_waits_too_long_says_for_whom_and_how_long(cluster: LockCluster, replica: LockReplica) -> None:
    assert replica.acquire(cluster.pod("first")) == ""
    text = replica.acquire(cluster.pod("second"), timeout=SHORT)
    assert text.startswith("node n1: pod team/first has had hami.io/mutex.lock for ")
    assert text.endswith(" s; it was not free within 0.3 s; try again")
    assert replica.value("node_lock_wait_seconds_count", outcome="refused") == 1


def test_a_waiting_pod_that_is_deleted_leaves_the_queue(cluster: LockCluster, replica: LockReplica) -> None:
    assert replica.acquire(cluster.pod("first")) == ""
    second = cluster.pod("second")
    waits = replica.begin(second)
    cluster.delete(second)
    assert waits.result(PATIENCE) == "node n1: the pod was deleted"


def test_a_waiting_pod_that_is_bound_elsewhere_leaves_the_queue(cluster: LockCluster, replica: LockReplica) -> None:
    assert replica.acquire(cluster.pod("first")) == ""
    second = cluster.pod("second")
    waits = replica.begin(second)
    cluster.bind(second, "n2")
    assert waits.result(PATIENCE) == "node n1: the pod is bound to node n2 already"


def test_b16_a_node_that_is_deleted_takes_its_locks_along(cluster: LockCluster, replica: LockReplica) -> None:
    assert replica.acquire(cluster.pod("first")) == ""
    waits = replica.begin(cluster.pod("second"))
    cluster.server.delete("nodes", N1)
    assert waits.result(PATIENCE) == "node n1: the node does not exist"
    wait_for(lambda: replica.released("node-gone") == 1)


def test_calls_that_wait_are_refused_when_the_replica_ends(cluster: LockCluster) -> None:
    with leading(LockReplica(cluster)) as replica:
        assert replica.acquire(cluster.pod("first")) == ""
        waits = replica.begin(cluster.pod("second"))
        replica.locking.stop()
        assert (
            waits.result(PATIENCE) == "node n1: this replica no longer answers: the process ends, or another one leads"
        )
    assert cluster.owner() == "first"


# Locks of other clients


def test_b2_the_lock_of_another_schedulers_pod_is_respected_until_it_is_removed(
    cluster: LockCluster, replica: LockReplica
) -> None:
    theirs = cluster.pod("theirs", ours=False)
    cluster.annotate("nodes", N1, shared=a_lock(theirs))
    wait_for(lambda: replica.acquire(cluster.pod("p"), timeout=0.0) != "")
    text = replica.acquire(cluster.pod("p"), timeout=SHORT)
    assert "pod team/theirs, which another client binds, has had hami.io/mutex.lock for" in text
    waits = replica.begin(cluster.pod("q"))
    assert cluster.owner() == "theirs"
    cluster.annotate("nodes", N1, shared=None)
    assert waits.result(PATIENCE) == ""


def test_b5_the_lock_of_another_schedulers_pod_expires(cluster: LockCluster) -> None:
    theirs = cluster.pod("theirs", ours=False)
    cluster.put_node(shared=a_lock(theirs))
    with leading(LockReplica(cluster, expiry=2.0)) as replica, capture_logs() as logs:
        assert replica.acquire(cluster.pod("p")) == ""
    assert cluster.owner() == "p"
    (line,) = [each for each in logs if each["event"] == "node_lock_replaced"]
    assert line["locks"][0].endswith(",team,theirs")


@pytest.mark.parametrize("state", ["gone", "running", "finished", "elsewhere"])
def test_b6_the_lock_of_a_pod_that_cannot_use_it_is_replaced(cluster: LockCluster, state: str) -> None:
    theirs = cluster.pod("theirs", ours=False)
    cluster.bind(theirs, "elsewhere" if state == "elsewhere" else N1)
    {
        "gone": lambda: cluster.delete(theirs),
        "running": lambda: cluster.run(theirs),
        "finished": lambda: cluster.run(theirs, "Succeeded"),
        "elsewhere": lambda: None,
    }[state]()
    cluster.put_node(shared=a_lock(theirs))
    with leading(LockReplica(cluster)) as replica:
        assert replica.acquire(cluster.pod("p")) == ""
    assert cluster.owner() == "p"


def test_a_foreign_lock_is_replaced_as_soon_as_its_pod_is_deleted(cluster: LockCluster, replica: LockReplica) -> None:
    theirs = cluster.pod("theirs", ours=False)
    cluster.annotate("nodes", N1, shared=a_lock(theirs))
    wait_for(lambda: replica.acquire(cluster.pod("p"), timeout=0.0) != "")
    waits = replica.begin(cluster.pod("q"))
    cluster.delete(theirs)
    assert waits.result(PATIENCE) == ""
    assert cluster.owner() == "q"


def test_b3_a_lock_that_cannot_be_read_refuses_at_once_with_what_to_do(cluster: LockCluster) -> None:
    cluster.put_node(shared="lock")
    with leading(LockReplica(cluster)) as replica:
        text = replica.acquire(cluster.pod("p"))
    assert text.startswith("node n1: its lock cannot be read (hami.io/mutex.lock: 'lock' is not an RFC 3339 time")
    assert text.endswith("remove it: kubectl annotate node n1 hami.io/mutex.lock-")
    assert cluster.lock() == "lock"
    assert cluster.writes() == 0


def test_nodelock_s18_02_a_pod_that_cannot_be_read_refuses_the_call(cluster: LockCluster, replica: LockReplica) -> None:
    theirs = cluster.pod("theirs", ours=False)
    cluster.annotate("nodes", N1, shared=a_lock(theirs))
    wait_for(lambda: replica.acquire(cluster.pod("p"), timeout=0.0) != "")
    cluster.annotate("pods", "theirs", note="it is to be read again")
    cluster.server.faults.add(Fault(action=Refuse(403), verb="get", resource="pods", times=None))
    wait_for(lambda: "403" in replica.acquire(cluster.pod("q"), timeout=0.0))
    assert cluster.owner() == "theirs"


@pytest.mark.parametrize("skew", [3_600.0, -3_600.0])
def test_a_wrong_clock_takes_no_lock_from_a_living_pod(cluster: LockCluster, skew: float) -> None:
    theirs = cluster.pod("theirs", ours=False)
    with leading(LockReplica(cluster, skew=skew)) as replica:
        cluster.annotate("nodes", N1, shared=a_lock(theirs))
        wait_for(lambda: replica.acquire(cluster.pod("p"), timeout=0.0) != "")
        assert replica.acquire(cluster.pod("q"), timeout=SHORT) != ""
    assert cluster.owner() == "theirs"


# Writes that fail


def test_b12_a_write_whose_answer_is_lost_succeeds(cluster: LockCluster, replica: LockReplica) -> None:
    cluster.server.faults.add(Fault(action=DropConnection(handled=True), verb="patch", resource="nodes"))
    assert replica.acquire(cluster.pod("p")) == ""
    assert cluster.owner() == "p"


def test_b13_another_owner_that_appears_during_the_write_keeps_its_lock(
    cluster: LockCluster, replica: LockReplica
) -> None:
    theirs, pod = cluster.pod("theirs", ours=False), cluster.pod("p")
    before_patch(cluster, lambda: cluster.annotate("nodes", N1, shared=a_lock(theirs)))
    assert "pod team/theirs, which another client binds," in replica.acquire(pod, timeout=SHORT)
    assert cluster.owner() == "theirs"
    assert (cluster.writes(), cluster.writes(409)) == (0, 1)


def test_a_write_that_conflicts_with_another_change_of_the_node_is_tried_again(
    cluster: LockCluster, replica: LockReplica
) -> None:
    before_patch(cluster, lambda: cluster.annotate("nodes", N1, note="changed"))
    assert replica.acquire(cluster.pod("p")) == ""
    assert (cluster.writes(), cluster.writes(409)) == (1, 1)


def test_a_node_that_changes_on_and_on_refuses_the_call_in_the_end(cluster: LockCluster, replica: LockReplica) -> None:
    count = iter(range(10_000))
    before_patch(cluster, lambda: cluster.annotate("nodes", N1, note=str(next(count))), times=10_000)
    text = replica.acquire(cluster.pod("p"), timeout=SHORT)
    assert text == "node n1: the node kept being modified by other clients for 0.3 s; try again"
    assert cluster.lock() is None


def test_b22_a_write_that_is_not_allowed_is_not_tried_again(cluster: LockCluster, replica: LockReplica) -> None:
    cluster.server.faults.add(Fault(action=Refuse(403), verb="patch", resource="nodes", times=None))
    assert "403" in replica.acquire(cluster.pod("p"))
    assert cluster.writes(403) == 1


def test_b10_a_release_that_finds_another_pods_lock_leaves_it_with_one_patch(
    cluster: LockCluster, replica: LockReplica
) -> None:
    theirs, pod = cluster.pod("theirs", ours=False), cluster.pod("p")
    assert replica.acquire(pod) == ""
    before_patch(cluster, lambda: cluster.annotate("nodes", N1, shared=a_lock(theirs)))
    replica.locking.failed(N1, pod.uid)
    wait_for(lambda: replica.released("binding-failed") == 1)
    assert cluster.owner() == "theirs"
    assert (cluster.writes(), cluster.writes(409)) == (1, 1)


def test_b11_a_lock_that_another_client_stamped_for_the_same_pod_is_left_to_it(
    cluster: LockCluster, replica: LockReplica
) -> None:
    """HAMi removes it with a second patch; here it belongs to another process, which may be the new leader."""
    pod = cluster.pod("p")
    assert replica.acquire(pod) == ""
    stamped = a_lock(pod, age=-5)
    before_patch(cluster, lambda: cluster.annotate("nodes", N1, shared=stamped))
    replica.locking.failed(N1, pod.uid)
    wait_for(lambda: replica.released("binding-failed") == 1)
    assert cluster.lock() == stamped
    assert (cluster.writes(), cluster.writes(409)) == (1, 1)


def test_a_release_that_conflicts_with_another_change_of_the_node_is_tried_again(
    cluster: LockCluster, replica: LockReplica
) -> None:
    pod = cluster.pod("p")
    assert replica.acquire(pod) == ""
    before_patch(cluster, lambda: cluster.annotate("nodes", N1, note="changed"))
    replica.locking.failed(N1, pod.uid)
    wait_for(lambda: cluster.lock() is None)
    assert (cluster.writes(), cluster.writes(409)) == (2, 1)


def test_a_release_that_fails_is_tried_again(cluster: LockCluster, replica: LockReplica) -> None:
    pod = cluster.pod("p")
    assert replica.acquire(pod) == ""
    cluster.server.faults.add(Fault(action=Refuse(403), verb="patch", resource="nodes", times=2))
    with capture_logs() as logs:
        replica.locking.failed(N1, pod.uid)
        wait_for(lambda: cluster.lock() is None)
    assert [each["pod"] for each in logs if each["event"] == "node_lock_not_removed"] == ["team/p"] * 2


def test_a_lock_that_was_written_while_the_server_went_away_is_removed_when_it_is_back(cluster: LockCluster) -> None:
    with leading(LockReplica(cluster, deadline=SHORT)) as replica:
        fault = Fault(action=DropConnection(handled=True), verb="patch", resource="nodes", times=1)
        cluster.server.faults.add(fault)
        cluster.server.faults.add(Fault(action=DropConnection(), verb="patch", resource="nodes", times=None))
        cluster.server.faults.add(Fault(action=DropConnection(), verb="get", resource="nodes", times=None))
        cut = cluster.server.faults.add(Fault(action=DropConnection(), verb="watch", resource="nodes", times=None))
        cluster.server.cut_watches("nodes", abruptly=True)
        assert replica.acquire(cluster.pod("p")) != ""
        assert cluster.owner() == "p"
        cluster.server.faults.clear()
        assert cluster.server.faults.struck(cut) >= 0
        wait_for(lambda: cluster.lock() is None)
        wait_for(lambda: replica.released("write-unanswered") == 1)


# Several replicas


def test_b14_of_many_calls_of_two_replicas_one_has_the_lock_at_a_time(cluster: LockCluster) -> None:
    inside, most, order, guard = [0], [0], [], threading.Lock()

    def work(replica: LockReplica, pod: LockPod) -> None:
        assert replica.acquire(pod) == ""
        with guard:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            order.append(pod.name)
        assert cluster.owner() == pod.name
        cluster.bind(pod)
        with guard:
            inside[0] -= 1
        cluster.serve(pod)

    with leading(LockReplica(cluster, "one")) as one, leading(LockReplica(cluster, "two")) as two:
        threads = [
            threading.Thread(target=work, args=(replica, cluster.pod(f"{name}-{number}")))
            for number in range(6)
            for name, replica in (("one", one), ("two", two))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1]
    assert len(set(order)) == 12
    assert cluster.lock() is None


def test_a_new_leader_releases_what_a_killed_one_left_when_the_pod_is_deleted(cluster: LockCluster) -> None:
    pod, other = cluster.pod("p"), cluster.pod("other")
    with leading(LockReplica(cluster, "old")) as old:
        assert old.acquire(pod) == ""
    with leading(LockReplica(cluster, "new")) as new:
        waits = new.begin(other)
        assert cluster.owner() == "p"
        cluster.delete(pod)
        assert waits.result(PATIENCE) == ""
        assert new.released("deleted") == 1


def test_a_new_leader_releases_what_a_killed_one_left_when_the_plugin_never_answers(cluster: LockCluster) -> None:
    pod, other = cluster.pod("p"), cluster.pod("other")
    with leading(LockReplica(cluster, "old")) as old:
        assert old.acquire(pod) == ""
        cluster.bind(pod)
    with leading(LockReplica(cluster, "new", answer=SHORT)) as new:
        assert new.acquire(other) == ""
        assert cluster.owner() == "other"
        assert [name for name, _ in new.reports] == ["p"]


def test_a_new_leader_goes_on_with_a_pod_whose_call_the_killed_one_answered(cluster: LockCluster) -> None:
    pod = cluster.pod("p")
    with leading(LockReplica(cluster, "old")) as old:
        assert old.acquire(pod) == ""
    stamped = cluster.lock()
    with leading(LockReplica(cluster, "new")) as new:
        assert new.acquire(pod) == ""
        assert cluster.owner() == "p"
        assert cluster.lock() != stamped


def test_a_former_leader_that_still_runs_removes_no_lock_of_the_new_one(cluster: LockCluster) -> None:
    pod = cluster.pod("p")
    with leading(LockReplica(cluster, "old", answer=SHORT)) as old:
        assert old.acquire(pod) == ""
        with leading(LockReplica(cluster, "new")) as new:
            assert new.acquire(pod) == ""
            stamped = cluster.lock()
            old.locking.failed(N1, pod.uid)
            wait_for(lambda: old.value("node_lock_held_seconds_count") == 1)
            cluster.bind(pod)
            old.acquire(cluster.pod("other"), timeout=2 * SHORT)
            assert cluster.lock() == stamped


def test_nothing_of_a_bug_in_one_report_keeps_other_nodes_locked(cluster: LockCluster) -> None:
    with leading(LockReplica(cluster, answer=SHORT)) as replica, capture_logs() as logs:
        # Without its watch of nodes it reports all that ends from the thread that removes locks.
        cluster.server.faults.add(Fault(action=Refuse(500), verb="watch", resource="nodes", times=None))
        cluster.server.cut_watches("nodes", abruptly=True)
        replica.reports = _Broken()
        assert replica.acquire(cluster.pod("p")) == ""
        wait_for(lambda: cluster.lock() is None)
        assert replica.acquire(cluster.pod("q")) == ""
        wait_for(lambda: any(each["event"] == "node_lock_failed" for each in logs))


class _Broken(list[tuple[str, str]]):
    def append(self, _: tuple[str, str]) -> None:
        raise ValueError("a bug")
