"""A node of the embedded cluster, and the agent on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect_to
from neuron_topology.agent import config
from neuron_topology.agent.app import NeuronAgent
from neuron_topology.agent.metrics import NeuronAgentMetrics
from neuron_topology.commands.agent import machine_of
from tests.integration.neuron_topology.server.servers import Site, a_node, site
from tests.waiting import wait_for


@dataclass
class Host:
    """The node ``n1`` and what its agent reads."""

    site: Site
    folder: Path
    api: KubeClient

    @property
    def machine(self) -> Path:
        """The file that describes the machine."""
        return self.folder / "machine.yaml"

    def is_like(self, **machine: Any) -> None:
        """Describes the machine anew."""
        fresh = self.machine.with_suffix(".new")
        fresh.write_text(json.dumps({"instance": "trn1.32xlarge", **machine}))
        fresh.replace(self.machine)

    def settings(self, **more: Any) -> str:
        """The text of the agent's settings."""
        found = {
            "node": "n1",
            "healthSeconds": 0.05,
            "neuronLs": {"command": ["neuron-ls"], "intervalSeconds": 0.2},
            "neuronMonitor": {"enabled": False},
            "machineFile": str(self.machine),
            "kubeletDirectory": str(self.folder),
            "listen": {"host": "127.0.0.1", "port": 0},
            **more,
        }
        return json.dumps({name: value for name, value in found.items() if value is not None})

    @contextmanager
    def agent(self, **more: Any) -> Iterator[NeuronAgent]:
        """A running agent."""
        settings = config.load(self.settings(**more), {})
        agent = NeuronAgent(settings, self.api, machine_of(settings), metrics=NeuronAgentMetrics())
        with agent:
            yield agent

    def annotation(self, name: str) -> Any:
        """An annotation of the node as JSON; ``None`` where it has none."""
        annotations = self.api.get(paths.node("n1"))["metadata"].get("annotations") or {}
        found = next((text for key, text in annotations.items() if key.endswith(f"/{name}")), None)
        return None if found is None else json.loads(found)

    def version(self) -> str:
        """The version of the node."""
        return str(self.api.get(paths.node("n1"))["metadata"]["resourceVersion"])

    def messages(self, reason: str) -> list[str]:
        """What events of that reason say."""
        return [each["message"] for each in self.site.server.objects("events") if each["reason"] == reason]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A Trainium node without any annotation."""
    with site(tmp_path, a_node("n1")) as made:
        found = Host(made, tmp_path, connect_to(made.server.url))
        found.is_like()
        yield found


@pytest.fixture
def ready() -> Callable[[NeuronAgent], None]:
    """Waits until an agent is ready."""
    return lambda agent: wait_for(lambda: not agent.trouble, "the agent is ready")
