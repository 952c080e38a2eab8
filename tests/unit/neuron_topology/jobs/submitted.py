"""Volcano Jobs as users might submit them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

GOLDEN = Path(__file__).parents[3] / "golden"
DRY_RUNS = sorted((GOLDEN / "torchx").glob("*.yaml"))

NEURON = "aws.amazon.com/neuron"
EFA = "vpc.amazonaws.com/efa"


def a_container(
    limits: dict[str, Any] | None = None, requests: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    resources = {"limits": {NEURON: 16, EFA: 8} if limits is None else limits}
    if requests is not None:
        resources["requests"] = requests
    return {"name": "main", "image": "i", "resources": resources, **more}


def a_task(*containers: dict[str, Any], spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    body = {
        "containers": list(containers) or [a_container()],
        "nodeSelector": {"node.kubernetes.io/instance-type": "trn1.32xlarge"},
        **(spec or {}),
    }
    return {"name": "worker-0", "replicas": 1, "template": {"spec": body}, **more}


def a_job(*tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"queue": "test", "tasks": list(tasks) or [a_task(), a_task(name="worker-1")], **spec},
    }


def a_dry_run(path: Path) -> dict[str, Any]:
    job: dict[str, Any] = yaml.safe_load(path.read_text())
    return job
