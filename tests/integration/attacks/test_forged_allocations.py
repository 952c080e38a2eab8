"""No user raises, forges or inflates an allocation: the server, the agent, an API server and a kubelet together.

The embedded API server has no admission policy, so every write of an annotation succeeds here.
"""

from __future__ import annotations

import base64
import itertools
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from tests.integration.attacks.forgeries import CORES, IDS, LEFT, MEMORY, NODE, SIDECAR, WAYS, Forgery, Outcome, When
from tests.integration.attacks.forgeries import MORE as MORE_KEY
from tests.integration.attacks.forgeries import Write as Writes
from tests.integration.volcano_vgpu.granting.servers import Client, Site
from tests.integration.volcano_vgpu.machines import NODE as NAME
from tests.integration.volcano_vgpu.machines import Machine, container, machine
from tests.waiting import wait_for
from volcano_vgpu.app import Agent
from volcano_vgpu.granting import manifests

CARDS = [{"uuid": f"GPU-{name * 8}-{at}", "model": "NVIDIA A100", "memory": 40960} for at, name in enumerate("abc")]
A, B, SICK = (str(card["uuid"]) for card in CARDS)
BROKEN = {**CARDS[2], "problems": ["XID 79: fallen off the bus"]}
WAIT = {"name": "wait", "image": "x", "command": ["sleep", "600"]}


class Cluster:
    """One node with its agent, and the server that answers Bindings."""

    def __init__(self, node: Machine, site: Site, server: Client) -> None:
        self.node, self.site, self.server = node, site, server
        self.names = (f"pod-{at}" for at in itertools.count())
        self.agent: Agent = node.start_agent()
        node.wait_ready(self.agent, 20)

    def restart_agent(self) -> None:
        self.agent.stop()
        self.agent = self.node.start_agent()
        wait_for(lambda: not self.agent.trouble, "the agent is ready again")

    def create(self, body: Mapping[str, Any]) -> str:
        return self.node.create(body)

    def annotate(self, name: str, annotations: Mapping[str, str | None], write: Writes = Writes.POD) -> None:
        place = paths.pod("default", name) + ("/status" if write is Writes.STATUS else "")
        self.node.api.merge_patch(place, {"metadata": {"annotations": annotations}})

    def annotations(self, name: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self.node.pod(name)["metadata"].get("annotations") or {}
        return found

    def bind(self, name: str, annotations: Mapping[str, str | None] | None = None) -> None:
        """A Binding as a scheduler sends it; the server answers with the allocation."""
        uid = self.node.pod(name)["metadata"]["uid"]
        told = {"name": name, "uid": uid, "annotations": dict(annotations or {})}
        body = {"metadata": told, "target": {"kind": "Node", "name": NAME}}
        self.node.api.create(paths.pod_binding("default", name), body)

    def remove(self, name: str) -> None:
        if self.node.find_pod(name) is not None:
            uid = self.node.pod(name)["metadata"]["uid"]
            self.node.server.delete("pods", name, "default", grace=0)
            wait_for(lambda: self.agent.pods.get(uid) is None, "the pod is gone")

    def seen(self, uid: str) -> str:
        """The version of a pod that the agent has."""
        return str(((self.agent.pods.get(uid) or {}).get("metadata") or {}).get("resourceVersion") or "")

    def started(self, uid: str, name: str = "main") -> list[Mapping[str, str]]:
        return [each.env for each in self.node.kubelet.containers(uid, name)]

    def begin(self, uid: str) -> None:
        """The init container that holds the pod back ends."""
        wait_for(lambda: self.node.kubelet.containers(uid, "wait"), "it waits")
        assert self.node.kubelet.finish(uid, "wait")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = Path(tempfile.mkdtemp(prefix="vg"))
    try:
        with machine(root) as node:
            node.write_cards(CARDS[0], CARDS[1], BROKEN)
            site = Site(node.server, tmp_path_factory.mktemp("site"))
            server = site.start()
            authority = base64.b64encode((site.folder / "tls.crt").read_bytes()).decode()
            address = server.server.webhook_address
            assert address is not None
            url = f"https://localhost:{address[1]}"
            site.put(manifests.webhooks(manifests.Target(namespace="grants-system", url=url, ca=authority)))
            made = Cluster(node, site, server)
            wait_for(lambda: server.server.snapshot() and len(_cards(server)) == 2, "the server knows the cards")
            yield made
            made.agent.stop()
            site.stop()
    finally:
        shutil.rmtree(root)


def _cards(server: Client) -> tuple[str, ...]:
    found = server.server.snapshot()
    return () if found is None else tuple(card for entry in found.nodes for card in entry.ids)


@pytest.fixture
def name(cluster: Cluster) -> Iterator[str]:
    found = next(cluster.names)
    yield found
    cluster.remove(found)


def a_pod(name: str, way: Forgery | None = None, **spec: Any) -> dict[str, Any]:
    main = container(memory=MEMORY, cores=CORES)
    if way is not None and not way.requests:
        main["resources"] = {}
    scheduler = "volcano" if way is None else way.scheduler
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "annotations": {}},
        "spec": {"initContainers": [WAIT], "containers": [main], **spec},
    }
    if scheduler:
        body["spec"]["schedulerName"] = scheduler
    return body


