"""What a translation keeps, gives up and refuses, rule by rule."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.annotate import NODE_KEY
from hami_plugins.engine.registry import Registry
from hami_plugins.model.edits import made
from hami_plugins.model.units import MiB
from hami_plugins.vendors import volcano
from hami_plugins.wire.gang_keys import GROUP_KEY, JOB_QUEUE_KEY, QUEUE_KEY
from hami_plugins.wire.koordinator import ALLOCATED_KEY, CORE, MEMORY, RATIO, SHARED
from koordinator_adapter.translation.model import Fidelity, NoCoreLimit, Settings, Words
from koordinator_adapter.translation.pods import translate
from koordinator_adapter.translation.vocabulary import (
    GANG_NAME,
    GROUP,
    HINT,
    ISOLATION,
    MIN_AVAILABLE,
    MODEL_LABEL,
    NO_CORE_LIMIT,
    OLD_GROUP,
    QUOTA,
    SCHEDULER_LABEL,
    VENDOR_LABEL,
)
from tests.unit.koordinator_adapter.written import REGISTRY, Raw, about, limits_of, moved, pod, translated

SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
VOLCANO_SLICE = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000, "volcano.sh/vgpu-cores": 30}
KOORDINATOR_SLICE = {SHARED: 1, MEMORY: "3000Mi", CORE: 30}
LABEL = {ISOLATION: "HAMi-core"}
PROFILES = Settings(profiles={"binpack": "koord-binpack", "spread": "koord-spread"})
LABELLED = Settings(device_labels=True)


def koordinators(limits: dict[str, object] | None = None, **more: Any) -> Raw:
    """A pod in Koordinator's words whose limits are enforced."""
    labels = {**LABEL, **more.pop("labels", {})}
    return pod(limits or KOORDINATOR_SLICE, labels=labels, **more)


def refused(raw: Raw, target: str, settings: Settings | None = None) -> str:
    """What the one refusal is about; nothing is changed."""
    found = translated(raw, target, settings)
    assert found.fidelity is Fidelity.REFUSED
    assert not found.edits
    assert all(each.words and each.remedy for each in found.findings)
    return found.findings[0].about


@pytest.mark.parametrize("raw", [pod(SLICE), pod(VOLCANO_SLICE), koordinators()])
@pytest.mark.parametrize(
    ("target", "limits"), [("hami", SLICE), ("volcano", VOLCANO_SLICE), ("koordinator", KOORDINATOR_SLICE)]
)
def test_a_slice_is_the_same_in_every_dialect(raw: Raw, target: str, limits: dict[str, object]) -> None:
    assert translated(raw, target).fidelity is Fidelity.LOSSLESS
    assert dict(limits_of(moved(raw, target))) == limits


def test_a_pod_without_cards_is_left_alone() -> None:
    for target in ("hami", "volcano", "koordinator"):
        found = translated(pod({"cpu": 1}), target)
        assert (found.source, found.edits, found.findings) == (None, (), ())


def test_a_pod_that_asks_for_zero_cards_is_left_alone_too() -> None:
    assert not translated(pod({"nvidia.com/gpu": 0}), "koordinator").findings


def test_new_names_stand_where_the_old_ones_stood_and_in_requests_too() -> None:
    raw = pod({"cpu": 1, **SLICE, "memory": "1Gi"})
    raw["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}
    resources = moved(raw, "koordinator")["spec"]["containers"][0]["resources"]
    assert list(resources["limits"]) == ["cpu", SHARED, MEMORY, CORE, "memory"]
    assert resources["requests"] == {SHARED: 1, MEMORY: "3000Mi", CORE: 30}


def test_amounts_that_only_requests_name_become_limits() -> None:
    raw = pod({})
    raw["spec"]["containers"][0]["resources"] = {"requests": SLICE}
    resources = moved(raw, "koordinator")["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"] == KOORDINATOR_SLICE


def test_a_priority_alone_asks_for_no_card() -> None:
    found = translated(pod({"nvidia.com/priority": 1}), "koordinator")
    assert (found.edits, found.findings) == ((), ())


def test_a_pod_that_cannot_be_read_is_refused_with_the_place() -> None:
    raw = pod(SLICE)
    raw["spec"]["containers"][0]["env"] = 7
    assert "env" in refused(raw, "koordinator")


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({"nvidia.com/gpu": 1, "volcano.sh/vgpu-number": 1}, "resources"),
        ({"koordinator.sh/gpu": 50, "volcano.sh/vgpu-number": 1}, "resources"),
        ({"nvidia.com/gpu": -1}, "nvidia.com/gpu"),
        ({"nvidia.com/gpu": "500m"}, "nvidia.com/gpu"),
        ({"koordinator.sh/gpu-memory-ratio": "0.5"}, RATIO),
        ({"nvidia.com/gpu": 2**40}, "pod"),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 2**40}, "pod"),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 150}, "pod"),
        ({"nvidia.com/gpu": 1, "nvidia.com/shared": 1}, "nvidia.com/shared"),
        ({"hygon.com/dcunum": 1}, "hygon.com/dcunum"),
    ],
)
def test_amounts_that_mean_nothing_are_refused(limits: dict[str, object], what: str) -> None:
    assert refused(pod(limits), "koordinator") == what


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        ({SHARED: 1, MEMORY: "9000Ti"}, MEMORY),
        ({SHARED: 2**40, RATIO: 50 * 2**40}, SHARED),
        ({"koordinator.sh/rdma": 1}, "koordinator.sh/rdma"),
        ({"koordinator.sh/teapot": 1}, "koordinator.sh/teapot"),
        ({"huawei.com/npu-core": 2, "koordinator.sh/gpu-memory-ratio": 100}, "huawei.com/npu-core"),
        ({CORE: 101, RATIO: 50}, "resources"),
        ({"koordinator.sh/gpu": 150}, "resources"),
    ],
)
def test_koordinators_words_that_mean_nothing_are_refused(limits: dict[str, object], what: str) -> None:
    assert refused(koordinators(limits), "hami") == what


