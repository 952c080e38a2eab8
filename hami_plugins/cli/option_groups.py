"""The options of the commands that have many, as the values that their work gets."""

from pathlib import Path
from typing import Annotated

import typer

from hami_plugins.cli import completion
from hami_plugins.cli.kit import options
from hami_plugins.cli.kit.option_group import OptionGroup
from hami_plugins.cli.kit.options import ChargeForm, Form, TableForm, VetForm


class PlanOptions(OptionGroup):
    """The options of ``plan``."""

    files: options.Files = None
    recursive: options.Recursive = False
    snapshot: options.Snapshot = None
    fleet: options.Fleet = None
    namespace: options.OfManifests = None
    without: options.Without = None
    add_nodes: options.AddNodes = None
    node_groups: options.NodeGroups = None
    prices: options.Prices = None
    policy: options.Policy = ""
    preemption: options.Preemption = False
    scheduler: options.Scheduler = ""
    assigner: options.Assigner = ""
    annotations: options.Annotations = None
    html: options.Html = None
    form: options.Output = Form.TABLE
    no_headers: options.NoHeaders = False
    context: options.Context = None
    kubeconfig: options.Kubeconfig = None
    settings: options.Settings = None
    usage: options.Usage = None
    strict: options.Strict = False


class UsageOptions(OptionGroup):
    """The options of ``usage``."""

    since: Annotated[
        str, typer.Option("--since", metavar="SPAN", help="How far back: 90m, 24h, 30d or 4w, up to 366d.")
    ] = "24h"
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", metavar="URL", help="Ask this Prometheus, such as http://localhost:9090."),
    ] = None
    journal: Annotated[
        list[str] | None,
        typer.Option(
            "--journal",
            metavar="FILE|DIR",
            help="Read a journal that the allocator wrote (setting charging.journalDirectory). Repeatable.",
        ),
    ] = None
    idle_below: Annotated[
        float,
        typer.Option(
            "--idle-below", metavar="PERCENT", help="Call a pod idle that used less of its memory and of its time."
        ),
    ] = 5.0
    form: Annotated[ChargeForm, typer.Option("--output", "-o", help="How to print the answer.")] = ChargeForm.TABLE
    no_headers: options.NoHeaders = False


class VetOptions(OptionGroup):
    """The options of ``vet``."""

    files: options.Files = None
    recursive: options.Recursive = False
    snapshot: options.Snapshot = None
    fleet: options.Fleet = None
    namespace: options.OfManifests = None
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="RULES", help="Rules to skip, such as HP101,HP305. Repeatable."),
    ] = None
    list_rules: Annotated[bool, typer.Option("--list-rules", help="List the rules and exit.")] = False
    rule: Annotated[
        str | None, typer.Option("--explain", metavar="RULE", help="Explain one rule, such as HP305, and its remedy.")
    ] = None
    form: Annotated[VetForm, typer.Option("--output", "-o", help="How to print the findings; sarif is for CI.")] = (
        VetForm.TEXT
    )
    rules_url: Annotated[
        str,
        typer.Option(
            "--rules-url",
            metavar="URL",
            help="Where you publish docs/reference/rules.md; SARIF rules link to it (helpUri).",
        ),
    ] = ""
    settings: options.Settings = None
    scheduler: options.Scheduler = ""
    assigner: options.Assigner = ""


class ExplainOptions(OptionGroup):
    """The options of ``explain``. Without names it explains all pods that wait, of one namespace or of all."""

    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="What to explain: pod, job (also Volcano's), deployment, statefulset, daemonset, or replicaset; "
            "KIND/NAME as for kubectl.",
            autocompletion=completion.kinds,
        ),
    ]
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NS/NAME", help="The objects. Default: all pods that wait for a node."),
    ] = None
    snapshot: options.Snapshot = None
    fleet: options.Fleet = None
    namespace: options.Namespace = None
    everywhere: options.AllNamespaces = False
    node_groups: options.NodeGroups = None
    prices: options.Prices = None
    scheduler: options.Scheduler = ""
    assigner: options.Assigner = ""
    form: options.Output = Form.TABLE
    context: options.Context = None
    kubeconfig: options.Kubeconfig = None
    settings: options.Settings = None
    usage: options.Usage = None
    strict: options.Strict = False