def attacked(cluster: Cluster, name: str, way: Forgery) -> tuple[str, str]:
    """Carries the way out up to the start of the container: the pod's UID, and the card that it was bound with."""
    before = way.written(own=A, other=B, sick=SICK, node=NAME)
    body = a_pod(name, way)
    if way.when in (When.CREATION, When.TEMPLATE):
        body["metadata"]["annotations"] = before
    if way.when in (When.CREATION, When.PLACED):
        body["spec"]["nodeName"] = NAME
    uid = cluster.create(body)
    if way.when is When.WAITING:
        cluster.annotate(name, before, way.write)
    if way.when is not When.PLACED:
        cluster.bind(name, before if way.when is When.BINDING else None)
    own = cluster.annotations(name).get(IDS, A).partition(",")[0]
    now = way.written(own=own, other=B if own == A else A, sick=SICK, node=NAME)
    wait_for(lambda: cluster.node.kubelet.containers(uid, "wait"), "the node has admitted it")
    wait_for(lambda: cluster.seen(uid), "the agent has seen it")
    if way.when is When.RESTART:
        cluster.agent.stop()
    if way.when in (When.WINDOW, When.PLACED, When.RESTART):
        cluster.annotate(name, now, way.write)
    if way.when is When.RESTART:
        cluster.restart_agent()
    version = int(cluster.node.pod(name)["metadata"]["resourceVersion"])
    # The kubelet and the server go on writing, so that the agent may be ahead of what was read here.
    wait_for(lambda: int(cluster.seen(uid) or 0) >= version, "the agent has seen what was written")
    cluster.begin(uid)
    return uid, own


