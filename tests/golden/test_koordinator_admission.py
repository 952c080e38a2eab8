"""What Koordinator's validating webhook and koordlet's hook say, against what the adapter's webhooks say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hami_plugins.engine import koordinator
from hami_plugins.engine.koordinator import CARD_NAMES
from hami_plugins.errors import WireError
from hami_plugins.model.edits import made
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import MEBIBYTE
from hami_plugins.wire import hami_core, pods, quantity
from hami_plugins.wire.koordinator import (
    ALLOCATED_KEY,
    CORE,
    GPU,
    MEMORY,
    NPU_CORE,
    RATIO,
    SHARED,
    WHOLE_CARDS,
)
from koordinator_adapter.core import injection
from koordinator_adapter.core.admission.completeness import objection
from koordinator_adapter.core.translation.koordinator_reader import amounts_of
from koordinator_adapter.core.translation.vocabulary import HAMI_CORE, INJECTED, ISOLATION, MEMORY_LIMIT, VISIBLE
from tests.golden.cases import Case, each, of
from tests.unit.koordinator_adapter.written import moved, pod

DEVIATIONS = {
    "hook-129": "what is added is for pods that share cards with the label; others are shown theirs elsewhere",
    "hook-132": "there is no protocol object here",
    "hook-wrong-case": "such a pod is refused when it is created",
    "hook-r100": "what is added is for pods that share cards with the label; others are shown theirs elsewhere",
    "hook-no-ratio": "the ratio is not needed for the limit, which is set",
    "core-limit-7": "every container has a cache of its own, which the node's monitor does not see",
}

OTHERWISE = (
    "hook-129",
    "hook-130",
    "hook-132",
    "hook-wrong-case",
    "hook-r100",
    "hook-no-ratio",
    "hook-no-memory",
)
"""Vectors of containers to which koordlet's hook adds no limits; each but ``hook-132`` has a test of its own."""

BROKEN: Mapping[str, Mapping[str, int]] = {
    "G and S together": {GPU: 50, SHARED: 1},
    "G = 0": {GPU: 0},
    "G > 100 and G % 100 != 0": {GPU: 150},
    "S = 0": {SHARED: 0, RATIO: 50},
    "NC present": {NPU_CORE: 8, SHARED: 1},
    "S, M and R both zero": {SHARED: 2, CORE: 50},
    "M and R both non-zero": {SHARED: 1, MEMORY: 4000, RATIO: 100},
    "C % S != 0": {SHARED: 2, CORE: 101, RATIO: 100},
    "R % S != 0": {SHARED: 2, RATIO: 101},
}
"""Requests that break one rule each."""

WRITTEN = (
    pod({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 8192, "nvidia.com/gpucores": 40}),
    pod({"nvidia.com/gpu": 3, "nvidia.com/gpumem-percentage": 33}),
    pod({"nvidia.com/gpu": 2}),
    pod({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000, "volcano.sh/vgpu-cores": 100}),
    pod({GPU: 200}),
    pod({GPU: 50}, labels={ISOLATION: HAMI_CORE}),
)
"""Pods of every kind, before they are translated."""


def amounts(raw: Mapping[str, str]) -> dict[str, int]:
    return {name: quantity.parse(text, key=name).ceiling for name, text in raw.items()}


@each("koordinator/webhook-validate.yaml")
def test_a_container_is_judged_as_koordinators_webhook_judges_it(case: Case) -> None:
    given = amounts(case.given["requests"]) if "requests" in case.given else dict.fromkeys(case.given["names"], 50)
    found = objection(given)
    assert bool(found) is not case.expect["allowed"]
    assert case.expect.get("message_contains", "") in found


@each("koordinator/webhook-validate-rules.yaml")
def test_each_rule_of_koordinators_webhook_is_worded_as_there(case: Case) -> None:
    assert objection(BROKEN[case.given["condition"]]) == (case.expect["message_contains"] or "")


def _per_card(name: str) -> Callable[[Pod, Mapping[str, int]], bool]:
    return lambda _pod, found: name not in found or 1 <= found[name] // found[SHARED] <= 100


def _divides(name: str) -> Callable[[Pod, Mapping[str, int]], bool]:
    return lambda _pod, found: found.get(name, 0) % found[SHARED] == 0


