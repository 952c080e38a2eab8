"""The command that finds stale maps of AWS's scheduler extension and removes them: it makes them anew."""

from __future__ import annotations

from typing import Final, Literal

from typing_extensions import TypedDict

from hami_plugins.allocations.cache import KEEP
from hami_plugins.allocator.app import product_of
from hami_plugins.allocator.settings import SETTINGS
from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.allocator import filled_cache
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.engine.registry import Registry
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient
from hami_plugins.model.units import NodeName
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from neuron_topology.core import usage_maps
from neuron_topology.core.usage_maps import Stale
from neuron_topology.core.vendor import SPEC

KIND: Final = "NeuronUsageMaps"
COMPONENT: Final = "hami-plugins-neuron"
"""What an API server knows the command by."""


class StaleMapDocument(TypedDict):
    """A map of AWS's scheduler extension that says anything else than the pods do."""

    node: str
    key: str
    what: str
    state: str
    """What became of it, or would."""


class UsageMapsDocument(TypedDict):
    """The answer of ``hami-plugins neuron repair``."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["NeuronUsageMaps"]
    maps: list[StaleMapDocument]


def repair(client: KubeClient, *, dry_run: bool, form: Form, headers: bool) -> int:
    """Say which maps are wrong, and remove them unless it is a dry run."""
    nodes, found = _found(client)
    wrong = dict.fromkeys(each.node for each in found)
    states = {node: "would be removed" if dry_run else _removed(client, nodes[node]) for node in wrong}
    rows = tuple(
        TableRow((each.node, each.key, each.what, states[each.node]), "bad" if dry_run else "warn") for each in found
    )
    if form is not Form.TABLE:
        maps = [{"node": each.node, "key": each.key, "what": each.what, "state": states[each.node]} for each in found]
        output.document({"apiVersion": API_VERSION, "kind": KIND, "maps": maps}, form)
    elif rows:
        output.table(Table(("NODE", "MAP", "WHAT", "STATE"), rows), headers=headers)
    else:
        output.line("every map of AWS's scheduler extension agrees with the pods")
    left = dry_run or any(state != "removed" for state in states.values())
    return Exit.FINDINGS if found and left else Exit.FINE


def _found(client: KubeClient) -> tuple[dict[NodeName, Json], list[Stale]]:
    """The nodes as they were read, and their maps that are wrong."""
    listed: list[Json] = []
    product = product_of(SETTINGS.load("", {}), Registry([SPEC]))
    cache = filled_cache(product, client, keep=KEEP, on_node=listed.append)
    nodes = {NodeName(str(lenient.inside(each, "metadata").get("name"))): each for each in listed}
    found = [
        each
        for entry in cache.snapshot().nodes
        for each in usage_maps.stale(entry, lenient.inside(nodes[entry.name], "metadata", "annotations"))
    ]
    return nodes, found


def _removed(client: KubeClient, node: Json) -> str:
    """The result for a node's maps. A concurrent write of the node is not overwritten."""
    metadata = node["metadata"]
    try:
        client.merge_patch(paths.node(metadata["name"]), usage_maps.without(str(metadata.get("resourceVersion"))))
    except KubeError as error:
        return f"not removed: {error}; try again"
    return "removed"
