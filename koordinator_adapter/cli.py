"""``hami-plugins koordinator``: for clusters scheduled by Koordinator. The work is imported when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.plugins import CommandGroup
from hami_plugins.errors import ManifestError
from hami_plugins.model.dialect import Dialect
from koordinator_adapter.core.translation.choices import NoCoreLimit

if TYPE_CHECKING:
    from koordinator_adapter.core.translation.model import TranslationOptions

NoCores = Annotated[
    NoCoreLimit,
    typer.Option(
        "--no-core-limit",
        help="What a container without a core limit requests from Koordinator: a share that stands for its place on "
        "the card (and no limit), nothing (its cores can be allocated twice), or the whole card.",
    ),
]
Slices = Annotated[int, typer.Option("--slices-per-card", min=1, max=100, help="How many such places a card has.")]
Profiles = Annotated[
    list[str] | None,
    typer.Option(
        "--profile",
        metavar="POLICY=SCHEDULER",
        help="The scheduler (profile of Koordinator) for a policy, such as binpack=koord-binpack. Repeatable.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="A model of the cluster's cards, as nodes' label node.koordinator.sh/gpu-model spells it. Repeatable.",
    ),
]
DeviceLabels = Annotated[
    bool, typer.Option("--device-labels", help="Device objects carry the ids of cards as label gpu-uuid.")
]
CardMemory = Annotated[
    int | None,
    typer.Option(
        "--card-memory", metavar="MIB", min=1, help="Memory of the largest card; larger requests are refused."
    ),
]
RuntimeClass = Annotated[
    str, typer.Option("--runtime-class", metavar="NAME", help="The runtime class of pods that name none; empty: none.")
]
Schedulers = Annotated[
    list[str] | None,
    typer.Option("--scheduler", metavar="WORDS=NAME", help="Another name of a system's scheduler, such as volcano=vc."),
]

app = typer.Typer(
    name="koordinator",
    cls=CommandGroup,
    help="For clusters scheduled by Koordinator: pods in HAMi's or Volcano's words become pods in Koordinator's, and "
    "back, with a report of what is lost.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
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
    to: Annotated[Dialect, typer.Option("--to", help="The target scheduler.")],
    report: Annotated[
        options.ReportForm | None,
        typer.Option("--report", help="Print only the report of what is kept, lost and refused."),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write the files. A file with a refused object is left unchanged.")
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Exit with 0 when something is lost but nothing is refused."),
    ] = False,
    submission: Annotated[
        bool,
        typer.Option(
            "--submission",
            help="The objects were read from a server (kubectl get -o yaml): leave out what it and the scheduler "
            "wrote, so that they can be created again.",
        ),
    ] = False,
    no_core_limit: NoCores = NoCoreLimit.SHARE,
    slices_per_card: Slices = 10,
    profile: Profiles = None,
    model: Models = None,
    device_labels: DeviceLabels = False,
    card_memory: CardMemory = None,
    runtime_class: RuntimeClass = "nvidia",
    scheduler: Schedulers = None,
    settings: options.Settings = None,
    namespace: options.OfManifests = None,
) -> None:
    """Translate manifests: pods, every kind of workload, PodGroups, queues and quotas, Volcano's Jobs.

    Comments and order stay where a file can be changed in place. Exit codes: 0 nothing is lost, 1 something is lost or
    refused, 2 cannot do it. Writes nothing without --in-place.
    """
    from hami_plugins.cli.kit.inputs import present

    made = _settings(
        schedulers=scheduler,
        profiles=profile,
        no_core_limit=no_core_limit,
        slices_per_card=slices_per_card,
        models=model,
        device_labels=device_labels,
        card_memory=card_memory,
        runtime_class=runtime_class,
    )
    present(*(files or ()), settings)
    from koordinator_adapter.commands import translate as commands

    order = commands.TranslateOptions(
        files=tuple(files or ()),
        recursive=recursive,
        target=to,
        settings=made,
        device_config=settings,
        namespace=namespace or "default",
        report=report,
        in_place=in_place,
        accept_loss=accept_loss,
        submission=submission,
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
    """Report what keeps the cluster from sharing cards as its pods promise, each with the command that fixes it.

    Looks at a live cluster, or at dumps (--snapshot) of nodes, pods, Device objects, DaemonSets, Deployments,
    ConfigMaps, Namespaces and MutatingWebhookConfigurations. Exit codes: 0 nothing is wrong, 1 something is, 2 cannot
    do it. Writes nothing.
    """
    from hami_plugins.cli.kit.inputs import ClusterSource
    from koordinator_adapter.commands import doctor as diagnosing

    source = ClusterSource(snapshots=tuple(snapshot or ()), context=context, kubeconfig=kubeconfig)
    raise typer.Exit(diagnosing.run(source, form=form))


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


@app.command()
def verify(
    url: options.ServerUrl,
    *,
    wait: options.Wait = 0.0,
) -> None:
    """Ask whether the server answers, and what it waits for where it does not. Reads only."""
    from hami_plugins.cli.kit import probe

    raise typer.Exit(probe.verify(url, patience=wait))


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


@app.command()
def trust(
    *,
    wait: options.Patience = 0.0,
    config: options.Config = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
) -> None:
    """Have the API server trust the certificates that the server makes (certificate: {bootstrap: true}).

    The server itself may not write webhook configurations, because that right allows changes to any pod. Run this after
    `webhooks` was applied and after each change of it; the chart does so at install and upgrade. A new authority is
    made when the newest one has a third of its ten years left.

    Writes: the authorities (caBundle) in the webhooks' configurations, and the server's Secret.
    """
    from hami_plugins.cli.kit.trust import run
    from koordinator_adapter.commands.server import AdapterInputs

    given = AdapterInputs(config=config, context=context, kubeconfig=kubeconfig)
    raise typer.Exit(run(given.client(), given.settings(), ["mutating", "validating"], patience=wait))


@app.command()
def migrate(
    *,
    to: Annotated[Dialect, typer.Option("--to", help="The target scheduler.")] = Dialect.KOORDINATOR,
    namespace: options.Namespace = None,
    everywhere: options.AllNamespaces = False,
    snapshot: options.Snapshot = None,
    context: options.Context = None,
    kubeconfig: options.Kubeconfig = None,
    records: Annotated[
        bool, typer.Option("--records", help="Only the records of running pods; workloads stay unchanged.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Execute the steps, or resume those of the journal after an interruption.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the steps and write nothing (the default).")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Print how to undo the journal's steps; with --apply, undo them.")
    ] = False,
    journal: Annotated[
        str, typer.Option("--journal", metavar="FILE", help="File that records each step before it is executed.")
    ] = "koordinator-migration.jsonl",
    no_core_limit: NoCores = NoCoreLimit.SHARE,
    slices_per_card: Slices = 10,
    profile: Profiles = None,
    model: Models = None,
    device_labels: DeviceLabels = False,
    card_memory: CardMemory = None,
    runtime_class: RuntimeClass = "nvidia",
    scheduler: Schedulers = None,
    settings: options.Settings = None,
    form: options.Output = options.Form.TABLE,
) -> None:
    """Migrate to another scheduler: records of running pods, then groups, then workloads, in steps that can be undone.

    Prints the steps of a namespace (or -A) of a live cluster, or of dumps (--snapshot) of workloads, pods, PodGroups
    and Device objects; writes nothing without --apply. A step is recorded before it is executed, and executed
    only on an object that is still as planned. Exit codes: 0 fine, 1 something cannot be migrated or a step was not
    executed, 2 cannot do it.
    """
    from pathlib import Path

    from hami_plugins.cli.kit.inputs import ClusterSource
    from koordinator_adapter.commands import migrate as migrating

    if apply and dry_run:
        raise ManifestError("--apply and --dry-run exclude each other; leave one out")
    made = _settings(
        schedulers=scheduler,
        profiles=profile,
        no_core_limit=no_core_limit,
        slices_per_card=slices_per_card,
        models=model,
        device_labels=device_labels,
        card_memory=card_memory,
        runtime_class=runtime_class,
    )
    order = migrating.MigrateOptions(
        source=ClusterSource(snapshots=tuple(snapshot or ()), context=context, kubeconfig=kubeconfig),
        namespace="" if everywhere else namespace or "default",
        target=to,
        settings=made,
        device_config=settings,
        records_only=records,
        apply=apply,
        undo=undo,
        journal=Path(journal),
        form=form,
    )
    raise typer.Exit(migrating.migrate(order))


def _settings(
    *,
    schedulers: list[str] | None,
    profiles: list[str] | None,
    no_core_limit: NoCoreLimit,
    slices_per_card: int,
    models: list[str] | None,
    device_labels: bool,
    card_memory: int | None,
    runtime_class: str,
) -> TranslationOptions:
    """What the options of a translation say."""
    from hami_plugins.model.units import MiB
    from koordinator_adapter.core.translation.model import TranslationOptions

    known = TranslationOptions()
    named = {_words(name): value for name, value in _pairs(schedulers, "--scheduler")}
    return TranslationOptions(
        schedulers={**known.schedulers, **named},
        profiles=dict(_pairs(profiles, "--profile")),
        no_core_limit=no_core_limit,
        slices_per_card=slices_per_card,
        models=tuple(models or ()),
        device_labels=device_labels,
        card_memory=None if card_memory is None else MiB(card_memory),
        runtime_class=runtime_class,
    )


def _pairs(given: list[str] | None, option: str) -> list[tuple[str, str]]:
    found = []
    for each in given or ():
        name, equals, value = each.partition("=")
        if not (name and equals and value):
            raise ManifestError(f"{option} {each}: write it as NAME=VALUE")
        found.append((name, value))
    return found


def _words(name: str) -> Dialect:
    try:
        return Dialect(name)
    except ValueError:
        raise ManifestError(f"--scheduler {name}: write one of {', '.join(Dialect)} before the =") from None
