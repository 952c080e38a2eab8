"""``hami-plugins neuron``: Trainium and Inferentia. The work is imported when it runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from hami_plugins.cli import options
from hami_plugins.cli.options import Form

app = typer.Typer(
    name="neuron",
    help="For clusters with AWS Trainium and Inferentia: devices that are really linked, on any scheduler, and jobs of "
    "TorchX and Volcano that get them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


class Mode(StrEnum):
    """What becomes of a gang that does not fit into one part of the network."""

    HARD = "hard"
    SOFT = "soft"


Tier = Annotated[
    str,
    typer.Option(
        "--tier",
        metavar="NAME|none",
        help="The widest part of the network that a gang may span: ultraserver-2, ultraserver-4, network-layer-3, "
        "network-layer-2, network-layer-1, zone.",
    ),
]
TierMode = Annotated[Mode, typer.Option("--tier-mode", help="Whether a gang waits rather than span more.")]
Restarts = Annotated[
    int | None,
    typer.Option(
        "--restarts",
        min=0,
        help="How often the whole job starts again after the loss of a pod; 0: it ends. Default: the job's, else 3.",
    ),
]


@app.callback()
def neuron() -> None:
    """Commands of their own, however few there are."""


@app.command()
def patch(
    *,
    files: options.Files = None,
    recursive: options.Recursive = False,
    tier: Tier = "zone",
    tier_mode: TierMode = Mode.HARD,
    restarts: Restarts = None,
    check: Annotated[
        bool, typer.Option("--check", help="Print no objects; exit code 1 where something would be changed.")
    ] = False,
    output: options.Output = Form.YAML,
) -> None:
    """Make Volcano Jobs for Neuron devices such that Volcano can see and place them, and print them. Reads only.

    Requests as large as limits, today's resource names, cpu and memory that a node has, tolerations, the gang's size,
    what follows the loss of a pod, and how near the pods have to be. All else in the files stays as it is written.

    Example: torchx run --dryrun ... | hami-plugins neuron patch -f - | kubectl create -f -
    """
    from neuron_topology.hypernodes import tiers
    from neuron_topology.jobs.command import Order, run
    from neuron_topology.jobs.patching import Wishes

    order = Order(
        files=tuple(files or ()),
        recursive=recursive,
        wishes=Wishes(tier="" if tier == "none" else tiers.named(tier).name, mode=tier_mode.value, restarts=restarts),
        form=output,
        check=check,
    )
    raise typer.Exit(run(order))


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
        typer.Option(
            "--trace", metavar="FILE|-", help="Jobs as they came (CSV: arrival,devices,duration). May be repeated."
        ),
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
        str | None, typer.Option("--instance", metavar="TYPE", help="What the nodes are. Default: trn1.32xlarge.")
    ] = None,
    nodes: Annotated[
        list[int] | None, typer.Option("--nodes", min=1, help="How many nodes. Repeatable. Default: 8.")
    ] = None,
    load: Annotated[
        list[float] | None,
        typer.Option("--load", help="What jobs ask for, by what there is. Repeatable. Default: 0.9."),
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
        str | None, typer.Option("--html", metavar="FILE", help="Write charts as one self-contained page, too.")
    ] = None,
    output: options.Output = Form.TABLE,
    no_headers: options.NoHeaders = False,
) -> None:
    """Compare ways of choosing devices on many random jobs, or on your own. Reads only.

    For each policy: devices in use, jobs rejected although a node had enough free devices (fragmentation), and jobs
    accepted by size, each with its 95 % confidence interval. Every policy gets the same jobs.

    Example: hami-plugins neuron simulate --mix pairs --load 0.8 --load 1.1 --html pairs.html

    Example: hami-plugins neuron simulate --trace jobs.csv --nodes 12 --instance trn2.48xlarge
    """
    from hami_plugins.observe import logging
    from neuron_topology.simulation.command import Request, run

    logging.configure("warning", "auto")
    said = {"instance": instance, "nodes": nodes, "loads": load, "only": mix, "policies": policy, "runs": runs}
    request = Request(
        file=file,
        traces=tuple(trace or ()),
        words={**{name: each or None for name, each in said.items()}, "jobs": jobs, "seed": seed},
        html=html,
        form=output,
        headers=not no_headers,
    )
    raise typer.Exit(run(request))
