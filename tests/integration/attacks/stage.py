"""One node with its agent and the server that answers Bindings, and the ways of ``forgeries`` carried out on them.

The API server is the embedded one, or a real one.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.allocator.server import AllocatorServer
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient
from tests.integration.attacks.forgeries import CORES, IDS, MEMORY, WAYS, Forgery, Outcome, When, Write
from tests.integration.volcano_vgpu.machines import EmulatedNode, container
from tests.unit.allocator.products import target
from tests.unit.allocator.products import webhooks as hooks
from tests.waiting import wait_for
from volcano_vgpu.agent.app import Agent

A, B, SICK = "GPU-aaaaaaaa-0", "GPU-bbbbbbbb-1", "GPU-cccccccc-2"
_CARD = {"model": "NVIDIA A100", "memory": 40960}
CARDS = (
    {"uuid": A, **_CARD},
    {"uuid": B, **_CARD},
    {"uuid": SICK, **_CARD, "problems": ["XID 79: fallen off the bus"]},
)
WAIT = {"name": "wait", "image": "x", "command": ["sleep", "600"]}


@dataclass(kw_only=True)
class Stage:
    """``owner`` writes as the owner of the pods does, the ``node`` as an administrator; ``agent`` runs."""

    node: EmulatedNode
    owner: KubeClient
    agent: Agent
    server: AllocatorServer
    names: Iterator[str] = field(default_factory=lambda: (f"pod-{at}" for at in itertools.count()))

    def cards(self) -> tuple[str, ...]:
        """The healthy cards of the node that the server knows."""
        found = self.server.snapshot()
        entries = () if found is None else found.nodes
        return tuple(card for entry in entries if entry.name == self.node.name for card in entry.ids)

    def wait_ready(self) -> None:
        self.node.wait_ready(self.agent, 20)
        wait_for(lambda: len(self.cards()) == 2, "the server knows the healthy cards")

    def restart_agent(self) -> None:
        self.agent.stop()
        self.agent = self.node.start_agent()
        wait_for(lambda: not self.agent.trouble, "the agent is ready again")

    def create(self, body: Mapping[str, Any]) -> str:
        """Creates a pod that fits on this node alone, where a scheduler runs, and gives its UID."""
        spec = {**body["spec"], "nodeSelector": {"kubernetes.io/hostname": self.node.name}}
        body = {**body, "spec": spec}
        return str(self.owner.create(paths.pods(self.node.namespace), body)["metadata"]["uid"])

    def annotate(self, name: str, annotations: Mapping[str, str | None], write: Write = Write.POD) -> None:
        place = paths.pod(self.node.namespace, name) + ("/status" if write is Write.STATUS else "")
        self.owner.merge_patch(place, {"metadata": {"annotations": annotations}})

    def annotations(self, name: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self.node.pod(name)["metadata"].get("annotations") or {}
        return found

    def bind(self, name: str, annotations: Mapping[str, str | None] | None = None) -> None:
        """A Binding as a scheduler sends it; the server answers with the allocation."""
        self._bind(self.node.api, name, annotations or {})

    def bind_as_owner(self, name: str, annotations: Mapping[str, str | None]) -> None:
        self._bind(self.owner, name, annotations)

    def _bind(self, who: KubeClient, name: str, annotations: Mapping[str, str | None]) -> None:
        uid = self.node.pod(name)["metadata"]["uid"]
        metadata = {"name": name, "uid": uid, "annotations": dict(annotations)}
        target = {"kind": "Node", "name": self.node.name}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        who.create(paths.pod_binding(self.node.namespace, name), body)

    def stop(self) -> None:
        """Ends the agent that runs now."""
        self.agent.stop()

    def remove(self, name: str) -> None:
        if self.node.find_pod(name) is not None:
            uid = self.node.pod(name)["metadata"]["uid"]
            self.node.api.delete(paths.pod(self.node.namespace, name), body={"gracePeriodSeconds": 0})
            wait_for(lambda: self.agent.pods.get(uid) is None, "the pod is gone")

    def seen(self, uid: str) -> str:
        """The version of a pod that the agent has."""
        return str(((self.agent.pods.get(uid) or {}).get("metadata") or {}).get("resourceVersion") or "")

    def started(self, uid: str, name: str = "main") -> list[Mapping[str, str]]:
        """The environments of the starts of a container."""
        return [each.env for each in self.node.kubelet.containers(uid, name)]

    def begin(self, uid: str) -> None:
        """The init container that holds the pod back ends."""
        wait_for(lambda: self.node.kubelet.containers(uid, "wait"), "it waits")
        assert self.node.kubelet.finish(uid, "wait")


def webhooks(server: AllocatorServer, certificate: Path) -> dict[str, Any]:
    """The configuration that sends Bindings and new pods to a server of this machine."""
    authority = base64.b64encode(certificate.read_bytes()).decode()
    address = server.webhook_address
    assert address is not None
    url = f"https://localhost:{address[1]}"
    return hooks(target(namespace="allocator-system", url=url, ca=authority))


def a_pod(name: str, way: Forgery | None = None, **spec: Any) -> dict[str, Any]:
    main = container(memory=MEMORY, cores=CORES)
    if way is not None and not way.requests:
        main["resources"] = {}
    scheduler = "volcano" if way is None else way.scheduler
    body: dict[str, Any] = {
        "metadata": {"name": name, "annotations": {}},
        "spec": {"initContainers": [WAIT], "containers": [main], **spec},
    }
    if scheduler:
        body["spec"]["schedulerName"] = scheduler
    return body


def attacked(stage: Stage, name: str, way: Forgery) -> tuple[str, str]:
    """Carries the way out up to the start of the container: the pod's UID, and the card that it was bound with."""
    before = way.written(own=A, other=B, sick=SICK, node=stage.node.name)
    body = a_pod(name, way)
    if way.when in (When.CREATION, When.TEMPLATE):
        body["metadata"]["annotations"] = before
    if way.when in (When.CREATION, When.PLACED):
        body["spec"]["nodeName"] = stage.node.name
    uid = stage.create(body)
    if way.when is When.WAITING:
        stage.annotate(name, before, way.write)
    if way.when is not When.PLACED:
        stage.bind(name, before if way.when is When.BINDING else None)
    own = stage.annotations(name).get(IDS, A).partition(",")[0]
    now = way.written(own=own, other=B if own == A else A, sick=SICK, node=stage.node.name)
    wait_for(lambda: stage.node.kubelet.containers(uid, "wait"), "the node has admitted it")
    wait_for(lambda: stage.seen(uid), "the agent has seen it")
    if way.when is When.RESTART:
        stage.agent.stop()
    if way.when in (When.WINDOW, When.PLACED, When.RESTART):
        stage.annotate(name, now, way.write)
    if way.when is When.RESTART:
        stage.restart_agent()
    version = int(stage.node.pod(name)["metadata"]["resourceVersion"])
    # The kubelet and the server go on writing, so that the agent may be ahead of what was read here.
    wait_for(lambda: int(stage.seen(uid) or 0) >= version, "the agent has seen what was written")
    stage.begin(uid)
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
    """The ways with these outcomes, one test each."""
    ways = [each for each in WAYS if each.outcome in outcomes and (each.when is When.RUNNING) is running]
    return pytest.mark.parametrize("way", ways, ids=str)


