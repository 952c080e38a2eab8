"""Whatever ends and comes back (agent, kubelet, containerd, API server), no pod gets another's slice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Final

import pytest

from tests.cluster.agents import CDI, CHECKPOINT, KUBELET_SOCKET, NodeAgent, Numbers, card
from tests.cluster.api import ApiError, Object
from tests.cluster.containerd import SOCKET
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import Node
from tests.cluster.slices import (
    IDS,
    PHASE,
    allocated,
    amiss,
    gpu,
    pods,
    read,
    rejected,
    settled,
    volcano_pod,
    wanted,
)
from tests.cluster.waiting import wait_until

NOT_ADMITTED: Final = "Allocate failed"
"""How the kubelet rejects pods while no plugin answers for the resource (``trials.md`` K4)."""


MOST_ARRIVALS = 50
"""The node has ten slots more: on a slow machine no pod waits for a slot instead of an agent."""


class Arrivals:
    """Pods that keep arriving while something else happens, up to ``MOST_ARRIVALS``."""

    def __init__(self, plane: ControlPlane, namespace: str, *, pause: float = 0.5) -> None:
        self._plane = plane
        self._namespace = namespace
        self._pause = pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.names: list[str] = []

    def __enter__(self) -> Arrivals:
        self._thread.start()
        return self

    def __exit__(self, *_ended: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            if len(self.names) >= MOST_ARRIVALS:
                continue
            name = f"arrival-{len(self.names)}"
            try:
                self._plane.api.create(
                    pods(self._namespace), volcano_pod(name, gpu(memory=1000 + len(self.names) % 100))
                )
            except ApiError:
                continue  # the API server, or a webhook, is out of breath
            self.names.append(name)

    def wait_for(self, number: int) -> None:
        """Until so many more have come."""
        goal = min(len(self.names) + number, MOST_ARRIVALS)
        wait_until(lambda: len(self.names) >= goal, f"{goal} pods have arrived", 60)


def outcome(plane: ControlPlane, namespace: str, names: list[str], *, timeout: float = 180.0) -> int:
    """How many pods did not start, for want of a plugin or of the kubelet that was starting them.

    All others run with what they were allocated.
    """
    found = settled(plane, namespace, names, timeout=timeout)
    turned_away = [each for each in found if rejected(each)]
    assert not [each["status"] for each in turned_away if NOT_ADMITTED not in rejected(each) and not cut_off(each)]
    assert not [problem for each in found if not rejected(each) for problem in amiss(plane, each)]
    return len(turned_away)


def cut_off(pod: Object) -> bool:
    """Whether containerd gave a container up because the kubelet that waited for its start was killed."""
    ends = [each.get("state", {}).get("terminated", {}) for each in pod["status"].get("containerStatuses", [])]
    return any(end.get("reason") == "StartError" and "context canceled" in end["message"] for end in ends)


def untouched(plane: ControlPlane, before: Object) -> None:
    """The pod's containers are those that ran before."""
    now = plane.api.get(f"{pods(before['metadata']['namespace'])}/{before['metadata']['name']}")
    ids = [[each["containerID"] for each in found["status"]["containerStatuses"]] for found in (before, now)]
    assert ids[0] == ids[1]
    assert not amiss(plane, now)


def running(plane: ControlPlane, namespace: str, name: str = "before") -> Object:
    """A pod with a slice that runs."""
    plane.api.create(pods(namespace), volcano_pod(name, gpu(memory=2345)))
    return settled(plane, namespace, [name])[0]


@pytest.mark.parametrize("number", [SIGTERM, SIGKILL])
def test_after_a_restart_of_the_kubelet_the_agent_registers_within_two_seconds(
    agent: NodeAgent, node: Node, namespace: str, numbers: Numbers, number: Signals
) -> None:
    control_plane = node.plane
    """The best of three counts, because other processes on the machine take some of the time."""
    before = running(control_plane, namespace)
    took = float("inf")
    for _ in range(3):
        told = len(agent.said("registered"))
        node.kubelet.restart(number)
        wait_until(lambda told=told: len(agent.said("registered")) > told, "the agent has registered again")  # type: ignore[misc]
        at = datetime.fromisoformat(agent.said("registered")[told]["timestamp"]).timestamp()
        took = min(took, at - node.path(KUBELET_SOCKET).stat().st_ctime)
        if took <= 2:
            break
    numbers.add(f"re-registration after {number.name} to the kubelet", f"{took:.2f} s", "<= 2 s")
    node.wait_ready()
    agent.wait_offering(60)
    untouched(control_plane, before)
    control_plane.api.create(pods(namespace), volcano_pod("after"))
    assert not amiss(control_plane, control_plane.wait_for_pod(namespace, "after", "Running"))
    assert took <= 2


