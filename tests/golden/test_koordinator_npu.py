"""Koordinator's templates of Ascend's NPUs, against the vectors."""

from __future__ import annotations

from typing import Final

from hami_plugins.vendors.ascend import CHIPS
from hami_plugins.wire import quantity
from hami_plugins.wire.koordinator import MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP
from koordinator_adapter.core.translation.npu import MEBIBYTE, Numbers, templates_of
from tests.golden.cases import Case, each

CHIP_OF: Final = {
    "huawei-Ascend-310P": "Ascend310P",
    "huawei-Ascend-310P3": "Ascend310P",
    "huawei-Ascend-910": "Ascend910A",
    "huawei-910B1/B2/B2C": "Ascend910B2",
    "huawei-910B3": "Ascend910B3",
    "huawei-910B4": "Ascend910B4",
}

DEVIATIONS = dict.fromkeys(
    (
        "tpl-ascend-310p3-vir02-1c",
        "tpl-ascend-310p3-vir04-3c",
        "tpl-ascend-310p3-vir04-3c-ndvpp",
        "tpl-ascend-310p3-vir04-4c-dvpp",
        "tpl-910b4-vir10-3c-16g-nm",
        "tpl-910b4-vir10-4c-16g-m",
    ),
    "HAMi has no template of this name, so no pod is translated to it",
)


@each("koordinator/npu-templates.yaml")
def test_templates_have_the_numbers_of_koordinators_configuration(case: Case) -> None:
    chip = next(chip for chip in CHIPS if chip.word == CHIP_OF[case.given["key"]])
    known = templates_of(chip)
    if "request" in case.given:
        asked = numbers(case.given["request"])
        assert next((name for name, each_one in known.items() if each_one == asked), None) == case.expect["template"]
    elif case.id in DEVIATIONS:
        assert case.given["template"] not in known
    elif "resources" in case.expect:
        assert known[case.given["template"]] == numbers(case.expect["resources"])
    else:
        assert case.given["template"] in known


def numbers(raw: dict[str, str]) -> Numbers:
    """The amounts of a template."""
    amounts = {name: quantity.parse(text, key=name).ceiling for name, text in raw.items()}
    return Numbers(amounts[NPU_CORE], amounts[NPU_CPU], amounts.get(NPU_DVPP, 0), amounts[MEMORY] // MEBIBYTE)
