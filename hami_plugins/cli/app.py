"""The commands with their options and help. Their work is elsewhere and imported only when they run."""

from typing import Annotated, Any

import typer

from hami_plugins.cli import completion as completing
from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.light import LightCommand
from hami_plugins.cli.kit.option_group import taking
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.plugins import CONTEXT, Commands
from hami_plugins.cli.option_groups import (
    DefragOptions,
    ExplainOptions,
    NodesOptions,
    PlanOptions,
    SandboxOptions,
    UsageOptions,
    VetOptions,
)

app = typer.Typer(
    name="hami-plugins",
    cls=Commands,
    help="Shared accelerators on Kubernetes: would a job fit, where, with which annotations, and if not, what would "
    "change that. Only commands that say so write to a cluster.",
    epilog="Exit codes: 0 success, 1 findings (a pod does not fit, a check found a defect), 2 the command failed.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings=CONTEXT,
)


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: options.Debug = False,  # noqa: ARG001 - the edge has taken it from the arguments
) -> None:
    """Options of the program itself."""
    if version:
        print_version()
    elif ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def print_version() -> None:
    """Print the version."""
    from hami_plugins.observe.build import version

    typer.echo(f"hami-plugins {version()}")


app.command("version")(print_version)


@app.command("help")
def print_help(
    ctx: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="The command.")] = None,
) -> None:
    """Print the help of the program or of a command."""
    context: Any = ctx.parent
    found: Any = context.command
    for name in command or ():
        inner = found.get_command(context, name) if hasattr(found, "get_command") else None
        if inner is None:
            ctx.fail(f"No such command {name!r}.")
        found, context = inner, typer.Context(inner, info_name=name, parent=context)
    typer.echo(found.get_help(context))


@app.command()
@taking(PlanOptions)
def plan(order: PlanOptions) -> None:
    """Report whether workloads fit, on which nodes and with which slices, and which changes help those that do not fit.

    The cluster is a dump (--snapshot), a declared fleet (--fleet), or else the one that kubeconfig names. With --usage
    the page also shows how much containers use of their allocations.

    Example: kubectl get nodes,pods,resourcequotas -A -o json | hami-plugins plan -f job.yaml --snapshot -
    """
    from hami_plugins.cli.kit.inputs import present

    present(*(order.files or ()), *(order.snapshot or ()), *(order.node_groups or ()), *(order.usage or ()))
    present(order.settings)
    from hami_plugins.cli.plan import run

    raise typer.Exit(run(order))


@app.command()
@taking(NodesOptions)
def nodes(order: NodesOptions) -> None:
    """Show every device of a cluster: who holds what of it, what is free, and which free part no request can get.

    Room is stranded where a device in use refuses even the smallest request: all its slots are taken, all its cores are
    promised, or no partition fits. Room on unhealthy or cordoned devices and nodes is unavailable. The cluster is a
    dump (--snapshot), a declared fleet (--fleet), or else the one that kubeconfig names. Exit code 1 if a part of the
    cluster could not be read.

    Example: hami-plugins nodes --watch

    Example: kubectl get nodes,pods -A -o json | hami-plugins nodes --snapshot - 'gpu-*' --free
    """
    from hami_plugins.cli.kit.inputs import present

    present(*(order.snapshot or ()), order.settings)
    from hami_plugins.cli.nodes import run

    raise typer.Exit(run(order))


@app.command()
@taking(UsageOptions)
def usage(order: UsageOptions) -> None:
    """Add up the device-hours and GiB-hours of each namespace, queue and owner, and list pods that idle. Reads only.

    A device-hour is a whole device for an hour; a slice counts with the larger one of its shares of memory and of
    cores. Prometheus also says what containers used; a journal knows to within 15 seconds how long each pod held its
    devices. Exit code 1 if a part of the time is not known. `volcano-vgpu usage` shows what containers use now.

    Example: hami-plugins usage --since 7d --prometheus http://localhost:9090
    """
    from hami_plugins.cli.usage import run

    raise typer.Exit(run(order))


