"""Koordinator's templates of Ascend's NPUs, against the vectors."""

from __future__ import annotations

from typing import Final

from hami_plugins.model.units import MEBIBYTE
from hami_plugins.wire import quantity
from hami_plugins.wire.koordinator import MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP
from koordinator_adapter.core.translation.npu_templates import TEMPLATES, NpuTemplate
from tests.golden.cases import Case, each

MODELS_OF: Final = {
    "huawei-Ascend-310P": ("Ascend-310P",),
    "huawei-Ascend-310P3": ("Ascend-310P3",),
    "huawei-Ascend-910": ("Ascend-910",),
    "huawei-910B1/B2/B2C": ("Ascend-910B1", "Ascend-910B2", "Ascend-910B2C"),
    "huawei-910B3": ("Ascend-910B3",),
    "huawei-910B4": ("Ascend-910B4",),
}


@each("koordinator/npu-templates.yaml")
def test_templates_have_the_numbers_of_koordinators_configuration(case: Case) -> None:
    for model in MODELS_OF[case.given["key"]]:
        known = TEMPLATES[model]
        if "request" in case.given:
            asked = numbers(case.given["request"])
            assert (
                next((name for name, each_one in known.items() if each_one == asked), None) == (case.expect["template"])
            )
        elif "resources" in case.expect:
            assert known[case.given["template"]] == numbers(case.expect["resources"])
        else:
            assert case.given["template"] in known


def numbers(raw: dict[str, str]) -> NpuTemplate:
    """The amounts of a template."""
    amounts = {name: quantity.parse(text, key=name).ceiling for name, text in raw.items()}
    return NpuTemplate(amounts[NPU_CORE], amounts[NPU_CPU], amounts.get(NPU_DVPP, 0), amounts[MEMORY] // MEBIBYTE)
