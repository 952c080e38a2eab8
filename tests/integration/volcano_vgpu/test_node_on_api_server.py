"""The publisher and the scheduler's watch over HTTP, against the embedded API server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.kube.port import Selection
from hami_plugins.kube.reflector import Backoff
from hami_plugins.kube.store import Store
from hami_plugins.model.units import DeviceId
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.sandbox.apiserver.faults import Fault, Refuse
from hami_plugins.vendors.volcano import TOUCHED_KEY
from hami_plugins.vendors.volcano_releases import Version
from tests.unit.volcano_vgpu.cards import card, inventory, settings, uuid
from tests.waiting import PATIENCE, wait_for
from volcano_vgpu.agent.node import NodePublisher, trimmed
from volcano_vgpu.agent.scheduler import Leader, Needs, SchedulerWatch, WriteReason
from volcano_vgpu.core.publication import PublicationTiming
from volcano_vgpu.core.register import HANDSHAKE_KEY, REGISTER_KEY
from volcano_vgpu.core.settings import Scheduler

COUNT, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
MOMENT = timedelta(milliseconds=50)
QUICK = PublicationTiming(settle=MOMENT, interval=4 * MOMENT, grace=20 * MOMENT)
BACKOFF = Backoff(first=0.02, most=0.1)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases"
DEPLOYMENTS = "/apis/apps/v1/namespaces/volcano-system/deployments"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as running:
        yield running


@pytest.fixture
def api(server: ApiServer) -> Iterator[KubeClient]:
    client = connect_to(server.url, component="volcano-vgpu")
    client.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
    yield client
    client.close()


class Node:
    """A node on the server, its agent, and a kubelet that reports what is on offer."""

    def __init__(self, api: KubeClient, name: str) -> None:
        self.api, self.name = api, name
        self.offers: list[frozenset[DeviceId]] = []
        api.create(paths.NODES, {"metadata": {"name": name}})
        selection = Selection(paths.NODES, "Node", fields=f"metadata.name={name}")
        self.store = Store(api, selection, name=f"node-{name}", trim=trimmed, backoff=BACKOFF, timeout=1.0)
        chosen = settings(start_jitter=0.0).model_copy(update={"node": name})
        self.publisher = NodePublisher(api, self.store, chosen, on_offer=self.report, timing=QUICK, backoff=BACKOFF)

    def report(self, cards: frozenset[DeviceId]) -> None:
        self.offers.append(cards)
        number = {COUNT: str(10 * len(cards))}
        self.api.merge_patch(paths.node_status(self.name), {"status": {"capacity": number, "allocatable": number}})

    def read(self) -> Any:
        return self.api.get(paths.node(self.name))

    @property
    def annotations(self) -> dict[str, str]:
        return dict(self.read()["metadata"].get("annotations", {}))

    @property
    def capacity(self) -> dict[str, str]:
        return dict(self.read()["status"].get("capacity", {}))

    def settled(self, cards: int) -> bool:
        return len(self.publisher.offered) == cards and self.capacity.get(CORES) == str(100 * cards)


@pytest.fixture
def node(api: KubeClient) -> Iterator[Node]:
    made = Node(api, "n1")
    with made.store, made.publisher:
        yield made


def test_a_node_is_registered_by_two_writes_and_then_nothing_is_written(server: ApiServer, node: Node) -> None:
    node.publisher.publish(inventory(card(0), card(1)))
    wait_for(lambda: node.settled(2))
    assert node.capacity == {MEMORY: "81920", CORES: "200", COUNT: "20"}
    assert node.publisher.written == 2
    writes = server.requests.writes(resource="nodes")
    for _ in range(5):
        node.publisher.publish(inventory(card(0), card(1)))
        node.api.merge_patch(paths.node(node.name), {"metadata": {"labels": {"someone": "else"}}})
    assert node.publisher.written == 2
    assert server.requests.writes(resource="nodes") == writes + 5


def test_whatever_others_overwrite_is_repaired(node: Node) -> None:
    node.publisher.publish(inventory(card(0)))
    wait_for(lambda: node.settled(1))
    said = node.annotations
    node.api.merge_patch(paths.node(node.name), {"metadata": {"annotations": {REGISTER_KEY: None, HANDSHAKE_KEY: "x"}}})
    node.api.merge_patch(paths.node_status(node.name), {"status": {"capacity": {MEMORY: "0", CORES: "320k"}}})
    wait_for(lambda: node.settled(1) and node.capacity[MEMORY] == "40960")
    found = node.annotations
    assert {key: found[key] for key in (REGISTER_KEY, HANDSHAKE_KEY)} == {
        key: said[key] for key in (REGISTER_KEY, HANDSHAKE_KEY)
    }
    assert node.offers == [{uuid(0)}]


def test_two_writers_that_meet_are_both_heard(node: Node) -> None:
    node.publisher.publish(inventory(card(0)))
    for at in range(30):
        node.api.merge_patch(paths.node(node.name), {"metadata": {"annotations": {f"other/{at}": "x"}}})
        node.publisher.publish(inventory(*(card(number) for number in range(1 + at % 3))))
    wait_for(lambda: node.settled(3))
    assert sum(key.startswith("other/") for key in node.annotations) == 30


def test_a_server_that_refuses_for_a_while_is_asked_again(server: ApiServer, node: Node) -> None:
    server.faults.add(Fault(action=Refuse(403), verb="patch", resource="nodes", times=3))
    node.publisher.publish(inventory(card(0)))
    wait_for(lambda: node.settled(1))
    assert node.publisher.last_error == ""


def test_everything_is_taken_back(node: Node) -> None:
    node.publisher.publish(inventory(card(0)))
    wait_for(lambda: node.settled(1))
    assert node.publisher.withdraw(timeout=PATIENCE)
    assert node.annotations == {}
    assert node.capacity == {}
    assert node.offers == [{uuid(0)}, frozenset()]


def test_nodes_that_start_together_are_written_twice_each(server: ApiServer, api: KubeClient) -> None:
    nodes = [Node(api, f"many-{at}") for at in range(12)]
    with ExitStack() as running:
        for each in nodes:
            running.enter_context(each.store)
            running.enter_context(each.publisher)
            each.publisher.publish(inventory(card(0), card(1)))
        wait_for(lambda: all(each.settled(2) for each in nodes))
        assert [each.publisher.written for each in nodes] == [2] * 12


class Scheduling:
    """The events of the scheduler's watch."""

    def __init__(self, api: KubeClient, **chosen: Any) -> None:
        self.needs: list[Needs] = []
        self.leaders: list[tuple[str, bool]] = []
        self.watch = SchedulerWatch(
            api, Scheduler(**chosen), on_needs=self.needs.append, on_leader=self._led, backoff=BACKOFF
        )

    def _led(self, leader: Leader, fresh: bool) -> None:
        self.leaders.append((leader.identity, fresh))

    def __enter__(self) -> Scheduling:
        self.watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.stop()