@app.command()
@taking(VetOptions)
def vet(order: VetOptions) -> None:
    """Look for mistakes in manifests: names, units, ignored annotations, shapes that fit nowhere, wrong schedulers.

    With --snapshot or --fleet it also reports what the cluster cannot give, and defects of its own nodes, queues and
    gangs; --snapshot without -f checks only those. Where releases of Volcano differ, it reports on the one that
    --scheduler, the settings (volcano: {release: 1.14.1, assigner: extender}) or the given objects name; for an unknown
    release it assumes the worst. An annotation or a comment, hami-plugins.io/vet-ignore: HP305, hides findings of an
    object. --explain HP305 gives a rule's reason and remedy. Exit code 1 for errors and warnings, not for notes.

    Example: hami-plugins vet -f manifests/ -o sarif > vet.sarif

    Example: kubectl get nodes,pods,queues,podgroups -A --show-managed-fields -o json | hami-plugins vet --snapshot -

    Whether an allocator serves the cluster is read off its webhooks: add mutatingwebhookconfigurations to the kinds.
    """
    from hami_plugins.cli.kit.inputs import present

    present(*(order.files or ()), *(order.snapshot or ()), order.settings)
    from hami_plugins.cli.vet import explain_rule, list_rules, run

    if order.rule:
        raise typer.Exit(explain_rule(order.rule, order.form))
    if order.list_rules:
        raise typer.Exit(list_rules(order.form, rules_url=order.rules_url))
    raise typer.Exit(run(order))


@app.command()
@taking(ExplainOptions)
def explain(order: ExplainOptions) -> None:
    """Explain why a pod is pending or why it is on its node, and print the smallest change that works.

    With --usage it also reports how much a running pod uses of its allocation, and which allocations stay unused while
    a pod waits. For a job it explains one pod of each task or, before Volcano has created any, why the job waits.

    Example: hami-plugins explain pod research/train-0
    """
    from hami_plugins.cli.kit.inputs import present

    present(*(order.snapshot or ()), *(order.node_groups or ()), *(order.usage or ()), order.settings)
    from hami_plugins.cli.explain import run

    raise typer.Exit(run(order))


@app.command()
@taking(DefragOptions)
def defrag(order: DefragOptions) -> None:
    """Find the fewest running pods to move so that a waiting job fits, or so that stranded memory is usable again.

    Each move has a proven new place, and there is room for it when its turn comes. Pods of kube-system, critical pods,
    pods without a controller, pods with volcano.sh/preemptable: "false", members of gangs at their minimum, and pods
    whose PodDisruptionBudget allows no eviction stay. The cluster is a dump (--snapshot), a declared fleet (--fleet),
    or else the one that kubeconfig names. Exit code 1 if no allowed moves reach the goal.

    Example: hami-plugins defrag --for research/train-0 --max-moves 4
    """
    from hami_plugins.cli.kit.inputs import present

    present(*(order.snapshot or ()), order.settings)
    from hami_plugins.cli.defrag import run

    raise typer.Exit(run(order))


@app.command()
def snapshot(
    *,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact",
            help="Replace every text that --kept-words does not list by a pseudonym; decisions stay the same. Names, "
            "labels, zones, device UUIDs, PCI buses and UIDs get pseudonyms; amounts, numbers and times stay.",
        ),
    ] = False,
    kept_words: Annotated[
        bool, typer.Option("--kept-words", help="Print the words that --redact keeps, and exit.")
    ] = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Where to write it (.gz packs it). Default: stdout.")
    ] = None,
    given: options.Snapshot = None,
    fleet: options.Fleet = None,
    output: options.Output = Form.JSON,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
    settings: options.Settings = None,
) -> None:
    """Write one file that plan, explain and vet can use elsewhere: the cluster, trimmed to the fields that they read.

    The cluster is the one that kubeconfig names, a dump (--snapshot), or a fleet (--fleet).
    """
    from hami_plugins.cli.kit.inputs import cluster_source, present

    present(*(given or ()), settings)
    from hami_plugins.cli.snapshot import print_kept, run

    if kept_words:
        raise typer.Exit(print_kept(settings))
    source = cluster_source(given, fleet, context, kubeconfig)
    raise typer.Exit(run(source, redacted=redact, out=out, form=output, settings=settings))


@app.command()
def demo(
    html: Annotated[
        str,
        typer.Option(
            "--html", metavar="FILE", help="Where to write the page; pages of the live part go to the same folder."
        ),
    ] = "build/demo.html",
    live: Annotated[
        bool, typer.Option("--live/--no-live", help="Whether to run an embedded cluster and the real programs as well.")
    ] = True,
) -> None:
    """Plan a dozen workloads on a fleet of many vendors, then run a gang on an embedded cluster for real.

    The node agents and the allocator are the real programs. The demo needs no cluster and no cards, uses only this
    machine, and leaves only the pages.
    """
    from hami_plugins.cli.demo import run

    raise typer.Exit(run(html, live=live))


