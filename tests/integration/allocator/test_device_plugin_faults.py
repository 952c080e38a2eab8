"""What goes wrong between the allocator and HAMi's device plugins: no pod is served as another one, no lock stays."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from hami_plugins.allocator.node_lock_calls import NodeLocking
from hami_plugins.sandbox.apiserver.faults import DropConnection, Fault, Refuse
from tests.cluster.api import Api
from tests.device_plugins.base import DevicePlugin, PluginError
from tests.device_plugins.early import nvidia_2_4
from tests.device_plugins.kubelets import SilentPlugin
from tests.device_plugins.scheduler import HamiScheduler
from tests.integration.allocator.device_plugin_sites import (
    DCU_LIMITS,
    HamiCluster,
    Raw,
    a_pod,
    dcu_node,
    hami,
    with_hygon,
    with_nvidia,
)
from tests.integration.allocator.hami_pods import ALLOCATED, LOCK, PHASE, TO_ALLOCATE, VENDORS
from tests.integration.allocator.hami_pods import a_node as nvidia_node
from tests.integration.volcano_vgpu.allocation.servers import LEASE, Client
from tests.waiting import wait_for

THEIRS = "2026-11-24T00:00:00Z,default,theirs"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device plugins have a second to answer."""
    monkeypatch.setattr("hami_plugins.allocator.leader.NodeLocking", partial(NodeLocking, answer=1.0))


def served(cluster: HamiCluster, *pods: Raw, node: str = "n1") -> None:
    """These pods are bound and served, each with its own devices, and no lock stays."""
    with cluster.kubelets({node: with_nvidia(cluster.api, node)}) as kubelets:
        for pod in pods:
            assert cluster.bind(pod, node) == ""
        names = {pod["metadata"]["name"] for pod in pods}
        wait_for(lambda: names <= {each.pod for each in kubelets.served})
        wait_for(cluster.no_locks)
    assert not kubelets.refused
    assert all(each.right for each in kubelets.served)


# Plugins and pods


@pytest.mark.usefixtures("hasty")
def test_a_plugin_that_never_answers_holds_up_the_next_pod_for_its_time_and_is_reported(tmp_path: Path) -> None:
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        silent, next_one = cluster.create(a_pod("silent"), a_pod("next"))
        plugin = SilentPlugin()
        with cluster.kubelets({"n1": {"nvidia.com/gpu": plugin}}):
            assert cluster.bind(silent, "n1") == ""
            assert plugin.asked.wait(60)
            assert cluster.bind(next_one, "n1") == ""
            assert cluster.owner("n1") == "next"
            plugin.speak()
        wait_for(lambda: "DevicePluginUnanswered" in cluster.events("silent"))
        assert cluster.notes("silent")[PHASE] == "failed"


def test_a_pod_that_is_deleted_on_its_way_to_the_plugin_gives_its_lock_back(tmp_path: Path) -> None:
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        gone, next_one = cluster.create(a_pod("gone"), a_pod("next"))
        assert cluster.bind(gone, "n1") == ""
        cluster.place.server.delete("pods", "gone", "default", grace=0)
        served(cluster, next_one)


@pytest.mark.parametrize("with_early", [with_hygon, lambda api, node: {"nvidia.com/gpu": nvidia_2_4(api, node)}])
def test_a_pod_that_failed_before_its_plugin_was_asked_is_not_taken_for_the_next_one(
    tmp_path: Path, with_early: Callable[[Api, str], dict[str, DevicePlugin]]
) -> None:
    """Plugins that do not read the lock take the first pod that is ``allocating``, ended or not."""
    limits = [DCU_LIMITS] if with_early is with_hygon else []
    node, vendor = (dcu_node, "DCU") if with_early is with_hygon else (nvidia_node, "NVIDIA")
    with hami(tmp_path, node("n1"), vendors=[vendor]) as cluster:
        first, second = cluster.create(a_pod("a", *limits), a_pod("b", *limits))
        with cluster.kubelets(cluster.plugins(with_early), before=partial(_refuse, "a")) as kubelets:
            assert cluster.bind(first, "n1") == ""
            assert cluster.bind(second, "n1") == ""
            wait_for(lambda: kubelets.of("b"))
            wait_for(cluster.no_locks)
    assert kubelets.refused == {"a": "Pod was rejected: OutOfcpu"}
    assert all(each.right for each in kubelets.served)