def test_the_scheduler_s_own_words_are_given_for_its_refusals() -> None:
    (found,) = translated(koordinators({"koordinator.sh/gpu": 150}), "hami").findings
    assert "invalid resource unit koordinator.sh/gpu: 150" in found.words


def test_requests_and_limits_that_differ_are_refused() -> None:
    raw = koordinators()
    raw["spec"]["containers"][0]["resources"]["requests"] = {SHARED: 2}
    assert refused(raw, "hami") == SHARED


def test_halves_in_two_containers_are_refused_with_their_sum() -> None:
    (found,) = translated(pod({RATIO: 50}, {RATIO: 50}), "hami").findings
    assert f"{RATIO} 100" in found.words


def test_hami_and_volcano_both_know_cards_of_several_containers() -> None:
    found = moved(pod(SLICE, {"cpu": 1}, SLICE), "volcano")
    assert [dict(limits_of(found, at)) for at in range(3)] == [VOLCANO_SLICE, {"cpu": 1}, VOLCANO_SLICE]
    assert refused(pod(SLICE, SLICE), "koordinator") == "containers"


def test_init_containers_are_found_where_they_stand() -> None:
    raw = pod({"cpu": 1})
    raw["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": SLICE}}]
    found = moved(raw, "koordinator")
    assert found["spec"]["initContainers"][0]["resources"]["limits"] == KOORDINATOR_SLICE