def deployment(tag: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "volcano-scheduler"},
        "spec": {
            "selector": {"matchLabels": {"app": "s"}},
            "template": {
                "metadata": {"labels": {"app": "s"}},
                "spec": {"containers": [{"name": "s", "image": f"docker.io/volcanosh/vc-scheduler:{tag}"}]},
            },
        },
    }


def lease(holder: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"metadata": {"name": "volcano"}, "spec": {"holderIdentity": holder, "acquireTime": now, "renewTime": now}}


def test_the_version_is_that_of_the_deployment_and_looked_up_anew_with_each_leader(api: KubeClient) -> None:
    api.create(DEPLOYMENTS, deployment("v1.14.1"))
    api.create(LEASES, lease("vc-0"))
    with Scheduling(api) as seen:
        wait_for(lambda: seen.leaders)
        assert [needs.version for needs in seen.needs] == [Version(1, 14, 1)]
        api.merge_patch(f"{LEASES}/volcano", {"spec": {"renewTime": "2026-11-21T12:00:00.000000Z"}})
        api.merge_patch(f"{DEPLOYMENTS}/volcano-scheduler", deployment("v1.16.0"))
        api.merge_patch(f"{LEASES}/volcano", lease("vc-1"))
        wait_for(lambda: len(seen.leaders) == 2)
        assert seen.leaders == [("vc-0", False), ("vc-1", True)]
        assert [needs.version for needs in seen.needs] == [Version(1, 14, 1), Version(1, 16, 0)]
        assert not seen.watch.needs.handshake


