"""``hami-plugins neuron``: Trainium and Inferentia. The work is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.option_group import taking
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.plugins import command_group
from neuron_topology.commands.hypernodes_cli import app as hypernodes_app
from neuron_topology.commands.options import (
    ObjectForm,
    ObjectOutput,
    PatchOptions,
    SimulateOptions,
    SubmitOptions,
)

app = command_group(
    "neuron",
    "For clusters with AWS Trainium and Inferentia: devices that are really linked, on any scheduler, and jobs of "
    "TorchX and Volcano that get them.",
)
app.add_typer(hypernodes_app)


@app.command()
@taking(PatchOptions)
def patch(order: PatchOptions) -> None:
    """Make Volcano Jobs for Neuron devices such that Volcano can see and place them, and print them. Reads only.

    Requests as large as limits, today's resource names, cpu and memory that a node has, tolerations, the gang's size,
    what follows the loss of a pod, and how near the pods have to be. Everything else in the files stays unchanged.
    With a cluster (--snapshot, --context, --kubeconfig) its own nodes decide how much cpu and memory a pod may request
    (else a table of EKS's nodes does), and a requested tier without HyperNodes is reported.

    Example: torchx run --dryrun ... | hami-plugins neuron patch -f - | kubectl create -f -
    """
    from hami_plugins.cli.kit.inputs import present

    present(*(order.files or ()), *(order.snapshot or ()))
    from neuron_topology.commands.patch import run

    raise typer.Exit(run(order))


@app.command()
@taking(SimulateOptions)
def simulate(order: SimulateOptions) -> None:
    """Compare allocation policies on many random jobs, or on your own. Reads only.

    For each policy: devices in use, jobs rejected although a node had enough free devices (fragmentation), and jobs
    accepted by size, each with its 95 % confidence interval. Every policy gets the same jobs.

    Example: hami-plugins neuron simulate --mix pairs --load 0.8 --load 1.1 --html pairs.html

    Example: hami-plugins neuron simulate --trace jobs.csv --nodes 12 --instance trn2.48xlarge
    """
    from hami_plugins.observe import logging
    from neuron_topology.commands.simulate import run

    logging.configure("warning", "auto")
    raise typer.Exit(run(order))


@app.command()
def instances(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[TYPE]", help="Print one type in full. Default: all, one line each."),
    ] = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """List the instance types with their devices, links and network, and the sets that are allocated. Reads only.

    Of one type also how likely a set is free while other devices are in use, for AWS's sets and for all linked ones.
    """
    from neuron_topology.commands.instances import instances as run

    raise typer.Exit(run(name, form=output, headers=not no_headers))


@app.command()
def component() -> None:
    """Print the path of our TorchX component: torchx run $(hami-plugins neuron component) --image IMAGE"""
    from hami_plugins.cli.kit import output
    from neuron_topology.torchx.driver import COMPONENT

    output.line(COMPONENT)


@app.command()
@taking(SubmitOptions)
def submit(order: SubmitOptions) -> None:
    """Submit a training job of TorchX, patched as `patch` does it, if its queue and its cluster can run it.

    Reports why the job would wait, and what would help. The claims that it mounts have to be there, bound or bound by
    its pods, and for as many nodes as it has pods. Needs TorchX: pip install '.[torchx]' in the pack's tree.
    With --precompile a first job fills the compile cache, and the job itself starts when that has completed. The first
    keeps the second, so that `neuron resume` goes on where a client was stopped.

    Writes: the Volcano Job, or both.

    Example: hami-plugins neuron submit --queue test -- --image I --script train.py -h neuron_trn1.32xlarge -j 2
    """
    from neuron_topology.commands.submit import run

    raise typer.Exit(run(order))


@app.command()
def resume(
    *,
    job: Annotated[str, typer.Argument(metavar="JOB", help="NAMESPACE/NAME, or the name that `submit` printed first.")],
    namespace: options.Namespace = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Wait for a job of `submit --precompile`, and create the training job that it keeps.

    Exit code 1 if it fails or is deleted; the training job is then not created. May be interrupted and run again, also
    while a `submit` waits: the job is created once.

    Writes: the Volcano Job.

    Example: hami-plugins neuron resume kubernetes://torchx/team:bert-x1y2
    """
    from hami_plugins.kube.client import connect
    from neuron_topology.commands.resume import named, run

    name = named(job, namespace=namespace or "default")
    client = connect(kubeconfig=kubeconfig, context=context, component="neuron-resume")
    raise typer.Exit(run(client, name))


@app.command()
def queue(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")],
    weight: Annotated[int, typer.Option("--weight", min=1, help="Its share relative to other queues.")] = 1,
    output: ObjectOutput = ObjectForm.YAML,
    snapshot: options.Snapshot = None,
    fleet: options.Fleet = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Print a Volcano queue that is as large as the cluster's Neuron devices and EFA interfaces. Reads only.

    Only these are limited: a limit of cpu below a machine's, as in the queue of AWS's blueprint, keeps every job out.

    Example: hami-plugins neuron queue test | kubectl apply -f -
    """
    from hami_plugins.cli.kit.inputs import cluster_source
    from neuron_topology.commands.queue import run

    source = cluster_source(snapshot, fleet, context, kubeconfig)
    raise typer.Exit(run(name, source, weight=weight, form=output))


@app.command()
def ranks(
    *,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODE]...", help="These nodes. Default: all.")] = None,
    job: Annotated[str, typer.Option("--job", metavar="NS/NAME", help="The pods of this Volcano Job, by node.")] = "",
    env: Annotated[
        bool, typer.Option("--env", help="Print NEURON_NODE_ORDER=..., as `patch --node-order` gives it to jobs.")
    ] = False,
    snapshot: options.Snapshot = None,
    fleet: options.Fleet = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """List nodes by their position in the network, so that neighbours in rank are near. Reads only."""
    from hami_plugins.cli.kit.inputs import cluster_source
    from neuron_topology.commands.hypernodes import HyperNodesOptions, print_ranks

    source = cluster_source(snapshot, fleet, context, kubeconfig)
    order = HyperNodesOptions(source=source, form=output, headers=not no_headers)
    raise typer.Exit(print_ranks(order, nodes=nodes or (), job=job, env=env))


@app.command()
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
    from hami_plugins.kube.client import connect
    from hami_plugins.observe import logging
    from neuron_topology.commands.repair import COMPONENT
    from neuron_topology.commands.repair import repair as run_repair

    logging.configure("error", "auto")
    client = connect(kubeconfig=kubeconfig, context=context, component=COMPONENT)
    raise typer.Exit(run_repair(client, dry_run=dry_run, form=output, headers=not no_headers))


@app.command()
def usage(
    *,
    agent_url: Annotated[
        str, typer.Option("--agent", metavar="URL", help="The node's agent: its port for probes and metrics.")
    ] = "http://127.0.0.1:9399",
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """List what the containers of a node use of their Neuron devices and what they were allocated. Reads only.

    Asks the node's agent, which reads neuron-monitor. `plan` and `explain` take `-o json` of it as --usage.

    Example: kubectl exec -n NS AGENT-POD -- python -m hami_plugins.cli neuron usage -o json > usage.json
    """
    from neuron_topology.commands.usage import show_usage

    raise typer.Exit(show_usage(agent_url, form=output, headers=not no_headers))


@app.command()
def clean(
    *,
    release: Annotated[
        str,
        typer.Option(
            "--release",
            metavar="NAMESPACE/NAME",
            help="End the agents of this release of the chart first. NAME is the name of its objects.",
        ),
    ] = "",
    dry_run: options.DryRun = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Remove what the agents wrote on nodes: devices and links, health, register. The chart runs it at uninstallation.

    Broken devices that you named yourself in hami-plugins.io/neuron-health stay. An agent that still runs describes its
    node again. `hami-plugins allocator clean` removes what the allocator wrote.

    Writes: with --release deletes the DaemonSet of the agents; removes annotations from nodes.
    """
    from neuron_topology.commands.agent import run_clean

    raise typer.Exit(run_clean(release, dry_run=dry_run, context=context, kubeconfig=kubeconfig))


@app.command()
def agent(
    *,
    config: options.Config = None,
    node_name: options.NodeName = None,
    machine_file: Annotated[
        str | None,
        typer.Option(
            "--machine-file",
            metavar="FILE",
            help="Take the machine from this file, which can also make devices, links and memory fail.",
        ),
    ] = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Run the agent of one node: describes its devices, links and health, and finds processes that use others' devices.

    It runs next to AWS's device plugin, which hands devices to containers. The chart runs it on every Neuron node.

    Writes: annotations of this node, when they change, and events on it and its pods.
    """
    from neuron_topology.commands.agent import NeuronAgentInputs, run_agent

    raise typer.Exit(run_agent(NeuronAgentInputs(config, node_name, machine_file, context, kubeconfig)))