def test_whole_cards_by_nvidias_own_name_are_koordinators_where_it_places_the_pod() -> None:
    raw = pod({"nvidia.com/gpu": 2}, schedulerName="koord-scheduler")
    assert dict(limits_of(moved(raw, "volcano"))) == {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-cores": 100}
    assert dict(limits_of(moved(raw, "koordinator"))) == {SHARED: 2, CORE: 200, RATIO: 200}


@pytest.mark.parametrize(
    ("limits", "selector"),
    [
        ({"amd.com/gpu": 1}, {}),
        ({"dcu.com/gpu": 1}, {}),
        (KOORDINATOR_SLICE, {"node.koordinator.sh/gpu-vendor": "cambricon"}),
    ],
)
def test_cards_of_other_makers_never_become_nvidias(limits: dict[str, object], selector: dict[str, str]) -> None:
    raw = pod(limits, labels=LABEL, schedulerName="koord-scheduler", nodeSelector=selector)
    for target in ("hami", "volcano"):
        assert refused(raw, target)
    assert not translated(raw, "koordinator").edits


def test_other_cards_stay_where_the_target_schedules_them_already() -> None:
    raw = pod({"aws.amazon.com/neuron": 1}, schedulerName="volcano")
    found = translated(raw, "volcano")
    assert (found.edits, found.findings) == ((), ())
    assert refused(raw, "koordinator") == "aws.amazon.com/neuron"
    assert refused(pod(SLICE, {"hygon.com/dcunum": 1}), "volcano") == "hygon.com/dcunum"
    assert refused(pod(SLICE, {"hygon.com/dcunum": 1}, schedulerName="volcano"), "volcano") == "containers"


def test_the_label_of_nvidias_nodes_says_nothing_new() -> None:
    raw = koordinators(nodeSelector={"node.koordinator.sh/gpu-vendor": "nvidia"})
    assert dict(limits_of(moved(raw, "hami"))) == SLICE


def test_koordinators_own_pods_are_normalised() -> None:
    raw = pod({"koordinator.sh/gpu": 50}, labels=LABEL)
    found = moved(raw, "koordinator")
    assert dict(limits_of(found)) == {SHARED: 1, CORE: 50, RATIO: 50}
    assert found["spec"]["schedulerName"] == "koord-scheduler"
    assert found["spec"]["nodeSelector"] == LABEL
    assert not translated(found, "koordinator").edits


def test_what_koordinator_counts_is_never_changed_for_itself() -> None:
    every: list[dict[str, object]] = [
        {SHARED: 1, CORE: 50, RATIO: 100},
        {SHARED: 2, MEMORY: 33 << 20},
        {SHARED: 2, MEMORY: "16Gi", CORE: 20},
    ]
    for limits in every:
        raw = koordinators(limits)
        found = translated(raw, "koordinator")
        assert dict(limits_of(made(raw, found.edits))) == limits
    assert dict(limits_of(moved(koordinators({RATIO: 200}), "koordinator"))) == {RATIO: 200, SHARED: 2}


def test_koordinators_pods_without_the_label_stay_without() -> None:
    raw = pod(KOORDINATOR_SLICE)
    found = translated(raw, "koordinator")
    assert ISOLATION in about(found, Fidelity.LOSSLESS)
    assert "labels" not in made(raw, found.edits)["metadata"]  # type: ignore[operator]


def test_koordinators_profiles_stay_as_they_are() -> None:
    raw = koordinators(schedulerName="koord-spread")
    assert moved(raw, "koordinator", PROFILES)["spec"]["schedulerName"] == "koord-spread"


def test_deprecated_names_are_read_and_not_written() -> None:
    raw = koordinators({"kubernetes.io/gpu-core": 30, "kubernetes.io/gpu-memory": "3000Mi"})
    assert dict(limits_of(moved(raw, "koordinator"))) == KOORDINATOR_SLICE
    assert "kubernetes.io/gpu-core" in about(translated(raw, "koordinator"), Fidelity.LOSSLESS)


def test_whole_cards_are_never_limited() -> None:
    found = moved(pod({"nvidia.com/gpu": 2}), "koordinator")
    assert "labels" not in found["metadata"]
    assert "nodeSelector" not in found["spec"]
    back = translated(koordinators({SHARED: 2, CORE: 50, RATIO: 200}), "hami")
    assert CORE in about(back, Fidelity.LOSSY)


def test_volcanos_cards_without_cores_are_not_exclusive_in_hami() -> None:
    raw = pod({"volcano.sh/vgpu-number": 1})
    assert dict(limits_of(moved(raw, "hami"))) == {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 0}
    assert CORE in about(translated(raw, "koordinator"), Fidelity.LOSSY)
    assert dict(limits_of(moved(moved(raw, "hami"), "volcano"))) == {"volcano.sh/vgpu-number": 1}


def test_all_cores_of_part_of_a_card_are_said_to_be_less_exclusive() -> None:
    raw = pod({**SLICE, "nvidia.com/gpucores": 100})
    assert CORE in about(translated(raw, "koordinator"), Fidelity.LOSSY)


def test_bytes_that_are_no_mebibytes_are_cut_off_with_a_word() -> None:
    raw = koordinators({SHARED: 2, MEMORY: (6000 << 20) + 1, CORE: 20})
    assert MEMORY in about(translated(raw, "hami"), Fidelity.LOSSY)
    assert limits_of(moved(raw, "hami"))["nvidia.com/gpumem"] == 3000


def test_percentages_are_said_to_be_hard_to_get_from_volcano() -> None:
    raw = pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 5})
    found = translated(raw, "volcano")
    assert about(found, Fidelity.LOSSY) == ["volcano.sh/vgpu-memory-percentage"]


@pytest.mark.parametrize("limits", [SLICE, VOLCANO_SLICE])
def test_the_memory_that_is_not_looked_at_is_named(limits: dict[str, object]) -> None:
    name = "nvidia.com/gpumem-percentage" if limits is SLICE else "volcano.sh/vgpu-memory-percentage"
    found = translated(pod({**limits, name: 50}), "koordinator")
    unused = name if limits is SLICE else "volcano.sh/vgpu-memory"
    assert unused in about(found, Fidelity.LOSSLESS)


def test_the_unit_of_memory_has_to_divide() -> None:
    options = replace(volcano.SPEC.options, memory_factor=1024)
    registry = Registry(replace(each, options=options) if each.name == volcano.SPEC.name else each for each in REGISTRY)
    found = translate(pod(SLICE), Words.VOLCANO, registry, Settings())
    assert found.findings[0].about == "volcano.sh/vgpu-memory"
    whole = pod({**SLICE, "nvidia.com/gpumem": 4096})
    changed = made(whole, translate(whole, Words.VOLCANO, registry, Settings()).edits)
    assert limits_of(changed)["volcano.sh/vgpu-memory"] == 4


def test_more_than_a_card_has_is_refused_where_that_is_known() -> None:
    assert refused(pod(SLICE), "koordinator", Settings(card_memory=MiB(2048))) == MEMORY
    assert translated(pod(SLICE), "koordinator", Settings(card_memory=MiB(4096))).edits


UNLIMITED = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}


