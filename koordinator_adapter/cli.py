"""``hami-plugins koordinator``: for clusters scheduled by Koordinator. The work is imported when it runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from hami_plugins.cli import options
from hami_plugins.errors import ManifestError
from hami_plugins.model.units import MiB
from koordinator_adapter.translation.model import NoCoreLimit, Settings, Words


class ReportForm(StrEnum):
    """How the report is printed."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


app = typer.Typer(
    name="koordinator",
    help="For clusters scheduled by Koordinator: pods in HAMi's or Volcano's words become pods in Koordinator's, and "
    "back, with a report of what is lost.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback()
def koordinator() -> None:
    """For clusters scheduled by Koordinator."""


@app.command()
def translate(
    *,
    files: options.Files = None,
    recursive: options.Recursive = False,
    to: Annotated[Words, typer.Option("--to", help="Whose words the manifests are to be in.")],
    report: Annotated[
        ReportForm | None, typer.Option("--report", help="Print what is kept, lost and refused, and no manifests.")
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write the files. One with something refused stays as it is.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Exit with 0 although something is lost, as long as nothing is refused."),
    ] = False,
    no_core_limit: Annotated[
        NoCoreLimit,
        typer.Option(
            "--no-core-limit",
            help="What a container without a limit of cores asks of Koordinator: a share that stands for its place on "
            "the card (and no limit), nothing (its cores are promised twice), or the whole card.",
        ),
    ] = NoCoreLimit.SHARE,
    slices_per_card: Annotated[
        int, typer.Option("--slices-per-card", min=1, max=100, help="How many such places a card has.")
    ] = 10,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            metavar="POLICY=SCHEDULER",
            help="The scheduler (profile of Koordinator) for a policy, such as binpack=koord-binpack. Repeatable.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="A model of the cluster's cards, as nodes' label node.koordinator.sh/gpu-model spells it. Repeatable.",
        ),
    ] = None,
    device_labels: Annotated[
        bool, typer.Option("--device-labels", help="Device objects carry the ids of cards as label gpu-uuid.")
    ] = False,
    card_memory: Annotated[
        int | None,
        typer.Option("--card-memory", metavar="MIB", min=1, help="What the largest card has; more is refused."),
    ] = None,
    runtime_class: Annotated[
        str, typer.Option("--runtime-class", metavar="NAME", help="For pods that name none; empty for none.")
    ] = "nvidia",
    scheduler: Annotated[
        list[str] | None,
        typer.Option("--scheduler", metavar="WORDS=NAME", help="Whose scheduler has another name, such as volcano=vc."),
    ] = None,
    settings: options.Settings = None,
    namespace: options.Namespace = None,
) -> None:
    """Translate manifests: pods, every kind of workload, PodGroups, queues and quotas, Volcano's Jobs.

    Comments and order stay where a file can be changed in place. Exit codes: 0 nothing is lost, 1 something is lost or
    refused, 2 cannot do it. Writes nothing without --in-place.
    """
    from koordinator_adapter import commands

    known = Settings()
    made = Settings(
        schedulers={**known.schedulers, **{_words(name): value for name, value in _pairs(scheduler, "--scheduler")}},
        profiles=dict(_pairs(profile, "--profile")),
        no_core_limit=no_core_limit,
        slices_per_card=slices_per_card,
        models=tuple(model or ()),
        device_labels=device_labels,
        card_memory=None if card_memory is None else MiB(card_memory),
        runtime_class=runtime_class,
    )
    order = commands.Order(
        files=tuple(files or ()),
        recursive=recursive,
        target=to,
        settings=made,
        device_config=settings,
        namespace=namespace or "default",
        report=report,
        in_place=in_place,
        accept_loss=accept_loss,
    )
    raise typer.Exit(commands.translate(order))


@app.command()
def doctor(
    *,
    snapshot: options.Snapshot = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
    form: options.Output = options.Form.TABLE,
) -> None:
    """What keeps the cluster from sharing cards as its pods promise, each thing with the command that fixes it.

    Looks at a live cluster, or at dumps (--snapshot) of nodes, pods, Device objects, DaemonSets, Deployments,
    ConfigMaps, Namespaces and MutatingWebhookConfigurations. Exit codes: 0 nothing is wrong, 1 something is, 2 cannot
    do it. Writes nothing.
    """
    from hami_plugins.cli.inputs import Source
    from koordinator_adapter import diagnosing

    source = Source(snapshots=tuple(snapshot or ()), context=context, kubeconfig=kubeconfig)
    raise typer.Exit(diagnosing.run(source, form=form))


def _pairs(given: list[str] | None, option: str) -> list[tuple[str, str]]:
    found = []
    for each in given or ():
        name, equals, value = each.partition("=")
        if not (name and equals and value):
            raise ManifestError(f"{option} {each}: write it as NAME=VALUE")
        found.append((name, value))
    return found


def _words(name: str) -> Words:
    try:
        return Words(name)
    except ValueError:
        raise ManifestError(f"--scheduler {name}: write one of {', '.join(Words)} before the =") from None
