"""Ascend's NPUs between HAMi's and Koordinator's words."""

from __future__ import annotations

import pytest

from hami_plugins.wire.koordinator import CORE, MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP, RATIO, SHARED
from koordinator_adapter.core.translation.model import Fidelity
from koordinator_adapter.core.translation.vocabulary import MODEL_LABEL, VENDOR_LABEL
from tests.unit.koordinator_adapter.written import about, limits_of, moved, pod, translated

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
    assert about(found, Fidelity.LOSSLESS) == [NPU_CORE]
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


def test_volcano_has_no_npus() -> None:
    assert translated(pod(HAMI_SLICE), "volcano").fidelity is Fidelity.REFUSED


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