def test_no_limit_of_cores_returns_to_itself() -> None:
    raw = pod(UNLIMITED)
    there = moved(raw, "koordinator")
    assert limits_of(there)[CORE] == 20
    assert there["metadata"]["annotations"] == {NO_CORE_LIMIT: "10"}
    back = moved(there, "hami")
    assert dict(limits_of(back)) == UNLIMITED
    assert back["metadata"] == raw["metadata"]
    assert "env" not in back["spec"]["containers"][0]


def test_a_policy_that_is_there_is_overruled_with_a_word() -> None:
    raw = pod(UNLIMITED, env={"GPU_CORE_UTILIZATION_POLICY": "force"})
    found = translated(raw, "koordinator")
    assert "GPU_CORE_UTILIZATION_POLICY" in about(found, Fidelity.LOSSY)
    env = made(raw, found.edits)["spec"]["containers"][0]["env"]  # type: ignore[index]
    assert env == [{"name": "GPU_CORE_UTILIZATION_POLICY", "value": "disable"}]
    again = pod(UNLIMITED, env={"GPU_CORE_UTILIZATION_POLICY": "disable"})
    assert "GPU_CORE_UTILIZATION_POLICY" in about(translated(again, "koordinator"), Fidelity.LOSSLESS)


def test_a_mark_that_says_something_else_is_dropped_and_the_cores_stay() -> None:
    raw = koordinators(annotations={NO_CORE_LIMIT: "99"})
    found = moved(raw, "hami")
    assert dict(limits_of(found)) == SLICE
    assert "annotations" not in found["metadata"]


def test_no_limit_of_cores_can_be_set_to_book_nothing() -> None:
    found = translated(pod(UNLIMITED), "koordinator", Settings(no_core_limit=NoCoreLimit.ABSENT))
    assert about(found, Fidelity.LOSSY) == [CORE]
    back = translated(koordinators({SHARED: 1, MEMORY: "3000Mi"}), "volcano")
    assert about(back, Fidelity.LOSSY) == [CORE]


def test_no_limit_of_cores_can_be_set_to_take_the_card() -> None:
    raw, settings = pod(UNLIMITED), Settings(no_core_limit=NoCoreLimit.WHOLE)
    assert dict(limits_of(moved(raw, "koordinator", settings))) == {SHARED: 2, CORE: 200, RATIO: 200}
    assert about(translated(raw, "koordinator", settings), Fidelity.LOSSY) == [CORE]


def test_the_priority_on_a_card_is_a_resource_or_a_variable() -> None:
    raw = pod({**SLICE, "nvidia.com/priority": 1})
    there = moved(raw, "koordinator")
    assert there["spec"]["containers"][0]["env"] == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]
    assert dict(limits_of(moved(there, "hami"))) == {**SLICE, "nvidia.com/priority": 1}
    assert moved(there, "volcano")["spec"]["containers"][0]["env"]
    strange = koordinators(env={"CUDA_TASK_PRIORITY": "high"})
    assert "nvidia.com/priority" not in limits_of(moved(strange, "hami"))
    both = pod({**SLICE, "nvidia.com/priority": 1}, env={"CUDA_TASK_PRIORITY": "0"})
    env = moved(both, "koordinator")["spec"]["containers"][0]["env"]
    assert env == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]  # HAMi's webhook writes it behind the other
    same = pod({**SLICE, "nvidia.com/priority": 1}, env={"CUDA_TASK_PRIORITY": "1"})
    assert moved(same, "koordinator")["spec"]["containers"][0]["env"] == env


@pytest.mark.parametrize("name", ["", "default-scheduler", "hami-scheduler"])
def test_the_scheduler_of_the_target_gets_the_pod(name: str) -> None:
    assert moved(pod(SLICE, schedulerName=name), "volcano")["spec"]["schedulerName"] == "volcano"


def test_a_pod_of_a_third_scheduler_is_not_taken() -> None:
    assert refused(pod(SLICE, schedulerName="mine"), "volcano") == "schedulerName"
    raw = koordinators(labels={SCHEDULER_LABEL: "mine"})
    assert refused(raw, "hami") == "schedulerName"


def test_the_label_that_names_koordinators_scheduler_goes() -> None:
    raw = koordinators(labels={SCHEDULER_LABEL: "koord-scheduler"})
    assert "labels" not in moved(raw, "hami")["metadata"]


def test_policies_become_profiles_where_they_are_known() -> None:
    raw = pod(SLICE, annotations={"hami.io/gpu-scheduler-policy": "binpack", "hami.io/node-scheduler-policy": "spread"})
    found = translated(raw, "koordinator", PROFILES)
    changed = moved(raw, "koordinator", PROFILES)
    assert changed["spec"]["schedulerName"] == "koord-binpack"
    assert "annotations" not in changed["metadata"]
    assert set(about(found, Fidelity.LOSSY)) == {"hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy"}
    back = moved(changed, "hami", PROFILES)
    assert back["metadata"]["annotations"] == {"hami.io/gpu-scheduler-policy": "binpack"}
    assert "schedulerName" in about(translated(changed, "volcano", PROFILES), Fidelity.LOSSY)


