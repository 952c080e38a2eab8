"""``hami-plugins volcano-vgpu``: the node agent and what belongs to it. The work is imported when it runs."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from hami_plugins.cli import options
from hami_plugins.cli.options import Form

app = typer.Typer(
    name="volcano-vgpu",
    help="The node agent for clusters scheduled by Volcano: finds the cards of its node, registers them, and hands out "
    "to each container exactly the slice that Volcano granted.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

ConfigFile = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="The agent's settings (YAML). Default: built-in ones."),
]
DeviceConfig = Annotated[
    str | None,
    typer.Option("--device-config", metavar="FILE", help="Volcano's volcano-vgpu-device-config, as it is."),
]
NodeConfig = Annotated[
    str | None,
    typer.Option("--node-config", metavar="FILE", help="The existing plugin's config.json (nodeconfig), as it is."),
]
NodeName = Annotated[
    str | None, typer.Option("--node-name", metavar="NAME", help="The node. Default: $NODE_NAME.", show_default=False)
]
CardsFile = Annotated[
    str | None,
    typer.Option("--cards-file", metavar="FILE", help="Cards out of a file instead of the driver (tests, demos)."),
]


@app.command()
def agent(
    *,
    config: ConfigFile = None,
    device_config: DeviceConfig = None,
    node_config: NodeConfig = None,
    node_name: NodeName = None,
    cards_file: CardsFile = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Run the agent on this node until it is told to stop.

    Every setting can also come from the environment: HAMI_PLUGINS__VOLCANO_VGPU__DEVICE_SPLIT_COUNT=10. Without a
    driver, an API server or a kubelet it says so and waits; /readyz says for what.

    Writes: annotations and capacity of its own node, annotations of pods that it serves, events.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # read once, when gRPC is loaded; its remarks are no log lines
    from volcano_vgpu.commands import Inputs, run_agent

    raise typer.Exit(run_agent(Inputs(config, device_config, node_config, node_name, cards_file, context, kubeconfig)))


@app.command()
def cards(
    *,
    config: ConfigFile = None,
    device_config: DeviceConfig = None,
    node_config: NodeConfig = None,
    node_name: NodeName = None,
    cards_file: CardsFile = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """List the cards of this machine, and what a node with them would say to Volcano. Reads only."""
    from hami_plugins.observe import logging
    from volcano_vgpu.commands import Inputs, list_cards

    logging.configure("warning", "auto")
    inputs = Inputs(config, device_config, node_config, node_name, cards_file)
    raise typer.Exit(list_cards(inputs, form=output, headers=not no_headers))


@app.command()
def usage(
    *,
    config: ConfigFile = None,
    device_config: DeviceConfig = None,
    node_config: NodeConfig = None,
    node_name: NodeName = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """List what the containers of this node use of their cards, beside what they were granted. Reads only.

    To be run on the node, or in the agent's pod. Whoever leaves most of his grant unused comes first.
    """
    from hami_plugins.observe import logging
    from volcano_vgpu.commands import Inputs
    from volcano_vgpu.monitor.command import show_usage

    logging.configure("error", "auto")
    inputs = Inputs(config, device_config, node_config, node_name, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(show_usage(inputs, form=output, headers=not no_headers))


@app.command()
def clean(
    *,
    config: ConfigFile = None,
    device_config: DeviceConfig = None,
    node_config: NodeConfig = None,
    node_name: NodeName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Remove what the agent left on this node and in its Node object: register, capacity, CDI files, directories.

    To be run on the node after the agent has ended. What running containers still use stays, is listed, and makes the
    exit code 1.
    """
    from hami_plugins.observe import logging
    from volcano_vgpu.commands import Inputs, run_clean

    logging.configure("warning", "auto")
    inputs = Inputs(config, device_config, node_config, node_name, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run_clean(inputs, dry_run=dry_run))
