"""The options of the commands that translate, as the values that their work gets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.option_group import OptionGroup
from hami_plugins.errors import ManifestError
from hami_plugins.model.dialect import Dialect
from koordinator_adapter.core.translation.choices import NoCoreLimit

if TYPE_CHECKING:
    from hami_plugins.cli.kit.inputs import ClusterSource
    from koordinator_adapter.core.translation.model import TranslationOptions


class TranslationFlags(OptionGroup):
    """The options of a translation."""

    no_core_limit: Annotated[
        NoCoreLimit,
        typer.Option(
            "--no-core-limit",
            help="What a container without a core limit requests from Koordinator: a share that stands for its place "
            "on the card (and no limit), nothing (its cores can be allocated twice), or the whole card.",
        ),
    ] = NoCoreLimit.SHARE
    slices_per_card: Annotated[
        int, typer.Option("--slices-per-card", min=1, max=100, help="How many such places a card has.")
    ] = 10
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            metavar="POLICY=SCHEDULER",
            help="The scheduler (profile of Koordinator) for a policy, such as binpack=koord-binpack. Repeatable.",
        ),
    ] = None
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="A model of the cluster's cards, as nodes' label node.koordinator.sh/gpu-model spells it. Repeatable.",
        ),
    ] = None
    device_labels: Annotated[
        bool, typer.Option("--device-labels", help="Device objects carry the ids of cards as label gpu-uuid.")
    ] = False
    card_memory: Annotated[
        int | None,
        typer.Option(
            "--card-memory", metavar="MIB", min=1, help="Memory of the largest card; larger requests are refused."
        ),
    ] = None
    runtime_class: Annotated[
        str,
        typer.Option("--runtime-class", metavar="NAME", help="The runtime class of pods that name none; empty: none."),
    ] = "nvidia"
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            "--scheduler", metavar="WORDS=NAME", help="Another name of a system's scheduler, such as volcano=vc."
        ),
    ] = None

    def read(self) -> "TranslationOptions":
        """What they say. Raises ``ManifestError`` for one that cannot be read."""
        from hami_plugins.model.units import MiB
        from koordinator_adapter.core.translation.model import TranslationOptions

        known = TranslationOptions()
        named = {_words(name): value for name, value in _pairs(self.scheduler, "--scheduler")}
        return TranslationOptions(
            schedulers={**known.schedulers, **named},
            profiles=dict(_pairs(self.profile, "--profile")),
            no_core_limit=self.no_core_limit,
            slices_per_card=self.slices_per_card,
            models=tuple(self.model or ()),
            device_labels=self.device_labels,
            card_memory=None if self.card_memory is None else MiB(self.card_memory),
            runtime_class=self.runtime_class,
        )


class TranslateOptions(OptionGroup):
    """The options of ``translate``. Without ``report`` the manifests themselves are printed."""

    files: options.Files = None
    recursive: options.Recursive = False
    target: Annotated[Dialect, typer.Option("--to", help="The target scheduler.")]
    report: Annotated[
        options.ReportForm | None,
        typer.Option("--report", help="Print only the report of what is kept, lost and refused."),
    ] = None
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write the files. A file with a refused object is left unchanged.")
    ] = False
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Exit with 0 when something is lost but nothing is refused."),
    ] = False
    submission: Annotated[
        bool,
        typer.Option(
            "--submission",
            help="The objects were read from a server (kubectl get -o yaml): leave out what it and the scheduler "
            "wrote, so that they can be created again.",
        ),
    ] = False
    translation: TranslationFlags
    settings: options.Settings = None
    namespace: options.OfManifests = None


class MigrateOptions(OptionGroup):
    """The options of ``migrate``."""

    target: Annotated[Dialect, typer.Option("--to", help="The target scheduler.")] = Dialect.KOORDINATOR
    namespace: options.Namespace = None
    everywhere: options.AllNamespaces = False
    snapshot: options.Snapshot = None
    context: options.Context = None
    kubeconfig: options.Kubeconfig = None
    records: Annotated[
        bool, typer.Option("--records", help="Only the records of running pods; workloads stay unchanged.")
    ] = False
    apply: Annotated[
        bool, typer.Option("--apply", help="Execute the steps, or resume those of the journal after an interruption.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the steps and write nothing (the default).")] = False
    undo: Annotated[
        bool, typer.Option("--undo", help="Print how to undo the journal's steps; with --apply, undo them.")
    ] = False
    journal: Annotated[
        Path, typer.Option("--journal", metavar="FILE", help="File that records each step before it is executed.")
    ] = Path("koordinator-migration.jsonl")
    translation: TranslationFlags
    settings: options.Settings = None
    form: options.Output = options.Form.TABLE

    @property
    def source(self) -> "ClusterSource":
        """The cluster that is migrated."""
        from hami_plugins.cli.kit.inputs import cluster_source

        return cluster_source(self.snapshot, None, self.context, self.kubeconfig)

    @property
    def within(self) -> str:
        """The namespace that is migrated; empty for all of them."""
        return "" if self.everywhere else self.namespace or "default"


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