def test_policies_are_given_up_with_a_word_elsewhere() -> None:
    raw = pod(SLICE, annotations={"hami.io/gpu-scheduler-policy": "topology-aware"})
    for target in ("volcano", "koordinator"):
        assert about(translated(raw, target), Fidelity.LOSSY) == ["hami.io/gpu-scheduler-policy"]


def test_limits_that_nobody_enforced_are_enforced_elsewhere_with_a_word() -> None:
    found = translated(pod(KOORDINATOR_SLICE), "hami")
    assert about(found, Fidelity.LOSSY) == [ISOLATION]


def test_the_selector_of_isolating_nodes_goes_with_the_label() -> None:
    there = moved(pod(SLICE), "koordinator")
    assert there["spec"]["nodeSelector"] == LABEL
    assert "nodeSelector" not in moved(there, "hami")["spec"]


def test_the_runtime_class_is_added_where_none_is_named() -> None:
    assert moved(pod(SLICE), "koordinator")["spec"]["runtimeClassName"] == "nvidia"
    assert moved(pod(SLICE, runtimeClassName="mine"), "koordinator")["spec"]["runtimeClassName"] == "mine"
    assert "runtimeClassName" not in moved(pod(SLICE), "koordinator", Settings(runtime_class=""))["spec"]


IDS = {"nvidia.com/use-gpuuuid": "GPU-b,GPU-a", "nvidia.com/nouse-gpuuuid": "GPU-c"}


def test_ids_become_a_selector_of_labels_where_devices_have_them() -> None:
    raw = pod(SLICE, annotations=IDS)
    assert refused(raw, "koordinator") == "nvidia.com/use-gpuuuid"
    there = moved(raw, "koordinator", LABELLED)
    assert json.loads(there["metadata"]["annotations"][HINT]) == {
        "gpu": {
            "selector": {
                "matchExpressions": [
                    {"key": "gpu-uuid", "operator": "In", "values": ["GPU-a", "GPU-b"]},
                    {"key": "gpu-uuid", "operator": "NotIn", "values": ["GPU-c"]},
                ]
            }
        }
    }
    assert translated(there, "hami").fidelity is Fidelity.LOSSLESS
    assert moved(there, "hami")["metadata"]["annotations"] == {**IDS, "nvidia.com/use-gpuuuid": "GPU-a,GPU-b"}


def test_one_list_of_ids_is_enough() -> None:
    raw = pod(SLICE, annotations={"nvidia.com/nouse-gpuuuid": "GPU-c"})
    there = moved(raw, "koordinator", LABELLED)
    assert moved(there, "hami")["metadata"] == raw["metadata"]


def test_an_empty_list_of_ids_means_nothing() -> None:
    raw = pod(SLICE, annotations={"nvidia.com/use-gpuuuid": " "})
    assert "annotations" not in moved(raw, "koordinator")["metadata"]


def test_ids_between_hami_and_volcano_change_their_key() -> None:
    raw = pod(SLICE, annotations=IDS)
    there = moved(raw, "volcano")
    assert there["metadata"]["annotations"] == {
        "volcano.sh/vgpu-use-gpuuuid": "GPU-b,GPU-a",
        "volcano.sh/vgpu-nouse-gpuuuid": "GPU-c",
    }
    assert about(translated(raw, "volcano"), Fidelity.LOSSY) == ["volcano.sh/vgpu-use-gpuuuid"]
    assert moved(there, "hami")["metadata"] == raw["metadata"]
    assert translated(there, "hami").fidelity is Fidelity.LOSSLESS


def test_two_lists_of_ids_become_what_they_mean_together() -> None:
    given = {
        "volcano.sh/vgpu-use-gpuuuid": "GPU-a,GPU-b",
        "nvidia.com/use-gpuuuid": "GPU-b,GPU-c",
        "volcano.sh/vgpu-nouse-gpuuuid": "GPU-x",
        "nvidia.com/nouse-gpuuuid": "GPU-y",
    }
    found = moved(pod(VOLCANO_SLICE, annotations=given), "hami")["metadata"]["annotations"]
    assert found == {"nvidia.com/use-gpuuuid": "GPU-b", "nvidia.com/nouse-gpuuuid": "GPU-x,GPU-y"}


def test_a_key_that_is_right_already_stays() -> None:
    raw = pod(VOLCANO_SLICE, annotations={"nvidia.com/use-gpuuuid": "GPU-b"})
    assert moved(raw, "hami")["metadata"] == raw["metadata"]


