"""Manifests as the manuals of Koordinator and Volcano have them, in every direction: nothing is refused that can be
kept, and nothing changes without a word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Final

import pytest
import yaml

from hami_plugins.inputs import manifests
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.wire import pods
from koordinator_adapter.core.manifests import File, translated
from koordinator_adapter.core.translation.model import Fidelity, TranslationFinding, TranslationOptions
from koordinator_adapter.core.translation.npu import is_npu
from koordinator_adapter.core.translation.reader import asked_of, words_of
from tests.unit.koordinator_adapter.written import REGISTRY

FOLDER: Final = Path(__file__).parent / "examples"
FILES: Final = tuple(sorted(FOLDER.glob("*.yaml")))
LEAST: Final = 60
"""How many examples there are at least."""

SETTINGS: Final = TranslationOptions()
Raw = dict[str, Any]


def examples() -> Iterator[Raw]:
    """Every example, as it is written."""
    for path in FILES:
        yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


CASES: Final = [
    pytest.param(each, target, id=f"{each['metadata']['name']}-{target}") for each in examples() for target in Dialect
]
EXPECT: Final = "expect/"


def expected(example: Raw, target: Dialect) -> tuple[str, Sequence[str]]:
    """What is expected (``stays``, or a fidelity), and what is reported of it."""
    outcome, _, reported = example["metadata"]["annotations"][f"{EXPECT}{target}"].partition(": ")
    return outcome, sorted(each.strip() for each in reported.split(",") if each)


def plain(example: Raw) -> Raw:
    """The example without what it says about itself."""
    metadata = example["metadata"]
    annotations = {key: text for key, text in metadata["annotations"].items() if not key.startswith(EXPECT)}
    return {**example, "metadata": {**metadata, "annotations": annotations}}


def becomes(example: Raw, target: Dialect) -> File:
    """What the command makes of the example."""
    text = yaml.safe_dump(plain(example), sort_keys=False)
    (file,) = translated(manifests.read(text, source="example.yaml"), target, REGISTRY, SETTINGS, namespace="default")
    return file


def findings(file: File) -> list[TranslationFinding]:
    """Everything that is reported."""
    return [each for found in file.objects for each in found.findings]


def test_there_are_enough_examples_each_with_a_name_of_its_own() -> None:
    names = [each["metadata"]["name"] for each in examples()]
    assert len(names) >= LEAST
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("example", "target"), CASES)
def test_nothing_is_refused_wrongly_and_every_loss_is_reported(example: Raw, target: Dialect) -> None:
    outcome, reported = expected(example, target)
    file = becomes(example, target)
    worst = max((each.fidelity for each in file.objects), key=lambda each: each.rank, default=Fidelity.LOSSLESS)
    assert worst.value == ("lossless" if outcome == "stays" else outcome), findings(file)
    assert sorted({each.about for each in findings(file) if each.fidelity is worst and reported}) == reported
    assert all(each.remedy for each in findings(file) if each.fidelity is Fidelity.REFUSED)
    if outcome in {"stays", "refused"}:
        assert not file.changed


@pytest.mark.parametrize(("example", "target"), CASES)
def test_nothing_changes_in_silence(example: Raw, target: Dialect) -> None:
    """A pod's request is the same after a lossless translation, and other members change only with a finding."""
    file = becomes(example, target)
    if not file.changed or any(each.fidelity is Fidelity.REFUSED for each in file.objects):
        return
    before, (after, *more) = plain(example), list(yaml.safe_load_all(file.text))
    lossless = all(each.fidelity is Fidelity.LOSSLESS for each in file.objects)
    if lossless:
        assert asked(after) == asked(before)
    told = {each.about for each in findings(file)}
    structure = {each.partition(" ")[0] for each in told} & _STRUCTURE
    if not more:
        for path in changed(before, after):
            assert any(part in _OF_TRANSLATION or part in told for part in path) or structure, path


_OF_TRANSLATION: Final = frozenset({"resources", "schedulerName", "nodeSelector", "runtimeClassName", "env"}) | {
    "koordinator.sh/gpu-isolation-provider",
    "hami-plugins.io/no-core-limit",
    "scheduling.koordinator.sh/scheduler-name",
    "pod-group.scheduling.sigs.k8s.io",
    "scheduling.koordinator.sh/device-allocate-hint",
    "nvidia.com/numa-bind",
    "gang.scheduling.koordinator.sh/name",
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/vgpu-mode",
    "nvidia.com/vgpu-mode",
    "scheduling.x-k8s.io/pod-group",
}
"""Members of a pod whose change is the translation."""

_STRUCTURE: Final = frozenset({"Job", "PodGroup", "Queue", "ElasticQuota", "scheduleTimeoutSeconds"})
"""Findings about an object as a whole, which becomes another one."""


def changed(before: object, after: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths at which two objects differ."""
    if isinstance(before, Mapping | NoneType) and isinstance(after, Mapping | NoneType) and before != after:
        one, other = before or {}, after or {}
        for key in one.keys() | other.keys():
            yield from changed(one.get(key), other.get(key), (*path, str(key)))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from changed(one, other, (*path, str(at)))
    elif before != after:
        yield path


def asked(raw: Raw) -> list[object]:
    """What the pods of an object ask for on each card, whichever dialect says it."""
    found: list[object] = []
    for template in templates(raw):
        pod = pods.pod({**template, "metadata": {"name": "p", **template.get("metadata", {})}})
        for source in words_of(pod, REGISTRY, SETTINGS):
            requests = asked_of(pod, source, REGISTRY)
            assert isinstance(requests, tuple), requests
            found += [
                (each.container, each.request.count, *(() if is_npu(each.request.vendor) else sizes(each.request)))
                for each in requests
            ]
    return found


def sizes(request: DeviceRequest) -> tuple[object, ...]:
    """Memory and cores of each card; those of a slice of an NPU are its template's."""
    return request.memory, request.cores


def templates(raw: object) -> Iterator[Raw]:
    """Every pod of an object."""
    if isinstance(raw, dict):
        if isinstance(raw.get("spec"), dict) and "containers" in raw["spec"]:
            yield raw
            return
        for each in raw.values():
            yield from templates(each)
    elif isinstance(raw, list):
        for each in raw:
            yield from templates(each)
