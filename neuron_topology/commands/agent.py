"""The work of ``neuron agent`` and ``neuron clean``."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.memory import one_heap, rest
from hami_plugins.cli.kit.objects import print_removed
from hami_plugins.cli.kit.service import file_text, stop_on_signals
from hami_plugins.kube.client import connect
from hami_plugins.kube.removal import Release
from hami_plugins.kube.request_metrics import api_requests
from hami_plugins.observe import logging
from neuron_topology.agent import config
from neuron_topology.agent.app import COMPONENT, NeuronAgent
from neuron_topology.agent.cleanup import cleaned
from neuron_topology.agent.file import FileMachine
from neuron_topology.agent.machine import DriverMachine, Machine
from neuron_topology.agent.metrics import NeuronAgentMetrics
from neuron_topology.core.agent.settings import NeuronAgentSettings

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NeuronAgentInputs:
    """What the command was given."""

    config: str | None = None
    node_name: str | None = None
    machine_file: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def settings(self) -> NeuronAgentSettings:
        """The settings; options win."""
        environment = dict(os.environ)
        if self.node_name:
            environment["NODE_NAME"] = self.node_name
        found = config.load(file_text(self.config) or "", environment)
        if self.machine_file is not None:
            found = found.model_copy(update={"machine_file": str(Path(self.machine_file).absolute())})
        return found


def run_agent(inputs: NeuronAgentInputs) -> int:
    """Run until a signal ends it. Raises ``ConfigError`` where the machine lacks what does not come by itself."""
    settings = inputs.settings()
    logging.configure(settings.log.level, settings.log.form)
    machine = machine_of(settings)
    machine.check()
    metrics = NeuronAgentMetrics()
    client = connect(kubeconfig=inputs.kubeconfig, context=inputs.context, component=COMPONENT)
    one_heap()
    stop = stop_on_signals()
    agent = NeuronAgent(settings, replace(client, on_request=api_requests(metrics.metrics)), machine, metrics=metrics)
    agent.start()
    rest()
    _log.info("agent_started", node=settings.node, address=":".join(map(str, agent.address)))
    stop.wait()
    agent.stop()
    _log.info("agent_ended", node=settings.node)
    return Exit.FINE


def run_clean(release: str, *, dry_run: bool, context: str | None, kubeconfig: str | None) -> int:
    """Remove what agents wrote on nodes, those of a release ``NAMESPACE/NAME`` first, or say what that would be."""
    logging.configure("warning", "auto")
    named = Release.of(release) if release else None
    client = connect(kubeconfig=kubeconfig, context=context, component=COMPONENT)
    removed = cleaned(client, named, dry_run=dry_run)
    return print_removed(removed, nothing="no node has annotations of an agent", dry_run=dry_run)


def machine_of(settings: NeuronAgentSettings) -> Machine:
    """The machine of the file that is set, or the one that the process runs on."""
    if settings.machine_file is not None:
        return FileMachine(Path(settings.machine_file))
    return DriverMachine(settings)
