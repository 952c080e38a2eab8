"""The work of ``neuron hypernodes`` and ``neuron ranks``: read a cluster, compare, write or print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from typing_extensions import TypedDict

from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.inputs import ClusterSource
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ConfigError, ManifestError
from hami_plugins.inputs.snapshots.trimmer import one_by_one
from hami_plugins.kube.client import KubeClient, connect
from hami_plugins.kube.port import NODES, PODS, Collection
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION
from neuron_topology.commands import hypernode_writer
from neuron_topology.core.hypernodes import differences, generator, objects, reader
from neuron_topology.core.hypernodes import ranks as ranking
from neuron_topology.core.hypernodes.differences import Comparison, HyperNodeStep, Verb
from neuron_topology.core.hypernodes.generator import HyperNodeTree
from neuron_topology.core.hypernodes.machines import TopologyNode
from neuron_topology.core.hypernodes.reader import TopologySnapshot
from neuron_topology.core.hypernodes.tiers import TIERS
from neuron_topology.core.jobs.leftover import Leftover
from neuron_topology.core.jobs.node_capacity import HostCapacity
from neuron_topology.core.jobs.templates import ORDER_ENV
from neuron_topology.server import job_definition

COMPONENT: Final = "neuron-hypernodes"

_Take: TypeAlias = Callable[[Mapping[str, Any]], None]

HYPERNODES: Final = Collection(hypernode_writer.COLLECTION.path, objects.KIND, optional=True)
"""The HyperNodes of a cluster, if it has the kind and the caller may read it."""


class RankDocument(TypedDict):
    """A machine, or a pod of a job, by its place in the network."""

    rank: int
    node: str
    pod: str | None
    """Null where it is about machines."""


class RanksDocument(TypedDict):
    """The answer of ``hami-plugins neuron ranks``."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["NeuronRanks"]
    ranks: list[RankDocument]


class HyperNodeStepDocument(TypedDict):
    """One object that is written."""

    verb: Verb
    name: str


class HyperNodeConflictDocument(TypedDict):
    """An object that stands in the way."""

    name: str
    why: str
    remedy: str


