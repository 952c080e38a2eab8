"""The command lines whose output is kept, and how they are run: at a fixed time, in a pipe, in this folder, with the
vendors of this pack and of no other package."""

from __future__ import annotations

import contextlib
import io
import os
import time
from pathlib import Path
from typing import Final
from unittest import mock

from hami_plugins.cli import main
from hami_plugins.cli.kit import plugins
from neuron_topology.core.vendor import SPEC as NEURON

HERE: Final = Path(__file__).parent
NOW_NS: Final = 1_767_225_600 * 10**9

PLAN: Final = ("plan", "-f", "jobs.yaml", "--fleet", "fleet.yaml")
KOORDINATOR: Final = ("plan", "-f", "koordinator-jobs.yaml", "--snapshot", "koordinator-cluster.yaml")
PREEMPTION: Final = ("plan", "--preemption", "-f", "preemption-jobs.yaml", "--snapshot", "preemption-cluster.yaml")
DEFRAG: Final = ("defrag", "--snapshot", "defrag-cluster.yaml")
CASES: Final = {
    "plan.txt": PLAN,
    "plan.json": (*PLAN, "-o", "json"),
    "plan.yaml": (*PLAN, "-o", "yaml"),
    "plan-annotations-hami.txt": (*PLAN, "--annotations", "hami"),
    "plan-annotations-volcano.txt": (*PLAN, "--annotations", "volcano"),
    "plan-koordinator.txt": KOORDINATOR,
    "plan-annotations-koordinator.txt": (*KOORDINATOR, "--annotations", "koordinator"),
    "plan-spread.txt": (*PLAN, "--policy", "node=spread,device=binpack"),
    "plan-neuron.txt": ("plan", "-f", "neuron-jobs.yaml", "--snapshot", "neuron-cluster.yaml"),
    "plan-preemption.txt": PREEMPTION,
    "plan-preemption.json": (*PREEMPTION, "-o", "json"),
    "explain-neuron.txt": ("explain", "job", "lab/train", "--snapshot", "neuron-cluster.yaml"),
    "explain.txt": ("explain", "pods", "-A", "--snapshot", "cluster.yaml"),
    "explain.json": ("explain", "pod", "lab/waits", "--snapshot", "cluster.yaml", "-o", "json"),
    "explain-running.txt": ("explain", "pod", "lab/runs", "lab/lost", "--snapshot", "cluster.yaml"),
    "nodes.txt": ("nodes", "--snapshot", "nodes-cluster.yaml"),
    "nodes-wide.txt": ("nodes", "--snapshot", "nodes-cluster.yaml", "-o", "wide"),
    "nodes.json": ("nodes", "--snapshot", "nodes-cluster.yaml", "mig", "-o", "json"),
    "nodes-neuron.txt": ("nodes", "--snapshot", "neuron-cluster.yaml"),
    "defrag.txt": (*DEFRAG, "--for", "ml/train-0"),
    "defrag.json": (*DEFRAG, "--for", "job/ml/train", "-o", "json"),
    "defrag-stranded.txt": DEFRAG,
    "defrag-none.txt": (
        "defrag",
        "--snapshot",
        "defrag-cluster.yaml",
        "--for",
        "nvidia.com/gpu=2,nvidia.com/gpumem=20000",
    ),
    "vendors.txt": ("vendors",),
    "vendors-nvidia.txt": ("vendors", "nvidia"),
}


def printed(words: tuple[str, ...]) -> str:
    """What a command line prints on stdout, and its exit code."""
    out = io.StringIO()
    with (
        contextlib.chdir(HERE),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
        mock.patch.object(time, "time_ns", return_value=NOW_NS),
        mock.patch.object(plugins, "vendors", return_value=(NEURON,)),
        mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}),
    ):
        code = main(words)
    return f"{out.getvalue()}[exit {code:d}]\n"