def _refuse(name: str, pod: Raw) -> None:
    if pod["metadata"]["name"] == name:
        raise PluginError("Pod was rejected: OutOfcpu")


def test_a_node_that_is_deleted_refuses_the_pods_that_wait_for_its_lock(tmp_path: Path) -> None:
    with hami(tmp_path, nvidia_node("n1")) as cluster, ThreadPoolExecutor(1) as calls:
        first, second = cluster.create(a_pod("first"), a_pod("second"))
        assert cluster.bind(first, "n1") == ""
        waits = calls.submit(cluster.bind, second, "n1")
        wait_for(lambda: cluster.place.value(cluster.client, "node_lock_waiting") == 1)
        cluster.place.server.delete("nodes", "n1")
        assert waits.result() == "node n1: the node does not exist"


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("code", [403, 500])
def test_a_pod_that_cannot_be_marked_as_failed_keeps_no_lock(tmp_path: Path, code: int) -> None:
    """Without the right to patch pods the lock is removed nevertheless; a fault that passes is waited for."""
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        silent, next_one = cluster.create(a_pod("silent"), a_pod("next"))
        times = None if code == 403 else 1
        cluster.place.server.faults.add(Fault(action=Refuse(code), verb="patch", resource="pods", times=times))
        assert cluster.bind(silent, "n1") == ""
        assert cluster.bind(next_one, "n1") == ""
        assert cluster.notes("silent")[PHASE] == ("allocating" if code == 403 else "failed")


# Locks of other clients


def test_a_lock_of_a_pod_that_is_gone_is_replaced_at_once(tmp_path: Path) -> None:
    with hami(tmp_path, _locked(nvidia_node("n1"), "2026-11-24T00:00:00Z,default,gone")) as cluster:
        served(cluster, *cluster.create(a_pod("p")))


def _locked(node: Raw, lock: str) -> Raw:
    node["metadata"]["annotations"][LOCK] = lock
    return node


def test_a_lock_of_hamis_own_scheduler_is_waited_for_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hami_plugins.allocator.pod_locks.WAIT_SECONDS", 0.2)
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        _, pod = cluster.create(a_pod("theirs"), a_pod("p"))
        cluster.annotate_node("n1", lock=THEIRS)
        wait_for(lambda: "default/theirs" in cluster.bind(pod, "n1"))
        assert "nodeName" not in cluster.pod("p")["spec"]
        assert cluster.lock("n1") == THEIRS
        cluster.place.server.delete("pods", "theirs", "default", grace=0)
        wait_for(lambda: cluster.bind(pod, "n1") == "")


def test_hamis_own_scheduler_and_the_allocator_bind_to_one_node_and_no_pod_is_served_as_another_one(
    tmp_path: Path,
) -> None:
    count = 6
    with hami(tmp_path, nvidia_node("n1", cards=6)) as cluster:
        pods = cluster.create(*(a_pod(f"p{at:02}") for at in range(2 * count)))
        theirs = HamiScheduler(cluster.api)
        for at, pod in enumerate(pods[:count]):
            text = f"GPU-n1-{at},NVIDIA,1000,0:;"
            theirs.filter(pod, "n1", {TO_ALLOCATE: text, ALLOCATED: text})
        with cluster.kubelets(cluster.plugins(with_nvidia)) as kubelets, ThreadPoolExecutor(2 * count) as calls:
            asked = [partial(_bound_by, theirs, pod) for pod in pods[:count]]
            asked += [partial(_bound, cluster, pod) for pod in pods[count:]]
            assert all(calls.map(wait_for, asked))
            wait_for(lambda: len(kubelets.served) == 2 * count)
            wait_for(cluster.no_locks)
        assert not kubelets.refused
        for each in kubelets.served:
            assert each.right, each
            assert f"{','.join(each.answer.devices)}:;" == cluster.notes(each.pod)[ALLOCATED]


