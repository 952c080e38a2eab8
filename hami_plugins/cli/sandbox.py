"""The work of ``sandbox``: the embedded cluster of a fleet, until a signal ends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.errors import ConfigError
from hami_plugins.vendors import BUILTIN

if TYPE_CHECKING:
    from hami_plugins.cli.live.sandbox import SandboxCluster
    from hami_plugins.cli.option_groups import SandboxOptions

FLEET: Final = "h100x8"
_EXAMPLE: Final = "example"
_SLICES: Final[Mapping[str, Mapping[str, int]]] = {
    "volcano.sh/vgpu-number": {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 4096},
    "nvidia.com/gpu": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4096},
    "koordinator.sh/gpu": {
        "koordinator.sh/gpu.shared": 1,
        "koordinator.sh/gpu-core": 50,
        "koordinator.sh/gpu-memory-ratio": 50,
    },
}
"""What the example asks for where a node offers a resource; for any other resource it asks for one."""

_SCHEDULERS: Final = {"volcano.sh": "volcano", "koordinator.sh": "koord-scheduler"}
_MOST_PORT: Final = 65_535


def run(options: SandboxOptions) -> int:
    """Start the cluster, print how to use it, and keep it until a signal comes."""
    if not 0 <= options.port <= _MOST_PORT:
        raise ConfigError(f"--port {options.port} is not a port; 0 to {_MOST_PORT} are, 0 for a free one")
    fleet = options.fleet or FLEET
    objects = _objects(fleet)
    # gRPC reads it at import; its messages about calls that end with an agent are of no use here.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from hami_plugins.cli.live import sandbox
    from hami_plugins.cli.live.signals import Ending

    kubeconfig = None if options.kubeconfig is None else Path(options.kubeconfig).expanduser()
    with Ending() as ending:
        with sandbox.running(objects, kubeconfig=kubeconfig, port=options.port, ending=ending) as cluster:
            _print_start(cluster, fleet, objects)
            ending.wait(cluster.check)
        output.line("The sandbox has ended; nothing is left.")
    return Exit.FINE


def _objects(fleet: str) -> Sequence[Mapping[str, Any]]:
    from hami_plugins.cli.live.sandbox import MOST_NODES

    objects = inputs.fleet_objects(fleet)
    nodes = sum(each["kind"] == "Node" for each in objects)
    if nodes > MOST_NODES:
        raise ConfigError(
            f"fleet {fleet} has {nodes} nodes, and the sandbox runs at most {MOST_NODES}; write a smaller fleet file, "
            "or plan on this one with: hami-plugins plan --fleet"
        )
    return objects


def _print_start(cluster: SandboxCluster, fleet: str, objects: Sequence[Mapping[str, Any]]) -> None:
    nodes = [each for each in objects if each["kind"] == "Node"]
    programs = [f"{len(cluster.agents)} node agents"] if cluster.agents else []
    programs += [each.program.what for each in cluster.servers]
    example = cluster.root / f"{_EXAMPLE}.yaml"
    example.write_text(example_pod(nodes), encoding="utf-8")
    output.line(
        f"Sandbox: fleet {fleet}, {len(nodes)} nodes, at {cluster.server.url}. "
        f"Real programs: {', '.join(programs) or 'none'}. Containers run no image."
    )
    for line in (
        f"export KUBECONFIG={cluster.kubeconfig}",
        "kubectl get nodes",
        f"kubectl apply -f {example}",
        f"hami-plugins explain pod default/{_EXAMPLE}",
        "Ctrl-C ends the sandbox and removes everything.",
    ):
        output.line(f"  {line}")
    sys.stdout.flush()


def example_pod(nodes: Sequence[Mapping[str, Any]]) -> str:
    """A manifest that fits on the nodes: a slice of a card where they have any, else one device."""
    offered = [name for node in nodes for name in node["status"]["allocatable"]]
    limits = next((_SLICES[name] for name in _SLICES if name in offered), None)
    if limits is None:
        counts = (spec.resources.count for spec in BUILTIN)
        limits = {next((name for name in counts if name in offered), "cpu"): 1}
    domain = next(iter(limits)).partition("/")[0]
    spec: dict[str, Any] = {
        **({"schedulerName": _SCHEDULERS[domain]} if domain in _SCHEDULERS else {}),
        "containers": [{"name": "main", "image": "example", "resources": {"limits": dict(limits)}}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _EXAMPLE}, "spec": spec}
    return yaml.safe_dump(pod, sort_keys=False)