def test_a_lease_that_comes_later_is_seen_and_one_without_a_holder_is_nobodys(api: KubeClient) -> None:
    with Scheduling(api, version="1.14.1") as seen:
        api.create(LEASES, lease(""))
        api.merge_patch(f"{LEASES}/volcano", lease("vc-0"))
        wait_for(lambda: seen.leaders)
        api.delete(f"{LEASES}/volcano")
        api.create(LEASES, lease("vc-1"))
        wait_for(lambda: seen.leaders[-1] == ("vc-1", True))
        assert [needs.version for needs in seen.needs] == [Version(1, 14, 1)]


@pytest.mark.parametrize("fault", [None, Refuse(403)])
def test_a_scheduler_that_cannot_be_looked_up_needs_everything(
    server: ApiServer, api: KubeClient, fault: Refuse | None
) -> None:
    if fault is not None:
        server.faults.add(Fault(action=fault, resource="deployments"))
    else:
        with pytest.raises(KubeError):
            api.get(f"{DEPLOYMENTS}/volcano-scheduler")
    with Scheduling(api) as seen:
        assert seen.needs == [Needs(None, Scheduler())]
        assert seen.watch.needs.handshake
        assert seen.watch.needs.touch(WriteReason.BIND)


def test_a_version_that_could_not_be_read_at_first_is_read_once_somebody_leads(api: KubeClient) -> None:
    with Scheduling(api) as seen:
        api.create(DEPLOYMENTS, deployment("v1.14.3"))
        api.create(LEASES, lease("vc-0"))
        wait_for(lambda: seen.leaders == [("vc-0", False)])
        assert [needs.version for needs in seen.needs] == [None, Version(1, 14, 3)]


def test_a_restart_of_the_scheduler_makes_the_node_be_written_once(
    api: KubeClient, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volcano_vgpu.agent.node.FIRST_SESSION", MOMENT)
    api.create(LEASES, lease("vc-0"))
    watch = SchedulerWatch(
        api,
        Scheduler(version="1.14.1"),
        on_needs=node.publisher.adapt,
        on_leader=node.publisher.led_by,
        backoff=BACKOFF,
    )
    watch.start()
    node.publisher.publish(inventory(card(0)))
    wait_for(lambda: node.settled(1) and watch.leader is not None)
    before = node.publisher.written
    api.merge_patch(f"{LEASES}/volcano", lease("vc-1"))
    wait_for(lambda: "scheduler-restarted" in node.annotations[TOUCHED_KEY])
    assert node.publisher.written - before <= 2
    watch.stop()


def test_a_restored_store_is_followed_and_a_broken_register_repaired(
    server: ApiServer, node: Node, api: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions go back: the newest by its number no longer exists."""
    monkeypatch.setattr("hami_plugins.kube.reflector._SILENT", 0.5)
    broken = int(node.read()["metadata"]["resourceVersion"])
    words = node.publisher.publish(inventory(card(0)))
    wait_for(lambda: node.settled(1))
    server.restore(broken)
    wait_for(lambda: node.annotations.get(REGISTER_KEY) == words.annotations[REGISTER_KEY])
    wait_for(lambda: node.settled(1))


def test_what_a_write_meets_after_a_restore_counts_although_the_watch_says_nothing_yet(
    server: ApiServer, node: Node
) -> None:
    before = int(node.read()["metadata"]["resourceVersion"])
    node.publisher.publish(inventory(card(0)))
    wait_for(lambda: node.settled(1))
    server.restore(before)
    node.publisher.publish(inventory(card(0), card(1)))
    wait_for(lambda: node.settled(2))
