"""A public class name is defined once, so that a name leads to one definition."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("hami_plugins", "koordinator_adapter", "neuron_topology", "volcano_vgpu")


def test_a_public_class_name_is_defined_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.stem.endswith(("_pb2", "_pb2_grpc")):
                continue  # generated, with the names of the .proto
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert places
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
