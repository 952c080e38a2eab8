"""Ascend's NPUs between HAMi's and Koordinator's words."""

from __future__ import annotations

import pytest

from hami_plugins.wire.koordinator import CORE, MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP, RATIO, SHARED
from koordinator_adapter.core.translation.model import Fidelity
from koordinator_adapter.core.translation.vocabulary import HINT, MODEL_LABEL, VENDOR_LABEL
from tests.unit.koordinator_adapter.written import about, limits_of, moved, pod, refused, stays, translated

SLICE = {NPU_CORE: 2, NPU_CPU: 2, NPU_DVPP: 25, MEMORY: "6Gi", SHARED: 1}
HAMI_SLICE = {"huawei.com/Ascend310P": 1, "huawei.com/Ascend310P-memory": 6144}


def test_a_template_has_its_numbers_in_koordinator_and_its_chip_in_hami() -> None:
    there = moved(pod(HAMI_SLICE), "koordinator")
    assert limits_of(there) == SLICE
    assert there["spec"]["nodeSelector"] == {VENDOR_LABEL: "huawei", MODEL_LABEL: "Ascend-310P3"}
    assert there["spec"]["schedulerName"] == "koord-scheduler"
    assert "runtimeClassName" not in there["spec"]
    assert "labels" not in there["metadata"]
    back = moved(there, "hami")
    assert limits_of(back) == HAMI_SLICE
    assert "nodeSelector" not in back["spec"]


def test_memory_is_that_of_the_template_which_holds_it() -> None:
    assert limits_of(moved(pod({**HAMI_SLICE, "huawei.com/Ascend310P-memory": 5000}), "koordinator")) == SLICE


def test_numbers_that_only_one_chip_has_need_no_label() -> None:
    assert limits_of(moved(pod(SLICE, schedulerName="koord-scheduler"), "hami")) == HAMI_SLICE


@pytest.mark.parametrize(
    ("limits", "model"),
    [
        ({**SLICE, NPU_CPU: 3}, None),
        ({NPU_CORE: 20, RATIO: 100}, None),
        ({NPU_CORE: 20, RATIO: 100}, "Ascend-310P3"),
        ({NPU_CORE: 20, RATIO: 50}, "Ascend-910B3"),
        ({NPU_CORE: 20}, "Ascend-910B3"),
        ({NPU_CORE: 20, RATIO: 100}, "Ascend-Next"),
    ],
)
def test_numbers_that_say_no_chip_are_refused(limits: dict[str, object], model: str | None) -> None:
    selector = {"nodeSelector": {MODEL_LABEL: model}} if model else {}
    found = translated(pod(limits, schedulerName="koord-scheduler", **selector), "hami")
    assert found.fidelity is Fidelity.REFUSED
    assert found.findings[0].remedy


def test_whole_cards_are_all_their_cores_and_a_word_of_warning() -> None:
    raw = pod({"huawei.com/Ascend910B3": 2})
    found = translated(raw, "koordinator")
    assert NPU_CORE in about(found, Fidelity.LOSSY)
    there = moved(raw, "koordinator")
    assert limits_of(there) == {NPU_CORE: 40, RATIO: 200}
    assert limits_of(moved(there, "hami")) == {"huawei.com/Ascend910B3": 2}
    assert not translated(there, "koordinator").edits


def test_templates_with_other_memory_are_told() -> None:
    raw = pod({"huawei.com/Ascend910A": 1, "huawei.com/Ascend910A-memory": 2184})
    assert MEMORY in about(translated(raw, "koordinator"), Fidelity.LOSSY)
    assert limits_of(moved(raw, "koordinator")) == {SHARED: 1, NPU_CORE: 2, NPU_CPU: 1, MEMORY: "2Gi"}


def test_amounts_that_only_requests_name_become_limits() -> None:
    raw = pod({"huawei.com/Ascend310P": 1, "huawei.com/Ascend310P-memory": 6144})
    raw["spec"]["containers"][0]["resources"]["requests"] = {"cpu": 1, **HAMI_SLICE}
    resources = moved(raw, "koordinator")["spec"]["containers"][0]["resources"]
    assert resources["limits"] == SLICE
    assert resources["requests"] == {"cpu": 1, **SLICE}


def test_more_old_names_than_new_ones_go() -> None:
    found = moved(pod({"cpu": 1, **SLICE}, nodeSelector={"zone": "a"}), "hami")
    assert list(limits_of(found)) == ["cpu", *HAMI_SLICE]
    assert found["spec"]["nodeSelector"] == {"zone": "a"}


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        ({"huawei.com/Ascend910B4-1": 1}, {}),
        ({"huawei.com/Ascend910C": 2}, {}),
        ({**HAMI_SLICE, "huawei.com/Ascend310P-core": 30}, {"huawei.com/vnpu-mode": "hami-core"}),
        (HAMI_SLICE, {"hami.io/use-Ascend310P-uuid": "a"}),
    ],
)
def test_what_koordinator_has_no_words_for_is_refused(limits: dict[str, object], annotations: dict[str, str]) -> None:
    assert translated(pod(limits, annotations=annotations), "koordinator").fidelity is Fidelity.REFUSED