class HyperNodesDocument(TypedDict):
    """The answer of ``hami-plugins neuron hypernodes diff`` and ``apply``."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["NeuronHyperNodes"]
    steps: list[HyperNodeStepDocument]
    conflicts: list[HyperNodeConflictDocument]
    kept: list[str]
    """What nothing wants any more, and was made for it."""


_TONES: Final = {Verb.CREATE: "good", Verb.UPDATE: "warn", Verb.DELETE: "bad"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperNodesOptions:
    """Which cluster it is about, and how the answer is to be given."""

    source: ClusterSource = field(default_factory=ClusterSource)
    form: Form = Form.TABLE
    headers: bool = True

    @property
    def live(self) -> bool:
        """Whether it is about a cluster that can be written to."""
        return not self.source.snapshots and self.source.fleet is None

    def client(self) -> KubeClient:
        """That cluster."""
        return connect(kubeconfig=self.source.kubeconfig, context=self.source.context, component=COMPONENT)


def print_tree(order: HyperNodesOptions) -> int:
    """Print the HyperNodes that the labels of the nodes make."""
    tree = _tree(_cluster(order, NODES))
    bodies = [objects.encode(each) for each in tree.hypernodes]
    if order.form is Form.JSON:
        output.document({"apiVersion": "v1", "kind": "List", "items": bodies}, order.form)
    elif order.form is Form.YAML:
        for body in bodies:
            sys.stdout.write(f"---\n{output.as_yaml(body)}")
    else:
        rows = tuple(
            TableRow(
                (each.name, str(each.tier.number), each.tier.name, each.family or "all", each.part, _members(each))
            )
            for each in tree.hypernodes
        )
        output.table(Table(("NAME", "TIER", "TIER NAME", "FAMILY", "PART", "MEMBERS"), rows), headers=order.headers)
    return Exit.FINDINGS if tree.remarks else Exit.FINE


def print_difference(order: HyperNodesOptions, *, prune: bool) -> int:
    """Print what applying would do; exit code 1 where it would do anything, or must not."""
    return _shown(order, _compared(order, prune=prune))


def apply(order: HyperNodesOptions, *, prune: bool, dry_run: bool) -> int:
    """Write what differs, and say what was written; nothing where there is a conflict."""
    comparison = _compared(order, prune=prune)
    if dry_run or comparison.conflicts:
        _shown(order, comparison)
        return Exit.FINDINGS if comparison.conflicts else Exit.FINE
    done: list[HyperNodeStep] = []
    try:
        done.extend(hypernode_writer.apply(order.client(), comparison.steps))
    finally:
        _shown(order, comparison._replace(steps=tuple(done)), " written")
    return Exit.FINE


def print_ranks(order: HyperNodesOptions, *, nodes: Sequence[str], job: str, env: bool) -> int:
    """Print nodes, or the pods of a job, in the order of their places in the network.

    Raises ``ConfigError`` for a document of what is one line of text (``env``).
    """
    if env and order.form is not Form.TABLE:
        raise ConfigError(f"--env prints one line of text; leave out --env or -o {order.form}")
    cluster = _cluster(order, NODES, *((PODS,) if job else ()))
    machines = ranking.ranked(_chosen(cluster, nodes))
    rows = _pods(cluster, machines, job) if job else [(machine, "") for machine in machines]
    if env:
        output.line(f"{ORDER_ENV}={','.join(machine.name for machine, _ in rows)}")
    elif order.form is Form.TABLE:
        columns = ("RANK", *(("POD",) if job else ()), "NODE", *(tier.name.upper() for tier in reversed(TIERS)))
        table = tuple(
            TableRow((str(rank), *((pod,) if job else ()), machine.name, *reversed(machine.parts)))
            for rank, (machine, pod) in enumerate(rows)
        )
        output.table(Table(columns, table), headers=order.headers)
    else:
        ranks = [
            {"rank": rank, "node": machine.name, "pod": pod if job else None}
            for rank, (machine, pod) in enumerate(rows)
        ]
        output.document({"apiVersion": API_VERSION, "kind": "NeuronRanks", "ranks": ranks}, order.form)
    return Exit.FINE


class Network(NamedTuple):
    """What jobs have to know of a cluster.

    The names of all Neuron nodes by their places in the network, the tiers that their labels make, those that have
    HyperNodes, what nodes of each instance type leave for pods, and which members of ``networkTopology`` jobs keep
    (``None``: unknown).
    """

    node_order: tuple[str, ...]
    tiers: frozenset[str]
    applied: frozenset[str] | None
    rooms: Mapping[str, HostCapacity]
    kept: frozenset[str] | None


def network(order: HyperNodesOptions, *, ordered: bool = False) -> Network:
    """What jobs have to know of a cluster, which may have no machines yet; not where their order is asked for."""
    left = Leftover()
    cluster = (_cluster if ordered else _read)(order, NODES, HYPERNODES, also=left.take)
    ranked = tuple(each.name for each in ranking.ranked(cluster.machines))
    applied = objects.tiers_of(cluster.found) if order.live or cluster.found else None
    kept = job_definition.read(order.client()) if order.live else None
    return Network(ranked, generator.tiers_of(cluster.machines), applied, left.rooms(), kept)


def nodes(order: HyperNodesOptions) -> Iterator[Mapping[str, Any]]:
    """The nodes of a cluster as they are."""
    return (raw for raw in _listed(order, (NODES,)) if raw.get("kind") == "Node")


def _ignored(_: Mapping[str, Any]) -> None:
    """For nothing else than the network."""


def _cluster(order: HyperNodesOptions, *collections: Collection, also: _Take = _ignored) -> TopologySnapshot:
    """One that has machines."""
    cluster = _read(order, *collections, also=also)
    if not cluster.machines:
        raise _without_machines(order)
    return cluster


def _read(order: HyperNodesOptions, *collections: Collection, also: _Take = _ignored) -> TopologySnapshot:
    cluster = reader.read(_raws(order, collections, also))
    for problem in cluster.problems:
        output.remark(problem)
    return cluster


def _without_machines(order: HyperNodesOptions) -> ManifestError:
    return ManifestError(f"{order.source.words()}: no node in it has Neuron devices")


def _raws(order: HyperNodesOptions, collections: Iterable[Collection], also: _Take) -> Iterator[Mapping[str, Any]]:
    """The objects; ``also`` gets each of them first."""
    for raw in _listed(order, collections):
        also(raw)
        yield raw


def _listed(order: HyperNodesOptions, collections: Iterable[Collection]) -> Iterator[Mapping[str, Any]]:
    if order.live:
        client = order.client()
        for collection in collections:
            for page in client.pages(collection):
                yield from page
        return
    for raw, _ in inputs.objects(order.source):
        yield from one_by_one(raw)


def _tree(cluster: TopologySnapshot) -> HyperNodeTree:
    tree = generator.tree(cluster.machines)
    for remark in tree.remarks:
        output.remark(remark)
    return tree


def _compared(order: HyperNodesOptions, *, prune: bool) -> Comparison:
    """With what the machines want; where they are all gone, nothing is wanted of what was made for them."""
    cluster = _read(order, NODES, HYPERNODES)
    if not cluster.machines and not any(each.ours for each in cluster.found):
        raise _without_machines(order)
    return differences.compare(_tree(cluster).hypernodes, cluster.found, cluster.labels, prune=prune)


def _shown(order: HyperNodesOptions, comparison: Comparison, done: str = "") -> int:
    steps, conflicts, kept = comparison
    if order.form is not Form.TABLE:
        written = [{"verb": step.verb.value, "name": step.name} for step in steps]
        found = {"steps": written, "conflicts": [each._asdict() for each in conflicts], "kept": list(kept)}
        output.document({"apiVersion": API_VERSION, "kind": "NeuronHyperNodes", **found}, order.form)
        return _exit(comparison)
    for each in conflicts:
        output.line(f"{each.name} {each.why}: {each.remedy}", "bad")
    for step in steps:
        output.line(f"{step.verb.value} {step.name}{done}", _TONES[step.verb])
    for name in kept:
        output.line(f"keep {name}, which is no longer needed (--prune removes it)", "dim")
    if not steps and not conflicts:
        output.line("the HyperNodes are up to date")
    return _exit(comparison)


def _exit(comparison: Comparison) -> int:
    return Exit.FINDINGS if comparison.steps or comparison.conflicts else Exit.FINE


def _members(hypernode: generator.HyperNode) -> str:
    if hypernode.nodes:
        return ", ".join(hypernode.nodes[:4]) + (" ..." if len(hypernode.nodes) > 4 else "")
    return f"{len(hypernode.children)} HyperNodes"


def _chosen(cluster: TopologySnapshot, nodes: Sequence[str]) -> Iterable[TopologyNode]:
    if not nodes:
        return cluster.machines
    known = {machine.name: machine for machine in cluster.machines}
    if missing := [name for name in nodes if name not in known]:
        raise ConfigError(f"no Neuron node is called {', '.join(missing)}")
    return [machine for name, machine in known.items() if name in nodes]


def _pods(cluster: TopologySnapshot, machines: Sequence[TopologyNode], job: str) -> list[tuple[TopologyNode, str]]:
    """The job's pods by the places of their nodes; pods of one node by name."""
    namespace, slash, name = job.rpartition("/")
    ours = [pod for pod in cluster.pods if pod.job == name and pod.namespace == (namespace if slash else "default")]
    rows = [(machine, pod.name) for machine in machines for pod in sorted(ours) if pod.node == machine.name]
    if not rows:
        raise ConfigError(f"job {job}: no pod of it is on a Neuron node; it is named NAMESPACE/NAME")
    return rows