def test_pods_that_arrive_while_the_kubelet_restarts_are_not_mixed_up(
    agent: NodeAgent, control_plane: ControlPlane, node: Node, namespace: str, numbers: Numbers
) -> None:
    with Arrivals(control_plane, namespace) as arrivals:
        arrivals.wait_for(3)
        node.kubelet.restart(SIGKILL)
        arrivals.wait_for(5)
    lost = outcome(control_plane, namespace, arrivals.names)
    numbers.add("pods rejected over a kubelet restart", f"{lost} of {len(arrivals.names)}", "none swapped")


def test_a_restart_of_containerd_disturbs_no_slice(
    agent: NodeAgent, control_plane: ControlPlane, node: Node, namespace: str
) -> None:
    before = running(control_plane, namespace)
    with Arrivals(control_plane, namespace) as arrivals:
        arrivals.wait_for(2)
        node.containerd.restart(SIGKILL)
        arrivals.wait_for(3)
    node.wait_ready()
    assert outcome(control_plane, namespace, arrivals.names) == 0
    untouched(control_plane, before)


def _bound(agent: NodeAgent, namespace: str, _uid: str) -> bool:
    return IDS in agent.plane.api.get(f"{pods(namespace)}/victim")["metadata"].get("annotations", {})


def _allocated(agent: NodeAgent, _namespace: str, uid: str) -> bool:
    return uid in agent.path(CHECKPOINT).read_text()


def _specified(agent: NodeAgent, _namespace: str, uid: str) -> bool:
    return any(uid in each.name for each in agent.path(CDI).iterdir())


def _running(agent: NodeAgent, namespace: str, _uid: str) -> bool:
    return bool(agent.plane.api.get(f"{pods(namespace)}/victim")["status"].get("phase") == "Running")


def _told(agent: NodeAgent, namespace: str, _uid: str) -> bool:
    annotations = agent.plane.api.get(f"{pods(namespace)}/victim")["metadata"].get("annotations", {})
    return bool(annotations.get(PHASE) == "success")


@pytest.mark.parametrize("step", [_bound, _allocated, _specified, _running, _told])
def test_a_kill_of_the_agent_at_any_step_swaps_nothing_and_forgets_nothing(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str, step: Callable[[NodeAgent, str, str], bool]
) -> None:
    """Other pods are at other steps at that moment."""
    before = running(control_plane, namespace)
    for at in range(3):
        control_plane.api.create(pods(namespace), volcano_pod(f"other-{at}", gpu(memory=1000 + at)))
    uid = control_plane.api.create(pods(namespace), volcano_pod("victim", gpu(memory=1500)))["metadata"]["uid"]
    wait_until(lambda: step(agent, namespace, uid), f"the pod is {step.__name__.strip('_')}", interval=0.002)
    agent.kill()
    agent.start(60)
    names = ["victim", *(f"other-{at}" for at in range(3))]
    outcome(control_plane, namespace, names)
    untouched(control_plane, before)
    victim = control_plane.api.get(f"{pods(namespace)}/victim")
    if step is not _bound:
        assert not rejected(victim)
        wait_until(lambda: _told(agent, namespace, uid), "Volcano is told although the agent was killed", 60)


def test_pods_that_were_admitted_before_a_kill_start_after_it(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    """A secret that is not there yet holds them between Allocate and PreStartContainer."""
    volume = {"name": "held", "secret": {"secretName": "late"}}
    mount = {"name": "held", "mountPath": "/held"}
    names = [f"held-{at}" for at in range(5)]
    uids = []
    for at, name in enumerate(names):
        body = volcano_pod(name, gpu(memory=1000 + at, volumeMounts=[mount]), volumes=[volume])
        uids.append(control_plane.api.create(pods(namespace), body)["metadata"]["uid"])
    wait_until(lambda: all(_allocated(agent, namespace, uid) for uid in uids), "all are admitted", 60)
    agent.kill()
    agent.start(60)
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "late"}})
    assert outcome(control_plane, namespace, names) == 0


