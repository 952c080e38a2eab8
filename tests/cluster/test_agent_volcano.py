"""The agent and Volcano's scheduler: what the node says is kept right, and the scheduler is never brought down."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from signal import SIGKILL
from typing import Any, Final

import pytest

from tests.cluster.agents import CORES, HANDSHAKE, MEMORY, NUMBER, REGISTER, RULES, NodeAgent, Numbers, card, uuid
from tests.cluster.api import Object
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.objects import pod_spec, queue, task, vcjob
from tests.cluster.slices import allocated, amiss, gpu, jobs, pods, rejected, settled, volcano_pod, wait_serving
from tests.cluster.soak import CARDS, survived
from tests.cluster.volcano import CONFIGURATION, QUEUES, Volcano
from tests.cluster.waiting import wait_until

TOUCHED: Final = "volcano.sh/vgpu-touched"
LOCK: Final = "hamivgpu"
LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano"
ELECTION: Final = (
    "--leader-elect=true",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)
MINUTE: Final = 60.0


@pytest.fixture(autouse=True)
def alive(volcano: Volcano, request: pytest.FixtureRequest) -> Iterator[None]:
    """Volcano's scheduler does not end meanwhile, unless the test itself ends it."""
    pid = volcano.scheduler.pid
    yield
    story = volcano.scheduler.log()[-3000:]
    assert volcano.scheduler.running, story
    assert volcano.scheduler.pid == pid or "restart" in request.node.name, story


def view(node: Object) -> tuple[Any, ...]:
    """What the node says of its cards."""
    notes, status = node["metadata"]["annotations"], node["status"]
    amounts = [status[part].get(key, "0") for part in ("capacity", "allocatable") for key in (NUMBER, MEMORY, CORES)]
    return (notes.get(REGISTER), notes.get(HANDSHAKE), *amounts)


OVERWRITTEN: Final[dict[str, tuple[str, Object]]] = {
    "capacity-removed": ("/status", {"status": {"capacity": {MEMORY: None, CORES: None}}}),
    "capacity-changed": ("/status", {"status": {"capacity": {MEMORY: "1", CORES: "7"}}}),
    "register-removed": ("", {"metadata": {"annotations": {REGISTER: None}}}),
    "register-garbled": ("", {"metadata": {"annotations": {REGISTER: "GPU-1,what,is,this"}}}),
    "handshake-deleted": ("", {"metadata": {"annotations": {HANDSHAKE: "Deleted_2026.11.21 07:39:03"}}}),
    "handshake-removed": ("", {"metadata": {"annotations": {HANDSHAKE: None}}}),
}


@pytest.mark.parametrize("what", OVERWRITTEN)
def test_what_another_writer_does_to_the_node_is_repaired_within_seconds(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str, numbers: Numbers, what: str
) -> None:
    before = view(agent.object())
    place, body = OVERWRITTEN[what]
    started = time.monotonic()
    control_plane.api.merge_patch(f"/api/v1/nodes/{NODE}{place}", body)
    wait_until(
        lambda: view(agent.object()) == before,
        "the node says what it said before",
        show=lambda: f"{view(agent.object())}\n{agent.component.log()[-2000:]}",
        interval=0.01,
    )
    numbers.add(f"node repaired after {what}", f"{time.monotonic() - started:.2f} s", "seconds")
    control_plane.api.create(pods(namespace), volcano_pod("after"))
    assert not amiss(control_plane, settled(control_plane, namespace, ["after"])[0])


def test_no_slot_is_offered_while_the_register_is_broken_and_cannot_be_repaired(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    may_read = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "patch"]} for rule in RULES[:2]]
    control_plane.account("agent", [rule for rule in may_read if rule["verbs"]] + list(RULES[2:]))
    try:
        wait_until(lambda: _refused(control_plane), "the agent may not patch the node any more")
        control_plane.api.merge_patch(f"/api/v1/nodes/{NODE}", {"metadata": {"annotations": {REGISTER: None}}})
        agent.wait_offering(0)
        control_plane.api.create(pods(namespace), volcano_pod("patient"))
        wait_until(lambda: control_plane.events(namespace, "patient"), "Volcano has looked at the pod")
        assert not control_plane.api.get(f"{pods(namespace)}/patient")["spec"].get("nodeName")
    finally:
        control_plane.account("agent", RULES)
    agent.wait_offering(60, timeout=90)
    assert not amiss(control_plane, settled(control_plane, namespace, ["patient"])[0])