class NodesOptions(OptionGroup):
    """The options of ``nodes``. Without names it shows all nodes that have devices."""

    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NODE", help="Names of nodes, or patterns such as 'gpu-*'. Default: all nodes."),
    ] = None
    vendors: Annotated[
        list[str] | None,
        typer.Option(
            "--vendor",
            metavar="NAME",
            help="Only devices of this vendor (`vendors` lists them). Repeatable.",
            autocompletion=completion.vendors,
        ),
    ] = None
    free: Annotated[bool, typer.Option("--free", help="Only devices with free room.")] = False
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Print again after every change, until Ctrl-C; for live clusters."),
    ] = False
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write the devices as one self-contained page.")
    ] = None
    form: Annotated[
        TableForm,
        typer.Option("--output", "-o", help="How to print the answer; wide adds ids, NUMA nodes and containers."),
    ] = TableForm.TABLE
    snapshot: options.Snapshot = None
    fleet: options.Fleet = None
    no_headers: options.NoHeaders = False
    context: options.Context = None
    kubeconfig: options.Kubeconfig = None
    settings: options.Settings = None
    strict: options.Strict = False


class SandboxOptions(OptionGroup):
    """The options of ``sandbox``."""

    fleet: Annotated[
        str | None,
        typer.Option(
            "--fleet",
            metavar="NAME|FILE",
            help="The nodes: a fleet file, or a shipped fleet (`fleets` lists them). Default: h100x8.",
            autocompletion=completion.fleets,
        ),
    ] = None
    kubeconfig: Annotated[
        str | None,
        typer.Option(
            "--kubeconfig",
            metavar="FILE",
            help="Where to write the kubeconfig; the file must not exist. Default: in the temporary directory.",
        ),
    ] = None
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", help="Port of the API server. Default: a free one.")
    ] = 0


class DefragOptions(OptionGroup):
    """The options of ``defrag``."""

    goals: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="POD|JOB|SHAPE",
            help="Make room for a waiting pod ([NS/]POD), the waiting pods of a job (job/NS/JOB), or a request "
            "(nvidia.com/gpu=1,nvidia.com/gpumem=20000). Repeatable. Default: make stranded memory usable.",
        ),
    ] = None
    most: Annotated[int, typer.Option("--max-moves", metavar="N", min=1, help="Move at most N pods.")] = 10
    sure: Annotated[
        bool,
        typer.Option("--sure", help="Only moves after which the scheduler itself chooses the planned place."),
    ] = False
    alone: Annotated[
        bool,
        typer.Option("--alone", help="Also move pods without a controller. Nothing creates them again."),
    ] = False
    snapshot: options.Snapshot = None
    fleet: options.Fleet = None
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace of --for without one.")
    ] = None
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Also write the moves as one self-contained page."),
    ] = None
    form: options.Output = Form.TABLE
    no_headers: options.NoHeaders = False
    context: options.Context = None
    kubeconfig: options.Kubeconfig = None
    settings: options.Settings = None
    strict: options.Strict = False
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="Carry the moves out on the live cluster: evict each pod, wait until it runs at its new place, stop "
            "at the first surprise. Plans as with --sure.",
        ),
    ] = False
    resume: Annotated[
        bool, typer.Option("--resume", help="Carry out the journal's remaining moves after an interruption.")
    ] = False
    journal: Annotated[
        Path, typer.Option("--journal", metavar="FILE", help="File that records each move before it is carried out.")
    ] = Path("defrag.jsonl")
    patience: Annotated[
        float,
        typer.Option("--wait", metavar="SECONDS", min=0, help="Wait up to SECONDS for each pod to run again."),
    ] = 300.0