def test_one_numa_node_is_a_hint() -> None:
    raw = pod(SLICE, annotations={"nvidia.com/numa-bind": "true"})
    there = moved(raw, "koordinator")
    assert json.loads(there["metadata"]["annotations"][HINT]) == {"gpu": {"requiredTopologyScope": "NUMANode"}}
    assert moved(there, "hami")["metadata"] == raw["metadata"]
    assert HINT in about(translated(there, "volcano"), Fidelity.LOSSY)
    assert moved(there, "koordinator")["metadata"]["annotations"] == there["metadata"]["annotations"]
    assert about(translated(raw, "volcano"), Fidelity.LOSSY) == ["nvidia.com/numa-bind"]
    two = pod({**SLICE, "nvidia.com/gpu": 2}, annotations={"nvidia.com/numa-bind": "true"})
    assert refused(two, "koordinator") == "nvidia.com/numa-bind"
    whole = pod({"nvidia.com/gpu": 2}, annotations={"nvidia.com/numa-bind": "true"})
    assert HINT in moved(whole, "koordinator")["metadata"]["annotations"]


@pytest.mark.parametrize("word", ["false", "perhaps"])
def test_a_wish_for_no_numa_node_is_none(word: str) -> None:
    raw = pod(SLICE, annotations={"nvidia.com/numa-bind": word})
    for target in ("koordinator", "volcano"):
        assert translated(raw, target).fidelity is Fidelity.LOSSLESS
        assert "annotations" not in moved(raw, target)["metadata"]


@pytest.mark.parametrize(
    "hint",
    [
        "{",
        "[]",
        '{"rdma":{}}',
        '{"gpu":7}',
        '{"gpu":{"requiredTopologyScope":"PCIe"}}',
        '{"gpu":{"selector":7}}',
        '{"gpu":{"selector":{"matchLabels":{"gpu-uuid":"a"}}}}',
        '{"gpu":{"selector":{"matchExpressions":[7]}}}',
        '{"gpu":{"selector":{"matchExpressions":[{"key":"x","operator":"In","values":["a"]}]}}}',
        '{"gpu":{"selector":{"matchExpressions":[{"key":"gpu-uuid","operator":"Exists"}]}}}',
        '{"gpu":{"selector":{"matchExpressions":[{"key":"gpu-uuid","operator":"In","values":[1]}]}}}',
        '{"gpu":{"selector":{"matchExpressions":[{"key":"gpu-uuid","operator":"In","values":["a"]},'
        '{"key":"gpu-uuid","operator":"In","values":["b"]}]}}}',
    ],
)
def test_hints_that_others_cannot_say_are_refused(hint: str) -> None:
    assert refused(koordinators(annotations={HINT: hint}), "hami") == HINT