def test_volcano_reads_hamis_names_of_npus_where_it_is_configured_to() -> None:
    found = translated(pod(HAMI_SLICE), "volcano")
    assert about(found, Fidelity.LOSSY) == ["huawei.com/Ascend310P"]
    assert "deviceshare.AscendHAMiVNPUEnable" in found.findings[0].words
    there = moved(pod(HAMI_SLICE), "volcano")
    assert (limits_of(there), there["spec"]["schedulerName"]) == (HAMI_SLICE, "volcano")
    assert stays(there, "volcano")
    back = moved(there, "hami")
    assert (limits_of(back), back["spec"]["schedulerName"]) == (HAMI_SLICE, "hami-scheduler")
    assert limits_of(moved(there, "koordinator")) == SLICE
    assert limits_of(moved(moved(there, "koordinator"), "volcano")) == HAMI_SLICE


def test_what_volcano_reads_of_npus_in_no_release_or_a_later_one_is_reported() -> None:
    soft = pod({**HAMI_SLICE, "huawei.com/Ascend310P-core": 30}, annotations={"huawei.com/vnpu-mode": "hami-core"})
    assert "huawei.com/vnpu-mode" in about(translated(soft, "volcano"), Fidelity.LOSSY)
    chosen = translated(pod(HAMI_SLICE, annotations={"hami.io/use-Ascend310P-uuid": "a"}), "volcano")
    assert "list of ids" in chosen.findings[-1].words


def test_mindclusters_cores_are_volcanos_alone() -> None:
    raw = pod({NPU_CORE: 8}, schedulerName="volcano")
    assert translated(raw, "volcano").findings == ()
    for target in ("hami", "koordinator"):
        assert refused(raw, target) == NPU_CORE


TEMPLATES = [
    ("Ascend-310P3", {NPU_CORE: 1, NPU_CPU: 1, NPU_DVPP: 12, MEMORY: "3Gi"}),
    ("Ascend-310P3", {NPU_CORE: 2, NPU_CPU: 2, NPU_DVPP: 25, MEMORY: "6Gi"}),
    ("Ascend-310P3", {NPU_CORE: 2, NPU_CPU: 1, NPU_DVPP: 25, MEMORY: "6Gi"}),
    ("Ascend-310P3", {NPU_CORE: 4, NPU_CPU: 4, NPU_DVPP: 50, MEMORY: "12Gi"}),
    ("Ascend-310P3", {NPU_CORE: 4, NPU_CPU: 3, NPU_DVPP: 50, MEMORY: "12Gi"}),
    ("Ascend-310P3", {NPU_CORE: 4, NPU_CPU: 3, MEMORY: "12Gi"}),
    ("Ascend-310P3", {NPU_CORE: 4, NPU_CPU: 4, NPU_DVPP: 100, MEMORY: "12Gi"}),
    ("Ascend-310P", {NPU_CORE: 4, NPU_CPU: 4, NPU_DVPP: 50, MEMORY: "12Gi"}),
    ("Ascend-910", {NPU_CORE: 2, NPU_CPU: 1, MEMORY: "2Gi"}),
    ("Ascend-910", {NPU_CORE: 16, NPU_CPU: 7, MEMORY: "16Gi"}),
    ("Ascend-910B2", {NPU_CORE: 3, NPU_CPU: 1, MEMORY: "8Gi"}),
    ("Ascend-910B2", {NPU_CORE: 12, NPU_CPU: 3, MEMORY: "32Gi"}),
    ("Ascend-910B3", {NPU_CORE: 5, NPU_CPU: 1, MEMORY: "16Gi"}),
    ("Ascend-910B3", {NPU_CORE: 10, NPU_CPU: 3, MEMORY: "32Gi"}),
    ("Ascend-910B4", {NPU_CORE: 5, NPU_CPU: 1, NPU_DVPP: 25, MEMORY: "8Gi"}),
    ("Ascend-910B4", {NPU_CORE: 10, NPU_CPU: 3, NPU_DVPP: 50, MEMORY: "16Gi"}),
    ("Ascend-910B4", {NPU_CORE: 10, NPU_CPU: 3, MEMORY: "16Gi"}),
    ("Ascend-910B4", {NPU_CORE: 10, NPU_CPU: 4, NPU_DVPP: 100, MEMORY: "16Gi"}),
]
"""Slices of Koordinator's chart, by the label of their model."""


