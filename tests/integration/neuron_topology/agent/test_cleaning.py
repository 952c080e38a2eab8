"""``neuron clean``: what agents wrote leaves the nodes, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hami_plugins.cli.kit import edge
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient
from hami_plugins.kube.removal import Release
from neuron_topology.agent.app import NeuronAgent
from neuron_topology.agent.cleanup import cleaned
from tests.integration.neuron_topology.agent.conftest import Host

HEALTH = "hami-plugins.io/neuron-health"
AGENTS = "/apis/apps/v1/namespaces/default/daemonsets/one-allocator-neuron-agent"
WRITTEN = ", ".join(
    (
        "hami-plugins.io/neuron-agent-health",
        "hami-plugins.io/neuron-health",
        "hami-plugins.io/neuron-ls",
        "hami.io/node-register-aws-neuron",
    )
)


@pytest.fixture
def described(host: Host, ready: Callable[[NeuronAgent], None]) -> Host:
    """A node whose agent has found a broken device, and has ended."""
    host.is_like(uncorrected={7: 2})
    with host.agent() as agent:
        ready(agent)
    return host


def written_on(host: Host) -> dict[str, Any]:
    return host.api.get(paths.node("n1"))["metadata"].get("annotations") or {}


def test_a_node_is_as_it_was_before_its_agent(described: Host, capsys: pytest.CaptureFixture[str]) -> None:
    described.api.merge_patch(paths.node("n1"), {"metadata": {"annotations": {"other": "stays"}}})
    kubeconfig = str(described.site.server.kubeconfig(described.folder / "kubeconfig"))

    def run(*arguments: str) -> tuple[int, str]:
        code = edge.run(["neuron", "clean", *arguments, "--kubeconfig", kubeconfig])
        return code, capsys.readouterr().out

    capsys.readouterr()
    before = described.version()
    assert run("--dry-run") == (Exit.FINE, f"would remove node n1: {WRITTEN}\n")
    assert described.version() == before
    assert run() == (Exit.FINE, f"removed node n1: {WRITTEN}\n")
    assert written_on(described) == {"other": "stays"}
    assert run() == (Exit.FINE, "no node has annotations of an agent\n")


def test_the_agents_of_a_release_end_first(described: Host) -> None:
    daemon_set = {"metadata": {"name": "one-allocator-neuron-agent"}, "spec": {}}
    described.api.create(AGENTS.rpartition("/")[0], daemon_set)
    removed = cleaned(described.api, Release("default", "one-allocator"), dry_run=False)
    assert next(removed) == AGENTS
    assert HEALTH in written_on(described)
    assert list(removed) == [f"node n1: {WRITTEN}"]


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes so many of the coming writes meet another writer that has just named a device of its own."""
    write = KubeClient.merge_patch

    def met(times: int) -> None:
        left = iter(range(times))

        def merge_patch(client: KubeClient, path: str, body: Any) -> Any:
            if (turn := next(left, None)) is not None:
                write(client, path, {"metadata": {"annotations": {HEALTH: f'{{"devices": [{turn + 8}, 7]}}'}}})
            return write(client, path, body)

        monkeypatch.setattr(KubeClient, "merge_patch", merge_patch)

    return met


@pytest.mark.parametrize("times", [1, 4])
def test_an_entry_that_is_written_meanwhile_stays(described: Host, busy: Callable[[int], None], times: int) -> None:
    busy(times)
    assert list(cleaned(described.api, None, dry_run=False)) == [f"node n1: {WRITTEN}"]
    assert json.loads(written_on(described).pop(HEALTH)) == {"devices": [times + 7]}


def test_a_node_that_never_rests_is_named(described: Host, busy: Callable[[int], None]) -> None:
    busy(99)
    with pytest.raises(KubeError, match="/api/v1/nodes/n1: keeps being modified by another client"):
        list(cleaned(described.api, None, dry_run=False))


def test_a_node_that_is_deleted_meanwhile_is_passed_over(described: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    write = KubeClient.merge_patch

    def merge_patch(client: KubeClient, path: str, body: Any) -> Any:
        client.delete(path)
        return write(client, path, body)

    monkeypatch.setattr(KubeClient, "merge_patch", merge_patch)
    assert list(cleaned(described.api, None, dry_run=False)) == []