def _is_shared(found: Mapping[str, int]) -> bool:
    return RATIO not in found or found[RATIO] // found[SHARED] < 100


LEGAL: Mapping[str, Callable[[Pod, Mapping[str, int]], bool]] = {
    "containers": lambda pod, _: sum(bool(amounts_of(pod, at)) for at in range(len(pod.containers))) == 1,
    "shared-count": lambda _pod, found: found[SHARED] >= 1,
    "core-divides": _divides(CORE),
    "core-range": _per_card(CORE),
    "ratio-divides": _divides(RATIO),
    "ratio-range": _per_card(RATIO),
    "memory-positive": lambda _pod, found: found.get(MEMORY, 1) > 0,
    "memory-divides": lambda _pod, found: found.get(MEMORY, 0) % (found[SHARED] * MEBIBYTE) == 0,
    "one-memory-form": lambda _pod, found: (MEMORY in found) is not (RATIO in found),
    "no-foreign": lambda pod, found: (
        set(found) <= CARD_NAMES - {*WHOLE_CARDS}
        and not any(name.startswith(("nvidia.com/", "volcano.sh/")) for name in pod.containers[0].limits)
    ),
    "namespace": lambda pod, _: pod.namespace == "default",
    "isolation-label": lambda pod, found: (pod.labels.get(ISOLATION) == HAMI_CORE) is _is_shared(found),
    "node-selector": lambda pod, found: (
        (dict(pod.constraints.selector).get(ISOLATION) == HAMI_CORE) is _is_shared(found)
    ),
    "profile": lambda pod, _: pod.scheduler == "koord-scheduler",
}


@each("koordinator/legality.yaml")
def test_whatever_is_translated_keeps_the_rule(case: Case) -> None:
    keeps = LEGAL[case.given["rule"]]
    for raw in WRITTEN:
        found = pods.pod(moved(raw, "koordinator"))
        asked = amounts_of(found, 0)
        assert keeps(found, asked), raw
        assert koordinator.normalised(asked) == asked


def environment(raw: Mapping[str, Any]) -> dict[str, str]:
    """The variables of the first container as the kubelet makes them: an annotation that is missing is empty."""
    annotations = raw["metadata"]["annotations"]
    found = {}
    for each_one in raw["spec"]["containers"][0].get("env", ()):
        source = each_one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        key = source.removeprefix("metadata.annotations['").removesuffix("']")
        found[each_one["name"]] = each_one.get("value", annotations.get(key, ""))
    return found


def started(case: Case) -> tuple[dict[str, str], set[str]]:
    """What the first container of the vector's pod gets from us: its variables, and what is mounted where."""
    cards = [{"minor": at, **card} for at, card in enumerate(case.given["device_allocated"]["gpu"])]
    first = cards[0]["resources"]
    request = {SHARED: len(cards), MEMORY: first.get(MEMORY, "16Gi")}
    if CORE in first:
        request[CORE] = int(first[CORE]) * len(cards)
    raw = pod(request, labels=case.given["pod_labels"])
    edits = injection.edits_of(raw, pods.pod(raw), "/usr/local/vgpu", "/tmp/vgpulock")  # noqa: S108 - the usual one
    assert isinstance(edits, tuple)
    raw = made(raw, edits)
    raw["metadata"]["annotations"][ALLOCATED_KEY] = json.dumps({"gpu": cards})  # type: ignore[index]
    raw = made(raw, injection.resolved(raw, pods.pod(raw)))
    mounts = raw["spec"]["containers"][0]["volumeMounts"]  # type: ignore[index]
    return environment(raw), {each_one["mountPath"] for each_one in mounts}


@each("koordinator/koordlet-hook.yaml", without=OTHERWISE)
def test_a_container_gets_what_koordlets_hook_would_give_it(case: Case) -> None:
    """Limits by card and ids where the hook has one limit and numbers; the file of preloads instead of the variable."""
    env, mounts = started(case)
    wanted = case.expect.get("env", case.expect.get("env_contains", {}))
    for name in ("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"):
        for card in range(len(case.given["device_allocated"]["gpu"])):
            assert env.get(f"{name}_{card}") == wanted.get(name)
    assert env["NVIDIA_VISIBLE_DEVICES"] == wanted.get("NVIDIA_VISIBLE_DEVICES", env["NVIDIA_VISIBLE_DEVICES"])
    assert "LD_PRELOAD" not in env
    for mount in case.expect.get("mounts", ()):
        assert mount["destination"] in mounts | {"/usr/local/vgpu"}


