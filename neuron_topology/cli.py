"""``hami-plugins neuron``: Trainium and Inferentia. The work is imported when it runs."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.options import Form
from hami_plugins.cli.kit.plugins import CommandGroup
from neuron_topology.commands.allocator_cli import allocator, audit, clean, conf, repair, trust, verify, webhooks
from neuron_topology.commands.hypernodes_cli import app as hypernodes_app

if TYPE_CHECKING:
    from hami_plugins.cli.kit.inputs import ClusterSource
    from neuron_topology.core.jobs.patch import JobDefaults

app = typer.Typer(
    name="neuron",
    cls=CommandGroup,
    help="For clusters with AWS Trainium and Inferentia: devices that are really linked, on any scheduler, and jobs of "
    "TorchX and Volcano that get them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(hypernodes_app)


class NetworkMode(StrEnum):
    """What happens to a gang that does not fit into one part of the network."""

    HARD = "hard"
    SOFT = "soft"


class ObjectForm(StrEnum):
    """How objects for a cluster are printed."""

    YAML = "yaml"
    JSON = "json"


ObjectOutput = Annotated[ObjectForm, typer.Option("--output", "-o", help="How to print the objects.")]
Tier = Annotated[
    str,
    typer.Option(
        "--tier",
        metavar="NAME|none",
        help="The widest part of the network that a gang may span: ultraserver-2, ultraserver-4, network-layer-3, "
        "network-layer-2, network-layer-1, zone, cluster.",
    ),
]
TierMode = Annotated[NetworkMode, typer.Option("--tier-mode", help="Whether a gang waits rather than span more.")]
Restarts = Annotated[
    int | None,
    typer.Option(
        "--restarts",
        min=0,
        help="How often the whole job restarts after the loss of a pod; 0: it ends. Default: the job's, else 3.",
    ),
]
Duration = Annotated[
    str,
    typer.Option(
        "--duration",
        metavar="6h",
        help="Duration of jobs that set none: they do not start on machines whose Capacity Block ends earlier.",
    ),
]


@app.command()
def patch(
    *,
    files: options.Files = None,
    recursive: options.Recursive = False,
    tier: Tier = "zone",
    tier_mode: TierMode = NetworkMode.HARD,
    restarts: Restarts = None,
    duration: Duration = "",
    order: Annotated[
        bool,
        typer.Option(
            "--node-order", help="Pass the order of the cluster's nodes to the members, as `ranks` prints it."
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Print no objects; exit code 1 when something would change.")
    ] = False,
    output: ObjectOutput = ObjectForm.YAML,
    snapshot: options.Snapshot = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Make Volcano Jobs for Neuron devices such that Volcano can see and place them, and print them. Reads only.

    Requests as large as limits, today's resource names, cpu and memory that a node has, tolerations, the gang's size,
    what follows the loss of a pod, and how near the pods have to be. Everything else in the files stays unchanged.
    With a cluster (--snapshot, --context, --kubeconfig) its own nodes decide how much cpu and memory a pod may request
    (else a table of EKS's nodes does), and a requested tier without HyperNodes is reported.

    Example: torchx run --dryrun ... | hami-plugins neuron patch -f - | kubectl create -f -
    """
    from hami_plugins.cli.kit.inputs import present

    present(*(files or ()), *(snapshot or ()))
    from neuron_topology.commands import hypernodes
    from neuron_topology.commands.patch import PatchOptions, run

    source = _source(snapshot, None, context, kubeconfig)
    defaults = _defaults(tier, tier_mode, restarts, duration)
    if order or source.named:
        network = hypernodes.network(hypernodes.HyperNodesOptions(source=source), ordered=order)
        ranked = network.node_order if order else ()
        defaults = replace(defaults, known=network.tiers, rooms=network.rooms, node_order=ranked)
    given = PatchOptions(
        files=tuple(files or ()), recursive=recursive, defaults=defaults, form=Form(output), check=check
    )
    raise typer.Exit(run(given))