@app.command()
@taking(SandboxOptions)
def sandbox(order: SandboxOptions) -> None:
    """Run a cluster without devices on this machine until Ctrl-C, for kubectl and your own manifests.

    The API server, the kubelets, and the scheduler are embedded; they listen on 127.0.0.1 only. The node agents, the
    allocators, and the Koordinator adapter that the fleet needs are the real programs. The scheduler stands in for
    Volcano and also places pods of other schedulers as `plan` would. Containers run no image: `kubectl logs` prints
    what each container was given. No controllers run except those for Volcano Jobs.

    Example: hami-plugins sandbox --fleet mixed
    """
    from hami_plugins.cli.sandbox import run

    raise typer.Exit(run(order))


@app.command(cls=LightCommand)
def vendors(
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One vendor, in full.", autocompletion=completing.vendors)
    ] = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
    settings: options.Settings = None,
) -> None:
    """List the vendors: resource names and units, what their devices can do, and for which models that holds.

    Isolation, filters, NUMA, topology and the container runtime are facts with a source; where no source says anything
    the answer is unknown. With NAME it prints annotations, defaults, the device plugin and every source as well.
    """
    from hami_plugins.cli.about import list_vendors

    raise typer.Exit(list_vendors(name, form=output, headers=not no_headers, settings=settings))


@app.command("new-vendor")
def new_vendor(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The vendor's name, such as Acme.", show_default=False)],
    domain: Annotated[
        str,
        typer.Option("--domain", metavar="DOMAIN", help="Domain of its resource names, such as acme.example."),
    ],
    directory: Annotated[
        str | None,
        typer.Option("--directory", metavar="DIR", help="Where to write; must not exist. Default: hami-NAME."),
    ] = None,
) -> None:
    """Write a Python package that adds a vendor: its rules, tests, a node, a pod, and what the allocator needs.

    Example: hami-plugins new-vendor Acme --domain acme.example
    """
    from hami_plugins.cli.new_vendor import write

    raise typer.Exit(write(name, domain, directory))


@app.command()
def fleets(
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Print this shipped fleet as a file to start from.", autocompletion=completing.fleets
        ),
    ] = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """List the shipped fleets and the shapes of nodes that fleet files can name.

    A fleet file describes any other nodes by their devices; docs/reference/fleet-files.md has its format.
    """
    from hami_plugins.cli.about import list_fleets

    raise typer.Exit(list_fleets(name, form=output, headers=not no_headers))


@app.command("prices")
def list_prices(
    *,
    types: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TYPE]...", help="Instance types, compared with the first. Default: all."),
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option("--prices", metavar="NAME|FILE", help="The price table. Default: the shipped aws-us-east-1."),
    ] = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """List what instances with devices cost per hour, for each device as well, or compare some types.

    The shipped table is dated and of one region; docs/tasks/growing-clusters.md says how to write your own.

    Example: hami-plugins prices trn1.32xlarge p4d.24xlarge p5.48xlarge
    """
    from hami_plugins.cli.prices import run

    raise typer.Exit(run(types or (), name=prices, form=output, headers=not no_headers))


@app.command("settings")
def list_settings(
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Only settings whose key, variable or program begins with NAME, such as allocator.",
        ),
    ] = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """List the settings of every program: key, allowed values, default, meaning, environment variable.

    The program itself reads a YAML file (--settings) or HAMi's device-config.yaml; servers and agents read theirs by
    --config. Variables win over files.

    Example: hami-plugins settings volcano.queue
    """
    from hami_plugins.cli.about import list_settings

    raise typer.Exit(list_settings(name, form=output, headers=not no_headers))


@app.command()
def allocation_policy(
    *,
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SYSTEM]...",
            help="Systems whose allocation keys to protect: hami, koordinator, neuron, volcano. Default: all.",
            autocompletion=completing.systems,
        ),
    ] = None,
    users: options.TrustedUsers = None,
    groups: options.TrustedGroups = None,
    name: options.PolicyName = "",
    output: options.Output = Form.YAML,
    settings: options.Settings = None,
) -> None:
    """Print the admission policy that lets only schedulers, the allocator, and node agents write allocation keys.

    Pipe it to `kubectl apply -f -`. It covers pods, pods/status, and bindings, needs no process, and needs Kubernetes
    1.30. It trusts the accounts of each system's own manifests and charts; list yours with --user, for example
    system:serviceaccount:NAMESPACE:NAME. Reads only.
    """
    from hami_plugins.cli.allocation_policy import print_policy

    raise typer.Exit(
        print_policy(systems or (), users=users or (), groups=groups or (), name=name, form=output, settings=settings)
    )


@app.command()
def completion(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="bash|zsh|fish|powershell", help="The shell to complete in.", autocompletion=completing.shells
        ),
    ],
) -> None:
    """Print the completion script of a shell.

    Example: source <(hami-plugins completion bash)
    """
    from hami_plugins.cli.about import completion_script

    completion_script(shell)