def test_kills_at_random_under_load_swap_nothing(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    with Arrivals(control_plane, namespace, pause=0.3) as arrivals:
        for _ in range(3):
            arrivals.wait_for(4)
            agent.kill()
            agent.component.start()
            agent.wait_ready()
    agent.wait_offering(60)
    lost = outcome(control_plane, namespace, arrivals.names)
    numbers.add("pods rejected over 3 kills of the agent", f"{lost} of {len(arrivals.names)}", "none swapped")


def test_an_upgrade_under_load_swaps_nothing(
    agent: NodeAgent, control_plane: ControlPlane, node: Node, namespace: str, numbers: Numbers
) -> None:
    before = running(control_plane, namespace)
    successor = NodeAgent(node, "successor")
    successor.cards(*map(card, range(1, 7)))
    with Arrivals(control_plane, namespace, pause=0.3) as arrivals:
        arrivals.wait_for(4)
        agent.stop()
        stopped = time.monotonic()
        try:
            successor.component.start()
            successor.wait_ready()
            gap = time.monotonic() - stopped
            arrivals.wait_for(4)
        finally:
            successor.stop()
            agent.component.start()
    agent.wait_offering(60)
    lost = outcome(control_plane, namespace, arrivals.names)
    lost_of = f"{lost} of {len(arrivals.names)}, first gap {gap:.1f} s"
    numbers.add("pods rejected over two upgrades", lost_of, "none swapped")
    untouched(control_plane, before)


def test_without_the_api_server_containers_start_from_what_is_known(
    agent: NodeAgent, control_plane: ControlPlane, node: Node, namespace: str
) -> None:
    control_plane.api.create(pods(namespace), volcano_pod("steady", gpu(memory=2345), restart="Always"))
    (found,) = settled(control_plane, namespace, ["steady"])
    pid = agent.component.pid
    control_plane.api_server.stop()
    try:
        kill_container(node, found)
        printed = read(wait_until(lambda: printed_by(node, found, 1), "the container has started again", 120))
        given = {key: text for key, text in printed.slice.items() if "SHARED_CACHE" not in key}
        assert given == wanted(allocated(found)["main"])
    finally:
        bring_back(control_plane)
    assert (agent.component.running, agent.component.pid) == (True, pid)
    node.wait_ready()
    agent.wait_offering(60)
    control_plane.api.create(pods(namespace), volcano_pod("after"))
    assert not amiss(control_plane, control_plane.wait_for_pod(namespace, "after", "Running"))


def test_an_agent_that_starts_without_the_api_server_guesses_nothing(
    agent: NodeAgent, control_plane: ControlPlane, node: Node, namespace: str
) -> None:
    control_plane.api.create(pods(namespace), volcano_pod("steady", gpu(memory=2345), restart="Always"))
    (found,) = settled(control_plane, namespace, ["steady"])
    control_plane.api_server.stop()
    try:
        agent.kill()
        agent.component.start()
        kill_container(node, found)
        assert agent.complaint("/readyz")
    finally:
        bring_back(control_plane)
    node.wait_ready()
    agent.wait_offering(60)

    def again() -> Object | None:
        now = control_plane.api.get(f"{pods(namespace)}/steady")
        status = now["status"]["containerStatuses"][0]
        return now if status["restartCount"] and status["state"].get("running") else None

    now = wait_until(again, "the container runs again", 120)
    assert now is not None
    assert not amiss(control_plane, now)


def bring_back(plane: ControlPlane) -> None:
    """The API server, and who follows it."""
    plane.api_server.start()
    plane.reunite()


def kill_container(node: Node, found: Object) -> None:
    """End a pod's first container behind everybody's back."""
    container = found["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    words = ["--address", SOCKET, "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", container]
    done = node.machine.run([str(node.plane.programs["ctr"]), *words])
    assert done.returncode == 0, done.stderr


def printed_by(node: Node, found: Object, attempt: int) -> str:
    """What an attempt of a pod's container printed, read from the node; empty while it has not printed all."""
    metadata = found["metadata"]
    folder = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
    log = Path(node.path(f"/var/log/pods/{folder}/main/{attempt}.log"))
    lines = log.read_text().splitlines()
    text = "\n".join(line.split(" ", 3)[3] for line in lines if line.count(" ") >= 3)
    return text if "-- that is all" in text else ""
