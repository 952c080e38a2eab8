"""Nodes for the embedded cluster: declared fleets, shapes, or bare machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_plugins import examples
from hami_plugins.inputs import fleets
from hami_plugins.inputs.fleets import Fleet
from hami_plugins.inputs.fleets.declared import MADE_AT
from hami_plugins.sandbox.apiserver import ApiServer


def put_fleet(server: ApiServer, fleet: Fleet | str) -> list[str]:
    """Put the nodes of a fleet into the cluster; the answer is their names.

    The fleet is a value, the name of a shipped one (``mixed``, ``h100x8`` ...), a fleet file's text, or shapes with
    counts (``a100-80x8=4,t4x1``). Nodes that are there are replaced. Raises ``ManifestError`` for text that is none.
    """
    return [str(server.put(node)["metadata"]["name"]) for node in fleets.nodes_of(_read(fleet))]


def bare_node(
    name: str,
    *,
    capacity: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A ready node of 16 CPUs, 64 GiB and no devices, as its kubelet would register it."""
    resources = {"cpu": "16", "memory": "64Gi", "pods": "110", **(capacity or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": {},
        "status": {
            "addresses": [{"type": "Hostname", "address": name}],
            "capacity": resources,
            "allocatable": resources,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "kubelet is posting ready status",
                    "lastHeartbeatTime": MADE_AT,
                    "lastTransitionTime": MADE_AT,
                }
            ],
            "nodeInfo": _NODE_INFO,
        },
    }


_NODE_INFO: Final = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "containerd://2.1.4",
    "kernelVersion": "6.8.0-60-generic",
    "kubeProxyVersion": "",
    "kubeletVersion": "v1.34.4",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "Ubuntu 24.04.2 LTS",
    "systemUUID": "",
}


def _read(fleet: Fleet | str) -> Fleet:
    if isinstance(fleet, Fleet):
        return fleet
    if fleet in examples.fleet_names():
        return fleets.parse(examples.fleet_text(fleet), source=f"fleet {fleet}")
    if "\n" in fleet or ":" in fleet:
        return fleets.parse(fleet, source="fleet")
    return fleets.add_nodes(fleet)
