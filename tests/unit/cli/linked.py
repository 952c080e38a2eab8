"""Nodes and pods of a cluster with Trainium, as files for the commands."""

from __future__ import annotations

from pathlib import Path

import yaml

from neuron_topology.core.names import CORES, DEVICES, INSTANCE_LABEL
from neuron_topology.core.nodes import FAMILY_LABEL
from tests import raw_objects


def a_node(name: str, *, family: str = "aws", annotations: dict[str, str] | None = None) -> dict[str, object]:
    offered = {"cpu": "128", "memory": "512Gi", "pods": "110", DEVICES: "16", CORES: "32"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {INSTANCE_LABEL: "trn1.32xlarge", FAMILY_LABEL: family},
            "annotations": annotations or {},
        },
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_pod(name: str, node: str = "", ids: str = "", **limits: int | str) -> dict[str, object]:
    listed = ids and {"hami.io/aws-neuron-devices-allocated": ids}
    resources = {key.replace("_", "/").replace("aws/", "aws.amazon.com/"): value for key, value in limits.items()}
    main = raw_objects.container(limits=resources, requests=resources, image="i")
    metadata = {"namespace": "lab", "uid": name, "annotations": listed or {}}
    return raw_objects.pod(name, main, metadata=metadata, node=node, phase="Running" if node else "Pending")


def written(path: Path, *objects: dict[str, object]) -> Path:
    path.write_text("---\n".join(yaml.safe_dump(each) for each in objects), encoding="utf-8")
    return path


def held(*devices: int) -> str:
    return "".join(f"n-AWSNeuron-{device},AWSNeuron,0,3:" for device in devices) + ";"


def on(node: str, *devices: int) -> str:
    return "".join(f"{node}-AWSNeuron-{device},AWSNeuron,0,3:" for device in devices) + ";"
