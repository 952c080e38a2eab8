"""How long pods take into other words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import made
from hami_plugins.vendors import builtin
from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions
from koordinator_adapter.core.translation.pods import translate
from koordinator_adapter.core.translation.reader import complete
from tests.bench.measuring import Figure, figure, timed

REGISTRY = complete(builtin())
SETTINGS = TranslationOptions()


def pods(count: int) -> list[dict[str, Any]]:
    """Pods in HAMi's and in Volcano's words in turn, few of which are alike."""
    found = []
    for at in range(count):
        names = ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores")
        if at % 2:
            names = ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores")
        limits = dict(zip(names, (1 + at % 8, 1000 + at % 30_000, at % 100), strict=True))
        container = {"name": "main", "image": "x", "resources": {"limits": {"cpu": "4", **limits}}}
        metadata = {"name": f"pod-{at}", "labels": {"app": "x"}, "annotations": {"mine": "x"}}
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
    return found


def translated(given: list[dict[str, Any]]) -> int:
    """How many of them could be translated to Koordinator's resources; their new objects are created as well."""
    count = 0
    for raw in given:
        found = translate(raw, Dialect.KOORDINATOR, REGISTRY, SETTINGS)
        made(raw, found.edits)
        count += found.fidelity is not Fidelity.REFUSED
    return count


def figures(repeats: int = 5) -> Iterator[Figure]:
    """10,000 pods to Koordinator's words."""
    given = pods(10_000)
    times = []
    for _ in range(repeats):
        milliseconds, count = timed(translated, given)
        if count != len(given):
            raise ValueError(f"{len(given) - count} pods of the workload are refused")
        times.append(milliseconds)
    yield figure("10,000 pods translated to Koordinator", times, at_most=2_000)