def _refused(plane: ControlPlane) -> bool:
    review = {
        "spec": {
            "user": "system:serviceaccount:kube-system:agent",
            "resourceAttributes": {"verb": "patch", "resource": "nodes", "name": NODE},
        }
    }
    answer = plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return not answer["status"]["allowed"]


def test_an_unhealthy_card_is_withdrawn_and_comes_back(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    names = [f"p{at}" for at in range(3)]
    for name in names:
        control_plane.api.create(pods(namespace), volcano_pod(name))
    found = settled(control_plane, namespace, names)
    ill = next(number for number in range(1, 7) if uuid(number) == allocated(found[0])["main"][0][0])
    agent.cards(*(card(at, problems=["XID 79: fallen off the bus"]) if at == ill else card(at) for at in range(1, 7)))
    try:
        agent.wait_offering(50)
        assert uuid(ill) not in agent.annotation()
        wait_until(lambda: "XID 79" in "".join(control_plane.events(namespace, "p0")), "the pod has an event")
        wait_until(lambda: "XID 79" in "".join(control_plane.events("default", NODE)), "the node has an event")
        assert not [
            problem for each in settled(control_plane, namespace, names) for problem in amiss(control_plane, each)
        ]
        control_plane.api.create(pods(namespace), volcano_pod("elsewhere"))
        (elsewhere,) = settled(control_plane, namespace, ["elsewhere"])
        assert allocated(elsewhere)["main"][0][0] != uuid(ill)
    finally:
        agent.cards(*CARDS)
    agent.wait_offering(60)
    assert uuid(ill) in agent.annotation()


def test_when_the_last_card_fails_the_number_is_zero_before_the_register_goes(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    """Pods wait meanwhile, so that the scheduler looks at the node in every session."""
    control_plane.api.create(pods(namespace), volcano_pod("too-large", gpu(memory=99999)))
    agent.cards(*(card(at, problems=["XID 79"]) for at in range(1, 7)))
    try:
        agent.wait_offering(0)
        wait_until(lambda: not agent.annotation(), "the register goes, too")
    finally:
        agent.cards(*CARDS)
    agent.wait_offering(60)


def test_a_queue_with_a_capability_on_the_cards_is_kept_to_it(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.api.create(QUEUES, queue(namespace, capability={NUMBER: "2", MEMORY: "100000"}))
    wait_until(
        lambda: control_plane.api.get(f"{QUEUES}/{namespace}")["status"]["state"] == "Open", "the queue is open", 60
    )
    try:
        for name in ("a", "b", "c"):
            job = vcjob(name, task("worker", 1, pod_spec(gpu(memory=1000))), queue=namespace)
            control_plane.api.create(jobs(namespace), job)

        def phases() -> list[str]:
            return sorted(each["status"]["phase"] for each in control_plane.api.items(pods(namespace)))

        wait_until(lambda: phases().count("Running") == 2, "two of the three run", 60)
        first = next(each for each in control_plane.api.items(pods(namespace)) if each["status"]["phase"] == "Running")
        assert not amiss(control_plane, first)
        control_plane.api.delete(f"{jobs(namespace)}/{first['metadata']['labels']['volcano.sh/job-name']}")
        wait_until(lambda: phases() == ["Running", "Running"], "the third runs in the place of the first", 60)
    finally:
        control_plane.clear_namespace(namespace)
        wait_until(lambda: _removed(control_plane, f"{QUEUES}/{namespace}"), "the queue is gone", 60, interval=0.5)


def _removed(plane: ControlPlane, path: str) -> bool:
    """Volcano's webhook lets a queue go only when it is closed and empty."""
    plane.api.merge_patch(f"{path}/status", {"status": {"state": "Closed"}}) if plane.api.find(path) else None
    plane.api.delete(path)
    return plane.api.find(path) is None


def test_ten_pods_that_arrive_one_by_one_share_a_card_of_ten_slots(
    agent: NodeAgent, control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    agent.cards(card(1))
    try:
        agent.wait_offering(10)
        for at in range(10):
            control_plane.api.create(pods(namespace), volcano_pod(f"p{at}", gpu(memory=1000)))
            settled(control_plane, namespace, [f"p{at}"])
        control_plane.api.create(pods(namespace), volcano_pod("one-too-many", gpu(memory=1000)))
        found = settled(control_plane, namespace, [f"p{at}" for at in range(10)])
        right = [each for each in found if not rejected(each) and not amiss(control_plane, each)]
        wait_until(lambda: control_plane.events(namespace, "one-too-many"), "Volcano has looked at the eleventh")
        assert not control_plane.api.get(f"{pods(namespace)}/one-too-many")["spec"].get("nodeName")
    finally:
        agent.cards(*CARDS)
        agent.wait_offering(60)
    numbers.add("pods on a card of split count 10, arriving one by one", str(len(right)), "10")
    assert len(right) == 10


def test_after_a_restart_of_the_leading_scheduler_the_next_pod_gets_its_cards(
    agent: NodeAgent, control_plane: ControlPlane, volcano: Volcano, namespace: str
) -> None:
    usual = list(volcano.scheduler.arguments)
    volcano.scheduler.arguments = [each for each in usual if not each.startswith("--leader-elect")] + list(ELECTION)
    try:
        volcano.scheduler.restart(SIGKILL)
        for at in range(2):
            leader = wait_until(lambda: _leader(control_plane), "the scheduler leads", 60)
            if at:
                volcano.scheduler.restart(SIGKILL)
                _wait_for_another(control_plane, leader)
            _wait_touched(agent, datetime.now(UTC), "restarted")
            control_plane.api.create(pods(namespace), volcano_pod(f"next-{at}"))
            assert not amiss(control_plane, settled(control_plane, namespace, [f"next-{at}"])[0])
    finally:
        volcano.scheduler.arguments = usual
        volcano.restart_scheduler(SIGKILL)
        wait_serving(control_plane)


def _wait_for_another(plane: ControlPlane, leader: str) -> None:
    wait_until(lambda: _leader(plane) not in ("", leader), "another scheduler leads", 60)


def _wait_touched(agent: NodeAgent, since: datetime, why: str) -> None:
    """Until the agent has written to the node because of that."""

    def touched() -> bool:
        stamp, _, reasons = agent.annotation(TOUCHED).partition(" ")
        return datetime.fromisoformat(stamp) > since and why in reasons

    wait_until(touched, f"the agent has touched the node: {why}", 60, show=lambda: agent.component.log()[-2000:])


def _leader(plane: ControlPlane) -> str:
    return str((plane.api.find(LEASE) or {}).get("spec", {}).get("holderIdentity") or "")


def test_after_a_restart_of_a_scheduler_without_a_lease_pods_run_right_or_are_told_why(
    agent: NodeAgent, control_plane: ControlPlane, volcano: Volcano, namespace: str
) -> None:
    """The agent is not notified, so that the first pods may be bound without cards; then the cache is healed."""
    volcano.scheduler.restart(SIGKILL)

    def ran(name: str) -> bool:
        control_plane.api.create(pods(namespace), volcano_pod(name))

        def verdict() -> str:
            found = control_plane.api.get(f"{pods(namespace)}/{name}")
            if found["status"]["phase"] == "Running":
                return "ran"
            return "refused" if "has not examined" in str(found["status"]) else ""

        return wait_until(verdict, f"{name} runs or is told why not", 60) == "ran"

    attempts = next(at for at in range(10) if ran(f"p{at}"))
    assert not amiss(control_plane, control_plane.api.get(f"{pods(namespace)}/p{attempts}"))


def test_the_lock_of_the_node_is_released_once_its_pod_is_served(
    agent: NodeAgent, control_plane: ControlPlane, volcano: Volcano, namespace: str
) -> None:
    """Else the next pod would be bound without cards, for five minutes."""
    enabled = "deviceshare.VGPUEnable: true\n"
    volcano.configure(CONFIGURATION.replace(enabled, f"{enabled}      deviceshare.NodeLockEnable: true\n"))
    released = len(releases(agent))
    try:
        for at in range(3):
            control_plane.api.create(pods(namespace), volcano_pod(f"p{at}"))
            assert not amiss(control_plane, settled(control_plane, namespace, [f"p{at}"])[0])
            wait_until(lambda: not agent.annotation(LOCK), "the lock is released", 30)
    finally:
        volcano.configure(CONFIGURATION)
    assert len(releases(agent)) == released + 3


def releases(agent: NodeAgent) -> list[str]:
    """The agent's writes to the node that released its lock."""
    return [each["why"] for each in agent.said("node_written") if "lock" in each["why"].split(",")]


def test_volcano_survives_agents_that_start_stop_crash_and_clean(
    agent: NodeAgent, volcano: Volcano, namespace: str, numbers: Numbers
) -> None:
    acts, crashes = survived(agent, volcano, namespace, seconds=MINUTE, luck=random.Random(5))
    numbers.add(f"Volcano crashes in {MINUTE:g} s of {acts} agent starts, stops, crashes, cleans", str(crashes), "0")
    assert not crashes, volcano.scheduler.log()[-3000:]
