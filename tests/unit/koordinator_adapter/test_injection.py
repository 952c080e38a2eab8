"""HAMi-core in containers: what is added, what fills it, and what is in the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.edits import made
from hami_plugins.wire import pods
from hami_plugins.wire.koordinator import ALLOCATED_KEY, CORE, GPU, MEMORY, NPU_CORE, RATIO, SHARED, decode
from koordinator_adapter.core import injection
from koordinator_adapter.core.translation.model import TranslationFinding
from koordinator_adapter.core.translation.vocabulary import INJECTED, ISOLATION, MEMORY_LIMIT, NO_CORE_LIMIT, VISIBLE
from tests.unit.koordinator_adapter.written import Raw, pod

LABEL = {ISOLATION: "HAMi-core"}
TWO = {SHARED: 2, CORE: 80, MEMORY: "16Gi"}
RECORD = (
    '{"gpu":[{"minor":3,"resources":{"koordinator.sh/gpu-memory":"9Gi"},"id":"GPU-3"},'
    '{"minor":1,"resources":{"koordinator.sh/gpu-memory":"8Gi"},"id":"GPU-1"}]}'
)


def injected(raw: Raw) -> Raw:
    edits = injection.edits_of(raw, pods.pod(raw), "/opt/vgpu", "/tmp/lock")  # noqa: S108 - a path in a pod
    assert not isinstance(edits, TranslationFinding), edits
    return made(raw, edits)


def refusal(raw: Raw) -> TranslationFinding:
    found = injection.edits_of(raw, pods.pod(raw), "/opt/vgpu", "/tmp/lock")  # noqa: S108 - a path in a pod
    assert isinstance(found, TranslationFinding)
    return found


def with_init(raw: Raw) -> Raw:
    return {**raw, "spec": {**raw["spec"], "initContainers": [{"name": "first"}]}}


def env_of(container: Raw) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_every_container_sees_the_pods_cards_and_is_limited_on_each() -> None:
    found = injected(with_init(pod(TWO, {"cpu": 1}, labels=LABEL)))
    containers = [*found["spec"]["initContainers"], *found["spec"]["containers"]]
    assert len(containers) == 3
    for container in containers:
        env = env_of(container)
        assert env["NVIDIA_VISIBLE_DEVICES"]["fieldRef"]["fieldPath"] == f"metadata.annotations['{VISIBLE}']"
        for card in "01":
            field = env[f"CUDA_DEVICE_MEMORY_LIMIT_{card}"]["fieldRef"]["fieldPath"]
            assert field == f"metadata.annotations['{MEMORY_LIMIT}{card}']"
            assert env[f"CUDA_DEVICE_SM_LIMIT_{card}"] == "40"
        targets = {each["mountPath"] for each in container["volumeMounts"]}
        assert targets == {"/usr/local/vgpu/libvgpu.so", "/etc/ld.so.preload", "/tmp/vgpulock"}  # noqa: S108


def test_a_pod_does_not_start_where_the_library_is_not_there() -> None:
    volumes = injected(pod(TWO, labels=LABEL))["spec"]["volumes"]
    assert {each["hostPath"]["path"]: each["hostPath"]["type"] for each in volumes} == {
        "/opt/vgpu/libvgpu.so": "File",
        "/opt/vgpu/ld.so.preload": "File",
        "/tmp/lock": "Directory",  # noqa: S108 - a path in a pod
    }


def test_asked_again_nothing_is_added() -> None:
    once = injected(with_init(pod(TWO, labels=LABEL, env={"MINE": "x"})))
    assert injected(once) == once


def test_what_the_container_says_itself_is_overruled_in_its_place() -> None:
    raw = pod(TWO, labels=LABEL, env={"NVIDIA_VISIBLE_DEVICES": "all", "MINE": "x"})
    env = injected(raw)["spec"]["containers"][0]["env"]
    assert [each["name"] for each in env][:2] == ["NVIDIA_VISIBLE_DEVICES", "MINE"]
    assert "valueFrom" in env[0]
    assert len({each["name"] for each in env}) == len(env)


@pytest.mark.parametrize(
    "raw",
    [pod(TWO), pod({SHARED: 1, CORE: 100, RATIO: 100}, labels=LABEL), pod({"cpu": 1}, labels=LABEL)],
)
def test_whole_cards_pods_without_the_label_and_pods_without_cards_get_nothing(raw: Raw) -> None:
    assert injected(raw) == raw


def test_a_share_that_only_stands_for_a_place_limits_no_cores() -> None:
    raw = pod({SHARED: 1, CORE: 10, MEMORY: "1Gi"}, labels=LABEL, annotations={NO_CORE_LIMIT: "10"})
    assert not any(name.startswith("CUDA_DEVICE_SM") for name in env_of(injected(raw)["spec"]["containers"][0]))


def test_more_cards_than_the_library_knows_are_refused() -> None:
    assert "at most 16" in refusal(pod({SHARED: 17, MEMORY: "17Gi"}, labels=LABEL)).words
    assert injected(pod({SHARED: 16, MEMORY: "16Gi"}, labels=LABEL))["metadata"]["annotations"][INJECTED] == "16"


def test_something_else_in_the_places_of_the_library_is_refused() -> None:
    raw = pod(TWO, labels=LABEL)
    raw["spec"]["containers"][0]["volumeMounts"] = [{"name": "empty", "mountPath": "/etc/ld.so.preload"}]
    assert refusal(raw).about == "/etc/ld.so.preload"
    raw = pod(TWO, labels=LABEL, volumes=[{"name": "hami-core-preload", "emptyDir": {}}])
    assert refusal(raw).about == "hami-core-preload"


def placed(record: str, **more: Any) -> Raw:
    return pod(TWO, labels=LABEL, annotations={INJECTED: "2", ALLOCATED_KEY: record}, **more)


def resolved(raw: Raw) -> dict[str, str]:
    found: Raw = made(raw, injection.resolved(raw, pods.pod(raw)))
    annotations: dict[str, str] = found["metadata"]["annotations"]
    return annotations


def test_the_limits_are_those_of_the_record_card_by_card_in_the_order_of_their_numbers() -> None:
    found = resolved(placed(RECORD))
    assert found[VISIBLE] == "GPU-1,GPU-3"
    assert (found[f"{MEMORY_LIMIT}0"], found[f"{MEMORY_LIMIT}1"]) == (str(8 << 30), str(9 << 30))


def test_cards_without_ids_are_named_by_number() -> None:
    assert resolved(placed(RECORD.replace(',"id":"GPU-3"', "").replace(',"id":"GPU-1"', "")))[VISIBLE] == "1,3"


@pytest.mark.parametrize("record", ["{", '{"gpu":[]}', '{"gpu":[{"minor":0}]}', '{"rdma":[{"minor":0}]}'])
def test_a_record_that_says_no_limit_is_an_error_and_no_pod_without_one(record: str) -> None:
    with pytest.raises(WireError):
        resolved(placed(record))


def test_a_record_of_zero_memory_is_an_error_and_no_limit_of_zero() -> None:
    record = json.dumps({"gpu": [{"minor": 0, "resources": {MEMORY: "0"}}]})
    with pytest.raises(WireError, match="nothing can be limited"):
        resolved(placed(record))


def test_a_record_of_fewer_cards_than_before_is_an_error() -> None:
    raw = placed('{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":"1Gi"}}]}')
    raw["metadata"]["annotations"][f"{MEMORY_LIMIT}1"] = "5"
    with pytest.raises(WireError, match="memory-limit-1"):
        resolved(raw)


def test_pods_that_take_no_limits_from_annotations_get_none() -> None:
    raw = pod(TWO, labels=LABEL, annotations={ALLOCATED_KEY: RECORD})
    assert resolved(raw) == raw["metadata"]["annotations"]
    waiting = pod(TWO, labels=LABEL, annotations={INJECTED: "2"})
    assert resolved(waiting) == waiting["metadata"]["annotations"]


def test_a_pod_is_limited_once_all_its_containers_are_and_the_record_has_come() -> None:
    raw = injected(with_init(pod(TWO, labels=LABEL)))
    assert not injection.is_injected(raw, pods.pod(raw))
    raw["metadata"]["annotations"][VISIBLE] = "GPU-1"
    assert injection.is_injected(raw, pods.pod(raw))
    del raw["spec"]["initContainers"][0]["env"]
    assert not injection.is_injected(raw, pods.pod(raw))


def limits(raw: Raw, *resources: Mapping[str, str] | None) -> injection.PodLimits:
    """The limits of a pod whose record has these cards; ``None`` for no record."""
    cards = [{"minor": at, "resources": each} for at, each in enumerate(resources)]
    record = None if None in resources else decode(json.dumps({"gpu": cards}))["gpu"]
    return injection.limits_of(raw, pods.pod(raw), record)


PART = {SHARED: "1", CORE: "40", MEMORY: "8Gi"}


def test_limits_hold_where_the_record_says_which_part_of_a_card_it_is() -> None:
    found = limits(pod(PART, labels=LABEL), {CORE: "40", MEMORY: "8Gi", RATIO: "20"})
    assert found == injection.PodLimits(shares=True, labelled=True, injected=False)
    whole = pod({GPU: "100"}, labels=LABEL)
    assert not limits(whole, {CORE: "100", MEMORY: "40Gi", RATIO: "100"}).shares


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({MEMORY: "8Gi", CORE: "40"}, "without koordinator.sh/gpu-memory-ratio"),
        ({RATIO: "20", CORE: "40"}, "without koordinator.sh/gpu-memory,"),
        ({RATIO: "100", MEMORY: "8Gi", CORE: "40"}, "the cores to 40"),
        (None, "no record of its cards"),
    ],
)
def test_koordlets_hook_sets_no_limits_by_a_record_like_this(record: Mapping[str, str] | None, why: str) -> None:
    found = limits(pod(PART, labels=LABEL), record)
    assert found.shares
    assert why in found.not_hooked


def test_a_whole_card_without_a_record_needs_no_limits() -> None:
    assert not limits(pod({GPU: "100"}, labels=LABEL), None).shares
    assert not limits(pod({SHARED: "1", MEMORY: "40Gi"}, labels=LABEL), {RATIO: "100", MEMORY: "40Gi"}).shares


def test_limits_that_others_set_are_not_looked_for_here() -> None:
    recorded = {CORE: "40", MEMORY: "8Gi", RATIO: "20"}
    assert not limits(pod({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "100"}), recorded).shares
    npu = {NPU_CORE: "2", RATIO: "25", MEMORY: "6Gi"}
    assert not limits(pod({NPU_CORE: "2", SHARED: "1"}), npu).shares


def test_a_label_that_nobody_acts_upon_promises_nothing_and_hides_nothing() -> None:
    found = limits(pod(PART, labels={ISOLATION: "hami-core"}), {CORE: "40", MEMORY: "8Gi"})
    assert (found.shares, found.labelled) == (True, False)
