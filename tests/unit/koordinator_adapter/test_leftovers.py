"""What belongs to one scheduler alone: variables, wishes and labels that stay, go or are refused."""

from __future__ import annotations

import pytest

from koordinator_adapter.core.translation.model import Fidelity
from koordinator_adapter.core.translation.vocabulary import (
    ISOLATION,
)
from tests.unit.koordinator_adapter.written import (
    KOORDINATOR_SLICE,
    LABEL,
    SLICE,
    VOLCANO_SLICE,
    about,
    koordinators,
    moved,
    pod,
    refused,
    translated,
)


@pytest.mark.parametrize(
    "key",
    ["device-joint-allocate", "gpu-partition-spec", "reservation-affinity"],
)
def test_what_only_koordinator_can_do_is_refused(key: str) -> None:
    raw = koordinators(annotations={f"scheduling.koordinator.sh/{key}": "{}"})
    assert refused(raw, "volcano") == f"scheduling.koordinator.sh/{key}"
    assert translated(raw, "koordinator").fidelity is Fidelity.LOSSLESS


def test_resources_of_colocation_are_refused() -> None:
    raw = koordinators({**KOORDINATOR_SLICE, "kubernetes.io/batch-cpu": 1000})
    assert refused(raw, "hami") == "kubernetes.io/batch-cpu"


@pytest.mark.parametrize("name", ["LIBCUDA_LOG_LEVEL", "GPU_CORE_UTILIZATION_POLICY", "ACTIVE_OOM_KILLER"])
@pytest.mark.parametrize("target", ["koordinator", "volcano"])
def test_variables_of_hami_core_stay(name: str, target: str) -> None:
    raw = pod(SLICE, env={name: "1"})
    assert translated(raw, target).fidelity is Fidelity.LOSSLESS
    assert moved(raw, target)["spec"]["containers"][0]["env"] == [{"name": name, "value": "1"}]


def test_limits_of_a_container_s_own_would_win_and_are_refused() -> None:
    raw = pod(SLICE, env={"CUDA_DEVICE_MEMORY_LIMIT_0": "80g"})
    assert refused(raw, "koordinator") == "CUDA_DEVICE_MEMORY_LIMIT_0"
    assert translated(raw, "volcano").edits
    assert translated(pod({"nvidia.com/gpu": 1}, env={"CUDA_DEVICE_SM_LIMIT": "5"}), "koordinator").edits


def test_variables_of_every_container_count_where_koordlets_hook_is_in_every_container() -> None:
    raw = pod(SLICE, {})
    raw["spec"]["containers"][1]["env"] = [{"name": "LD_PRELOAD", "value": "/jemalloc.so"}]
    assert about(translated(raw, "koordinator"), Fidelity.LOSSY) == ["LD_PRELOAD"]
    assert translated(raw, "koordinator").findings[-1].path == ("spec", "containers", 1)
    assert translated(raw, "volcano").fidelity is Fidelity.LOSSLESS
    raw["spec"]["containers"][1]["env"] = [{"name": "CUDA_DEVICE_SM_LIMIT_0", "value": "0"}]
    assert refused(raw, "koordinator") == "CUDA_DEVICE_SM_LIMIT_0"
    assert translated(raw, "volcano").fidelity is Fidelity.LOSSLESS


def test_the_worst_finding_counts() -> None:
    assert max(Fidelity, key=lambda each: each.rank) is Fidelity.REFUSED
    assert translated(pod(SLICE), "koordinator").fidelity is Fidelity.LOSSLESS


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": 2}, {"huawei.com/Ascend910B3": 1}])
def test_a_label_that_nobody_acts_upon_goes_where_there_is_nothing_to_limit(limits: dict[str, object]) -> None:
    raw = pod(limits, labels={ISOLATION: "hami-core", "mine": "x"})
    assert moved(raw, "koordinator")["metadata"]["labels"] == {"mine": "x"}
    assert ISOLATION in about(translated(raw, "koordinator"), Fidelity.LOSSLESS)
    right = pod(limits, labels=LABEL)
    assert moved(right, "koordinator")["metadata"]["labels"] == LABEL


