"""``hami-plugins neuron hypernodes``: what HyperNodes should be, what is there, and the way from one to the other.

The work is imported when it runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.plugins import command_group

app = command_group(
    "hypernodes",
    "Volcano's HyperNodes, made of the nodes' labels (network layers, UltraServers, zones): a tree with one "
    "parent for each, the same names in every cluster, and tier names that jobs can carry.",
)
Prune = Annotated[
    bool,
    typer.Option(
        "--prune", help="Remove our HyperNodes that are no longer needed; other HyperNodes are never touched."
    ),
]


@app.command("print")
def print_hypernodes(
    *,
    snapshot: options.Snapshot = None,
    fleet: options.Fleet = None,
    output: options.Output = Form.YAML,
    no_headers: options.NoHeaders = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Print the HyperNodes, to be applied by other means. Reads only.

    Exit code 1 if labels contradict each other; the contradictions are on stderr, and the output is still a tree.
    """
    from hami_plugins.cli.kit.inputs import cluster_source
    from neuron_topology.commands.hypernodes import HyperNodesOptions, print_tree

    source = cluster_source(snapshot, fleet, context, kubeconfig)
    raise typer.Exit(print_tree(HyperNodesOptions(source=source, form=output, headers=not no_headers)))


@app.command()
def diff(
    *,
    prune: Prune = False,
    snapshot: options.Snapshot = None,
    output: options.Output = Form.TABLE,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Print what `apply` would do, and which foreign HyperNodes conflict with it. Reads only.

    Exit code 1 if there is anything to report. A dump for --snapshot needs nodes and hypernodes.topology.volcano.sh.
    """
    from hami_plugins.cli.kit.inputs import cluster_source
    from neuron_topology.commands.hypernodes import HyperNodesOptions, print_difference

    source = cluster_source(snapshot, None, context, kubeconfig)
    raise typer.Exit(print_difference(HyperNodesOptions(source=source, form=output), prune=prune))


@app.command()
def apply(
    *,
    prune: Prune = False,
    dry_run: options.DryRun = False,
    output: options.Output = Form.TABLE,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Create, update and delete HyperNodes until they match the labels.

    Writes: HyperNodes that carry our label, and no others. At no moment does a node have two parents; if foreign
    HyperNodes would give it a second one, nothing is written, and the exit code is 1.
    """
    from hami_plugins.cli.kit.inputs import ClusterSource
    from neuron_topology.commands.hypernodes import HyperNodesOptions
    from neuron_topology.commands.hypernodes import apply as run_apply

    order = HyperNodesOptions(source=ClusterSource(context=context, kubeconfig=kubeconfig), form=output)
    raise typer.Exit(run_apply(order, prune=prune, dry_run=dry_run))