def within_request(env: Mapping[str, str], card: str) -> bool:
    """Whether a container has the card that its pod was bound with, and no more of it than it requests."""
    return (
        env["NVIDIA_VISIBLE_DEVICES"] == card
        and env["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{MEMORY}m"
        and "CUDA_DEVICE_MEMORY_LIMIT_1" not in env
        and env["CUDA_DEVICE_SM_LIMIT"] == str(CORES)
    )


def of(*outcomes: Outcome, running: bool = False) -> pytest.MarkDecorator:
    ways = [each for each in WAYS if each.outcome in outcomes and (each.when is When.RUNNING) is running]
    return pytest.mark.parametrize("way", ways, ids=str)


def test_there_are_many_ways_and_each_is_one_of_its_kind() -> None:
    assert len({str(each) for each in WAYS}) == len(WAYS) >= 40


@of(Outcome.REFUSED)
def test_a_pod_that_brings_its_node_and_an_allocation_is_not_created(cluster: Cluster, name: str, way: Forgery) -> None:
    with pytest.raises(KubeError, match="which only a scheduler writes") as refused:
        attacked(cluster, name, way)
    assert refused.value.status == 403
    assert cluster.node.find_pod(name) is None


@of(Outcome.NEVER)
def test_a_forged_allocation_does_not_start_and_the_pod_says_why(cluster: Cluster, name: str, way: Forgery) -> None:
    uid, _ = attacked(cluster, name, way)
    told = wait_for(lambda: cluster.started(uid) or cluster.node.waits(name), "the container starts or says why not")
    assert not cluster.started(uid), told
    assert f"pod default/{name}" in str(told)


@of(Outcome.AS_BOUND)
def test_what_is_written_before_the_binding_has_no_effect(cluster: Cluster, name: str, way: Forgery) -> None:
    uid, own = attacked(cluster, name, way)
    env = cluster.node.started(uid)
    assert within_request(env, own)


@of(Outcome.AS_BOUND, running=True)
def test_a_running_pod_changes_nothing_and_blocks_no_other(cluster: Cluster, name: str, way: Forgery) -> None:
    uid = cluster.create(a_pod(name))
    cluster.bind(name)
    own = cluster.annotations(name)[IDS].partition(",")[0]
    cluster.begin(uid)
    assert within_request(cluster.node.started(uid), own)
    cluster.annotate(name, way.written(own=own, other=B if own == A else A, sick=SICK, node=NAME))
    neighbour = next(cluster.names)
    try:
        body = a_pod(neighbour)
        body["spec"]["containers"] = [container(memory=40960 - MEMORY, cores=50)]
        body["metadata"]["annotations"]["volcano.sh/vgpu-use-gpuuuid"] = own
        beside = cluster.create(body)
        cluster.bind(neighbour)
        cluster.begin(beside)
        assert cluster.node.started(beside)["NVIDIA_VISIBLE_DEVICES"] == own
    finally:
        cluster.remove(neighbour)
    assert cluster.node.kubelet.finish(uid, "main", exit_code=1)
    wait_for(lambda: cluster.node.waits(name) or len(cluster.started(uid)) > 1, "it starts again or says why not")
    assert all(within_request(env, own) for env in cluster.started(uid))


@pytest.mark.parametrize("always", [{}, SIDECAR], ids=["init container", "sidecar"])
def test_init_containers_and_sidecars_get_no_more_than_they_request(
    cluster: Cluster, name: str, always: dict[str, str]
) -> None:
    first = {**container("first", memory=MEMORY, cores=CORES), **always}
    uid = cluster.create(a_pod(name, initContainers=[WAIT, first]))
    cluster.bind(name)
    listed = cluster.annotations(name)[MORE_KEY]
    assert listed.startswith("first=GPU-")
    cluster.annotate(name, {MORE_KEY: listed.replace(f",{MEMORY},{CORES}:", ",40960,0:")})
    cluster.begin(uid)
    told = wait_for(lambda: cluster.node.waits(name, "first") or cluster.started(uid, "first"), "it says why not")
    assert not cluster.started(uid, "first"), told


def test_the_server_counts_a_forged_pod_with_its_request_and_tells_of_it(cluster: Cluster, name: str) -> None:
    """It comes bound as a server that was away finds it."""
    forged = {IDS: f"{A},NVIDIA,40960,100:", LEFT: f"{A},NVIDIA,40960,100:", NODE: NAME}
    body = a_pod(name, nodeName=NAME)
    body["metadata"]["annotations"] = forged
    cluster.node.server.put({"apiVersion": "v1", "kind": "Pod", **body})

    def used() -> list[int]:
        found = cluster.server.server.snapshot()
        assert found is not None
        return [held.memory for entry in found.nodes for held in entry.state.usage if held.memory]

    assert wait_for(used, "the server has seen the pod") == [MEMORY]


def test_a_pod_that_only_brings_its_node_and_one_that_only_brings_an_allocation_are_created(
    cluster: Cluster, name: str
) -> None:
    other = next(cluster.names)
    plain = a_pod(name, nodeName=NAME)
    plain["spec"]["containers"][0]["resources"] = {}
    copied = a_pod(other)
    copied["metadata"]["annotations"] = {IDS: f"{A},NVIDIA,40960,100:"}
    try:
        assert cluster.create(plain)
        assert cluster.create(copied)
    finally:
        cluster.remove(other)
