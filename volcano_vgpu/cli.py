"""``hami-plugins volcano-vgpu``: the node agent and what belongs to it. The work is imported when it runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.plugins import command_group
from hami_plugins.cli.kit.server_commands import trust_command

if TYPE_CHECKING:
    from volcano_vgpu.commands.allocator import VgpuAllocatorInputs

app = command_group(
    "volcano-vgpu",
    "For clusters scheduled by Volcano: the node agent, which gives each container exactly the slice that it was "
    "allocated, and the allocator, which keeps allocations correct.",
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
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # read once, when gRPC is loaded; its remarks are no log lines
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
    agents_only: Annotated[
        bool, typer.Option("--agents-only", help="With --release: keep the allocator running.")
    ] = False,
    dry_run: options.DryRun = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Remove what the agent left on this node and in its Node object: register, capacity, CDI files, directories.

    Run it on the node after the agent has ended. Files that running containers use are kept and listed, and make the
    exit code 1. With --release it deletes the agents and the allocator of that release (agents then clean their
    nodes), and removes what the release wrote on nodes that no agent cleaned. If resources have other names, give
    the --device-config of the release.
    """
    from hami_plugins.observe import logging
    from volcano_vgpu.commands.agent import AgentInputs, run_clean, run_uninstall

    logging.configure("warning", "auto")
    inputs = AgentInputs(config, device_config, node_config, node_name, context=context, kubeconfig=kubeconfig)
    if release:
        raise typer.Exit(run_uninstall(inputs, release=release, agents_only=agents_only, dry_run=dry_run))
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


ModeName = Annotated[
    AllocatorMode | None,
    typer.Option("--mode", help="Component that assigns cards. Default: the setting, else extender."),
]


@app.command()
def allocator(
    *,
    config: options.Config = None,
    device_config: DeviceConfig = None,
    mode: ModeName = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Run the allocator, which corrects the allocations of the whole cluster, until it is stopped.

    Answers Volcano's extender and the API server's webhooks from one cache (mode extender), or corrects what Volcano
    has decided (mode webhook). One of several replicas answers, shown by /readyz. Every setting can also come from
    the environment: HAMI_PLUGINS__VOLCANO_VGPU_ALLOCATOR__MODE=webhook.

    Writes: its lease; in mode webhook an annotation of nodes; with its own certificates a Secret.
    """
    from volcano_vgpu.commands.allocator import VgpuAllocatorInputs, run_server

    if mode is AllocatorMode.POLICY:
        raise typer.BadParameter("policy needs no server; print it with `policy`", param_hint="--mode")
    inputs = VgpuAllocatorInputs(
        config=config, device_config=device_config, mode=mode, context=context, kubeconfig=kubeconfig
    )
    raise typer.Exit(run_server(inputs))


@app.command()
def conf(
    *,
    check: options.CheckFile = None,
    live: options.Live = False,
    namespace: options.VolcanoNamespace = "volcano-system",
    config: options.Config = None,
    device_config: DeviceConfig = None,
    mode: ModeName = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Print Volcano's scheduler configuration for a mode, or check an existing one. Reads only.

    Exit code 1 if it has errors; each finding names the correction.
    """
    from volcano_vgpu.commands.allocator import VgpuAllocatorInputs, check_conf, print_conf

    inputs = VgpuAllocatorInputs(
        config=config, device_config=device_config, mode=mode, context=context, kubeconfig=kubeconfig
    )
    if check is None and not live:
        raise typer.Exit(print_conf(inputs, form=output))
    if check is not None and live:
        raise typer.BadParameter("cannot be combined with --live", param_hint="--check")
    source = None if live else check
    raise typer.Exit(check_conf(inputs, source=source, namespace=namespace, form=output, headers=not no_headers))


@app.command()
def webhooks(
    *,
    url: options.Url = "",
    ca_file: options.CaFile = None,
    exempt: options.Exempt = None,
    marked_only: Annotated[
        bool,
        typer.Option("--marked-only", help="Ignore Bindings of unmarked pods: plain pods, and older pods."),
    ] = False,
    config: options.Config = None,
    device_config: DeviceConfig = None,
    output: options.Output = Form.YAML,
) -> None:
    """Print the configuration of the webhooks for `kubectl apply`. Reads only.

    Pods that ask for cards are marked. The Binding of a marked pod waits for the server; others pass while it is
    away.
    """
    from volcano_vgpu.commands.allocator import VgpuAllocatorInputs, print_webhooks

    inputs = VgpuAllocatorInputs(config=config, device_config=device_config)
    raise typer.Exit(
        print_webhooks(inputs, url=url, ca_file=ca_file, exempt=exempt or [], marked_only=marked_only, form=output)
    )


def _inputs(**given: Any) -> VgpuAllocatorInputs:
    from volcano_vgpu.commands.allocator import VgpuAllocatorInputs

    return VgpuAllocatorInputs(**given)


app.command()(trust_command(_inputs, "mutating"))


@app.command()
def policy(
    *,
    version: Annotated[
        str, typer.Option("--version", metavar="VERSION", help="Version of the API that the API server serves.")
    ] = "v1beta1",
    output: options.Output = Form.YAML,
) -> None:
    """Print the admission policy that removes stale allocations from Bindings, for `kubectl apply`. Reads only.

    The smallest fix, without a process of ours: a gang that had to wait gets its own cards. Nothing else is corrected.
    `hami-plugins allocation-policy volcano` prints the policy that limits which accounts write allocations on pods.
    """
    from hami_plugins.cli.kit.allocator import print_policy

    raise typer.Exit(print_policy(version=version, form=output))


@app.command()
def audit(
    *,
    config: options.Config = None,
    device_config: DeviceConfig = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """List bound pods with wrong cards: of another node, allocated twice, unknown, or missing. Reads only.

    Exit code 1 where there are any.
    """
    from volcano_vgpu.commands.allocator import VgpuAllocatorInputs
    from volcano_vgpu.commands.allocator import audit as run_audit

    inputs = VgpuAllocatorInputs(config=config, device_config=device_config, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run_audit(inputs, form=output, headers=not no_headers))
