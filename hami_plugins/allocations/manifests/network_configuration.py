"""The plugin ``network-topology-aware`` in Volcano's scheduler configuration: gangs stay in a part of the network.

Without it Volcano ignores the ``networkTopology`` of a job, also a hard one, without a message (``trials.md`` V13).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hami_plugins.allocations.manifests.volcano_configuration import ConfigurationFinding, Plugin, named, warning
from hami_plugins.engine.registry import Registry

PLUGIN: Final = "network-topology-aware"
_BINPACK: Final = "hypernode.binpack.resources"


def resources(vendors: Registry) -> dict[str, int]:
    """The resources whose gangs may be limited to a part of the network, with their weights; empty where none may."""
    return {name: weight for spec in vendors for name, weight in spec.allocation.network}


def plugin(weights: Mapping[str, int]) -> dict[str, Any]:
    """The plugin as it belongs into a tier."""
    each = {f"{_BINPACK}.{name}": weight for name, weight in weights.items()}
    return {"name": PLUGIN, "arguments": {"weight": 10, _BINPACK: ", ".join(weights), **each}}


def check(found: Sequence[Plugin], weights: Mapping[str, int], command: str) -> Iterator[ConfigurationFinding]:
    """What is wrong; ``command`` prints a right one."""
    if weights and not named(found, PLUGIN):
        yield warning(
            PLUGIN,
            f"the plugin is missing: Volcano ignores networkTopology, also of jobs that ask for {next(iter(weights))}",
            f"add it to the last tier, as `{command}` prints it",
        )