MODELS = Settings(models=("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "Tesla-T4"))


def test_words_in_models_become_the_models_that_there_are() -> None:
    raw = pod(SLICE, annotations={"nvidia.com/use-gputype": "a100,h100", "nvidia.com/nouse-gputype": "hbm3"})
    assert refused(raw, "koordinator") == "nvidia.com/use-gputype"
    there = moved(raw, "koordinator", MODELS)
    terms = there["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expression = {"key": MODEL_LABEL, "operator": "In", "values": ["NVIDIA-A100-SXM4-80GB"]}
    assert terms == {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    assert "annotations" not in there["metadata"]
    assert "nvidia.com/use-gputype" in about(translated(raw, "koordinator", MODELS), Fidelity.LOSSY)
    assert MODEL_LABEL in about(translated(there, "hami"), Fidelity.LOSSLESS)


def test_models_are_added_to_every_term_that_is_there() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, {"matchFields": []}]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
    }
    raw = pod(SLICE, annotations={"nvidia.com/nouse-gputype": "t4"}, affinity=affinity)
    found = moved(raw, "koordinator", MODELS)["spec"]["affinity"]["nodeAffinity"]
    held = found["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [each["matchExpressions"][-1]["values"] for each in held] == [list(MODELS.models[:2])] * 2


def test_models_that_nobody_has_are_refused() -> None:
    raw = pod(SLICE, annotations={"nvidia.com/use-gputype": "b200"})
    assert refused(raw, "koordinator", MODELS) == "nvidia.com/use-gputype"


def test_no_words_in_models_mean_nothing() -> None:
    raw = pod(SLICE, annotations={"nvidia.com/use-gputype": "  "})
    assert "annotations" not in moved(raw, "koordinator")["metadata"]


def test_the_model_of_the_nodes_becomes_the_model_of_the_card() -> None:
    raw = koordinators(nodeSelector={MODEL_LABEL: "Tesla-T4", "zone": "a"})
    found = moved(raw, "volcano")
    assert found["spec"]["nodeSelector"] == {"zone": "a"}
    assert found["metadata"]["annotations"] == {"nvidia.com/use-gputype": "Tesla-T4"}
    assert about(translated(raw, "volcano"), Fidelity.LOSSY) == [MODEL_LABEL]


def test_volcano_does_not_look_at_unwanted_models_beside_wanted_ones() -> None:
    raw = pod(SLICE, annotations={"nvidia.com/use-gputype": "a100", "nvidia.com/nouse-gputype": "hbm3"})
    assert about(translated(raw, "volcano"), Fidelity.LOSSY) == ["nvidia.com/nouse-gputype"]
    assert moved(raw, "volcano")["metadata"] == raw["metadata"]


def test_modes_of_division_are_kept_where_both_have_them() -> None:
    raw = pod(SLICE, annotations={"nvidia.com/vgpu-mode": "hami-core"})
    assert "annotations" not in moved(raw, "koordinator")["metadata"]
    assert moved(raw, "volcano")["metadata"]["annotations"] == {"volcano.sh/vgpu-mode": "hami-core"}
    mig = pod(SLICE, annotations={"nvidia.com/vgpu-mode": "mig"})
    assert about(translated(mig, "volcano"), Fidelity.LOSSY) == ["nvidia.com/vgpu-mode"]
    mps = pod(SLICE, annotations={"nvidia.com/vgpu-mode": "mps"})
    assert refused(mps, "volcano") == "nvidia.com/vgpu-mode"


@pytest.mark.parametrize(
    ("raw", "target", "labels", "annotations"),
    [
        (pod(SLICE, labels={"scheduling.x-k8s.io/pod-group": "g"}), "koordinator", {GROUP: "g", **LABEL}, {}),
        (
            pod(SLICE, labels={"scheduling.x-k8s.io/pod-group": "g"}),
            "volcano",
            {},
            {"scheduling.k8s.io/group-name": "g"},
        ),
        (
            pod(VOLCANO_SLICE, annotations={"scheduling.k8s.io/group-name": "g"}),
            "koordinator",
            {GROUP: "g", **LABEL},
            {},
        ),
        (koordinators(labels={GROUP: "g"}), "volcano", {}, {"scheduling.k8s.io/group-name": "g"}),
        (koordinators(labels={OLD_GROUP: "g"}), "volcano", {}, {"scheduling.k8s.io/group-name": "g"}),
        (koordinators(annotations={GANG_NAME: "g"}), "volcano", {}, {"scheduling.k8s.io/group-name": "g"}),
        (koordinators(labels={GROUP: "g"}), "hami", {"scheduling.x-k8s.io/pod-group": "g"}, {}),
        (
            pod(VOLCANO_SLICE, annotations={QUEUE_KEY: "q"}),
            "koordinator",
            {QUOTA: "q", **LABEL},
            {},
        ),
        (koordinators(labels={QUOTA: "q"}), "volcano", {}, {QUEUE_KEY: "q"}),
    ],
)
def test_groups_and_queues_keep_their_names(
    raw: Raw, target: str, labels: dict[str, str], annotations: dict[str, str]
) -> None:
    metadata = moved(raw, target)["metadata"]
    assert (metadata.get("labels", {}), metadata.get("annotations", {})) == (labels, annotations)


@pytest.mark.parametrize(
    ("raw", "target", "what"),
    [
        (pod(VOLCANO_SLICE, annotations={QUEUE_KEY: "q"}), "hami", [QUEUE_KEY]),
        (koordinators(labels={QUOTA: "q"}), "hami", [QUOTA]),
        (koordinators(labels={GROUP: "g"}), "hami", [GROUP]),
        (koordinators(labels={"koordinator.sh/qosClass": "LS"}), "volcano", ["koordinator.sh/qosClass"]),
        (koordinators(annotations={MIN_AVAILABLE: "2"}), "volcano", [MIN_AVAILABLE]),
        (koordinators(annotations={MIN_AVAILABLE: "2"}), "hami", [MIN_AVAILABLE]),
        (
            koordinators(annotations={"gang.scheduling.koordinator.sh/mode": "NonStrict"}),
            "volcano",
            ["gang.scheduling.koordinator.sh/mode"],
        ),
        (
            koordinators(annotations={"gang.scheduling.koordinator.sh/groups": "[]"}),
            "hami",
            ["gang.scheduling.koordinator.sh/groups"],
        ),
        (
            pod(VOLCANO_SLICE, annotations={"volcano.sh/vgpu-podgroup-policy": "spread"}),
            "koordinator",
            ["volcano.sh/vgpu-podgroup-policy"],
        ),
        (pod(SLICE, annotations={NODE_KEY: "n1"}, labels={NODE_KEY: "n1"}), "volcano", [NODE_KEY]),
        (koordinators(annotations={ALLOCATED_KEY: "{}"}), "hami", [ALLOCATED_KEY]),
        (pod(SLICE, env={"CUDA_DISABLE_CONTROL": "true"}), "koordinator", ["CUDA_DISABLE_CONTROL"]),
        (pod(SLICE, env={"LD_PRELOAD": "/x.so"}), "koordinator", ["LD_PRELOAD"]),
    ],
)  # fmt: skip
def test_what_is_given_up_is_told_and_goes(raw: Raw, target: str, what: list[str]) -> None:
    found = translated(raw, target)
    assert about(found, Fidelity.LOSSY) == what
    metadata = made(raw, found.edits)["metadata"]
    assert what[0] not in {**metadata.get("labels", {}), **metadata.get("annotations", {})}  # type: ignore[attr-defined]


def test_a_gang_that_is_not_spread_says_nothing() -> None:
    raw = pod(VOLCANO_SLICE, annotations={"volcano.sh/vgpu-podgroup-policy": "pack"})
    assert translated(raw, "koordinator").fidelity is Fidelity.LOSSLESS


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


def test_koordinators_priority_classes_have_to_exist() -> None:
    raw = koordinators(priorityClassName="koord-prod")
    assert "priorityClassName" in about(translated(raw, "hami"), Fidelity.LOSSLESS)


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


def test_a_slice_as_large_as_some_card_is_told_because_nothing_limits_its_cores_there() -> None:
    sizes = Settings(card_sizes=frozenset({MiB(3000), MiB(81_920)}), card_memory=MiB(81_920))
    found = translated(pod(SLICE), "koordinator", sizes)
    assert about(found, Fidelity.LOSSY) == [CORE]
    assert "not to 30 % of cores" in found.findings[-1].words
    for less in ({"nvidia.com/gpumem": 2999}, {"nvidia.com/gpucores": 100}, {"nvidia.com/gpucores": 0}):
        found = translated(pod(SLICE | less), "koordinator", sizes)
        assert not any("koordlet" in each.words for each in found.findings)
    alone = Settings(card_memory=MiB(3000))
    assert about(translated(pod(SLICE), "koordinator", alone), Fidelity.LOSSY) == [CORE]


THERE = Settings(groups=frozenset({"default/g"}), quotas=frozenset({"q"}))


@pytest.mark.parametrize(
    ("raw", "target", "about_it", "said"),
    [
        (pod(SLICE, labels={"scheduling.x-k8s.io/pod-group": "g"}), "koordinator", "PodGroup", "sigs.k8s.io"),
        (pod(VOLCANO_SLICE, annotations={GROUP_KEY: "g"}), "koordinator", "PodGroup", "sigs.k8s.io"),
        (koordinators(labels={GROUP: "g"}), "volcano", "PodGroup", "volcano.sh"),
        (pod(VOLCANO_SLICE, annotations={QUEUE_KEY: "q"}), "koordinator", "ElasticQuota", "nothing limits"),
        (pod(VOLCANO_SLICE, annotations={JOB_QUEUE_KEY: "q"}), "koordinator", "ElasticQuota", "nothing limits"),
        (koordinators(labels={QUOTA: "q"}), "volcano", "Queue", "its pods wait"),
    ],
)
def test_groups_and_queues_that_are_not_there_are_told(raw: Raw, target: str, about_it: str, said: str) -> None:
    found = translated(raw, target)
    assert about(found, Fidelity.LOSSY) == [about_it]
    assert said in found.findings[-1].words
    assert found.findings[-1].remedy
    assert not about(translated(raw, target, THERE), Fidelity.LOSSY)
    other = pod(VOLCANO_SLICE, annotations={GROUP_KEY: "g"})
    other["metadata"]["namespace"] = "elsewhere"
    assert about(translated(other, "koordinator", THERE), Fidelity.LOSSY) == ["PodGroup"]


def test_the_queue_of_a_jobs_pod_is_kept_under_whichever_key_it_stands() -> None:
    raw = pod(VOLCANO_SLICE, annotations={JOB_QUEUE_KEY: "q"})
    metadata = moved(raw, "koordinator")["metadata"]
    assert metadata["labels"][QUOTA] == "q"
    assert "annotations" not in metadata
    assert about(translated(raw, "hami"), Fidelity.LOSSY) == [JOB_QUEUE_KEY]


@pytest.mark.parametrize(("policy", "cores"), [("disable", None), ("force", 10), (None, 10)])
def test_booked_cores_are_a_limit_once_somebody_enforces_them(policy: str | None, cores: int | None) -> None:
    env = {"GPU_CORE_UTILIZATION_POLICY": policy} if policy else {}
    raw = koordinators({SHARED: 1, MEMORY: "3000Mi", CORE: 10}, annotations={NO_CORE_LIMIT: "10"}, env=env)
    becomes = moved(raw, "hami")
    assert limits_of(becomes).get("nvidia.com/gpucores") == cores
    assert "annotations" not in becomes["metadata"]
    assert ("env" in becomes["spec"]["containers"][0]) is (policy == "force")


@pytest.mark.parametrize("label", [ISOLATION, VENDOR_LABEL])
def test_labels_that_only_koordinators_nodes_have_do_not_come_along_in_silence(label: str) -> None:
    term = {"matchExpressions": [{"key": label, "operator": "In", "values": ["x"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    found = translated(koordinators(affinity=affinity), "hami")
    assert about(found, Fidelity.LOSSY) == [label]
    chosen = moved(koordinators(nodeSelector={VENDOR_LABEL: "nvidia", "mine": "x"}), "hami")
    assert chosen["spec"]["nodeSelector"] == {"mine": "x"}
