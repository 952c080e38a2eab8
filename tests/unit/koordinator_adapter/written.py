"""Pods as people write them, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_plugins.model.dialect import Dialect
from hami_plugins.model.edits import made
from hami_plugins.vendors import builtin
from hami_plugins.wire.koordinator import CORE, MEMORY, SHARED
from koordinator_adapter.core.translation.model import Fidelity, Translation, TranslationOptions
from koordinator_adapter.core.translation.pods import translate
from koordinator_adapter.core.translation.reader import complete
from koordinator_adapter.core.translation.vocabulary import ISOLATION

REGISTRY: Final = complete(builtin())
Raw = dict[str, Any]

SLICE: Final[dict[str, object]] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
VOLCANO_SLICE: Final[dict[str, object]] = {
    "volcano.sh/vgpu-number": 1,
    "volcano.sh/vgpu-memory": 3000,
    "volcano.sh/vgpu-cores": 30,
}
KOORDINATOR_SLICE: Final[dict[str, object]] = {SHARED: 1, MEMORY: "3000Mi", CORE: 30}
LABEL: Final[Mapping[str, str]] = {ISOLATION: "HAMi-core"}
"""A slice of one card in each dialect, and the label by which limits are enforced."""

NVIDIA_NODES: Final[Mapping[str, str]] = {"node.koordinator.sh/gpu-vendor": "nvidia"}
"""The nodeSelector that a translated pod gets for its vendor."""


def pod(
    *limits: Mapping[str, object],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    **spec: object,
) -> Raw:
    """A pod with a container for each list of limits; the variables are the first container's."""
    containers: list[Raw] = [{"name": f"c{at}", "resources": {"limits": dict(each)}} for at, each in enumerate(limits)]
    if env:
        containers[0]["env"] = [{"name": name, "value": value} for name, value in env.items()]
    metadata: Raw = {"name": "p"}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def translated(raw: Raw, target: str, settings: TranslationOptions | None = None) -> Translation:
    """The translation with usual settings."""
    return translate(raw, Dialect(target), REGISTRY, settings or TranslationOptions())


def moved(raw: Raw, target: str, settings: TranslationOptions | None = None) -> Raw:
    """The pod in other words; one that is refused fails the test."""
    found = translated(raw, target, settings)
    assert found.fidelity is not Fidelity.REFUSED, found.findings
    return made(raw, found.edits)


def stays(raw: Raw, target: str) -> bool:
    """Whether nothing changes and nothing is reported."""
    found = translated(raw, target)
    return not found.edits and not found.findings


def limits_of(raw: Raw, at: int = 0) -> Mapping[str, object]:
    """The limits of a container."""
    found: Mapping[str, object] = raw["spec"]["containers"][at]["resources"]["limits"]
    return found


def about(found: Translation, fidelity: Fidelity) -> list[str]:
    """The subjects of the findings of one sort."""
    return [each.about for each in found.findings if each.fidelity is fidelity]


def koordinators(limits: dict[str, object] | None = None, **more: Any) -> Raw:
    """A pod in Koordinator's words whose limits are enforced."""
    labels = {**LABEL, **more.pop("labels", {})}
    return pod(limits or KOORDINATOR_SLICE, labels=labels, **more)


def refused(raw: Raw, target: str, settings: TranslationOptions | None = None) -> str:
    """The subject of the one refusal; nothing is changed."""
    found = translated(raw, target, settings)
    assert found.fidelity is Fidelity.REFUSED
    assert not found.edits
    assert all(each.words and each.remedy for each in found.findings)
    return found.findings[0].about
