"""The cluster to which jobs are submitted, and TorchX' job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hami_plugins.sandbox.apiserver import ApiServer

GOLDEN = Path(__file__).parents[3] / "golden/torchx"
_TEXT = (GOLDEN / "1-bert-ddp-2x-trn1.32xlarge-builtin-0.7.0.yaml").read_text()
TWO_MACHINES: dict[str, Any] = yaml.safe_load(_TEXT)
FOUR_DEVICES: dict[str, Any] = yaml.safe_load(_TEXT.replace("neurondevice: '16'", "neurondevice: '4'"))
"""Of each of two pods, which leave room for others on their machines."""
NAME = TWO_MACHINES["metadata"]["name"]
QUEUES = "scheduling.volcano.sh/v1beta1"


def a_queue(name: str, state: str = "Open", **spec: Any) -> dict[str, Any]:
    body = {"weight": 1, **spec}
    return {"apiVersion": QUEUES, "kind": "Queue", "metadata": {"name": name}, "spec": body, "status": {"state": state}}


def a_claim(name: str, mode: str = "ReadWriteMany", *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A bound claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": [mode], **spec},
        "status": {"phase": "Bound", "accessModes": [mode]},
    }


def jobs(server: ApiServer) -> list[dict[str, Any]]:
    return server.objects("jobs.batch.volcano.sh")
