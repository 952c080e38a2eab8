"""Invalid requests are refused with the reason, and disturb no other pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pytest
import yaml

from tests.cluster.agents import CDI, CHECKPOINT, NodeAgent, uuid
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.node import Node
from tests.cluster.objects import binding, pod
from tests.cluster.slices import (
    ALLOCATED_NODE,
    IDS,
    LEFT,
    PHASE,
    amiss,
    gpu,
    pods,
    settled,
    volcano_pod,
    wait_refused,
    wait_serving,
)
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

STATIC: Final = "/var/lib/kubelet/static"


class Forged(NamedTuple):
    """A pod that a user bound and annotated by hand, and a part of the text by which it is refused."""

    what: str
    ids: str
    text: str
    node: str = NODE
    more: Mapping[str, str] = {}


FORGED: Final = (
    Forged("wrong-grammar", f"{uuid(1)},NVIDIA,much,0:", IDS),
    Forged("no-grammar", "two cards please", "Volcano allocated 0 cards"),
    Forged("unknown-card", f"GPU-00000009{uuid(1)[12:]},NVIDIA,1000,0:", f"the nearest is {uuid(1)}"),
    Forged("of-another-node", f"{uuid(1)},NVIDIA,1000,0:", "the allocation is for node node-9", node="node-9"),
    Forged("too-many-segments", f"{uuid(1)},NVIDIA,1000,0:;{uuid(2)},NVIDIA,1000,0:", "to 2 containers, 1 ask"),
    Forged("too-many-cards", f"{uuid(1)},NVIDIA,1000,0:{uuid(2)},NVIDIA,1000,0:", "Volcano allocated 2 cards"),
    Forged("too-few-cards", "", "Volcano allocated 0 cards"),
    Forged("larger-than-the-card", f"{uuid(1)},NVIDIA,99999,0:", "which has 40960"),
    Forged("larger-than-requested", f"{uuid(1)},NVIDIA,1001,0:", "on GPU-"),
    Forged("more-cores-than-requested", f"{uuid(1)},NVIDIA,1000,100:", "and 0 requested"),
    Forged("more-cores-than-a-card", f"{uuid(1)},NVIDIA,1000,101:", "a card has 100"),
    Forged("partition-of-a-whole-card", f"{uuid(1)}[group1-0],NVIDIA,1000,0:", "is not shared by MIG"),
    Forged("contradiction", f"{uuid(1)},NVIDIA,1000,0:", LEFT, more={LEFT: f"{uuid(2)},NVIDIA,1000,0:"}),
    Forged("marked-failed", f"{uuid(1)},NVIDIA,1000,0:", "failed before", more={PHASE: "failed"}),
)


@pytest.fixture
def alive(volcano: Volcano) -> Iterator[None]:
    """Volcano's scheduler does not end meanwhile."""
    pid = volcano.scheduler.pid
    yield
    assert (volcano.scheduler.running, volcano.scheduler.pid) == (True, pid), volcano.scheduler.log()[-3000:]


def by_hand(
    plane: ControlPlane,
    namespace: str,
    name: str,
    ids: str,
    *,
    memory: int = 1000,
    node: str = NODE,
    more: Mapping[str, str] | None = None,
) -> None:
    """A pod with an allocation that Volcano did not write, bound as a scheduler binds it."""
    notes = {IDS: ids, ALLOCATED_NODE: node, **(more or {})}
    body = pod(name, gpu(memory=memory), annotations=notes, schedulerName="by-hand")
    plane.api.create(pods(namespace), body)
    plane.api.create(f"{pods(namespace)}/{name}/binding", binding(name, NODE))


