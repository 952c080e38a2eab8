"""Which cards a pod wants, in other words: ids, models, one NUMA node, modes of division."""

from __future__ import annotations

import json

import pytest

from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions
from koordinator_adapter.core.translation.vocabulary import (
    HINT,
    MODEL_LABEL,
)
from tests.unit.koordinator_adapter.written import (
    SLICE,
    VOLCANO_SLICE,
    about,
    koordinators,
    moved,
    pod,
    refused,
    translated,
)

LABELLED = TranslationOptions(device_labels=True)


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


@pytest.mark.parametrize("what", ["use", "nouse"])
def test_of_a_list_that_volcano_does_not_read_its_own_key_is_reported(what: str) -> None:
    raw = pod(SLICE, annotations={f"nvidia.com/{what}-gpuuuid": "GPU-a"})
    assert about(translated(raw, "volcano"), Fidelity.LOSSY) == [f"volcano.sh/vgpu-{what}-gpuuuid"]


def test_ids_between_hami_and_volcano_change_their_key() -> None:
    raw = pod(SLICE, annotations=IDS)
    there = moved(raw, "volcano")
    assert there["metadata"]["annotations"] == {
        "volcano.sh/vgpu-use-gpuuuid": "GPU-b,GPU-a",
        "volcano.sh/vgpu-nouse-gpuuuid": "GPU-c",
    }
    assert about(translated(raw, "volcano"), Fidelity.LOSSY) == list(there["metadata"]["annotations"])
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


@pytest.mark.parametrize("hint", ["{", "[]"])
def test_a_hint_that_cannot_be_read_is_refused_beside_a_wish_for_cards(hint: str) -> None:
    assert refused(pod(SLICE, annotations={"nvidia.com/numa-bind": "true", HINT: hint}), "koordinator") == HINT


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


MODELS = TranslationOptions(models=("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "Tesla-T4"))


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


def hinted(hint: object) -> dict[str, object]:
    return koordinators(annotations={HINT: json.dumps(hint)})


def selecting(*values: object) -> dict[str, object]:
    return {"matchExpressions": [{"key": "gpu-uuid", "operator": "In", "values": list(values)}]}


def test_a_hint_may_name_ids_and_one_numa_node_together() -> None:
    raw = hinted({"gpu": {"selector": selecting("GPU-a"), "requiredTopologyScope": "NUMANode"}})
    assert moved(raw, "hami")["metadata"]["annotations"] == {
        "nvidia.com/use-gpuuuid": "GPU-a",
        "nvidia.com/numa-bind": "true",
    }


@pytest.mark.parametrize(
    "hint",
    [
        {"gpu": {"selector": selecting("GPU-a")}, "rdma": {}},
        {"gpu": {"selector": selecting("GPU-a", 7)}},
    ],
)
def test_a_hint_that_also_says_anything_else_is_refused(hint: object) -> None:
    assert refused(hinted(hint), "hami") == HINT


def test_models_are_added_where_the_affinity_has_no_term_and_to_every_term_it_has() -> None:
    settings = TranslationOptions(models=("NVIDIA-A100", "NVIDIA-L4", "NVIDIA-H100"))
    expression = {"key": MODEL_LABEL, "operator": "In", "values": ["NVIDIA-H100"]}
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    for before, after in (
        ([], [{"matchExpressions": [expression]}]),
        ([{"matchExpressions": [zone]}], [{"matchExpressions": [zone, expression]}]),
    ):
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": before}}}
        raw = pod(SLICE, annotations={"nvidia.com/nouse-gputype": "A100,L4"}, affinity=affinity)
        found = moved(raw, "koordinator", settings)["spec"]["affinity"]["nodeAffinity"]
        assert found["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == after
