"""The real Prometheus scrapes allocator and agent, evaluates the rules that the charts render, and alerts.

The processes run outside of pods, so that the labels that the operator takes from pods are given to Prometheus as they
would be; everything else is what the charts and the processes say.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

import pytest

from tests.cluster.agents import NodeAgent, card, uuid
from tests.cluster.api import Object
from tests.cluster.hami import HamiAllocator
from tests.cluster.hami_nodes import HamiNodes, HamiPods
from tests.cluster.helm import UMBRELLA, Helm, objects, of_kind
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import Node
from tests.cluster.prometheus import Prometheus
from tests.cluster.waiting import wait_until

RELEASE: Final = "one"
PLACE: Final = "devices"
"""Name and namespace of the release."""
SERVER: Final = f"{RELEASE}-allocator-7d4b9-x2x7k"
AGENT: Final = f"{RELEASE}-volcano-vgpu-agent-k8n4z"
RUNBOOKS: Final = "https://runbooks.example/allocator"
MONITORING: Final[Mapping[str, Any]] = {"prometheusRule": {"enabled": True, "runbooks": RUNBOOKS}}


@pytest.fixture(scope="module")
def allocator(control_plane: ControlPlane) -> Iterator[HamiAllocator]:
    with HamiAllocator(control_plane) as server:
        yield server


@pytest.fixture(scope="module")
def agent(node: Node) -> Iterator[NodeAgent]:
    found = NodeAgent(node)
    found.cards(card(1), card(2))
    try:
        found.start(20)
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def groups(programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    """The groups of rules that the charts render."""
    helm = Helm(programs["helm4"], tmp_path_factory.mktemp("helm"))
    values = {"volcano-vgpu": {"monitoring": MONITORING}, "allocator": {"enabled": True, "monitoring": MONITORING}}
    rendered = objects(helm.template(UMBRELLA, values, name=RELEASE, namespace=PLACE))
    return [group for each in of_kind(rendered, "PrometheusRule") for group in each["spec"]["groups"]]


@pytest.fixture(scope="module")
def prometheus(
    control_plane: ControlPlane, allocator: HamiAllocator, agent: NodeAgent, groups: list[Object]
) -> Iterator[Prometheus]:
    targets = {
        allocator.replica.port: {"namespace": PLACE, "pod": SERVER},
        agent.port: {"namespace": PLACE, "pod": AGENT},
    }
    server = Prometheus(control_plane, targets, groups)
    server.component.start()
    try:
        yield server
    finally:
        server.component.stop()


def usage(prometheus: Prometheus) -> str:
    """What ``usage`` prints of the last minutes."""
    words = ["usage", "--since", "2m", "--prometheus", prometheus.url]
    done = subprocess.run(
        [sys.executable, "-m", "hami_plugins.cli", *words], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_it_scrapes_both_evaluates_every_rule_and_an_alert_fires_with_its_labels_and_its_runbook(
    prometheus: Prometheus,
    allocator: HamiAllocator,
    agent: NodeAgent,
    groups: list[Object],
    *,
    control_plane: ControlPlane,
    namespace: str,
) -> None:
    wait_until(
        lambda: prometheus.targets() == {SERVER: "up", AGENT: "up"}, "both answer", show=prometheus.component.log
    )
    evaluated = wait_until(lambda: _evaluated(prometheus), "every rule was evaluated")
    assert evaluated == {rule.get("alert") or rule["record"] for group in groups for rule in group["rules"]}
    assert not prometheus.alerts()
    nodes = HamiNodes(control_plane)
    with nodes:
        nodes.boot()
        pods = HamiPods(control_plane, nodes, namespace)
        pods.create("p", 20_480)
        pods.wait_bound("p")
        held = f'namespace_queue_owner:hami_gib_hours:sum1h{{pod_namespace="{namespace}"}} > 0'
        wait_until(lambda: prometheus.ask("query", query=held)["result"], "the pod's hours are recorded", 90)
        wait_until(lambda: namespace in usage(prometheus), "usage charges the namespace", 150, interval=5)
    agent.cards(card(1), card(2, problems=["XID 79: fallen off the bus"]))
    allocator.replica.component.stop(SIGKILL)
    wait_until(lambda: prometheus.targets()[SERVER] == "down", "the server is seen to be away")
    pending = wait_until(lambda: prometheus.alerts().get("VolcanoVgpuCardUnhealthy"), "the card's alert is pending")
    assert pending is not None
    assert (pending["labels"]["uuid"], pending["state"]) == (uuid(2), "pending")
    fired = wait_until(
        lambda: [each for each in prometheus.alerts().values() if each["state"] == "firing"],
        "an alert fires",
        150,
        interval=1,
        show=lambda: str(prometheus.alerts()),
    )
    (away,) = fired
    assert away["labels"] == {"alertname": "HamiAllocatorAway", "severity": "critical"}
    assert away["annotations"]["runbook_url"] == f"{RUNBOOKS}#hamiallocatoraway"
    assert away["annotations"]["summary"] == "No allocator answers"


def _evaluated(prometheus: Prometheus) -> set[str]:
    """The names of all rules, once each was evaluated without an error."""
    rules = prometheus.rules()
    return set(rules) if all(rule["health"] == "ok" for rule in rules.values()) else set()