def hook(name: str) -> Case:
    return next(case for case in of("koordinator/koordlet-hook.yaml") if case.id == name)


def added(request: Mapping[str, object], name: str) -> object:
    """What is added to a pod with this request and the labels of a vector."""
    raw = pod(request, labels=hook(name).given["pod_labels"])
    return injection.edits_of(raw, pods.pod(raw), "/usr/local/vgpu", "/tmp/vgpulock")  # noqa: S108 - the usual one


@pytest.mark.parametrize(
    ("name", "request_of_it"),
    [
        ("hook-129", {"koordinator.sh/gpu": 200}),
        ("hook-130", {"koordinator.sh/fpga": 100}),
        ("hook-r100", {"koordinator.sh/gpu": 100}),
        ("hook-wrong-case", {SHARED: 1, MEMORY: "16Gi", CORE: 50}),
    ],
)
def test_nothing_is_added_where_nothing_is_to_be_limited_and_nobody_wants_it(
    name: str, request_of_it: dict[str, object]
) -> None:
    assert added(request_of_it, name) == ()
    assert "LD_PRELOAD" not in hook(name).expect["env"]


def test_a_record_without_a_ratio_is_enough_for_limits_where_the_hook_sets_none() -> None:
    case = hook("hook-no-ratio")
    env, _ = started(case)
    assert case.expect["error"]
    assert (env["CUDA_DEVICE_MEMORY_LIMIT_0"], env["CUDA_DEVICE_SM_LIMIT_0"]) == (str(16 << 30), "50")


def test_a_record_without_memory_lets_no_container_run_unlimited_as_the_hook_would() -> None:
    case = next(each_one for each_one in of("koordinator/koordlet-hook.yaml") if each_one.id == "hook-no-memory")
    raw = pod({SHARED: 1, MEMORY: "16Gi"}, labels={ISOLATION: HAMI_CORE}, annotations={INJECTED: "1"})
    raw["metadata"]["annotations"][ALLOCATED_KEY] = json.dumps(case.given["device_allocated"])
    with pytest.raises(WireError, match=MEMORY):
        injection.resolved(raw, pods.pod(raw))


LIMITS: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "CUDA_DEVICE_MEMORY_LIMIT": lambda env: all(
        value.isdecimal() for name, value in env.items() if "MEMORY_LIMIT" in name
    ),
    "CUDA_DEVICE_MEMORY_LIMIT_<i>": lambda env: (
        {"CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_MEMORY_LIMIT_1"} <= set(env)
    ),
    "CUDA_DEVICE_SM_LIMIT_<i>": lambda env: {"CUDA_DEVICE_SM_LIMIT_0", "CUDA_DEVICE_SM_LIMIT_1"} <= set(env),
    "CUDA_DEVICE_SM_LIMIT is 0 or >= 100": lambda env: all(
        0 < int(value) < 100 for name, value in env.items() if "SM_LIMIT" in name
    ),
    "GPU_CORE_UTILIZATION_POLICY=disable": lambda env: "GPU_CORE_UTILIZATION_POLICY" not in env,
    "CUDA_DEVICE_MAX_COUNT": lambda _env: hami_core.MOST_CARDS == 16,
    "CUDA_DEVICE_MEMORY_SHARED_CACHE not set": lambda env: "CUDA_DEVICE_MEMORY_SHARED_CACHE" not in env,
}


@each("koordinator/hami-core-limits.yaml")
def test_limits_are_written_as_the_library_reads_them(case: Case) -> None:
    hook = next(each_one for each_one in of("koordinator/koordlet-hook.yaml") if each_one.id == "hook-8-7")
    env, _ = started(hook)
    assert LIMITS[case.given["rule"]](env)
    assert VISIBLE not in env
    assert MEMORY_LIMIT not in env
