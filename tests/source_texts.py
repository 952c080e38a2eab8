"""Every text in the program's sources, for pages that quote it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TREE = Path(__file__).parents[1]
PACKAGES = ("hami_plugins", "volcano_vgpu", "koordinator_adapter", "neuron_topology")


@cache
def source_texts() -> str:
    """One text a line; a placeholder in one divides it."""
    files = (file for package in PACKAGES for file in sorted((TREE / package).rglob("*.py")))
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
