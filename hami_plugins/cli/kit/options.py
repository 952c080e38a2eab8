"""The options that several commands share, those of the products included, and those of ``plan``: each once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from hami_plugins.cli import completion
from hami_plugins.model.dialect import Dialect


class Form(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class TableForm(StrEnum):
    """How an answer with many columns is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class ReportForm(StrEnum):
    """How a report next to the answer is printed."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


class ChargeForm(StrEnum):
    """How charges are printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


class VetForm(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    SARIF = "sarif"


Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]
Snapshot = Annotated[
    list[str] | None,
    typer.Option(
        "--snapshot",
        metavar="FILE",
        help="A cluster as `kubectl get nodes,pods,resourcequotas -A -o json` prints it (or yaml, or our own snapshot "
        "file; also .gz; - for stdin). With Volcano also get queues.scheduling.volcano.sh and "
        "podgroups.scheduling.volcano.sh; with Koordinator also devices.scheduling.koordinator.sh. Repeatable.",
    ),
]
Fleet = Annotated[
    str | None,
    typer.Option(
        "--fleet",
        metavar="NAME|FILE",
        help="A declared fleet: a file, or a shipped one (`fleets` lists them).",
        autocompletion=completion.fleets,
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Refuse a dump that lacks what the answer depends on, such as the pods."),
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")]
Kubeconfig = Annotated[str | None, typer.Option("--kubeconfig", metavar="FILE", help="The kubeconfig file.")]
Settings = Annotated[
    str | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="Our settings (`settings` lists them), or HAMi's device-config.yaml as it is.",
    ),
]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace.")]
OfManifests = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="The namespace of manifests that name none."),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
Output = Annotated[Form, typer.Option("--output", "-o", help="How to print the answer.")]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Print tables without headers.")]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--filename", "-f", metavar="FILE|DIR|-", help="Manifests: a file, a folder, - for stdin. Repeatable."
    ),
]
Recursive = Annotated[bool, typer.Option("--recursive", "-R", help="Read subfolders as well.")]

Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings of the process (YAML); `hami-plugins settings` lists them. Default: built-in ones.",
    ),
]
NodeName = Annotated[
    str | None, typer.Option("--node-name", metavar="NAME", help="The node. Default: $NODE_NAME.", show_default=False)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be written or removed; change nothing.")]

ServerUrl = Annotated[str, typer.Argument(metavar="URL", help="Address of the server: http://NAME.NAMESPACE.svc:9396.")]
Wait = Annotated[float, typer.Option("--wait", metavar="SECONDS", help="Wait up to SECONDS for every check to pass.")]
Patience = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", help="Try again for up to SECONDS while the API server refuses.")
]
Url = Annotated[str, typer.Option("--url", metavar="URL", help="Reach the server at URL instead of its Service.")]
CaFile = Annotated[
    str | None,
    typer.Option(
        "--ca-file", metavar="FILE", help="CA of the server's certificate. With bootstrap omit it, and run `trust`."
    ),
]
Exempt = Annotated[
    list[str] | None,
    typer.Option(
        "--exempt",
        metavar="NAMESPACE",
        help="Ask about nothing in a namespace. Default: kube-system. Repeatable.",
    ),
]
CheckFile = Annotated[
    str | None, typer.Option("--check", metavar="FILE|-", help="Check this configuration instead of printing one.")
]
Live = Annotated[bool, typer.Option("--live", help="Check the cluster's configuration.")]
VolcanoNamespace = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="Where Volcano runs.")]

Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="pod/NS/NAME", help="Leave out a running pod (or node/NAME). Repeatable."),
]
AddNodes = Annotated[
    list[str] | None,
    typer.Option(
        "--add-nodes",
        metavar="SHAPE=N",
        help="Add nodes of a shape, such as h100x8=2, with the node agent of the cluster's nodes. Repeatable.",
        autocompletion=completion.shapes,
    ),
]
NodeGroups = Annotated[
    list[str] | None,
    typer.Option(
        "--node-groups",
        metavar="FILE",
        help="Node groups that may have no node, as `aws eks describe-nodegroup`, `aws autoscaling "
        "describe-auto-scaling-groups` or `aws ec2 describe-capacity-reservations` prints them. Repeatable.",
    ),
]
Prices = Annotated[
    str | None,
    typer.Option(
        "--prices",
        metavar="NAME|FILE",
        help="Also print what it costs per hour, by a price table: a file, or the shipped aws-us-east-1.",
    ),
]
Policy = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="node=P,device=P",
        help="Defaults for pods that do not name a policy.",
        autocompletion=completion.policies,
    ),
]
Preemption = Annotated[
    bool,
    typer.Option(
        "--preemption",
        help="For pods that do not fit, look for running pods to evict: which, for which pod, by which rule. "
        "A pod that fits only after evictions still counts as not placed.",
    ),
]
Scheduler = Annotated[
    str,
    typer.Option(
        "--scheduler",
        metavar="volcano-RELEASE",
        help="Also report known misbehaviour of this Volcano release: volcano-1.14, volcano-1.15, or volcano-1.16.",
    ),
]
Assigner = Annotated[
    str,
    typer.Option(
        "--assigner",
        metavar="MODE",
        help="Which component assigns devices: volcano, or volcano-vgpu in mode policy, webhook, or extender. Volcano "
        "defects that it fixes are not reported.",
        autocompletion=completion.modes,
    ),
]
Annotations = Annotated[
    Dialect | None,
    typer.Option("--annotations", help="Print the annotations that the scheduler of this dialect would write."),
]
Html = Annotated[
    str | None, typer.Option("--html", metavar="FILE", help="Also write the plan as one self-contained page.")
]
Usage = Annotated[
    list[str] | None,
    typer.Option(
        "--usage",
        metavar="FILE",
        help="What containers use, as `hami-plugins volcano-vgpu usage -o json` prints it on a node. Repeatable.",
    ),
]

TrustedUsers = Annotated[
    list[str] | None,
    typer.Option("--user", metavar="NAME", help="A further account that writes allocation keys. Repeatable."),
]
TrustedGroups = Annotated[
    list[str] | None, typer.Option("--group", metavar="NAME", help="The same for a group. Repeatable.")
]
PolicyName = Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the policy and its binding.")]
