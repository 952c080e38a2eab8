"""Schedulers that bind pods themselves: the webhook on Bindings also makes their pods wait for the node's lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hami_plugins.allocator.pod_locks import BindingSeats
from hami_plugins.model.units import NodeName
from tests.cluster.api import ApiError
from tests.device_plugins.base import notes_of, path_of
from tests.integration.allocator.device_plugin_sites import (
    ALLOCATOR,
    NVIDIA_LIMITS,
    HamiCluster,
    Raw,
    a_pod,
    hami,
    with_nvidia,
)
from tests.integration.allocator.hami_pods import ALLOCATED, PHASE, TIME
from tests.integration.allocator.hami_pods import a_node as nvidia_node
from tests.waiting import wait_for

WAIT = "hami_plugins.allocator.pod_locks"
NEITHER: Mapping[str, str] = {}


def sent(cluster: HamiCluster, pod: Raw, node: str, annotations: Mapping[str, str] = NEITHER, **query: str) -> None:
    """A Binding as kube-scheduler makes it, without annotations, or as Volcano does, with the pod's."""
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")} | {"annotations": dict(annotations)}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    cluster.api.request("POST", f"{path_of(pod)}/binding", body, query=query)


def post(cluster: HamiCluster, pod: Raw, node: str, annotations: Mapping[str, str] = NEITHER, **query: str) -> int:
    """The status of the answer to one."""
    try:
        sent(cluster, pod, node, annotations, **query)
    except ApiError as error:
        return error.status
    return 201


def bound_in_the_end(cluster: HamiCluster, pods: Sequence[Raw], nodes: Sequence[str], *, carried: bool) -> None:
    """A scheduler binds all pods at once, and tries those again that are refused."""

    def one(at: int) -> None:
        pod = pods[at]
        notes = notes_of(pod) if carried else {}
        wait_for(lambda: post(cluster, pod, nodes[at % len(nodes)], notes) == 201)

    with ThreadPoolExecutor(len(pods)) as calls:
        list(calls.map(one, range(len(pods))))


@pytest.mark.parametrize(
    ("scheduler", "carried"), [("hami-scheduler", False), ("volcano", True)], ids=["kube-scheduler", "volcano"]
)
def test_pods_of_a_scheduler_that_binds_itself_are_each_served_with_their_own_devices(
    tmp_path: Path, scheduler: str, carried: bool
) -> None:
    nodes, count = ("n1", "n2"), 16
    with hami(tmp_path, *map(nvidia_node, nodes)) as cluster:
        sizes = [{**NVIDIA_LIMITS, "nvidia.com/gpumem": str(1000 + at)} for at in range(count)]
        pods = cluster.create(*(a_pod(f"p{at}", each, scheduler=scheduler) for at, each in enumerate(sizes)))
        with cluster.kubelets(cluster.plugins(with_nvidia)) as kubelets:
            bound_in_the_end(cluster, pods, nodes, carried=carried)
            wait_for(lambda: len(kubelets.served) == count)
            wait_for(cluster.no_locks)
        requests = cluster.place.server.requests
        assert requests.writes(resource="nodes", agent=ALLOCATOR, code=200) == count
        assert not kubelets.refused
        for served in kubelets.served:
            assert served.right, served
            notes = cluster.notes(served.pod)
            assert f"{','.join(served.answer.devices)}:;" == notes[ALLOCATED]
            assert (notes[PHASE], notes[TIME].isdecimal()) == ("success", True)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call waits long inside the API server."""
    monkeypatch.setattr(f"{WAIT}.MARKED_SECONDS", 0.3)
    monkeypatch.setattr(f"{WAIT}.UNMARKED_SECONDS", 0.3)


@pytest.mark.usefixtures("short")
def test_a_binding_whose_lock_is_not_free_in_time_is_refused_and_its_devices_are_free(tmp_path: Path) -> None:
    whole = {"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "100"}
    with hami(tmp_path, nvidia_node("n1"), nvidia_node("n2")) as cluster:
        first, late, other = cluster.create(a_pod("first", NVIDIA_LIMITS), a_pod("late"), a_pod("other", whole))
        assert post(cluster, first, "n1") == 201
        assert cluster.owner("n1") == "first"
        with pytest.raises(ApiError, match=r"pod default/first has had hami.io/mutex.lock for .* try again") as refused:
            sent(cluster, late, "n1")
        assert refused.value.status == 503
        assert "nodeName" not in cluster.pod("late")["spec"]
        cluster.place.server.delete("pods", "first", "default", grace=0)
        wait_for(cluster.no_locks)
        wait_for(lambda: post(cluster, other, "n1") == 201)


def test_a_dry_run_takes_no_lock(tmp_path: Path) -> None:
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        (pod,) = cluster.create(a_pod("p"))
        assert post(cluster, pod, "n1", dryRun="All") == 201
        assert cluster.lock("n1") is None
        assert cluster.lock_writes() == 0


def test_the_webhook_does_not_wait_for_a_pod_that_has_its_lock(tmp_path: Path) -> None:
    """The server's own Bindings come back to it; they must not take the places of those that wait."""
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        (pod,) = cluster.create(a_pod("p"))
        assert cluster.bind(pod, "n1") == ""
        waits = cluster.place.value(cluster.client, "node_lock_wait_seconds_count", outcome="held")
    assert waits == 1


@pytest.mark.usefixtures("short")
def test_a_foreign_lock_is_respected_by_bindings_as_well(tmp_path: Path) -> None:
    with hami(tmp_path, nvidia_node("n1")) as cluster:
        _, pod = cluster.create(a_pod("theirs"), a_pod("p"))
        lock = "2026-11-24T00:00:00Z,default,theirs"
        cluster.annotate_node("n1", lock=lock)
        assert post(cluster, pod, "n1") == 503
        assert cluster.lock("n1") == lock
        cluster.annotate_node("n1", lock=None)
        wait_for(lambda: post(cluster, pod, "n1") == 201)


def test_seats_inside_the_api_server_are_limited_for_each_node_and_for_all() -> None:
    seats, names = BindingSeats(), [NodeName(f"n{at}") for at in range(5)]
    held = []

    def take(node: NodeName) -> str:
        seat = seats.taken(node)
        held.append(seat)
        return seat.__enter__()

    assert [take(names[0]) for _ in range(16)] == [""] * 16
    assert take(names[0]) == "16 Bindings wait for the lock of the node already; try again"
    assert {take(names[1 + at % 4]) for at in range(48)} == {""}
    assert take(names[4]) == "64 Bindings wait for locks of nodes already; try again"
    held[0].__exit__(None, None, None)
    assert take(names[4]) == ""
