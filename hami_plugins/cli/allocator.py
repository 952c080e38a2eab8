"""``hami-plugins allocator``: the server of all vendors and what it needs. The work is imported when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.plugins import command_group
from hami_plugins.cli.kit.server_commands import trust_command, verify

if TYPE_CHECKING:
    from hami_plugins.cli.allocator_server import AllocatorInputs

app = command_group(
    "allocator",
    "The server that allocates the devices of all vendors, for Volcano and for kube-scheduler, from one cache.",
)

ModeName = Annotated[
    AllocatorMode | None,
    typer.Option("--mode", help="Component that assigns Volcano's cards. Default: the setting, else extender."),
]


DeviceConfig = Annotated[
    str | None,
    typer.Option("--device-config", metavar="FILE", help="Volcano's volcano-vgpu-device-config, unchanged."),
]


@app.command()
def run(
    *,
    config: options.Config = None,
    device_config: DeviceConfig = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Run the server until it is stopped.

    Answers the extender calls of Volcano and of kube-scheduler and the API server's webhooks from one cache. Of several
    replicas one answers; /readyz says which. Every setting can also come from the environment:
    HAMI_PLUGINS__ALLOCATOR__VOLCANO__MODE=webhook.

    Writes: its lease; Bindings, where kube-scheduler leaves them to it; in mode webhook an annotation of nodes; with
    its own certificates a Secret.
    """
    from hami_plugins.cli.allocator_server import AllocatorInputs, run_server

    inputs = AllocatorInputs(config=config, device_config=device_config, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run_server(inputs))