@pytest.mark.parametrize(
    ("source", "target", "value", "fidelity"),
    [
        ("koordinator", "hami", "true", Fidelity.REFUSED),
        ("koordinator", "hami", "1", Fidelity.REFUSED),
        ("koordinator", "hami", "false", Fidelity.LOSSLESS),
        ("koordinator", "volcano", "false", Fidelity.REFUSED),
        ("hami", "volcano", "false", Fidelity.REFUSED),
        ("hami", "volcano", "true", Fidelity.LOSSLESS),
        ("volcano", "hami", "true", Fidelity.LOSSLESS),
        ("volcano", "hami", "false", Fidelity.LOSSY),
        ("volcano", "koordinator", "false", Fidelity.LOSSY),
        ("hami", "koordinator", "true", Fidelity.LOSSY),
        ("hami", "koordinator", "false", Fidelity.LOSSLESS),
    ],
)
def test_the_switch_of_limits_never_switches_off_what_holds(
    source: str, target: str, value: str, fidelity: Fidelity
) -> None:
    env = {"CUDA_DISABLE_CONTROL": value}
    raw = {
        "hami": pod(SLICE, env=env),
        "volcano": pod(VOLCANO_SLICE, env=env),
        "koordinator": koordinators(env=env),
    }[source]
    found = translated(raw, target)
    assert found.fidelity is fidelity
    assert fidelity is Fidelity.LOSSLESS or about(found, fidelity) == ["CUDA_DISABLE_CONTROL"]


def test_a_switch_whose_value_comes_from_elsewhere_may_be_on() -> None:
    raw = koordinators(env={"CUDA_DISABLE_CONTROL": "x"})
    raw["spec"]["containers"][0]["env"][0] = {"name": "CUDA_DISABLE_CONTROL", "valueFrom": {}}
    assert refused(raw, "hami") == "CUDA_DISABLE_CONTROL"


@pytest.mark.parametrize("target", ["hami", "volcano"])
def test_a_limit_of_the_containers_own_is_refused_on_the_way_back_too(target: str) -> None:
    own = {"CUDA_DEVICE_SM_LIMIT": "100"}
    assert refused(koordinators(env=own), target) == "CUDA_DEVICE_SM_LIMIT"
    assert translated(pod(KOORDINATOR_SLICE, env=own), target).edits  # nothing limits it now


def test_every_device_that_only_koordinator_gives_out_is_refused() -> None:
    found = translated(pod({**SLICE, "koordinator.sh/rdma": 100, "koordinator.sh/fpga": 100}), "volcano")
    assert sorted(about(found, Fidelity.REFUSED)) == ["koordinator.sh/fpga", "koordinator.sh/rdma"]


def test_a_switch_of_hami_core_that_is_no_boolean_keeps_the_limits_in_hami_and_drops_them_in_volcano() -> None:
    assert refused(pod(SLICE, env={"CUDA_DISABLE_CONTROL": "maybe"}), "volcano") == "CUDA_DISABLE_CONTROL"


def test_a_policy_that_stands_for_no_limit_of_cores_is_not_reported_as_kept() -> None:
    env = {"GPU_CORE_UTILIZATION_POLICY": "disable", "LIBCUDA_LOG_LEVEL": "1"}
    raw = koordinators({**KOORDINATOR_SLICE, "koordinator.sh/gpu-core": 10}, env=env)
    raw["metadata"]["annotations"] = {"hami-plugins.io/no-core-limit": "10"}
    found = about(translated(raw, "hami"), Fidelity.LOSSLESS)
    assert "LIBCUDA_LOG_LEVEL" in found
    assert "GPU_CORE_UTILIZATION_POLICY" not in found


def test_several_variables_of_one_container_are_taken_out() -> None:
    env = {"GPU_CORE_UTILIZATION_POLICY": "disable", "CUDA_TASK_PRIORITY": "1", "OTHER": "x"}
    raw = koordinators({**KOORDINATOR_SLICE, "koordinator.sh/gpu-core": 10}, env=env)
    raw["metadata"]["annotations"] = {"hami-plugins.io/no-core-limit": "10"}
    (container,) = moved(raw, "hami")["spec"]["containers"]
    assert container["env"] == [{"name": "OTHER", "value": "x"}]


def test_a_misspelt_resource_is_refused_unless_its_amount_is_zero() -> None:
    misspelt = "koordinator.sh/gpu-shared"
    assert refused(koordinators({**KOORDINATOR_SLICE, misspelt: 1}), "hami") == misspelt
    assert translated(koordinators({**KOORDINATOR_SLICE, misspelt: 0}), "hami").fidelity is Fidelity.LOSSLESS
