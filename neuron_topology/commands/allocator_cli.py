"""The commands of the Neuron allocator: the server, what it needs around it, and what is wrong with what pods hold.

The work is imported when it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.server_commands import trust_command

if TYPE_CHECKING:
    from neuron_topology.commands.allocator import NeuronAllocatorInputs


def allocator(
    *, config: options.Config = None, context: options.Context = None, kubeconfig: options.Kubeconfig = None
) -> None:
    """Run the server that allocates the Neuron devices of the whole cluster, until it is stopped.

    Answers Volcano's extender, kube-scheduler's extender and the API server's webhooks from one cache, so that every
    pod gets a linked set of devices, whichever scheduler places it. Of several replicas one answers; /readyz says
    which. Every setting can also come from the environment: HAMI_PLUGINS__NEURON_ALLOCATOR__POLICY=spread.

    Writes: its lease; with its own certificates a Secret; Bindings, where kube-scheduler leaves them to it.
    """
    from neuron_topology.commands.allocator import NeuronAllocatorInputs, run_server

    raise typer.Exit(run_server(NeuronAllocatorInputs(config=config, context=context, kubeconfig=kubeconfig)))


def conf(
    *,
    check: options.CheckFile = None,
    live: options.Live = False,
    namespace: options.VolcanoNamespace = "volcano-system",
    kube_scheduler: Annotated[
        bool, typer.Option("--kube-scheduler", help="Print kube-scheduler's configuration instead of Volcano's.")
    ] = False,
    config: options.Config = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Print Volcano's scheduler configuration with the extender for Neuron devices, or check one. Reads only.

    Exit code 1 if it has errors; each finding names the correction.
    """
    from neuron_topology.commands.allocator import NeuronAllocatorInputs, check_conf, print_conf, print_scheduler_conf

    inputs = NeuronAllocatorInputs(config=config, context=context, kubeconfig=kubeconfig)
    if kube_scheduler:
        raise typer.Exit(print_scheduler_conf(inputs, form=output))
    if check is None and not live:
        raise typer.Exit(print_conf(inputs, form=output))
    source = None if live else check
    raise typer.Exit(check_conf(inputs, source=source, namespace=namespace, form=output, headers=not no_headers))


def webhooks(
    *,
    url: options.Url = "",
    ca_file: options.CaFile = None,
    exempt: options.Exempt = None,
    marked_only: Annotated[
        bool,
        typer.Option("--marked-only", help="Ignore Bindings without the mark, such as all of kube-scheduler's."),
    ] = False,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="Patch new Volcano Jobs for Neuron devices, as `patch` does.")
    ] = False,
    config: options.Config = None,
    output: options.Output = Form.YAML,
) -> None:
    """Print the configuration of the webhooks for `kubectl apply`. Reads only.

    Pods that ask for Neuron devices are marked; the Binding of a marked pod waits for the server; all others pass
    while it is away.
    """
    from neuron_topology.commands.allocator import NeuronAllocatorInputs, print_webhooks

    inputs = NeuronAllocatorInputs(config=config)
    raise typer.Exit(
        print_webhooks(
            inputs,
            url=url,
            ca_file=ca_file,
            exempt=exempt or [],
            marked_only=marked_only,
            jobs=jobs,
            form=output,
        )
    )


def _inputs(**given: Any) -> NeuronAllocatorInputs:
    from neuron_topology.commands.allocator import NeuronAllocatorInputs

    return NeuronAllocatorInputs(**given)


trust = trust_command(_inputs, "mutating")


def audit(
    *,
    config: options.Config = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """List the bound pods with wrong Neuron devices: allocated twice, unknown, or none. Reads only.

    Exit code 1 if there are any.
    """
    from hami_plugins.observe import logging
    from neuron_topology.commands.allocator import NeuronAllocatorInputs
    from neuron_topology.commands.allocator import audit as run_audit

    logging.configure("error", "auto")
    inputs = NeuronAllocatorInputs(config=config, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run_audit(inputs, form=output, headers=not no_headers))


def repair(
    *,
    dry_run: options.DryRun = False,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Remove wrong maps of AWS's scheduler extension from nodes, so that it recreates them.

    A map is wrong if it lists devices or cores in use that no pod holds, or free that pods hold, or if it is
    incomplete. Exit code 1 if something is left to do.

    Writes: removes NEURON_DEV_USAGE_MAP and NEURON_CORE_USAGE_MAP of those nodes.
    """
    from hami_plugins.observe import logging
    from neuron_topology.commands.allocator import NeuronAllocatorInputs
    from neuron_topology.commands.repair import repair as run_repair

    logging.configure("error", "auto")
    client = NeuronAllocatorInputs(context=context, kubeconfig=kubeconfig).client()
    raise typer.Exit(run_repair(client, dry_run=dry_run, form=output, headers=not no_headers))


def clean(
    *,
    release: Annotated[
        str,
        typer.Option(
            "--release",
            metavar="NAMESPACE/NAME",
            help="End the server of this release of the chart first, and remove the objects named after it.",
        ),
    ] = "",
    nodes: Annotated[
        bool,
        typer.Option("--nodes", help="Also remove what operators wrote on nodes: wiring, health, sets, end."),
    ] = False,
    dry_run: options.DryRun = False,
    config: options.Config = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Remove our objects from the cluster: webhooks, Lease, Secret, HyperNodes, and the mark on pods.

    Allocations of running pods stay, because AWS's device plugin reads them there. While a server has the
    lease nothing is removed; what `helm uninstall` removes is gone already.

    Writes: deletes the webhooks' configuration, the Lease, the Secret that the server made, HyperNodes that carry our
    label; takes an annotation off pods and, with --nodes, annotations and labels off nodes.
    """
    from hami_plugins.observe import logging
    from neuron_topology.commands.allocator import NeuronAllocatorInputs
    from neuron_topology.commands.allocator import clean as run_clean

    logging.configure("warning", "auto")
    inputs = NeuronAllocatorInputs(config=config, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run_clean(inputs, release=release, nodes=nodes, dry_run=dry_run))