@app.command()
def conf(
    *,
    check: options.CheckFile = None,
    live: options.Live = False,
    namespace: options.VolcanoNamespace = "volcano-system",
    kube_scheduler: Annotated[
        bool, typer.Option("--kube-scheduler", help="Print or check kube-scheduler's configuration, not Volcano's.")
    ] = False,
    mode: ModeName = None,
    scheduler: Annotated[
        str,
        typer.Option(
            "--scheduler",
            metavar="volcano-RELEASE",
            help="Release of Volcano to check for, such as volcano-1.16. Default with --live: that of the Deployment.",
        ),
    ] = "",
    config: options.Config = None,
    device_config: DeviceConfig = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Print a scheduler's configuration with the server as its extender, or check an existing one. Reads only.

    --live reads Volcano's from the cluster; kube-scheduler's is a file of its node. With --scheduler also what does not
    go together with that release. Exit code 1 if it has errors; each finding names the correction.
    """
    from hami_plugins.cli.allocator_server import (
        AllocatorInputs,
        check_conf,
        check_scheduler_conf,
        print_conf,
        print_scheduler_conf,
    )

    inputs = AllocatorInputs(
        config=config, device_config=device_config, mode=mode, context=context, kubeconfig=kubeconfig
    )
    if check is not None and live:
        raise typer.BadParameter("cannot be combined with --live", param_hint="--check")
    if scheduler and (kube_scheduler or (check is None and not live)):
        raise typer.BadParameter("goes with --check or --live of Volcano's configuration", param_hint="--scheduler")
    if kube_scheduler and live:
        raise typer.BadParameter("reads Volcano's; give kube-scheduler's with --check", param_hint="--live")
    if kube_scheduler and check is None:
        raise typer.Exit(print_scheduler_conf(inputs, form=output))
    if kube_scheduler:
        raise typer.Exit(check_scheduler_conf(inputs, source=str(check), form=output, headers=not no_headers))
    if check is None and not live:
        raise typer.Exit(print_conf(inputs, form=output))
    source = None if live else check
    raise typer.Exit(
        check_conf(inputs, source=source, namespace=namespace, scheduler=scheduler, form=output, headers=not no_headers)
    )


@app.command()
def webhooks(
    *,
    url: options.Url = "",
    ca_file: options.CaFile = None,
    exempt: options.Exempt = None,
    marked_only: Annotated[
        bool, typer.Option("--marked-only", help="Ignore Bindings of unmarked pods: plain pods, and older pods.")
    ] = False,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="Patch new Volcano Jobs for Neuron devices, as `neuron patch` does.")
    ] = False,
    config: options.Config = None,
    device_config: DeviceConfig = None,
    output: options.Output = Form.YAML,
) -> None:
    """Print the configuration of the webhooks for `kubectl apply`. Reads only.

    Pods that ask for devices are marked; the Binding of a marked pod waits for the server; all others pass while it is
    away.
    """
    from hami_plugins.cli.allocator_server import AllocatorInputs, print_webhooks

    raise typer.Exit(
        print_webhooks(
            AllocatorInputs(config=config, device_config=device_config),
            url=url,
            ca_file=ca_file,
            exempt=exempt or [],
            marked_only=marked_only,
            jobs=jobs,
            form=output,
        )
    )


def _inputs(**given: Any) -> AllocatorInputs:
    from hami_plugins.cli.allocator_server import AllocatorInputs

    return AllocatorInputs(**given)


app.command()(trust_command(_inputs, "mutating"))
app.command()(verify)


@app.command()
def policy(
    *,
    users: options.TrustedUsers = None,
    groups: options.TrustedGroups = None,
    name: options.PolicyName = "",
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Print the policy for the device records on nodes, not the one for pods.")
    ] = False,
    config: options.Config = None,
    output: options.Output = Form.YAML,
) -> None:
    """Print the admission policy that lets only schedulers, the server, and node agents write allocations. Reads only.

    Pipe it to `kubectl apply -f -`. It covers the keys of the vendors that the settings name, on pods, pods/status,
    bindings and ephemeral containers, needs no process, and needs Kubernetes 1.30. It trusts the server's account and
    those of the manifests of HAMi, Volcano and AWS; list yours with --user.
    """
    from hami_plugins.cli.allocator_server import AllocatorInputs, print_policy

    raise typer.Exit(
        print_policy(
            AllocatorInputs(config=config),
            users=users or (),
            groups=groups or (),
            name=name,
            nodes=nodes,
            form=output,
        )
    )


@app.command()
def stale_policy(
    *,
    version: Annotated[
        str, typer.Option("--version", metavar="VERSION", help="Version of the API that the API server serves.")
    ] = "v1beta1",
    output: options.Output = Form.YAML,
) -> None:
    """Print the admission policy that removes stale allocations of Volcano from Bindings. Reads only.

    The smallest fix, without a process of ours: a gang that had to wait gets its own cards. Nothing else is corrected.
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
    """List the bound pods with wrong devices: of another node, allocated twice, unknown, or none. Reads only.

    Exit code 1 if there are any.
    """
    from hami_plugins.cli.allocator_server import AllocatorInputs
    from hami_plugins.cli.allocator_server import audit as run_audit
    from hami_plugins.observe import logging

    logging.configure("error", "auto")
    inputs = AllocatorInputs(config=config, device_config=device_config, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run_audit(inputs, form=output, headers=not no_headers))


@app.command()
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
        typer.Option("--nodes", help="Also remove what operators wrote on Neuron nodes: wiring, health, sets, end."),
    ] = False,
    dry_run: options.DryRun = False,
    config: options.Config = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Remove our objects from the cluster: webhooks, Lease, Secret, policies, HyperNodes, and marks on pods and nodes.

    Allocations of running pods stay, because device plugins and agents read them there. While a server has the
    lease nothing is removed; `helm uninstall` removes its own objects.

    Writes: deletes the webhooks' configuration, the Lease, the Secret that the server made, the admission policies,
    HyperNodes that carry our label; removes an annotation from pods and nodes and, with --nodes, annotations and labels
    from nodes.
    """
    from hami_plugins.cli.allocator_server import AllocatorInputs
    from hami_plugins.cli.allocator_server import clean as run_clean
    from hami_plugins.observe import logging

    logging.configure("warning", "auto")
    inputs = AllocatorInputs(config=config, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run_clean(inputs, release=release, nodes=nodes, dry_run=dry_run))


@app.command()
def settings(
    *,
    hami_values: Annotated[
        str | None,
        typer.Option("--from-hami-values", metavar="FILE|-", help="Values of HAMi's chart (helm get values -o yaml)."),
    ] = None,
    hami_devices: Annotated[
        str | None,
        typer.Option("--from-device-config", metavar="FILE|-", help="HAMi's device-config.yaml, or its ConfigMap."),
    ] = None,
    output: options.Output = Form.YAML,
) -> None:
    """Print settings for `run --config` that allocate as an installed HAMi does. Reads only.

    A note on stderr names each word that is not taken over, with the reason or its new place.
    """
    from hami_plugins.cli.allocator_takeover import print_settings

    if hami_values is None and hami_devices is None:
        raise typer.BadParameter("give --from-hami-values, --from-device-config, or both")
    raise typer.Exit(print_settings(hami_values, hami_devices, form=output))


@app.command("chart-values")
def chart_values(*, config: options.Config = None, output: options.Output = Form.YAML) -> None:
    """Print values of the chart for the vendors of the settings, also for those of other packages. Reads only.

    The chart knows the built-in vendors. A vendor of another package is an entry of `moreVendors`.
    """
    from hami_plugins.cli.allocator_server import AllocatorInputs, print_chart_values

    raise typer.Exit(print_chart_values(AllocatorInputs(config=config), form=output))


@app.command()
def check(
    *,
    snapshot: options.Snapshot = None,
    account: Annotated[
        str,
        typer.Option("--account", metavar="NAMESPACE/NAME", help="ServiceAccount of the allocator. Default: settings."),
    ] = "",
    config: options.Config = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """List what is missing or in the way of a takeover from a running HAMi, or after one. Reads only.

    Looks at HAMi's programs, webhooks, schedulers' configurations, registers, locks, and pods between two schedulers.
    Exit code 1 if an error or a warning is among them.
    """
    from hami_plugins.cli.allocator_server import AllocatorInputs
    from hami_plugins.cli.allocator_takeover import check as run_check

    inputs = AllocatorInputs(config=config, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run_check(inputs, snapshots=snapshot or (), account=account, form=output, headers=not no_headers))
