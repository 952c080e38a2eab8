"""Removes from a cluster what the commands for Neuron devices, and operators for them, have put there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from hami_plugins.kube import paths, removal
from hami_plugins.kube.port import Collection, KubeApi
from neuron_topology.commands import hypernode_writer
from neuron_topology.core.agent.annotations import KEYS
from neuron_topology.core.capacity_block_end import END_KEY
from neuron_topology.core.hypernodes import differences, reader
from neuron_topology.core.hypernodes.differences import HyperNodeStep
from neuron_topology.core.nodes import FAMILY_LABEL

NODE_KEYS: Final = {"annotations": (*KEYS, END_KEY), "labels": (FAMILY_LABEL, END_KEY)}
"""What operators and agents write on nodes for this product."""

_HYPERNODES: Final = replace(hypernode_writer.COLLECTION, optional=True)


def cleaned(api: KubeApi, *, nodes: bool, dry_run: bool) -> Iterator[str]:
    """Removes our HyperNodes, and with ``nodes`` what operators wrote on nodes; see ``AllocatorExtensionEntry``."""
    for step in _hypernodes(api):
        for _ in hypernode_writer.apply(api, () if dry_run else (step,)):
            pass
        yield f"HyperNode {step.name}"
    if nodes:
        yield from removal.without_keys(api, Collection(paths.NODES, "Node"), NODE_KEYS, dry_run=dry_run)


def _hypernodes(api: KubeApi) -> Iterable[HyperNodeStep]:
    there = (each for page in api.pages(_HYPERNODES) for each in page)
    return differences.compare((), reader.read(there).found, {}, prune=True).steps
