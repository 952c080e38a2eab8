"""A cluster of two idle machines, TorchX' stand-in, and ``neuron submit`` typed in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.apiserver.kinds import ResourceKind
from tests.integration.neuron_topology.submit.objects import TWO_MACHINES, a_claim, a_queue
from tests.integration.neuron_topology.submit.typing_in import Typing
from tests.unit.neuron_topology.hypernodes.nodes import an_idle_node
from tests.unit.neuron_topology.torchx import stand_in


@pytest.fixture
def kinds() -> tuple[ResourceKind, ...]:
    """What the cluster serves besides Kubernetes' own."""
    return tuple(VOLCANO)


@pytest.fixture
def server(kinds: tuple[ResourceKind, ...]) -> Iterator[ApiServer]:
    """Two idle machines, the queue ``test``, and the claim that the job mounts."""
    with ApiServer(kinds=kinds) as running:
        for name in ("n0", "n1"):
            running.put(an_idle_node(name))
        running.put(a_queue("test"))
        running.put(a_queue("default"))
        running.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        for namespace in ("default", "team"):
            running.put(a_claim("fsx-claim", namespace=namespace))
        yield running


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> stand_in.Runner:
    """TorchX, which asks for two whole machines."""
    return stand_in.with_runner(monkeypatch, TWO_MACHINES, "image_repo")


@pytest.fixture
def neuron(server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], runner: stand_in.Runner) -> Typing:
    """Runs ``submit``, or another command, on that cluster."""
    assert not runner.asked
    return Typing(capsys, str(server.kubeconfig(tmp_path / "kubeconfig")))
