"""What TorchX submits, as it is and as ``neuron patch`` completes it. ``make test-torchx`` compares it with TorchX."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from tests.cluster.allocator import command
from tests.cluster.api import Object
from tests.cluster.neuron import PRODUCT

DRY_RUNS: Final = tuple(sorted(Path("tests/golden/torchx").glob("*.yaml")))
"""Of TorchX' own resources, and of others'."""

NAMED_RESOURCES: Final = Path("tests/golden/torchx/named-resources/0.7.0.yaml")
"""Of each of our named resources, and a gang of four."""


def as_they_are(path: Path) -> dict[str, Object]:
    """The jobs of a file by their names."""
    return _by_name(path.read_text(encoding="utf-8"))


def patched(path: Path) -> dict[str, Object]:
    """The same, as the command prints them."""
    return _by_name(command("patch", "-f", str(path), product=PRODUCT))


def without_kubelets(job: Object) -> Object:
    """The job for nodes where no component would end its pods: without a time for their end."""
    for each in job["spec"]["tasks"]:
        each["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    return job


def _by_name(text: str) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in yaml.safe_load_all(text) if each}
