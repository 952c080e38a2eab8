"""The options of the commands that have many, as the values that their work gets."""

import shlex
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.option_group import OptionGroup
from hami_plugins.cli.kit.options import Form

if TYPE_CHECKING:
    from hami_plugins.cli.kit.inputs import ClusterSource
    from neuron_topology.core.jobs.patch import JobDefaults


class NetworkMode(StrEnum):
    """The handling of a gang that does not fit into one part of the network."""

    HARD = "hard"
    SOFT = "soft"


class ObjectForm(StrEnum):
    """How objects for a cluster are printed."""

    YAML = "yaml"
    JSON = "json"


ObjectOutput = Annotated[ObjectForm, typer.Option("--output", "-o", help="How to print the objects.")]


class JobFlags(OptionGroup):
    """What jobs get that do not say it themselves."""

    tier: Annotated[
        str,
        typer.Option(
            "--tier",
            metavar="NAME|none",
            help="The widest part of the network that a gang may span: ultraserver-2, ultraserver-4, network-layer-3, "
            "network-layer-2, network-layer-1, zone, cluster.",
        ),
    ] = "zone"
    tier_mode: Annotated[
        NetworkMode, typer.Option("--tier-mode", help="Whether a gang waits rather than span more.")
    ] = NetworkMode.HARD
    restarts: Annotated[
        int | None,
        typer.Option(
            "--restarts",
            min=0,
            help="How often the whole job restarts after the loss of a pod; 0: it ends. Default: the job's, else 3.",
        ),
    ] = None
    duration: Annotated[
        str,
        typer.Option(
            "--duration",
            metavar="6h",
            help="Duration of jobs that set none: they do not start on machines whose Capacity Block ends earlier.",
        ),
    ] = ""

    def read(self) -> "JobDefaults":
        """What they say. Raises ``BadParameter`` for a duration that cannot be read."""
        from neuron_topology.core import capacity_block_end
        from neuron_topology.core.hypernodes import tiers
        from neuron_topology.core.jobs.patch import JobDefaults

        named = "" if self.tier == "none" else tiers.named(self.tier).name
        try:
            capacity_block_end.seconds_of(self.duration or "0")
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--duration") from error
        return JobDefaults(tier=named, mode=self.tier_mode.value, restarts=self.restarts, duration=self.duration)


class PatchOptions(OptionGroup):
    """The options of ``patch``; ``check`` only asks whether there is need."""

    files: options.Files = None
    recursive: options.Recursive = False
    job: JobFlags
    ordered: Annotated[
        bool,
        typer.Option(
            "--node-order", help="Pass the order of the cluster's nodes to the members, as `ranks` prints it."
        ),
    ] = False
    check: Annotated[
        bool, typer.Option("--check", help="Print no objects; exit code 1 when something would change.")
    ] = False
    form: ObjectOutput = ObjectForm.YAML
    snapshot: options.Snapshot = None
    context: options.Context = None
    kubeconfig: options.Kubeconfig = None


class SimulateOptions(OptionGroup):
    """The options of ``simulate``."""

    file: Annotated[
        str | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE|-",
            help="What to simulate (YAML): mixes, nodes, loads ... Options win.",
        ),
    ] = None
    traces: Annotated[
        list[str] | None,
        typer.Option("--trace", metavar="FILE|-", help="A trace of jobs (CSV: arrival,devices,duration). Repeatable."),
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--mix",
            metavar="NAME",
            help="fours-and-eights, singles, pairs, or one of the file. Repeatable. Default: the file's, else all.",
        ),
    ] = None
    instance: Annotated[
        str | None,
        typer.Option("--instance", metavar="TYPE", help="Instance type of the nodes. Default: trn1.32xlarge."),
    ] = None
    nodes: Annotated[
        list[int] | None, typer.Option("--nodes", min=1, help="Number of nodes. Repeatable. Default: 8.")
    ] = None
    loads: Annotated[
        list[float] | None,
        typer.Option("--load", help="Offered load: devices requested / devices available. Repeatable. Default: 0.9."),
    ] = None
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="aws, hami, aws-best-fit, linked-first-fit, linked. Repeatable. Default: all.",
        ),
    ] = None
    runs: Annotated[int | None, typer.Option("--runs", min=2, help="Runs of each setting. Default: 10.")] = None
    jobs: Annotated[int | None, typer.Option("--jobs", min=100, help="Jobs of each run. Default: 20000.")] = None
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Run n draws its jobs from seed + n.")] = None
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write charts as one self-contained page.")
    ] = None
    form: options.Output = Form.TABLE
    no_headers: options.NoHeaders = False

    @property
    def words(self) -> dict[str, Any]:
        """What wins over the members of the file."""
        lists = ("instance", "nodes", "loads", "only", "policies", "runs")
        found = {**{name: getattr(self, name) or None for name in lists}, "jobs": self.jobs, "seed": self.seed}
        return {name: each for name, each in found.items() if each is not None}