@pytest.mark.usefixtures("alive")
def test_what_somebody_forged_is_refused_and_harms_nobody(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    for each in FORGED:
        by_hand(control_plane, namespace, each.what, each.ids, node=each.node, more=each.more)
    control_plane.api.create(pods(namespace), volcano_pod("honest", gpu(memory=1500)))
    assert not amiss(control_plane, settled(control_plane, namespace, ["honest"])[0])
    for each in FORGED:
        assert "delete the pod" in wait_refused(control_plane, namespace, each.what, each.text).lower(), each.what
    wait_until(
        lambda: all("VgpuRefused" in "".join(control_plane.events(namespace, each.what)) for each in FORGED),
        "each of them has an event that says so",
    )


@pytest.mark.usefixtures("alive")
def test_a_card_that_is_promised_twice_stays_with_who_had_it_first(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    by_hand(control_plane, namespace, "first", f"{uuid(1)},NVIDIA,30000,0:", memory=30_000)
    found = settled(control_plane, namespace, ["first"])
    by_hand(control_plane, namespace, "second", f"{uuid(1)},NVIDIA,30000,0:", memory=30_000)
    wait_refused(control_plane, namespace, "second", "earlier pods keep theirs")
    assert not amiss(control_plane, found[0])
    control_plane.api.delete(f"{pods(namespace)}/first")
    assert not amiss(control_plane, settled(control_plane, namespace, ["second"])[0])


@pytest.mark.usefixtures("alive")
def test_an_allocation_on_a_pod_whose_author_chose_the_node_is_refused(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    """The API server records who set ``spec.nodeName``; a Binding leaves no such record."""
    notes = {IDS: f"{uuid(1)},NVIDIA,1000,0:", ALLOCATED_NODE: NODE}
    body = volcano_pod("placed", gpu(memory=1000), annotations=notes, node=NODE)
    control_plane.api.create(pods(namespace), body)
    wait_refused(control_plane, namespace, "placed", "set spec.nodeName, so that no scheduler allocated")


@pytest.mark.usefixtures("alive")
def test_a_pod_that_no_scheduler_allocated_anything_is_refused(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.api.create(pods(namespace), pod("unscheduled", gpu(memory=1000), node=NODE))
    wait_refused(control_plane, namespace, "unscheduled", "set schedulerName: volcano")


@pytest.mark.usefixtures("alive")
def test_a_pod_bound_by_hand_past_volcano_is_refused_and_the_node_touched(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    before = agent.annotation("volcano.sh/vgpu-touched")
    control_plane.api.create(pods(namespace), volcano_pod("bound", gpu(memory=1000), node=NODE))
    wait_refused(control_plane, namespace, "bound", "Volcano bound it without allocating a card")
    wait_until(lambda: agent.annotation("volcano.sh/vgpu-touched") != before, "the node is touched", 30)


@pytest.mark.usefixtures("alive")
def test_an_allocation_that_changes_while_its_container_runs_is_not_followed(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    body = volcano_pod("steady", gpu(memory=1000, then="sleep 2; exit 1"), restart="Always")
    control_plane.api.create(pods(namespace), body)
    settled(control_plane, namespace, ["steady"])
    path = f"{pods(namespace)}/steady"
    allocation = control_plane.api.get(path)["metadata"]["annotations"][IDS]
    control_plane.api.merge_patch(path, {"metadata": {"annotations": {IDS: allocation.replace("1000", "9000")}}})
    wait_refused(control_plane, namespace, "steady", "a container keeps its cards", timeout=90)


def test_a_static_pod_is_refused(agent: NodeAgent, control_plane: ControlPlane, node: Node, namespace: str) -> None:
    """The kubelet reads its files only with a setting, so that it restarts for this."""
    config = node.machine.root / "kubelet.yaml"
    plain = config.read_text()
    place = node.path(STATIC)
    place.mkdir(parents=True)
    body = pod("static", gpu(memory=1000)) | {"metadata": {"name": "static", "namespace": "default"}}
    config.write_text(plain + f"staticPodPath: {STATIC}\n")
    try:
        node.kubelet.restart()
        node.wait_ready()
        wait_serving(control_plane)
        (place / "static.yaml").write_text(yaml.safe_dump(body))
        wait_refused(control_plane, "default", f"static-{NODE}", "a static pod has no allocation", timeout=90)
    finally:
        (place / "static.yaml").unlink(missing_ok=True)
        wait_until(lambda: not control_plane.api.find(f"{pods('default')}/static-{NODE}"), "it is gone", 60)
        config.write_text(plain)
        node.kubelet.restart()
        node.wait_ready()
        wait_serving(control_plane)
        place.rmdir()


def test_a_cdi_directory_that_cannot_be_written_is_named_and_waited_for(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    """First it is read-only, then its disk is full, then all is well."""
    agent.in_its_mounts("mount", "--bind", CDI, CDI)
    agent.in_its_mounts("mount", "-o", "remount,bind,ro", CDI)
    try:
        control_plane.api.create(pods(namespace), volcano_pod("first"))
        assert CDI in wait_refused(control_plane, namespace, "first", "Read-only file system")
    finally:
        agent.in_its_mounts("umount", CDI)
    agent.in_its_mounts("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", CDI)
    try:
        agent.in_its_mounts("sh", "-c", f"head -c 4096 /dev/zero > {CDI}/full")
        control_plane.api.create(pods(namespace), volcano_pod("second"))
        assert CDI in wait_refused(control_plane, namespace, "second", "No space left on device")
    finally:
        agent.in_its_mounts("umount", CDI)
    found = settled(control_plane, namespace, ["first", "second"])
    assert not [problem for each in found for problem in amiss(control_plane, each)]


def test_while_the_kubelets_record_cannot_be_read_nobody_is_served_and_nothing_guessed(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    """A secret that is not there yet holds the pod between Allocate and PreStartContainer."""
    mount = {"name": "held", "mountPath": "/held"}
    volume = {"name": "held", "secret": {"secretName": "late"}}
    body = volcano_pod("held", gpu(memory=1000, volumeMounts=[mount]), volumes=[volume])
    uid = control_plane.api.create(pods(namespace), body)["metadata"]["uid"]
    record = agent.path(CHECKPOINT)
    wait_until(lambda: uid in record.read_text(), "the pod is admitted", 60)
    good = record.read_bytes()
    record.write_bytes(good[: len(good) // 2])
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "late"}})
    try:
        wait_refused(control_plane, namespace, "held", "checkpoint cannot be read", timeout=90)
    finally:
        record.write_bytes(good)
    assert not amiss(control_plane, settled(control_plane, namespace, ["held"])[0])
