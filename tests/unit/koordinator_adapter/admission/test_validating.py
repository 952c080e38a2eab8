"""Which new pods are refused: those that Koordinator never schedules, and those whose limits would not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.wire.admission_review import Allowed, Answer, Denied
from hami_plugins.wire.koordinator import CORE, MEMORY, RATIO, RDMA, SHARED
from koordinator_adapter.core.admission import validation
from koordinator_adapter.core.translation.vocabulary import IGNORE, ISOLATION, OPT_IN
from tests.unit.koordinator_adapter.admission.asking import (
    POLICY,
    admitted,
    annotated,
    creation,
    reason,
)
from tests.unit.koordinator_adapter.written import Raw, pod

LABEL = {ISOLATION: "HAMi-core"}
SHARE = {SHARED: 1, CORE: 50, RATIO: 50}
SLICE = pod(SHARE, labels=LABEL)


def of_new(raw: Raw) -> Answer:
    return validation.validate(creation(raw), POLICY)


def test_an_init_container_and_an_application_may_ask_for_half_a_card_each() -> None:
    raw = pod(SHARE, labels=LABEL)
    raw["spec"]["initContainers"] = [{"name": "warm-up", "resources": {"limits": SHARE}}]
    assert of_new(raw) == Allowed()


def test_an_ignored_pod_comes_in_as_it_is_unless_it_overrides_limits() -> None:
    ignored = {OPT_IN: IGNORE}
    for limits in ({SHARED: 1}, {CORE: 50, RATIO: 150}, {RDMA: 150}):
        assert of_new(pod(limits, labels=ignored)) == Allowed()
        assert isinstance(of_new(pod(limits)), Denied)
    overriding = pod(SHARE, labels={**LABEL, **ignored}, env={"CUDA_DEVICE_SM_LIMIT": "100"})
    assert "CUDA_DEVICE_SM_LIMIT" in reason(of_new(overriding))


def test_cards_that_hami_core_does_not_know_are_not_said_to_lack_limits() -> None:
    npu = {"huawei.com/npu-core": 10, "huawei.com/npu-cpu": 3, MEMORY: "32Gi", SHARED: 1}
    for limits in ({SHARED: 1, CORE: 10, MEMORY: "1Gi", "metax-tech.com/sgpu": 1}, npu):
        assert of_new(pod(limits)) == Allowed()


def test_koordinators_whole_npus_come_in() -> None:
    assert of_new(pod({"huawei.com/npu-core": 20, RATIO: 100}, schedulerName="koord-scheduler")) == Allowed()


def test_a_label_that_nobody_acts_upon_is_refused_with_the_one_that_is_meant() -> None:
    why = reason(of_new(pod(SHARE, labels={ISOLATION: "hami-core"})))
    assert "write HAMi-core" in why


def test_a_pod_that_another_component_isolates_comes_in() -> None:
    """Only a pod that names HAMi-core, or nothing, is the business of this server."""
    strict = replace(POLICY, without_limits="refuse")
    for policy in (POLICY, strict):
        assert validation.validate(creation(pod(SHARE, labels={ISOLATION: "MPS"})), policy) == Allowed()


@pytest.mark.parametrize("value", ["hami-core", "HAMI-CORE", "HAMi", "hami_core", ""])
def test_other_spellings_of_hami_core_are_refused(value: str) -> None:
    assert f"{value!r} is not HAMi-core" in reason(of_new(pod(SHARE, labels={ISOLATION: value})))


def test_a_pod_that_shares_a_card_without_limits_is_told_of_or_refused() -> None:
    answer = of_new(pod(SHARE))
    assert isinstance(answer, Allowed)
    assert "without limits" in answer.warnings[0]
    strict = replace(POLICY, without_limits="refuse")
    assert "without limits" in reason(validation.validate(creation(pod(SHARE)), strict))
    lenient = replace(POLICY, without_limits="allow")
    assert validation.validate(creation(pod(SHARE)), lenient) == Allowed()
    assert validation.validate(creation(pod(SHARE, labels={OPT_IN: IGNORE})), strict) == Allowed()


OVERRIDES = {
    "CUDA_DEVICE_MEMORY_LIMIT": "80000m",
    "CUDA_DEVICE_MEMORY_LIMIT_0": "80000m",
    "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/mine.cache",
    "CUDA_DEVICE_SM_LIMIT": "100",
    "CUDA_DEVICE_SM_LIMIT_3": "100",
    "GPU_CORE_UTILIZATION_POLICY": "disable",
    "CUDA_DISABLE_CONTROL": "true",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "LD_PRELOAD": "/mine.so",
}
FROM = {"valueFrom": {"configMapKeyRef": {"name": "mine", "key": "k"}}}


def with_env(part: str, **more: Any) -> Raw:
    """The slice, with something more in its container, or in a second one of this kind."""
    found = pod(SHARE, labels=LABEL)
    if part == "own":
        found["spec"]["containers"][0] |= more
    else:
        found["spec"].setdefault(part, []).append({"name": "other", **more})
    return found


@pytest.mark.parametrize("part", ["own", "containers", "initContainers"])
@pytest.mark.parametrize("name", OVERRIDES)
def test_a_variable_that_overrides_the_limits_is_refused_where_limits_are_promised(name: str, part: str) -> None:
    for variable in ({"name": name, "value": OVERRIDES[name]}, {"name": name, **FROM}):
        answer = of_new(with_env(part, env=[{"name": "MINE", "value": "x"}, variable]))
        assert name in reason(answer)
        assert "Remove it" in reason(answer) or "script of the image" in reason(answer)
        assert getattr(answer, "code", 0) == 403
    assert isinstance(of_new(pod(SHARE, env={name: OVERRIDES[name]})), Allowed)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("GPU_CORE_UTILIZATION_POLICY", "force"),
        ("GPU_CORE_UTILIZATION_POLICY", "default"),
        ("CUDA_DISABLE_CONTROL", "false"),
        ("NVIDIA_VISIBLE_DEVICES", "void"),
        ("NVIDIA_VISIBLE_DEVICES", ""),
        ("LD_LIBRARY_PATH", "/mine"),
    ],
)
def test_a_variable_that_overrides_nothing_comes_in(name: str, value: str) -> None:
    assert of_new(with_env("own", env=[{"name": name, "value": value}])) == Allowed()


@pytest.mark.parametrize("part", ["own", "containers", "initContainers"])
@pytest.mark.parametrize("prefix", [None, "", "C", "CUDA_", "CUDA_DEVICE_", "CUDA_DEVICE_SM_LIMIT", "NVIDIA_", "LD_P"])
def test_variables_from_elsewhere_that_can_override_limits_are_refused(prefix: str | None, part: str) -> None:
    source = {"configMapRef": {"name": "mine"}} | ({} if prefix is None else {"prefix": prefix})
    answer = of_new(with_env(part, envFrom=[{"prefix": "APP_", "secretRef": {"name": "s"}}, source]))
    assert "envFrom" in reason(answer)
    assert "such as APP_" in reason(answer)


@pytest.mark.parametrize("prefix", ["APP_", "CUDA_DEVICE_ORDER", "LD_PRELOAD_", "X"])
def test_variables_from_elsewhere_with_a_prefix_of_their_own_come_in(prefix: str) -> None:
    assert of_new(with_env("own", envFrom=[{"prefix": prefix, "configMapRef": {"name": "mine"}}])) == Allowed()


def test_cores_without_a_limit_may_be_left_unlimited() -> None:
    """As the translation leaves them: it books cores for a pod of HAMi's that has no limit of cores."""
    env = [{"name": "GPU_CORE_UTILIZATION_POLICY", "value": "disable"}]
    free = annotated(with_env("own", env=env), {"hami-plugins.io/no-core-limit": "50"})
    assert of_new(free) == Allowed()
    made = admitted(pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}))
    assert env[0] in made["spec"]["containers"][0]["env"]
    assert isinstance(of_new(made), Allowed)


