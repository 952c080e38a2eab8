"""Translations between HAMi's, Volcano's and Koordinator's words, against the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hami_plugins.engine import koordinator
from hami_plugins.engine.demand import WHOLE
from hami_plugins.engine.koordinator import CardRequest
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.requests import Absolute, DeviceRequest, Percent
from hami_plugins.model.units import MiB
from hami_plugins.wire import pods, quantity
from hami_plugins.wire.koordinator import CORE, MEMORY, RATIO, SHARED
from koordinator_adapter.core.refusals import cause_of
from koordinator_adapter.core.translation.choices import NoCoreLimit
from koordinator_adapter.core.translation.model import Fidelity, TranslationFinding, TranslationOptions
from koordinator_adapter.core.translation.reader import asked_of
from koordinator_adapter.core.translation.vocabulary import CORE_POLICY_ENV, HINT, ISOLATION, JOINT, PARTITION
from tests.golden.cases import Case, each
from tests.unit.koordinator_adapter.written import NVIDIA_NODES, REGISTRY, Raw, limits_of, moved, pod, translated

ABSENT = TranslationOptions(no_core_limit=NoCoreLimit.ABSENT)

DEVIATIONS = {
    "norm-hami-core-clamp": "101 % of the cores are refused, as the reference wants of a strict policy",
    "norm-volcano-only-p": "a percentage alone asks for nothing in Volcano, which is refused and not passed over",
    "norm-volcano-only-c": "cores alone ask for nothing in Volcano, which is refused and not passed over",
    "to-k-154": "printed without cores, so the setting that books none; usually 10 % stand for a place on the card",
    "to-k-155": "printed without cores, so the setting that books none; usually 10 % stand for a place on the card",
    "to-k-156": "printed without cores, so the setting that books none; usually 10 % stand for a place on the card",
}

REFUSED: Mapping[str, tuple[Raw, TranslationOptions]] = {
    "refuse-01": (pod({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1}), ABSENT),
    "refuse-02": (pod({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 50000}), TranslationOptions(card_memory=MiB(40960))),
    "refuse-03": (pod({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 101}), ABSENT),
    "refuse-04": (pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": "1500m"}), ABSENT),
    "refuse-05": (pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 101}), ABSENT),
    "refuse-06": (pod({SHARED: 2, RATIO: 202}), ABSENT),
    "refuse-07": (pod({"nvidia.com/gpu": 1, MEMORY: "8Gi"}), ABSENT),
    "refuse-08": (pod({"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}), ABSENT),
    "refuse-09": (pod({"nvidia.com/gpu": 1}, annotations={"nvidia.com/vgpu-mode": "mig"}), ABSENT),
    "refuse-10": (pod({"nvidia.com/gpu": 1}, annotations={"nvidia.com/use-gpuuuid": "GPU-a"}), ABSENT),
    "refuse-11": (pod({"nvidia.com/gpu": 1}), TranslationOptions(unserved=frozenset({"default"}))),
    "refuse-12": (pod({"nvidia.com/gpu": 1}, schedulerName="somebody-else"), ABSENT),
}
"""A pod for each condition."""

WRONG: Mapping[str, Raw] = {
    "wrong-gpu-50-with-label": pod({"koordinator.sh/gpu": 50}, labels={ISOLATION: "HAMi-core"}),
    "wrong-ratio-two-containers": pod({RATIO: 50}, {RATIO: 50}),
    "wrong-core-only": pod({CORE: 50}),
    "wrong-gpu-dash-shared": pod({"koordinator.sh/gpu-shared": 1, RATIO: 50}),
    "wrong-isolation-lower-case": pod({SHARED: 1, RATIO: 50}, labels={ISOLATION: "hami-core"}),
    "wrong-nvidia-added": pod({SHARED: 1, RATIO: 50, "nvidia.com/gpu": 1}),
    "wrong-mib-without-unit": pod({SHARED: 1, MEMORY: 8000}),
}
"""The requests that look right."""


@each("koordinator/source-normalisation.yaml")
def test_requests_are_read_alike_whoever_wrote_them(case: Case) -> None:
    found = asked_of(pods.pod(pod(case.given["limits"])), Dialect(case.given["dialect"]), REGISTRY)
    if case.id in DEVIATIONS or case.expect.get("refused"):
        assert isinstance(found, TranslationFinding)
        return
    assert not isinstance(found, TranslationFinding)
    ((request,),) = ([asked.request for asked in found],)
    assert request.count == case.expect["slices"]
    assert request.cores == case.expect.get("cores", request.cores)
    memory = request.memory
    assert case.expect.get("memory_mib") in {None, memory.mib if isinstance(memory, Absolute) else 0}
    assert case.expect.get("percent") in {None, memory.of_device if isinstance(memory, Percent) else 0}


@each("koordinator/to-koordinator.yaml")
def test_pods_become_koordinators(case: Case) -> None:
    raw = pod(*(container["limits"] for container in case.given["containers"]))
    if case.expect["refuse"]:
        assert translated(raw, "koordinator").fidelity is Fidelity.REFUSED
        return
    found = moved(raw, "koordinator", ABSENT)
    assert values(limits_of(found)) == values(case.expect["resources"])
    for expect in (case.expect, case.about.get("expect_inferred", {})):
        spec = found["spec"]
        label = found["metadata"].get("labels", {}).get(ISOLATION)
        assert label == expect.get("isolation_label", label)
        # The reference leaves out whose cards are meant: with no label of the vendor an NPU's node would fit as well.
        selected = {
            key: value for key, value in spec["nodeSelector"].items() if (key, value) not in NVIDIA_NODES.items()
        }
        assert selected == (expect.get("node_selector", selected) or {})
        assert spec["schedulerName"] == expect.get("scheduler_name", spec["schedulerName"])
        assert spec["runtimeClassName"] == expect.get("runtime_class", spec["runtimeClassName"])


@each("koordinator/to-koordinator-refusals.yaml")
def test_what_koordinator_cannot_say_is_refused(case: Case) -> None:
    raw, settings = REFUSED[case.id]
    found = translated(raw, "koordinator", settings)
    assert found.fidelity is Fidelity.REFUSED
    assert not found.edits
    assert all(finding.words and finding.remedy for finding in found.findings)


@each("koordinator/from-koordinator.yaml")
def test_koordinators_pods_become_others(case: Case) -> None:
    given, target = case.given, case.given["target"]
    requests = given.get("requests") or dict.fromkeys(given.get("names", ()), 1) or {SHARED: 1, RATIO: 50}
    annotations = dict.fromkeys(given.get("annotations", ()), "{}")
    if "situation" in given:
        annotations[HINT] = '{"gpu":{"exclusivePolicy":"DeviceLevel"}}'
    assert annotations.keys() <= {HINT, JOINT, PARTITION}
    raw = pod(requests, annotations=annotations, schedulerName="koord-scheduler")
    found = translated(raw, target)
    assert (found.fidelity is Fidelity.REFUSED) is case.expect["refuse"]
    if case.expect["refuse"]:
        return
    limits = values(limits_of(moved(raw, target)))
    assert limits == values(case.expect.get("limits", limits))
    assert values(case.expect.get("limits_contain", {})).items() <= limits.items()
    assert not set(case.expect.get("absent", ())) & set(limits)
    if "slices" in case.expect:
        request = asked(moved(raw, target), Dialect(target))
        assert (request.count, request.memory == WHOLE) == (case.expect["slices"], case.expect["whole"])


@each("koordinator/cores-zero.yaml")
def test_a_container_without_a_limit_of_cores_is_handled_as_set(case: Case) -> None:
    choice = {1: NoCoreLimit.ABSENT, 2: NoCoreLimit.SHARE, 3: NoCoreLimit.WHOLE}[case.given["option"]]
    settings = TranslationOptions(no_core_limit=choice, slices_per_card=case.given.get("k", 10))
    found = moved(pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}), "koordinator", settings)
    if choice is NoCoreLimit.WHOLE:
        assert limits_of(found)[RATIO] == 100
        return
    assert limits_of(found).get(CORE) == case.expect["gpu_core"]
    env = {each["name"]: each["value"] for each in found["spec"]["containers"][0].get("env", ())}
    assert env == case.expect.get("env", {})
    assert set(env) <= {CORE_POLICY_ENV}


@each("koordinator/wrong-requests.yaml")
def test_requests_that_only_look_right_are_told_apart(case: Case) -> None:
    raw = WRONG[case.id]
    if case.id == "wrong-gpu-50-with-label":
        assert values(limits_of(moved(raw, "koordinator"))) == {CORE: 50, RATIO: 50, SHARED: 1}
        return
    found = translated(raw, "hami")
    assert found.fidelity is Fidelity.REFUSED
    assert all(finding.remedy for finding in found.findings)


@each("koordinator/legality-cases.yaml")
def test_only_legal_requests_are_written(case: Case) -> None:
    """Broken entries of the checklist are refused, or come out whole."""
    requests = case.given["requests"]
    found = translated(pod(requests, labels={ISOLATION: "HAMi-core"}), "hami")
    assert (found.fidelity is Fidelity.LOSSLESS) is case.expect["legal"]
    if case.expect["legal"]:
        assert isinstance(koordinator.request_of(values(requests)), CardRequest)


@each("koordinator/error-texts.yaml")
def test_every_text_of_the_scheduler_has_a_cause_and_a_remedy(case: Case) -> None:
    text = case.given["text"].replace("<name>", "gpu-core").replace("<type>", "rdma")
    cause = cause_of(f"0/2 nodes are available: 2 {text}. preemption: not eligible")
    assert cause is not None
    assert cause.words
    assert cause.remedy


def test_texts_of_others_have_no_cause() -> None:
    assert cause_of("0/2 nodes are available: 2 node(s) had untolerated taint") is None


@pytest.mark.parametrize("target", ["hami", "volcano"])
def test_vector_160_keeps_the_allocated_total(target: str) -> None:
    raw = pod({SHARED: 2, MEMORY: "16Gi", CORE: 100}, labels={ISOLATION: "HAMi-core"})
    request = asked(moved(raw, target), Dialect(target))
    assert (request.count, request.memory, request.cores) == (2, Absolute(MiB(8192)), 50)


def asked(raw: Raw, words: Dialect) -> DeviceRequest:
    """The one request of a pod."""
    found = asked_of(pods.pod(raw), words, REGISTRY)
    assert not isinstance(found, TranslationFinding)
    return found[0].request


def values(raw: Mapping[str, Any]) -> dict[str, int]:
    """Amounts by value, however they are written."""
    return {name: quantity.parse(amount, key=name).ceiling for name, amount in raw.items()}