@pytest.mark.parametrize(("model", "numbers"), TEMPLATES)
def test_a_slice_comes_back_as_it_was_or_the_change_is_reported(model: str, numbers: dict[str, object]) -> None:
    raw = pod({**numbers, SHARED: 1}, schedulerName="koord-scheduler", nodeSelector={MODEL_LABEL: model})
    assert stays(raw, "koordinator")
    found = translated(raw, "hami")
    back = moved(moved(raw, "hami"), "koordinator")
    same = dict(limits_of(back)) == {**numbers, SHARED: 1} and back["spec"]["nodeSelector"][MODEL_LABEL] == model
    memories = about(found, Fidelity.LOSSY) == [MEMORY]
    assert same is (found.fidelity is Fidelity.LOSSLESS or memories)


@pytest.mark.parametrize(
    ("limits", "model"),
    [
        ({NPU_CORE: 20, RATIO: 100}, None),
        ({NPU_CORE: 80, RATIO: 400}, "Ascend-910B3"),
        ({NPU_CORE: 25, RATIO: 100}, "Ascend-910B1"),
        ({NPU_CORE: 3, NPU_CPU: 1, MEMORY: "8Gi", SHARED: 1}, "Ascend-910B1"),
        ({NPU_CORE: 7, NPU_CPU: 2, MEMORY: "9Gi", SHARED: 1}, None),
    ],
)
def test_koordinators_own_npus_stay_under_koordinator(limits: dict[str, object], model: str | None) -> None:
    selector = {"nodeSelector": {MODEL_LABEL: model}} if model else {}
    assert stays(pod(limits, schedulerName="koord-scheduler", **selector), "koordinator")


def test_numbers_of_several_models_are_reported() -> None:
    found = translated(pod({NPU_CORE: 3, NPU_CPU: 1, MEMORY: "8Gi", SHARED: 1}), "hami")
    assert about(found, Fidelity.LOSSY) == [MODEL_LABEL]
    assert "Ascend-910B1 and Ascend-910B2C" in found.findings[0].words


def test_a_hint_about_npus_is_not_lost_in_silence() -> None:
    hint = {HINT: '{"gpu":{"requiredTopologyScope":"NUMANode"}}'}
    assert refused(pod(SLICE, annotations=hint, schedulerName="koord-scheduler"), "hami") == HINT


def test_cores_alone_are_no_npu() -> None:
    assert CORE not in limits_of(moved(pod(HAMI_SLICE), "koordinator"))


@pytest.mark.parametrize(
    ("chip", "memory", "numbers"),
    [
        ("Ascend310P", 12288, {NPU_CORE: 4, NPU_CPU: 4, NPU_DVPP: 50, MEMORY: "12Gi"}),
        ("Ascend910A", 4369, {NPU_CORE: 4, NPU_CPU: 1, MEMORY: "4Gi"}),
        ("Ascend910A", 8738, {NPU_CORE: 8, NPU_CPU: 3, MEMORY: "8Gi"}),
        ("Ascend910A", 17476, {NPU_CORE: 16, NPU_CPU: 7, MEMORY: "16Gi"}),
        ("Ascend910B3", 16384, {NPU_CORE: 5, NPU_CPU: 1, MEMORY: "16Gi"}),
        ("Ascend910B4", 8192, {NPU_CORE: 5, NPU_CPU: 1, NPU_DVPP: 25, MEMORY: "8Gi"}),
        ("Ascend910B4", 16384, {NPU_CORE: 10, NPU_CPU: 3, NPU_DVPP: 50, MEMORY: "16Gi"}),
    ],
)
def test_templates_have_koordinators_numbers_and_go_back(chip: str, memory: int, numbers: dict[str, object]) -> None:
    raw = pod({f"huawei.com/{chip}": 1, f"huawei.com/{chip}-memory": memory})
    there = moved(raw, "koordinator")
    assert limits_of(there) == {SHARED: 1, **numbers}
    assert limits_of(moved(there, "hami")) == limits_of(raw)


def test_new_names_stand_where_the_old_ones_stood() -> None:
    found = moved(pod({**SLICE, "cpu": 1}), "hami")
    assert list(limits_of(found)) == [*HAMI_SLICE, "cpu"]


def test_without_requests_none_are_written() -> None:
    raw = pod(HAMI_SLICE)
    raw["spec"]["containers"][0]["resources"]["requests"] = {"cpu": 1}
    assert moved(raw, "koordinator")["spec"]["containers"][0]["resources"]["requests"] == {"cpu": 1}


def test_the_refusal_names_the_chips_that_fit_the_numbers() -> None:
    def reason(limits: dict[str, object]) -> str:
        return translated(pod(limits, schedulerName="koord-scheduler"), "hami").findings[0].words

    assert "Ascend910B3" in reason({NPU_CORE: 20, RATIO: 100})
    assert reason({**SLICE, NPU_CPU: 3}).endswith("none that is known")