def _bound_by(scheduler: HamiScheduler, pod: Raw) -> bool:
    return scheduler.bind(pod, "n1") == ""


# Replicas


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("again", [True, False], ids=["tried again", "given up"])
def test_the_next_leader_takes_up_a_lock_whose_pod_was_not_bound(tmp_path: Path, again: bool) -> None:
    """The allocator ends between lock and Binding: it is unknown there whether the Binding was carried out."""
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        pod, other = cluster.create(a_pod("p"), a_pod("other"))
        cluster.place.server.faults.add(Fault(action=Refuse(500), subresource="binding"))
        assert "500" in cluster.bind(pod, "n1")
        assert cluster.owner("n1") == "p"
        _next_leader(cluster)
        served(cluster, *([pod] if again else []), other)


def test_the_next_leader_waits_for_the_plugin_of_a_pod_that_its_predecessor_bound(tmp_path: Path) -> None:
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        pod, other = cluster.create(a_pod("p"), a_pod("other"))
        assert cluster.bind(pod, "n1") == ""
        _next_leader(cluster)
        with ThreadPoolExecutor(1) as calls:
            waits = calls.submit(cluster.bind, other, "n1")
            wait_for(lambda: cluster.place.value(cluster.client, "node_lock_waiting") == 1)
            assert cluster.owner("n1") == "p"
            with cluster.kubelets(cluster.plugins(with_nvidia)) as kubelets:
                assert waits.result() == ""
                wait_for(lambda: len(kubelets.served) == 2)
                wait_for(cluster.no_locks)
    assert [each.pod for each in kubelets.served] == ["p", "other"]
    assert all(each.right for each in kubelets.served)


def _next_leader(cluster: HamiCluster) -> None:
    cluster.place.end(cluster.client)
    cluster.place.clients.remove(cluster.client)
    cluster.client = cluster.place.start("two", vendors=VENDORS)
    cluster.place.install(cluster.client, vendors=VENDORS)


def test_two_leaders_at_once_serve_no_pod_as_another_one(tmp_path: Path) -> None:
    """Each believes that the lease is its own, as a former leader does until it notices."""
    count = 12
    with hami(tmp_path, nvidia_node("n1", cards=6)) as cluster:
        other = cluster.place.start("two", vendors=VENDORS, lease={**LEASE, "name": "other"})
        pods = cluster.create(*(a_pod(f"p{at:02}") for at in range(count)))
        with cluster.kubelets(cluster.plugins(with_nvidia)) as kubelets, ThreadPoolExecutor(count) as calls:
            clients = (cluster.client, other)
            assert all(
                calls.map(lambda at: wait_for(partial(_bound, cluster, pods[at], clients[at % 2])), range(count))
            )
            wait_for(lambda: len(kubelets.served) == count)
            wait_for(cluster.no_locks)
    assert not kubelets.refused
    assert all(each.right for each in kubelets.served)


# The API server


@pytest.mark.parametrize(
    "action",
    [Refuse(409), Refuse(429), Refuse(500), DropConnection(), DropConnection(handled=True)],
    ids=["409", "429", "500", "lost", "answer lost"],
)
def test_a_write_of_a_lock_that_fails_loses_no_pod_and_leaves_no_lock(
    tmp_path: Path, action: Refuse | DropConnection
) -> None:
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        pods = cluster.create(a_pod("p"), a_pod("q"))
        fault = Fault(action=action, verb="patch", resource="nodes", agent="allocator", times=2)
        cluster.place.server.faults.add(fault)
        with cluster.kubelets(cluster.plugins(with_nvidia)) as kubelets:
            for pod in pods:
                wait_for(partial(_bound, cluster, pod))
            wait_for(lambda: len(kubelets.served) == 2)
            wait_for(cluster.no_locks)
    assert not kubelets.refused
    assert all(each.right for each in kubelets.served)


def _bound(cluster: HamiCluster, pod: Raw, client: Client | None = None) -> bool:
    return cluster.bind(pod, "n1", client) == ""