def is_not_created(stage: Stage, name: str, way: Forgery) -> None:
    with pytest.raises(KubeError, match="which only a scheduler writes") as refused:
        attacked(stage, name, way)
    assert refused.value.status in {400, 403}
    assert stage.node.find_pod(name) is None


def does_not_start(stage: Stage, name: str, way: Forgery) -> None:
    uid, _ = attacked(stage, name, way)
    message = wait_for(lambda: stage.started(uid) or stage.node.waits(name), "the container starts or waits")
    assert not stage.started(uid), message
    assert f"pod {stage.node.namespace}/{name}" in str(message)


def starts_as_bound(stage: Stage, name: str, way: Forgery) -> None:
    uid, own = attacked(stage, name, way)
    assert within_request(stage.node.started(uid), own)


def changes_nothing_while_it_runs(stage: Stage, name: str, way: Forgery) -> None:
    """A neighbour on the same card starts, and the pod itself never starts again with more."""
    uid = stage.create(a_pod(name))
    stage.bind(name)
    own = stage.annotations(name)[IDS].partition(",")[0]
    stage.begin(uid)
    assert within_request(stage.node.started(uid), own)
    stage.annotate(name, way.written(own=own, other=B if own == A else A, sick=SICK, node=stage.node.name))
    neighbour = next(stage.names)
    try:
        body = a_pod(neighbour)
        body["spec"]["containers"] = [container(memory=40960 - MEMORY, cores=50)]
        body["metadata"]["annotations"]["volcano.sh/vgpu-use-gpuuuid"] = own
        created = stage.create(body)
        stage.bind(neighbour)
        stage.begin(created)
        assert stage.node.started(created)["NVIDIA_VISIBLE_DEVICES"] == own
    finally:
        stage.remove(neighbour)
    assert stage.node.kubelet.finish(uid, "main", exit_code=1)
    wait_for(lambda: stage.node.waits(name) or len(stage.started(uid)) > 1, "it starts again or waits")
    assert all(within_request(env, own) for env in stage.started(uid))
