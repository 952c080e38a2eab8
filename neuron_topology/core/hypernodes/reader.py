"""The objects of a cluster to what HyperNodes are made of and compared with; one that is broken hides no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.wire import lenient, pods
from neuron_topology.core.hypernodes import machines, objects
from neuron_topology.core.hypernodes.machines import TopologyNode
from neuron_topology.core.hypernodes.objects import ExistingHyperNode


class JobPod(NamedTuple):
    """A pod on a node, and the Volcano Job that it is of: namespace, job and its place in the job."""

    namespace: str
    name: str
    job: str
    node: str


class TopologySnapshot(NamedTuple):
    """The machines with their nodes' labels, the HyperNodes, pods of Volcano Jobs, and what could not be read."""

    machines: tuple[TopologyNode, ...]
    labels: Mapping[str, Mapping[str, str]]
    found: tuple[ExistingHyperNode, ...]
    pods: tuple[JobPod, ...]
    problems: tuple[str, ...]


_JOB_LABEL = "volcano.sh/job-name"


def read(raws: Iterable[Mapping[str, Any]]) -> TopologySnapshot:
    """What the objects say; kinds that do not matter here are passed over."""
    known: dict[str, tuple[TopologyNode, Mapping[str, str]]] = {}
    found: list[ExistingHyperNode] = []
    pods: list[JobPod] = []
    problems: list[str] = []
    for raw in raws:
        try:
            match raw.get("kind"):
                case "Node":
                    machine = machines.machine(dict(raw))
                    if machine is not None:
                        known[machine.name] = machine, raw["metadata"].get("labels") or {}
                case "HyperNode":
                    found.append(objects.decode(dict(raw)))
                case "Pod":
                    pods.extend(_bound(raw))
                case _:
                    pass
        except WireError as error:
            problems.append(str(error))
    return TopologySnapshot(
        machines=tuple(machine for machine, _ in known.values()),
        labels={name: labels for name, (_, labels) in known.items()},
        found=tuple(found),
        pods=tuple(pods),
        problems=tuple(problems),
    )


def _bound(raw: Mapping[str, Any]) -> Iterable[JobPod]:
    """The pod, if it is of a Volcano Job and on a node."""
    metadata, node = lenient.inside(raw, "metadata"), pods.node_of(raw)
    job = lenient.mapping(metadata.get("labels")).get(_JOB_LABEL)
    if isinstance(job, str) and node:
        yield JobPod(str(metadata.get("namespace") or "default"), str(metadata.get("name")), job, node)
