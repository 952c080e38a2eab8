"""``hami-plugins volcano-vgpu``: the node agent and what belongs to it. The work is imported when it runs."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.plugins import command_group

app = command_group(
    "volcano-vgpu",
    "For clusters scheduled by Volcano: the node agent, which gives each container exactly the slice that it was "
    "allocated. `allocator` has the server that allocates.",
)

DeviceConfig = Annotated[
    str | None,
    typer.Option("--device-config", metavar="FILE", help="Volcano's volcano-vgpu-device-config, unchanged."),
]
NodeConfig = Annotated[
    str | None,
    typer.Option("--node-config", metavar="FILE", help="The existing plugin's config.json (nodeconfig), unchanged."),
]
CardsFile = Annotated[
    str | None,
    typer.Option("--cards-file", metavar="FILE", help="Read cards from a file, not from the driver (tests, demos)."),
]


@app.command()
def agent(
    *,
    config: options.Config = None,
    device_config: DeviceConfig = None,
    node_config: NodeConfig = None,
    node_name: options.NodeName = None,
    cards_file: CardsFile = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Run the agent on this node until it is stopped.

    Every setting can also come from the environment: HAMI_PLUGINS__VOLCANO_VGPU__DEVICE_SPLIT_COUNT=10. Without a
    driver, an API server or a kubelet it waits; the log and /readyz name what is missing.

    Writes: annotations and capacity of its own node, annotations of pods that it serves, events.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # read once, when gRPC is loaded; its remarks are not log lines
    from volcano_vgpu.commands.agent import AgentInputs, run_agent

    raise typer.Exit(
        run_agent(AgentInputs(config, device_config, node_config, node_name, cards_file, context, kubeconfig))
    )


@app.command()
def cards(
    *,
    config: options.Config = None,
    device_config: DeviceConfig = None,
    node_config: NodeConfig = None,
    node_name: options.NodeName = None,
    cards_file: CardsFile = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """List the cards of this machine and what a node with them would report to Volcano. Reads only."""
    from hami_plugins.observe import logging
    from volcano_vgpu.commands.agent import AgentInputs, list_cards

    logging.configure("warning", "auto")
    inputs = AgentInputs(config, device_config, node_config, node_name, cards_file)
    raise typer.Exit(list_cards(inputs, form=output, headers=not no_headers))


@app.command()
def usage(
    *,
    config: options.Config = None,
    device_config: DeviceConfig = None,
    node_config: NodeConfig = None,
    node_name: options.NodeName = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """List what the containers of this node use and what they were allocated. Reads only.

    Run it on the node or in the agent's pod. Containers that leave most of their allocation unused come first.
    """
    from hami_plugins.observe import logging
    from volcano_vgpu.commands.agent import AgentInputs
    from volcano_vgpu.commands.usage import show_usage

    logging.configure("error", "auto")
    inputs = AgentInputs(config, device_config, node_config, node_name, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(show_usage(inputs, form=output, headers=not no_headers))


@app.command()
def resize(
    *,
    pod: Annotated[str, typer.Argument(metavar="pod/NS/NAME", help="The running pod.", show_default=False)],
    memory: Annotated[
        int, typer.Option("--memory", metavar="MIB", help="Memory that the container may use from then on, in MiB.")
    ],
    container: Annotated[
        str | None,
        typer.Option("--container", "-c", metavar="NAME", help="The container, where several have a card."),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="Wait up to SECONDS until it is in force or refused.")
    ] = 60.0,
    device_config: DeviceConfig = None,
    dry_run: options.DryRun = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Grow or shrink the memory of a running container's slice, without a restart.

    The allocator books growth on the container's card, next to all other allocations there; the node agent then changes
    the limit that HAMi-core enforces. A slice shrinks the other way round, and never below what is in use. Exit code 1
    if it is refused or not in force in time. Needs the right to patch pods.

    Writes: the annotation hami-plugins.io/resize-memory of the pod.

    Example: hami-plugins volcano-vgpu resize pod/research/notebook-0 --memory 16384
    """
    from hami_plugins.observe import logging
    from volcano_vgpu.commands.agent import AgentInputs
    from volcano_vgpu.commands.resize import ResizeOrder, run_resize

    logging.configure("warning", "auto")
    inputs = AgentInputs(None, device_config, context=context, kubeconfig=kubeconfig)
    order = ResizeOrder(pod=pod, memory=memory, container=container, wait=wait, dry_run=dry_run)
    raise typer.Exit(run_resize(inputs, order))


@app.command()
def clean(
    *,
    config: options.Config = None,
    device_config: DeviceConfig = None,
    node_config: NodeConfig = None,
    node_name: options.NodeName = None,
    release: Annotated[
        str,
        typer.Option(
            "--release",
            metavar="NAMESPACE/NAME",
            help="Clean up after a release of the chart, not on a node. NAME is the name of its objects.",
        ),
    ] = "",
    dry_run: options.DryRun = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Remove what the agent left on this node and in its Node object: register, capacity, CDI files, directories.

    Run it on the node after the agent has ended. Files that running containers use are kept and listed, and make the
    exit code 1. With --release it deletes the agents of that release (they then clean their nodes), and removes what
    the release wrote on nodes that no agent cleaned. If resources have other names, give the --device-config of the
    release. `hami-plugins allocator clean` removes what the allocator wrote.
    """
    from hami_plugins.observe import logging
    from volcano_vgpu.commands.agent import AgentInputs, run_clean, run_uninstall

    logging.configure("warning", "auto")
    inputs = AgentInputs(config, device_config, node_config, node_name, context=context, kubeconfig=kubeconfig)
    if release:
        raise typer.Exit(run_uninstall(inputs, release=release, dry_run=dry_run))
    raise typer.Exit(run_clean(inputs, dry_run=dry_run))


@app.command()
def verify(
    *,
    allocator: Annotated[
        str,
        typer.Option("--allocator", metavar="URL", help="Check the allocator at URL, http://NAME.NAMESPACE.svc:9395."),
    ] = "",
    nodes: Annotated[bool, typer.Option("--nodes/--no-nodes", help="Check what the nodes offer.")] = True,
    wait: options.Wait = 0.0,
    config: options.Config = None,
    device_config: DeviceConfig = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
    output: options.Output = Form.TABLE,
) -> None:
    """Verify an installation: list the nodes that offer cards, and whether the allocator answers. Reads only.

    Exit code 1 if pods could not get cards; the output names what is missing.
    """
    from hami_plugins.observe import logging
    from volcano_vgpu.commands.agent import AgentInputs, run_verify

    logging.configure("warning", "auto")
    inputs = AgentInputs(config, device_config, None, None, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run_verify(inputs, allocator=allocator, nodes=nodes, patience=wait, form=output))
