"""What the agent costs, counted where it is paid: at the API server and by the operating system."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.agents import NodeAgent, Numbers, card
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import Node
from tests.cluster.slices import amiss, gpu, pods, settled, volcano_pod
from tests.cluster.waiting import wait_until

POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}
IDLE: Final = 60.0
BURST: Final = 10
MOST_RESIDENT: Final = 100 * 2**20
READS: Final = frozenset({"get", "list", "watch"})


class Audit:
    """The requests to the API server, by client."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def requests(self, user: str) -> Counter[str]:
        """How often a user sent each verb."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        entries = (json.loads(line) for line in lines if user in line and line.endswith("}"))
        return Counter(f"{each['verb']} {each['objectRef']['resource']}" for each in entries)


@pytest.fixture(scope="module")
def audit(control_plane: ControlPlane, node: Node, agent: NodeAgent) -> Iterator[Audit]:
    """The API server with a record of all requests."""
    policy, log = control_plane.machine.root / "audit.json", control_plane.machine.logs / "audit.log"
    policy.write_text(json.dumps(POLICY))
    server, usual = control_plane.api_server, list(control_plane.api_server.arguments)
    server.arguments = [*usual, f"--audit-policy-file={policy}", f"--audit-log-path={log}"]
    server.restart()
    control_plane.reunite()
    node.wait_ready()
    agent.wait_offering(60)
    yield Audit(log)
    server.arguments = usual
    server.restart()
    control_plane.reunite()
    node.wait_ready()


def test_an_idle_agent_writes_nothing_and_costs_next_to_nothing(
    agent: NodeAgent, control_plane: ControlPlane, audit: Audit, namespace: str, numbers: Numbers
) -> None:
    """Idle is: five pods run, and nothing changes."""
    names = [f"p{at}" for at in range(5)]
    for name in names:
        control_plane.api.create(pods(namespace), volcano_pod(name))
    settled(control_plane, namespace, names)
    user = "system:serviceaccount:kube-system:agent"
    wait_until(partial(_writes_nothing, audit, user), "the last touch and the last word to Volcano", 60)
    before, used = audit.requests(user), agent.processor_seconds()
    time.sleep(IDLE)  # what does not happen cannot be waited for
    asked, used = audit.requests(user) - before, agent.processor_seconds() - used
    writes = _writes(asked)
    numbers.add(f"API writes of an idle node in {IDLE:g} s", str(sum(writes.values())), "0")
    numbers.add(f"API reads of an idle node in {IDLE:g} s", str(sum(asked.values()) - sum(writes.values())), "")
    numbers.add("agent RSS", f"{agent.resident() / 2**20:.0f} MiB", "<= 100 MiB")
    numbers.add("agent idle CPU", f"{100 * used / IDLE:.2f} % of a core", "<= 0.5 %")
    assert not writes
    assert agent.resident() <= MOST_RESIDENT


def _writes(asked: Counter[str]) -> dict[str, int]:
    return {what: number for what, number in asked.items() if what.split()[0] not in READS}


def _writes_nothing(audit: Audit, user: str) -> bool:
    """For longer than the agent waits from a bind to its last word about it."""
    before = _writes(audit.requests(user))
    time.sleep(12)
    return _writes(audit.requests(user)) == before


def test_a_started_container_costs_at_most_three_requests_of_the_agent(
    agent: NodeAgent, control_plane: ControlPlane, audit: Audit, namespace: str, numbers: Numbers
) -> None:
    user = "system:serviceaccount:kube-system:agent"
    before, counted = audit.requests(user), agent.metric("api_requests_total")
    names = [f"p{at}" for at in range(BURST)]
    for at, name in enumerate(names):
        control_plane.api.create(pods(namespace), volcano_pod(name, gpu(memory=1000 + at)))
    found = settled(control_plane, namespace, names)
    assert not [problem for each in found for problem in amiss(control_plane, each)]
    time.sleep(6)  # the last word to Volcano and the last touch
    asked = audit.requests(user) - before
    counted = agent.metric("api_requests_total") - counted
    numbers.add("API requests per started container, at the API server", f"{asked.total() / BURST:.2f}", "<= 3")
    assert asked.total() <= 3 * BURST, asked
    assert counted == pytest.approx(asked.total(), abs=3)


def test_sixteen_cards_of_192_gib_are_registered_whole(agent: NodeAgent) -> None:
    agent.cards(*(card(at, memory=196608) for at in range(1, 17)))
    try:
        agent.wait_offering(160)
        assert agent.object()["status"]["allocatable"]["volcano.sh/vgpu-memory"] in {"3145728", "3072Ki"}
    finally:
        agent.cards(*map(card, range(1, 7)))
        agent.wait_offering(60)
