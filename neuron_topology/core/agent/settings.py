"""What an operator can set about the node agent for Neuron. Values alone; ``agent.config`` reads them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hami_plugins.config.values import AbsolutePath, Listen, Logging, Name, Port, Strict

Command = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, le=3600)]


class NeuronListing(Strict):
    """How the machine is asked for its devices, their links and their processes."""

    command: Command = Field(
        ("/opt/aws/neuron/bin/neuron-ls", "-j"),
        description="Command that prints the devices as JSON; from Neuron 2.34: `neuron-ls --output-format json`.",
    )
    timeout_seconds: Positive = Field(10.0, description="Longest time that the command may take; then it is killed.")
    interval_seconds: Positive = Field(30.0, description="Time between two runs. A changed device causes one as well.")


class NeuronMonitor(Strict):
    """How use is measured."""

    enabled: bool = Field(True, description="Whether `neuron-monitor` runs and its figures are served as metrics.")
    command: Command = Field(
        ("/opt/aws/neuron/bin/neuron-monitor",), description="Command that prints one JSON report a line."
    )
    restart_seconds: Positive = Field(30.0, description="Pause before the command is started again after it ended.")


class NeuronAgentListen(Listen):
    """Where probes and metrics of the agent are served."""

    port: Port = Field(9399, description="Port for probes and metrics; 0 takes a free one.")


class NeuronAgentSettings(Strict):
    """The agent of one node."""

    node: Name = Field(description="Name of this node.")
    health_seconds: Positive = Field(1.0, description="Time between two looks at the driver's error counters.")
    sysfs_root: AbsolutePath = Field(
        "/sys/devices/virtual/neuron_device", description="Directory where the driver has a directory for each device."
    )
    proc_root: AbsolutePath = Field("/proc", description="The host's processes, by which they are matched with pods.")
    kubelet_directory: AbsolutePath = Field(
        "/var/lib/kubelet/device-plugins", description="Directory of the kubelet's record of allocated devices."
    )
    neuron_ls: NeuronListing = NeuronListing()
    neuron_monitor: NeuronMonitor = NeuronMonitor()
    machine_file: AbsolutePath | None = Field(
        None, description="File that describes a machine and its faults, in place of driver and tools: for tests."
    )
    listen: NeuronAgentListen = NeuronAgentListen()
    log: Logging = Logging()
