"""The node agent on a real kubelet and containerd, under a real Volcano."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.agents import CORES, HOOK, IDS, MEMORY, NUMBER, NodeAgent, card, uuid
from tests.cluster.api import Object
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import Node
from tests.cluster.objects import pod, pod_spec, shell, task, vcjob
from tests.cluster.volcano import Volcano
from tests.cluster.waiting import wait_until

SAY = "env; ls -d /tmp/vgpu; cat /proc/self/mountinfo; sleep 100000"


@pytest.fixture(scope="module")
def agent(node: Node, volcano: Volcano) -> Iterator[NodeAgent]:
    """An agent with two cards of ten slots each, before a real Volcano."""
    found = NodeAgent(node)
    found.cards(card(1), card(2))
    found.start(20)
    yield found
    found.stop()


def gpu(name: str = "main", script: str = SAY, *, number: int = 1, memory: int = 4096, cores: int = 0) -> Object:
    """A container that asks for slices and says what it got."""
    limits = {NUMBER: str(number), MEMORY: str(memory)} | ({CORES: str(cores)} if cores else {})
    return shell(script, name, resources={"limits": limits})


def vcjobs(namespace: str) -> str:
    return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def environment(plane: ControlPlane, namespace: str, name: str, container: str = "main") -> dict[str, str]:
    """What a container printed of its environment."""
    text = wait_until(
        lambda: found if "\nHOME=" in f"\n{(found := plane.pod_log(namespace, name, container))}" else "",
        f"container {container} of {name} has printed",
    )
    assert text is not None
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith(" "))


def test_a_container_has_the_slice_that_volcano_granted(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.api.create(vcjobs(namespace), vcjob("one", task("worker", 1, pod_spec(gpu(memory=4096, cores=30)))))
    found = control_plane.wait_for_pod(namespace, "one-worker-0", "Running")
    grant = found["metadata"]["annotations"][IDS]
    card_id, word, memory, cores = grant.strip(";:").split(",")
    assert (card_id in (uuid(1), uuid(2)), word, memory, cores) == (True, "NVIDIA", "4096", "30")
    env = environment(control_plane, namespace, "one-worker-0")
    assert env["NVIDIA_VISIBLE_DEVICES"] == card_id
    assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"
    assert env["CUDA_DEVICE_SM_LIMIT"] == "30"
    log = control_plane.pod_log(namespace, "one-worker-0")
    assert f"{HOOK.removeprefix('/var/lib')}/vgpu/containers/{found['metadata']['uid']}_main /tmp/vgpu " in log
    wait_until(
        lambda: (
            control_plane.api.get(f"{pods(namespace)}/one-worker-0")["metadata"]["annotations"]["volcano.sh/bind-phase"]
            == "success"
        ),
        "Volcano is told",
    )


def test_each_container_of_a_pod_has_its_own_slice(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    spec = pod_spec(gpu("first", memory=1000), shell(SAY, "none"), gpu("third", memory=3000, cores=20))
    control_plane.api.create(vcjobs(namespace), vcjob("two", task("worker", 1, spec)))
    control_plane.wait_for_pod(namespace, "two-worker-0", "Running")
    limits = {
        name: environment(control_plane, namespace, "two-worker-0", name).get("CUDA_DEVICE_MEMORY_LIMIT_0")
        for name in ("first", "none", "third")
    }
    assert limits == {"first": "1000m", "none": None, "third": "3000m"}


def test_fifty_pods_of_one_shape_each_have_their_own(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    names = [f"p{at}" for at in range(20)]
    for at, name in enumerate(names):
        body = pod(name, gpu(memory=1000 + at), restart="Never")
        body["spec"]["schedulerName"] = "volcano"
        control_plane.api.create(pods(namespace), body)
    for at, name in enumerate(names):
        control_plane.wait_for_pod(namespace, name, "Running", timeout=120)
        assert environment(control_plane, namespace, name)["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{1000 + at}m"