def test_whole_cards_have_no_limits_to_override() -> None:
    assert of_new(pod({SHARED: 1, CORE: 100, RATIO: 100}, labels=LABEL, env=OVERRIDES)) == Allowed()


@pytest.mark.parametrize("junk", [{"env": "x"}, {"env": [3, {"value": 1}]}, {"envFrom": {}}, {"envFrom": [None]}])
def test_variables_that_cannot_be_read_break_nothing(junk: Raw) -> None:
    assert isinstance(of_new(with_env("own", **junk)), Allowed | Denied)


def test_limits_that_this_server_has_put_there_are_none_of_the_containers_own() -> None:
    found = admitted(SLICE, replace(POLICY, injects="always"))
    assert of_new(found) == Allowed()
    stolen = {"name": "CUDA_DEVICE_SM_LIMIT_0", "value": "99"}
    env = found["spec"]["containers"][0]["env"]
    env[:] = [stolen if each["name"] == stolen["name"] else each for each in env]
    assert "CUDA_DEVICE_SM_LIMIT_0" in reason(of_new(found))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"koordinator.sh/gpu": 50, SHARED: 1}, "Forbidden declare GPU and GPU share at same time"),
        ({SHARED: 2, CORE: 101, RATIO: 100}, "the requested gpuCore must multiple of shared"),
        ({CORE: 50}, "invalid resource device requests"),
        ({"koordinator.sh/gpu": 150}, "the requested GPU must be percentage of 100"),
        ({MEMORY: 8000}, "8000Mi"),
        ({"koordinator.sh/gpu-shared": 1, RATIO: 50}, "gpu.shared"),
    ],
)
def test_what_koordinator_would_refuse_is_refused_at_once_in_its_words(limits: Raw, said: str) -> None:
    answer = of_new(pod(limits))
    assert said in reason(answer)
    assert getattr(answer, "code", 0) == 400


@pytest.mark.parametrize("raw", [pod({"cpu": 1}), pod({"nvidia.com/gpu": 1}), pod({SHARED: 1, CORE: 100, RATIO: 100})])
def test_pods_without_koordinators_words_and_with_whole_cards_come_in(raw: Raw) -> None:
    assert of_new(raw) == Allowed()


def test_what_cannot_be_read_is_refused_with_the_place_and_a_deletion_is_let_through() -> None:
    assert "annotations" in reason(of_new({"metadata": {"annotations": 3}}))
    assert validation.validate(creation(None), POLICY) == Allowed()


def test_network_cards_of_all_containers_are_looked_at_in_sum() -> None:
    assert of_new(pod({RDMA: 60}, {RDMA: 40})) == Allowed()
    assert "invalid resource unit koordinator.sh/rdma: 120" in reason(of_new(pod({**SHARE, RDMA: 60}, {RDMA: 60})))