class SubmitOptions(OptionGroup):
    """The options of ``submit``. A dry run asks a cluster only where one is named."""

    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- [ARGUMENT]...", help="Arguments of the component: -- --image I --script S -- ARGUMENTS"
        ),
    ] = None
    queue: Annotated[str, typer.Option("--queue", metavar="NAME", help="Volcano's queue.")]
    component: Annotated[
        str | None,
        typer.Option("--component", metavar="NAME|FILE:FUNCTION", help="TorchX' component. Default: ours, for Neuron."),
    ] = None
    workspace: Annotated[
        str,
        typer.Option(
            "--workspace",
            metavar="FOLDER",
            help="Build an image with the files of this folder and push it, as TorchX does (--cfg image_repo=REPO).",
        ),
    ] = ""
    precompile: Annotated[
        bool,
        typer.Option(
            "--precompile",
            help="First a job that compiles the graphs into the --cache of the component; the job itself when it has "
            "completed.",
        ),
    ] = False
    precompile_args: Annotated[
        str,
        typer.Option(
            "--precompile-args",
            metavar="TEXT",
            help="More arguments of the script for precompiling alone: '--steps_this_run 10'.",
        ),
    ] = ""
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Do not wait for the graphs; `neuron resume` waits and creates the job itself."),
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", "--dryrun", help="Print the job. Queries a cluster only when one is named."),
    ] = False
    force: Annotated[bool, typer.Option("--force", help="Submit even a job that the cluster could never run.")] = False
    cfg: Annotated[
        list[str] | None,
        typer.Option(
            "--cfg", metavar="KEY=VALUE", help="An option of TorchX' scheduler (service_account). Repeatable."
        ),
    ] = None
    job: JobFlags
    namespace: options.Namespace = None
    snapshot: options.Snapshot = None
    node_groups: options.NodeGroups = None
    prices: options.Prices = None
    form: ObjectOutput = ObjectForm.YAML
    settings: options.Settings = None
    context: options.Context = None
    kubeconfig: options.Kubeconfig = None

    @property
    def runs(self) -> tuple[tuple[str, ...], ...]:
        """The arguments of the component for each job, in the order in which they run.

        Raises ``BadParameter`` for options that are about precompiling alone.
        """
        training = tuple(self.arguments or ())
        if self.precompile:
            own, dashes, script = _parted(training)
            if "--precompile" in own:
                raise typer.BadParameter("is for submit or for the component, not for both", param_hint="--precompile")
            more = tuple(shlex.split(self.precompile_args))
            return ("--precompile", "True", *own, *(dashes or (("--",) if more else ())), *script, *more), training
        for option, given in (("--precompile-args", self.precompile_args), ("--no-wait", self.no_wait)):
            if given:
                raise typer.BadParameter("is for --precompile, which is not there", param_hint=option)
        return (training,)

    @property
    def source(self) -> "ClusterSource":
        """The cluster that the job is for."""
        from hami_plugins.cli.kit.inputs import cluster_source

        found = cluster_source(self.snapshot, None, self.context, self.kubeconfig)
        return replace(found, node_groups=tuple(self.node_groups or ()))

    @property
    def checked(self) -> bool:
        """Whether the job is held against a cluster."""
        return not self.dry_run or self.source.named

    @property
    def live(self) -> bool:
        """Whether that cluster is one that answers, and no dump."""
        return not self.source.snapshots

    @property
    def within(self) -> str:
        """The namespace of the job."""
        return self.namespace or "default"

    @property
    def scheduler_options(self) -> dict[str, str]:
        """Arguments of TorchX' scheduler; several in one word are separated by commas. Raises ``BadParameter``."""
        found = {}
        for each in (part for word in self.cfg or () for part in word.split(",")):
            key, equals, value = each.partition("=")
            if not equals:
                raise typer.BadParameter(f"{each!r} is not KEY=VALUE", param_hint="--cfg")
            found[key] = value
        return found


def _parted(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The component's own arguments, the dashes after them, and the script's."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at : at + 1], arguments[at + 1 :]
