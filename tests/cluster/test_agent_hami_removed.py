"""The agent in HAMi's dialect and the allocator leave nothing behind: the walk of a user who removes both.

A module of its own, because no other test has anything to ask afterwards.
"""

from __future__ import annotations

import subprocess

from tests.cluster.agents import CDI, CORES, GPU, HOOK, MEMORY, NUMBER, NodeAgent, card
from tests.cluster.hami import ALLOCATED, HamiAllocator, hami_gpu
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import DEVICE_PLUGINS, Node
from tests.cluster.objects import pod
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def test_uninstalling_leaves_nothing(node: Node, control_plane: ControlPlane, namespace: str) -> None:
    agent = NodeAgent(node, "agent-removed", settings={"dialect": "hami"})
    agent.cards(card(1))
    agent.start(10)
    try:
        with HamiAllocator(control_plane) as allocator:
            control_plane.api.create(pods(namespace), pod("guest", hami_gpu()))
            guest = control_plane.wait_for_pod(namespace, "guest", "Running")
            assert ALLOCATED in guest["metadata"]["annotations"]
        wait_until(lambda: cleaned(allocator), "the allocator's objects are removed")
    finally:
        agent.stop()
    control_plane.clear_namespace(namespace)
    wait_until(lambda: not agent.offered(), "the kubelet has seen that its plugin is gone")
    done = agent.clean()
    assert done.returncode == 0, done.stdout + done.stderr
    assert not traces(agent)
    leases = control_plane.api.items(LEASES)
    assert not [each for each in leases if "allocator" in each["metadata"]["name"]]


def traces(agent: NodeAgent) -> list[str]:
    """All that agent and allocator can leave on the node."""
    node = agent.object()
    words = ("vgpu", "nvidia", "hami-plugins")
    found = [key for key in node["metadata"]["annotations"] if any(word in key for word in words)]
    found += [key for key in (MEMORY, CORES) if key in node["status"]["capacity"]]
    found += [key for key in (NUMBER, GPU) if node["status"].get("allocatable", {}).get(key, "0") != "0"]
    for folder, word in ((CDI, ""), (f"{HOOK}/vgpu/containers", ""), (DEVICE_PLUGINS, "vgpu")):
        place = agent.path(folder)
        found += [str(path) for path in place.iterdir() if word in path.name] if place.is_dir() else []
    return found


def cleaned(allocator: HamiAllocator) -> bool:
    """Whether the allocator's objects could be removed; not while its lease lasts."""
    try:
        allocator.told("clean", "--kubeconfig", str(allocator.plane.admin_kubeconfig))
    except subprocess.CalledProcessError:
        return False
    return True
