"""YAML and JSON text to plain values, for every file that a person writes. Depth and what aliases add are bounded."""

from hami_plugins.trees.builder import NOWHERE, Spot, Tree, complaint
from hami_plugins.trees.reader import read

__all__ = ["NOWHERE", "Spot", "Tree", "complaint", "read"]
