"""``hami-plugins koordinator``: for clusters scheduled by Koordinator. The work is imported when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.option_group import taking
from hami_plugins.cli.kit.plugins import command_group
from hami_plugins.cli.kit.server_commands import trust_command, verify
from hami_plugins.errors import ManifestError
from koordinator_adapter.commands.options import MigrateOptions, TranslateOptions

if TYPE_CHECKING:
    from koordinator_adapter.commands.server import AdapterInputs

app = command_group(
    "koordinator",
    "For clusters scheduled by Koordinator: pods in HAMi's or Volcano's words become pods in Koordinator's, and "
    "back, with a report of what is lost.",
)


@app.callback()
def koordinator() -> None:
    """For clusters scheduled by Koordinator."""


@app.command()
@taking(TranslateOptions)
def translate(order: TranslateOptions) -> None:
    """Translate manifests: pods, every kind of workload, PodGroups, queues and quotas, Volcano's Jobs.

    Comments and order stay where a file can be changed in place. Exit codes: 0 nothing is lost, 1 something is lost or
    refused, 2 cannot do it. Writes nothing without --in-place.
    """
    from hami_plugins.cli.kit.inputs import present

    settings = order.translation.read()
    present(*(order.files or ()), order.settings)
    from koordinator_adapter.commands.translate import translate as run

    raise typer.Exit(run(order, settings))


@app.command()
def doctor(
    *,
    snapshot: options.Snapshot = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
    form: options.Output = options.Form.TABLE,
) -> None:
    """Report what keeps the cluster from sharing cards as its pods promise, each with the command that fixes it.

    Looks at a live cluster, or at dumps (--snapshot) of nodes, pods, Device objects, DaemonSets, Deployments,
    ConfigMaps, Namespaces and MutatingWebhookConfigurations. Exit codes: 0 nothing is wrong, 1 something is, 2 cannot
    do it. Writes nothing.
    """
    from hami_plugins.cli.kit.inputs import cluster_source
    from koordinator_adapter.commands import doctor as diagnosing

    raise typer.Exit(diagnosing.run(cluster_source(snapshot, None, context, kubeconfig), form=form))


@app.command()
def serve(
    *,
    config: options.Config = None,
    settings: options.Settings = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Run the adapter's server until it is stopped: webhooks for pods, Device objects for nodes.

    Pods with a label, or in namespaces with it, are translated for Koordinator. Nodes whose cards koordlet does not
    report get Device objects. Every replica answers, one publishes. Every setting can also come from the environment:
    HAMI_PLUGINS__KOORDINATOR__INJECTION__MODE=auto.

    Writes: Device objects, Koordinator's resources and labels of nodes, its lease; with its own certificates a Secret.
    """
    from koordinator_adapter.commands.server import AdapterInputs, run_server

    given = AdapterInputs(config=config, device_config=settings, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run_server(given))


@app.command()
def node(
    *,
    node_name: options.NodeName = None,
    config: options.Config = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Keep HAMi-core, and the label that promises limits, on this node until stopped.

    The library is replaced by renaming, so that running containers keep theirs. The label is
    removed when the library is missing.

    Writes: files below /usr/local/vgpu and /tmp/vgpulock, the label of its own node.
    """
    from koordinator_adapter.commands.server import AdapterInputs, run_node

    raise typer.Exit(run_node(AdapterInputs(config=config, context=context, kubeconfig=kubeconfig), node_name))


@app.command()
def clean(
    *,
    labels: Annotated[
        bool, typer.Option("--labels", help="Also remove our label by which nodes promise limits.")
    ] = False,
    dry_run: options.DryRun = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Remove what the server has created: its Device objects, and the sums and labels of their nodes.

    Run this after the server has ended. Running pods keep their cards and limits; Device objects of other publishers
    stay.
    """
    from koordinator_adapter.commands.server import AdapterInputs, run_clean

    raise typer.Exit(run_clean(AdapterInputs(context=context, kubeconfig=kubeconfig), labels=labels, dry_run=dry_run))


app.command()(verify)


@app.command()
def webhooks(
    *,
    url: options.Url = "",
    ca_file: options.CaFile = None,
    exempt: options.Exempt = None,
    config: options.Config = None,
    output: options.Output = options.Form.YAML,
) -> None:
    """Print the configurations of the webhooks, to be applied. Reads only."""
    from koordinator_adapter.commands.server import AdapterInputs, print_webhooks

    given = AdapterInputs(config=config)
    raise typer.Exit(print_webhooks(given, url=url, ca_file=ca_file, exempt=exempt or [], form=output))


def _inputs(**given: Any) -> AdapterInputs:
    from koordinator_adapter.commands.server import AdapterInputs

    return AdapterInputs(**given)


app.command()(trust_command(_inputs, "mutating", "validating"))


@app.command()
@taking(MigrateOptions)
def migrate(order: MigrateOptions) -> None:
    """Migrate to another scheduler: records of running pods, then groups, then workloads, in steps that can be undone.

    Prints the steps of a namespace (or -A) of a live cluster, or of dumps (--snapshot) of workloads, pods, PodGroups
    and Device objects; writes nothing without --apply. A step is recorded before it is executed, and executed
    only on an object that is still as planned. Exit codes: 0 fine, 1 something cannot be migrated or a step was not
    executed, 2 cannot do it.
    """
    if order.apply and order.dry_run:
        raise ManifestError("--apply and --dry-run exclude each other; leave one out")
    settings = order.translation.read()
    from koordinator_adapter.commands.migrate import migrate as run

    raise typer.Exit(run(order, settings))
