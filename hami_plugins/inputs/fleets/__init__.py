"""Declared fleets: nodes as a real cluster would show them."""

from hami_plugins.inputs.fleets.declared import (
    Fleet,
    NodeGroup,
    add_nodes,
    nodes_of,
    objects_of,
    parse,
    shape_names,
)

__all__ = [
    "Fleet",
    "NodeGroup",
    "add_nodes",
    "nodes_of",
    "objects_of",
    "parse",
    "shape_names",
]