@app.command()
def simulate(
    *,
    file: Annotated[
        str | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE|-",
            help="What to simulate (YAML): mixes, nodes, loads ... Options win.",
        ),
    ] = None,
    trace: Annotated[
        list[str] | None,
        typer.Option("--trace", metavar="FILE|-", help="A trace of jobs (CSV: arrival,devices,duration). Repeatable."),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option(
            "--mix",
            metavar="NAME",
            help="fours-and-eights, singles, pairs, or one of the file. Repeatable. Default: the file's, else all.",
        ),
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option("--instance", metavar="TYPE", help="Instance type of the nodes. Default: trn1.32xlarge."),
    ] = None,
    nodes: Annotated[
        list[int] | None, typer.Option("--nodes", min=1, help="Number of nodes. Repeatable. Default: 8.")
    ] = None,
    load: Annotated[
        list[float] | None,
        typer.Option("--load", help="Offered load: devices requested / devices available. Repeatable. Default: 0.9."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="aws, hami, aws-best-fit, linked-first-fit, linked. Repeatable. Default: all.",
        ),
    ] = None,
    runs: Annotated[int | None, typer.Option("--runs", min=2, help="Runs of each setting. Default: 10.")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=100, help="Jobs of each run. Default: 20000.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Run n draws its jobs from seed + n.")] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write charts as one self-contained page.")
    ] = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """Compare allocation policies on many random jobs, or on your own. Reads only.

    For each policy: devices in use, jobs rejected although a node had enough free devices (fragmentation), and jobs
    accepted by size, each with its 95 % confidence interval. Every policy gets the same jobs.

    Example: hami-plugins neuron simulate --mix pairs --load 0.8 --load 1.1 --html pairs.html

    Example: hami-plugins neuron simulate --trace jobs.csv --nodes 12 --instance trn2.48xlarge
    """
    from hami_plugins.observe import logging
    from neuron_topology.commands.simulate import SimulateOptions, run

    logging.configure("warning", "auto")
    said = {"instance": instance, "nodes": nodes, "loads": load, "only": mix, "policies": policy, "runs": runs}
    request = SimulateOptions(
        file=file,
        traces=tuple(trace or ()),
        words={**{name: each or None for name, each in said.items()}, "jobs": jobs, "seed": seed},
        html=html,
        form=output,
        headers=not no_headers,
    )
    raise typer.Exit(run(request))


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
def submit(
    *,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- [ARGUMENT]...", help="Arguments of the component: -- --image I --script S -- ARGUMENTS"
        ),
    ] = None,
    queue: Annotated[str, typer.Option("--queue", metavar="NAME", help="Volcano's queue.")],
    component_name: Annotated[
        str | None,
        typer.Option("--component", metavar="NAME|FILE:FUNCTION", help="TorchX' component. Default: ours, for Neuron."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", "--dryrun", help="Print the job. Queries a cluster only when one is named."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Submit even a job that the cluster could never run.")] = False,
    cfg: Annotated[
        list[str] | None,
        typer.Option(
            "--cfg", metavar="KEY=VALUE", help="An option of TorchX' scheduler (service_account). Repeatable."
        ),
    ] = None,
    tier: Tier = "zone",
    tier_mode: TierMode = NetworkMode.HARD,
    restarts: Restarts = None,
    duration: Duration = "",
    namespace: options.Namespace = None,
    snapshot: options.Snapshot = None,
    output: ObjectOutput = ObjectForm.YAML,
    settings: options.Settings = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Submit a training job of TorchX, patched as `patch` does it, if its queue and its cluster can run it.

    Reports why the job would wait, and what would help. Needs TorchX: pip install '.[torchx]' in the pack's tree.

    Writes: the Volcano Job.

    Example: hami-plugins neuron submit --queue test -- --image I --script train.py -h neuron_trn1.32xlarge -j 2
    """
    from neuron_topology.commands.submit import SubmitOptions, run
    from neuron_topology.torchx.driver import COMPONENT

    given = SubmitOptions(
        component=component_name or COMPONENT,
        arguments=tuple(arguments or ()),
        queue=queue,
        namespace=namespace or "default",
        options=_pairs(cfg or []),
        defaults=_defaults(tier, tier_mode, restarts, duration),
        dry_run=dry_run,
        force=force,
        source=_source(snapshot, None, context, kubeconfig),
        form=Form(output),
        settings=settings,
    )
    raise typer.Exit(run(given))


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
    from neuron_topology.commands.hypernodes import HyperNodesOptions, print_ranks

    source = _source(snapshot, fleet, context, kubeconfig)
    order = HyperNodesOptions(source=source, form=output, headers=not no_headers)
    raise typer.Exit(print_ranks(order, nodes=nodes or (), job=job, env=env))


for _command in (allocator, verify, conf, webhooks, trust, audit, repair, clean):
    app.command()(_command)


def _source(
    snapshot: list[str] | None, fleet: str | None, context: str | None, kubeconfig: str | None
) -> ClusterSource:
    from hami_plugins.cli.kit.inputs import ClusterSource

    return ClusterSource(snapshots=tuple(snapshot or ()), fleet=fleet, context=context, kubeconfig=kubeconfig)


def _defaults(tier: str, mode: NetworkMode, restarts: int | None, duration: str) -> JobDefaults:
    from neuron_topology.core import capacity_block_end
    from neuron_topology.core.hypernodes import tiers
    from neuron_topology.core.jobs.patch import JobDefaults

    named = "" if tier == "none" else tiers.named(tier).name
    try:
        capacity_block_end.seconds_of(duration or "0")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--duration") from error
    return JobDefaults(tier=named, mode=mode.value, restarts=restarts, duration=duration)


def _pairs(given: list[str]) -> dict[str, str]:
    """Options as TorchX takes them: several in one word have commas between them."""
    found = {}
    for each in (part for word in given for part in word.split(",")):
        key, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter(f"{each!r} is not KEY=VALUE", param_hint="--cfg")
        found[key] = value
    return found
