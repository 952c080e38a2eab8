"""The agent comes to a node, finds others there, and leaves nothing behind."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.cluster.agents import CDI, CORES, HOOK, MEMORY, NUMBER, NodeAgent, card
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.node import DEVICE_PLUGINS, Node
from tests.cluster.slices import amiss, pods, settled, volcano_pod
from tests.cluster.waiting import wait_until


@pytest.fixture
def second(agent: NodeAgent, node: Node) -> Iterator[NodeAgent]:
    """Another agent for the same node, not started."""
    found = NodeAgent(node, "second")
    found.cards(*map(card, range(1, 7)))
    yield found
    found.stop()


def traces(agent: NodeAgent) -> list[str]:
    """All that an agent can leave on its node. (The number's capacity is the kubelet's, which drops it after 5 min.)"""
    node = agent.object()
    found = [key for key in node["metadata"]["annotations"] if "vgpu" in key]
    found += [key for key in (MEMORY, CORES) if key in node["status"]["capacity"]]
    found += [NUMBER] if agent.offered() else []
    found += entries(agent, CDI) + entries(agent, f"{HOOK}/vgpu/containers")
    # What lies in `containers` is of the Koordinator adapter's part on nodes, which other tests have run here.
    found += [path for path in entries(agent, HOOK) if path not in (f"{HOOK}/vgpu", f"{HOOK}/containers")]
    return found + [path for path in entries(agent, DEVICE_PLUGINS) if "vgpu" in path]


def entries(agent: NodeAgent, folder: str) -> list[str]:
    """What lies in a folder of the node; nothing where there is none."""
    place = agent.path(folder)
    return [f"{folder}/{each.name}" for each in place.iterdir()] if place.is_dir() else []


def test_clean_leaves_nothing_and_says_first_what_it_would_remove(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.api.create(pods(namespace), volcano_pod("guest"))
    settled(control_plane, namespace, ["guest"])
    while_it_runs = agent.clean()
    assert (while_it_runs.returncode, "still answers" in while_it_runs.stderr) == (2, True), while_it_runs
    agent.stop()
    try:
        with_a_guest = agent.clean("--dry-run")
        assert (with_a_guest.returncode, "kept: " in with_a_guest.stdout + with_a_guest.stderr) == (1, True)
        control_plane.clear_namespace(namespace)
        wait_until(lambda: not agent.offered(), "the kubelet has seen that its plugin is gone")
        before = traces(agent)
        dry = agent.clean("--dry-run")
        assert (dry.returncode, traces(agent)) == (0, before), dry.stderr
        for trace in before:
            assert trace in dry.stdout
        done = agent.clean()
        assert done.returncode == 0, done.stdout + done.stderr
        assert not traces(agent)
        again = agent.clean().stdout.splitlines()
        # The kubelet goes on writing the number, 0, for some minutes after its plugin has gone.
        assert [line for line in again if NUMBER not in line] in ([], [f"nothing of the agent is left on node {NODE}"])
    finally:
        agent.start(60)


def test_a_second_agent_waits_for_the_first_and_names_it(
    agent: NodeAgent, second: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    second.component.start()
    wait_until(lambda: "another agent answers on volcano-vgpu.sock" in second.complaint("/readyz"), "it says so")
    control_plane.api.create(pods(namespace), volcano_pod("guest"))
    assert not amiss(control_plane, settled(control_plane, namespace, ["guest"])[0])
    agent.stop()
    try:
        second.wait_offering(60)
    finally:
        second.stop()
        agent.start(60)


def test_beside_a_foreign_plugin_the_agent_waits_and_names_it(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    agent.stop()
    foreign = agent.path(DEVICE_PLUGINS) / "nvidia-gpu.sock"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(foreign))
            listener.listen()
            agent.component.start()
            wait_until(lambda: "another device plugin answers on nvidia-gpu.sock" in agent.complaint("/readyz"), "so")
            wait_until(
                lambda: "nvidia-gpu.sock" in "".join(control_plane.events("default", NODE)), "the node has an event"
            )
            wait_until(lambda: agent.offered() == 0, "nothing is offered")
    finally:
        foreign.unlink(missing_ok=True)
        if not agent.component.running:
            agent.component.start()
    agent.wait_offering(60)
    control_plane.api.create(pods(namespace), volcano_pod("guest"))
    assert not amiss(control_plane, settled(control_plane, namespace, ["guest"])[0])
